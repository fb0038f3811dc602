// The field of a question: which model, how long an answer, and what it is about to cost.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { post } from "../../api.js";
import { count, money } from "../../format.js";
import { draw, isBusy, keep, may, state } from "../../store.js";
import { price, written } from "../parts.js";
import { ask } from "./asking.js";

const ESTIMATE_MS = 350;
let timer = 0;
let asked = null;

/** What is sent: a `ChatRequest` of the fields. */
export function buildRequest(page, message) {
  const { form, chat } = page;
  const isNew = !chat;
  return {
    message, model: form.model, continue_until_complete: form.isFull,
    ...(chat ? { chat_id: chat.id } : {}),
    ...(isNew && form.prompt === "own" && form.instruction.trim() ? { systemInstruction: form.instruction } : {}),
    ...(isNew && form.prompt && form.prompt !== "own" ? { system_prompt_id: form.prompt } : {}),
    ...(Number(form.length) > 0 ? { max_output_tokens: Number(form.length) } : {}),
  };
}

/** Ask what the question would cost, once after the last change. */
export function estimate(page) {
  clearTimeout(timer);
  asked?.abort();
  page.estimate = null;
  if (!page.form.text.trim() || !page.form.model) return;
  timer = setTimeout(async () => {
    const mine = new AbortController();
    asked = mine;
    try {
      page.estimate = await post("/chat/estimate", buildRequest(page, page.form.text), { signal: mine.signal });
    } catch (problem) {
      if (!mine.signal.aborted) page.estimate = { problem };
    }
    draw();
  }, ESTIMATE_MS);
}

/** Send what is in the field. */
export function send(page) {
  const text = page.form.text.trim();
  if (!text || page.answer || !page.form.model) return;
  page.form.text = "";
  keep(page.place, "");
  // Also ends an estimate that is under way.
  estimate(page);
  ask(page, buildRequest(page, text)).then(() => {
    // What failed goes back into the field, unless something else was typed meanwhile.
    if ((page.problem || page.returned) && !page.form.text) change(page, text);
    page.returned = null;
  });
}

/** Put a text into the field. */
export function change(page, text) {
  page.form.text = text;
  keep(page.place, text);
  estimate(page);
  draw();
}

function choose(page, changes) {
  Object.assign(page.form, changes);
  keep("chat:choice", JSON.stringify({ model: page.form.model, isFull: page.form.isFull, length: page.form.length }));
  estimate(page);
  draw();
}

function press(page, event) {
  const isTouch = matchMedia("(pointer: coarse)").matches;
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || (isTouch && !event.ctrlKey && !event.metaKey)) return;
  event.preventDefault();
  send(page);
}

/** Draw the field and its choices. */
export function composer(page) {
  if (!may("spend")) return html`<p class="notice">Your token may not spend, so you can read chats but not ask.</p>`;
  const { form } = page;
  return html`<form class="composer" @submit=${(event) => { event.preventDefault(); send(page); }}>
    ${page.chat ? nothing : opening(page)}
    <label class="sr" for="question">Question</label>
    <textarea id="question" class="serif" rows="3" placeholder="Ask one model" aria-describedby="cost" .value=${live(form.text)}
      @input=${(event) => change(page, event.target.value)} @keydown=${(event) => press(page, event)}></textarea>
    <div class="row wrap choices">${modelField(page)}
      <label class="switch" title="A cut-off answer is continued, with up to five calls"><input type="checkbox" role="switch" .checked=${form.isFull} @change=${(event) => choose(page, { isFull: event.target.checked })}> Full Response Mode</label>
      <label class="row length"><span class="meta">Longest answer</span><input type="number" min="1" step="1" inputmode="numeric" placeholder="tokens" .value=${live(form.length)} @input=${(event) => choose(page, { length: event.target.value })}></label>
      <span class="grow"></span><button class="button main" aria-disabled=${page.answer || !form.text.trim() || !form.model ? "true" : nothing} aria-busy=${isBusy("ask") ? "true" : nothing}>Ask${page.estimate?.expected ? html`<span class="price">about ${price(page.estimate.expected, page.estimate.is_play)}</span>` : nothing}</button></div>${cost(page)}</form>`;
}

function modelField(page) {
  const groups = new Map();
  for (const model of page.models) groups.set(model.provider, [...(groups.get(model.provider) ?? []), model]);
  const label = (model) => `${model.label} · ${money(model.output_usd_per_million, { play: model.is_play, places: 2 })} a million tokens`;
  return html`<label class="sr" for="model">Model</label><select id="model" .value=${live(page.form.model)} @change=${(event) => choose(page, { model: event.target.value })}>
    ${page.models.length ? nothing : html`<option value="">No model can be asked</option>`}
    ${[...groups].map(([provider, models]) => html`<optgroup label=${provider}>${models.map((model) => html`<option value=${model.name} ?selected=${model.name === page.form.model}>${label(model)}</option>`)}</optgroup>`)}</select>`;
}

function opening(page) {
  const { form } = page;
  return html`<div class="row wrap opening"><label class="row"><span class="meta">System prompt</span><select id="prompt" @change=${(event) => choose(page, { prompt: event.target.value })}>
      <option value="" ?selected=${!form.prompt}>none</option><option value="own" ?selected=${form.prompt === "own"}>your own words</option>
      ${page.prompts.map((one) => html`<option value=${one.id} ?selected=${form.prompt === one.id}>${one.name.replaceAll("_", " ")} (${one.processes.join(", ")})</option>`)}</select></label>
    ${form.prompt === "own" ? html`<textarea aria-label="System prompt in your own words" rows="2" .value=${live(form.instruction)} @input=${(event) => choose(page, { instruction: event.target.value })}></textarea>` : nothing}</div>`;
}

function cost(page) {
  const { estimate: found } = page;
  const left = balance(page);
  if (found?.problem) return html`<span id="cost" class="meta is-bad" role="status">${found.problem.detail}</span>`;
  return html`<span id="cost" class="meta">${found ? `${count(found.input_tokens)} tokens to read, at most ${money(found.worst, { play: found.is_play })} · ` : ""}${left} left</span>`;
}

function balance(page) {
  const play = page.models.find((model) => model.name === page.form.model)?.is_play ?? false;
  const { wallet } = state;
  if (!wallet) return "";
  return written(money((play ? wallet.play_money : wallet.money).available, { play, places: 2 }));
}
