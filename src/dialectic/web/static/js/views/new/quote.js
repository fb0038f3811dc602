// What a run will cost: the panel next to the form, and the bar at the bottom of a phone.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { count, duration, money, plural } from "../../format.js";
import { draw } from "../../store.js";
import { ask, canStart, change, isStarting, send } from "../new.js";
import { action, glyph, price, written } from "../parts.js";
import { titleStage } from "./options.js";

const show = (quote, amount) => money(amount, { play: quote.is_play });

/** The panel: price, calls, minutes, a bar per stage, what may be left out, worst case, Start. */
export function quotePanel(page) {
  const { quote, problem, isQuoting } = page;
  return html`<aside class="quote" id="quote" aria-label="What it will cost" aria-busy=${isQuoting ? "true" : "false"}>
    ${problem ? failure(page, problem) : quote ? figures(page, quote) : nothingYet(page)}
    <div class="quote-start wide-only">${startButton(page)}</div>
    <p class="sr" role="status">${quote && !isQuoting && !problem ? `Expected price ${show(quote, quote.expected)}, ${plural(quote.calls, "call")}` : ""}</p></aside>`;
}

const nothingYet = (page) => html`<p class="label">Expected price</p><p class="amount faint" aria-hidden="true">–</p>
  <p class="soft">${page.form.seats.length ? (page.isQuoting ? "Counting…" : "Write a prompt, and its price stands here: calls, minutes and tokens, stage by stage.") : "Choose at least one model, and the price stands here."}</p>`;

function failure(page, problem) {
  const canRepeat = problem.code === "network" || problem.status >= 500 || problem.status === 429;
  return html`<p class="label">No price</p><div class="quote-problem" role="alert">${glyph("failed")}<div><p>${problem.detail}</p>
    ${problem.errors.length > 1 ? html`<ul class="meta">${problem.errors.map((one) => html`<li>${one.message}</li>`)}</ul>` : nothing}
    ${problem.requestId ? html`<p class="meta mono">${problem.requestId}</p>` : nothing}</div></div>
    ${canRepeat ? action({ name: "ask-again", label: "Ask again", run: () => ask(page) }) : nothing}`;
}

function figures(page, quote) {
  const tokens = quote.input_tokens + quote.output_tokens;
  const hasBoth = !quote.is_play && Number(quote.expected_play) > 0;
  return html`<div class=${page.isQuoting ? "is-old" : ""}>
    <p class="label">Expected price</p>
    <p class="amount">${show(quote, quote.expected)}</p>
    ${hasBoth ? html`<p class="meta">and ${money(quote.expected_play, { play: true })}</p>` : nothing}
    <p class="quote-facts"><span>${plural(quote.calls, "call")}</span><span>about ${duration(quote.seconds.expected)}</span><span>${compact(tokens)} tokens</span></p>
    ${quote.others.map((one) => alternative(page, one))}
    ${bars(page, quote)}${slider(page, quote)}
    <ul class="quote-notes">${notes(page, quote).map(([kind, text]) => html`<li class=${kind}>${text}</li>`)}</ul></div>`;
}

/** The price with another process that makes the same documents, and the way to it. */
const alternative = (page, one) => html`<p class="quote-facts other-process"><span>${one.title}: ${plural(one.calls, "call")}, ${show(one, one.expected)}</span>
  <button class="link" type="button" data-action="use-process" @click=${() => change(page, { process: one.process, shrink: 0 })}>Use it</button></p>`;

const compact = (n) => (n >= 1e6 ? `${(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${count(n / 1000)}k` : count(n));

function bars(page, quote) {
  const largest = Math.max(...quote.stages.map((one) => Number(one.expected)), 1e-9);
  return html`<ul class="stage-bars" aria-label="Price of each stage">${quote.stages.map((one) => html`<li>
    <span class="one-line">${written(titleStage(page, one.stage))} <span class="faint">${count(one.calls)}</span></span><span class="right">${show(quote, one.expected)}</span>
    <span class="track" aria-hidden="true"><i .style=${`--share:${(100 * Number(one.expected)) / largest}%`}></i></span></li>`)}</ul>`;
}

