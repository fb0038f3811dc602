// The messages of a chat, its branches, and the answer that is being written.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { keyed } from "../../../vendor/lit/directives/keyed.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { post } from "../../api.js";
import { ago, clock, count, moment, plural } from "../../format.js";
import { sanitised } from "../../html.js";
import { toast } from "../../overlay.js";
import { draw, may } from "../../store.js";
import { action, attempt, glyph, written } from "../parts.js";
import { ask, loadChat, stopAnswer } from "./asking.js";
import { listSiblings } from "./blocks.js";
import { buildRequest } from "./composer.js";

const GO_ON = "Go on exactly where your answer was cut off. Do not repeat anything.";

/** Draw the messages; a question that is being replaced and what followed it are gone already. */
export function thread(page) {
  const messages = page.chat?.messages ?? [];
  const cut = page.answer?.replaces ? messages.findIndex((one) => one.id === page.answer.replaces) : -1;
  const shown = cut < 0 ? messages : messages.slice(0, cut);
  return html`<ol class="thread" aria-label="Messages">${repeat(shown, (one) => one.id, (one) => (one.role === "user" ? question(page, one) : answer(page, one)))}
    ${page.answer ? pending(page.answer) : nothing}</ol>`;
}

function question(page, message) {
  if (page.editing?.id === message.id) return html`<li class="message asked">${editor(page, message)}</li>`;
  const siblings = listSiblings(page.chat, message);
  return html`<li class="message asked" id="m-${message.id}"><h2 class="sr">You</h2><div class="words">${written(message.content)}</div>
    <div class="tools">${siblings.length > 1 ? branch(page, siblings, message) : nothing}${may("spend") && !page.answer ? html`<button type="button" class="link" @click=${() => edit(page, message)}>Edit and ask again</button>` : nothing}
      <time class="meta" datetime=${message.created_at} title=${moment(message.created_at)}>${ago(message.created_at, Date.now())}</time></div></li>`;
}

function branch(page, siblings, message) {
  const place = siblings.findIndex((one) => one.id === message.id);
  const step = (by, label, sign) => html`<button type="button" class="icon" aria-label=${label} aria-disabled=${siblings[place + by] && may("write") ? nothing : "true"}
    @click=${() => siblings[place + by] && attempt("branch", () => switchTo(page, siblings[place + by].id))}>${sign}</button>`;
  return html`<span class="row branches" role="group" aria-label="Versions of this question">${step(-1, "Earlier version", "‹")}<span class="meta">${place + 1} of ${siblings.length}</span>${step(1, "Later version", "›")}</span>`;
}

async function switchTo(page, id) {
  await post(`/chats/${page.chat.id}/branch`, { message_id: id });
  page.chat = await loadChat(page.chat.id);
}

function edit(page, message) {
  page.editing = { id: message.id, text: message.content };
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("edited")?.focus()));
}

function editor(page, message) {
  const { editing } = page;
  const leave = () => { page.editing = null; draw(); };
  const again = () => {
    page.editing = null;
    ask(page, { ...buildRequest(page, editing.text.trim()), rewind_from_message_id: message.id });
    document.getElementById("question")?.focus({ preventScroll: true });
  };
  return html`<form class="stack" @submit=${(event) => { event.preventDefault(); if (editing.text.trim()) again(); }} @keydown=${(event) => { if (event.key === "Escape") { event.stopPropagation(); leave(); } }}>
    <label class="sr" for="edited">Your question</label><textarea id="edited" class="serif" rows="4" .value=${editing.text} @input=${(event) => { editing.text = event.target.value; }}></textarea>
    <p class="meta">This and what follows it stay reachable as an earlier version.</p>
    <div class="row"><button class="button main">Ask again</button><button class="button" type="button" @click=${leave}>Leave it</button></div></form>`;
}

function answer(page, message) {
  const isLast = page.chat.messages.at(-1)?.id === message.id;
  const { usage } = message;
  return html`<li class="message answered" id="m-${message.id}"><h2 class="label">${written(message.model ?? "Answer")}</h2>
    ${message.html === null ? html`<div class="words">${written(message.content)}</div>` : keyed(message.id, html`<div class="document" ${sanitised(message.html)}></div>`)}
    ${message.incomplete ? html`<p class="notice you">${glyph("you")}<span class="grow">${describeEnd(message)}</span>${isLast && may("spend") && !page.answer ? action({ name: "go-on", label: "Go on", run: () => ask(page, buildRequest(page, GO_ON)) }) : nothing}</p>` : nothing}
    <div class="tools"><button type="button" class="link" @click=${() => copy(message.content)}>Copy</button>
      ${usage ? html`<span class="meta">${count(usage.output_tokens)} tokens${usage.calls > 1 ? `, ${plural(usage.calls, "call")}` : ""}</span>` : nothing}</div></li>`;
}

function describeEnd(message) {
  if (message.flags.includes("stopped")) return "You stopped this answer.";
  const why = message.flags.find((flag) => flag.startsWith("interrupted:"));
  return why ? "A further call failed, so this answer ends early." : "This answer was cut off at its longest length.";
}

function pending(one) {
  const [shown, rest] = [one.parts, one.text.slice(one.rendered)];
  return html`<li class="message asked"><h2 class="sr">You</h2><div class="words">${written(one.question)}</div></li>
    <li class="message answered" aria-busy="true"><h2 class="label row">${glyph("run", "being written")}${written(one.model)} <span class="meta">${clock((Date.now() - one.since) / 1000)}</span>
        ${one.chatId && may("spend") ? action({ name: "stop", label: "Stop", kind: "small", run: () => stopAnswer(one) }) : nothing}</h2>
      ${shown.map((part, index) => keyed(index, html`<div class="document" ${sanitised(part)}></div>`))}
      <div class="words caret">${rest ? written(rest) : one.text ? "" : html`<span class="meta">Waiting for the first word</span>`}</div></li>`;
}

async function copy(text) {
  await navigator.clipboard.writeText(text);
  toast("Copied.");
}