/** A slider over the process's optional parts, with the words for what is left out. */
function slider(page, quote) {
  const most = Math.max(quote.shrink, ...quote.smaller.map((one) => one.shrink));
  if (!most) return nothing;
  const forBudget = quote.shrink > page.form.shrink;
  const told = quote.left_out.length ? quote.left_out.join("; ") : "nothing";
  const [next] = quote.smaller;
  return html`<div class="field leave-out"><label for="new-shrink">Leave out</label>
    <input id="new-shrink" type="range" min="0" max=${most} step="1" .value=${live(String(page.isQuoting ? page.form.shrink : quote.shrink))} aria-valuetext=${told} @input=${(event) => change(page, { shrink: Number(event.target.value) })}>
    <p class="help">${quote.left_out.length ? html`${quote.left_out.map((one) => html`<span class="left-out">${written(one)}</span>`)}${forBudget ? html`<span>so that it fits your budget</span>` : nothing}` : next ? `Nothing. One step less costs about ${show(quote, next.expected)}.` : "Nothing."}</p></div>`;
}

/** Sentences on what may happen. @returns {unknown[][]} */
function notes(page, quote) {
  const found = [["", `19 of 20 such runs stay below ${show(quote, quote.rarely_above)}. If every answer is as long as it may be, ${show(quote, quote.worst)}.`]];
  const stage = quote.ends_in_stage && titleStage(page, quote.ends_in_stage);
  if (quote.budget !== null && !quote.fits) found.push(["is-bad", `It does not fit the budget of ${show(quote, quote.budget)}${stage ? `, and will stop in ${stage}` : ""}.`]);
  else if (stage) found.push(["is-bad", `Your money ends in ${stage}. The session then waits, and nothing is lost.`]);
  else if (quote.budget !== null) found.push(["is-ok", `It fits your budget of ${show(quote, quote.budget)}.`]);
  if (quote.balance !== null && !stage) found.push(["", `Of ${show(quote, quote.balance)} in your wallet about ${show(quote, quote.balance_after)} will be left.`]);
  if (quote.is_play) found.push(["", "Play money: it costs nothing."]);
  for (const limit of quote.answer_limits.slice(0, 1)) found.push(["is-you", `Little money is left for long answers: in ${titleStage(page, limit.stage_slug)}, ${limit.model_name} may write at most ${plural(limit.max_output_tokens, "token")}.`]);
  const learned = quote.learned_from.here + quote.learned_from.earlier;
  found.push(["faint", learned ? `Lengths are learned from ${plural(learned, "earlier document")}.` : "Lengths are estimates; after your first session they are learned."]);
  return found;
}

function startButton(page) {
  const { quote } = page;
  const isShort = Boolean(quote?.ends_in_stage);
  const told = quote && !page.problem ? price(quote.expected, quote.is_play) : null;
  return action({ name: "start", kind: "main start", label: isStarting() ? "Starting" : isShort ? "Start anyway" : "Start", price: told, disabled: !canStart(page), run: () => send(page) });
}

/** At the bottom of a phone: the price, which opens the panel, and Start. */
export function quoteBar(page) {
  const { quote, isOpen } = page;
  return html`<div class="bar-bottom"><button class="button quote-toggle" type="button" aria-expanded=${isOpen} aria-controls="quote" @click=${() => { page.isOpen = !isOpen; draw(); }}>${quote ? html`<strong>${show(quote, quote.expected)}</strong> <span class="faint">${plural(quote.calls, "call")}</span>` : page.problem ? "No price" : "Price"}<span aria-hidden="true">${isOpen ? "▾" : "▴"}</span></button>${startButton({ ...page, quote: quote && { ...quote, expected: null } })}</div>`;
}
