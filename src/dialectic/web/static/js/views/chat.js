// Chat: one model at a time. Chats on the left, the thread and the field on the right.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { del, get, patch } from "../api.js";
import { ago } from "../format.js";
import { confirm, toast } from "../overlay.js";
import { go } from "../router.js";
import { draw, kept, may } from "../store.js";
import { ask, findPending, join, leaveAnswer, loadChat } from "./chat/asking.js";
import { change, composer, estimate } from "./chat/composer.js";
import { thread } from "./chat/thread.js";
import { askWith, textField } from "./forms.js";
import { action, blank as blocks, glyph, written } from "./parts.js";

const SUGGESTIONS = ["Which questions should I answer before I ask several models for a plan?", "What could go wrong in the first month of a volunteer project?", "Explain the trade-offs between a cooperative and an association."];

export const title = (page) => page.chat?.title ?? "Chat";
export const crumbs = (page) => [{ label: "Chat", href: "/chat" }, ...(page.chat ? [{ label: page.chat.title }] : [])];
export const blank = () => html`<h1 class="sr">Chat</h1>${blocks(6, 60)}`;
export const ticks = (page) => Boolean(page.answer);
export const leave = (page) => page && leaveAnswer(page);

/** @param {{id?: string, query: URLSearchParams, signal: AbortSignal, isAgain?: boolean}} params */
export async function load({ id, query, signal, isAgain = false }) {
  const [chats, models, prompts, chat] = await Promise.all([
    get("/chats?limit=50", { signal }), get("/models", { signal }),
    id ? null : get("/system-prompts?limit=50", { signal }), id ? loadChat(id, signal) : null,
  ]);
  const usable = models.items.filter((model) => model.is_usable && model.output_usd_per_million !== undefined);
  const page = {
    id: id ?? null, chat, chats: chats.items, next: chats.next_cursor, models: usable,
    prompts: (prompts?.items ?? []).filter((one) => one.is_role), place: `chat:${id ?? "new"}`,
    form: buildForm(usable, chat, query), answer: null, problem: null, failed: null, editing: null, estimate: null,
  };
  page.form.text = query.get("q") ?? kept(page.place);
  if (page.form.text) estimate(page);
  if (chat && !isAgain) showLast();
  if (chat?.pending) join(page, id, chat.pending);
  else if (!id) findPending(page);
  return page;
}

/** A chat opens where it ended: at the last question, when the page has been drawn. */
function showLast() {
  requestAnimationFrame(() => setTimeout(() => {
    const asked = document.querySelectorAll(".message.asked");
    if (asked.length > 1) asked[asked.length - 1].scrollIntoView();
  }));
}

function buildForm(models, chat, query) {
  const wished = readChoice();
  const last = chat?.messages.findLast((one) => one.model)?.model;
  const model = [query.get("model"), last, wished.model, models[0]?.name].find((name) => models.some((one) => one.name === name)) ?? "";
  return { text: "", model, isFull: wished.isFull ?? true, length: wished.length ?? "", prompt: "", instruction: "" };
}

function readChoice() {
  try {
    return JSON.parse(kept("chat:choice")) ?? {};
  } catch {
    return {};
  }
}

/** A chat was made, continued, renamed or deleted here, in another tab or elsewhere. */
export function event(page, { type, data }) {
  if (type !== "chat_changed") return;
  const others = page.chats.filter((one) => one.id !== data.chat_id);
  page.chats = data.chat ? [data.chat, ...others] : others;
  if (page.chat?.id !== data.chat_id || page.answer) return;
  if (!data.chat) go("/chat", { replace: true });
  else loadChat(data.chat_id).then((chat) => { page.chat = chat; draw(); }, () => {});
}

export const keys = [{ keys: "f", label: "Write a question", run: () => document.getElementById("question")?.focus() }];
export const actions = (page) => (page.chat && may("write") ? [
  { label: "Make a project of this chat", run: () => makeProject(page) }, { label: "Rename this chat", run: () => rename(page) }, { label: "Delete this chat", run: () => remove(page) },
] : []);

// -- drawing --------------------------------------------------------------------------------------

export function view(page) {
  return html`<div class="page chat ${page.chat || page.answer ? "in-thread" : ""}">${list(page)}<div class="talk">${head(page)}
    ${page.chat || page.answer ? thread(page) : empty(page)}${failure(page)}${composer(page)}</div></div>`;
}

function list(page) {
  return html`<nav class="chats" aria-label="Chats"><a class="button" href="/chat" aria-current=${page.id ? nothing : "page"}>New chat</a>
    ${page.chats.length === 0 ? html`<p class="meta">Your chats will be listed here.</p>` : html`<ul>${repeat(page.chats, (one) => one.id, (one) => html`
      <li><a href="/chat/${one.id}" aria-current=${one.id === page.id ? "page" : nothing}><span class="one-line">${written(one.title)}</span><span class="meta">${ago(one.created_at, Date.now())}</span></a></li>`)}</ul>`}
    ${page.next ? action({ name: "more", label: "Earlier chats", kind: "plain", run: () => more(page) }) : nothing}</nav>`;
}

async function more(page) {
  const found = await get(`/chats?limit=50&cursor=${encodeURIComponent(page.next)}`);
  page.chats = [...page.chats, ...found.items];
  page.next = found.next_cursor;
}

function head(page) {
  if (!page.chat) return html`<h1 class=${page.answer ? "sr" : ""}>${page.answer ? "Chat" : "Ask one model"}</h1>`;
  return html`<div class="page-head"><div><h1>${written(page.chat.title)}</h1>
      ${page.chat.system_instruction ? html`<details class="meta"><summary>System prompt</summary><p class="words">${written(page.chat.system_instruction)}</p></details>` : nothing}</div>
    <div class="row wrap"><a class="button phone-only" href="/chat">All chats</a>${may("write") ? html`${action({ name: "project", label: "Make a project of this", run: () => makeProject(page) })}${action({ name: "rename", label: "Rename", kind: "plain", run: () => rename(page) })}${action({ name: "delete", label: "Delete", kind: "plain", run: () => remove(page) })}` : nothing}</div></div>`;
}

const empty = (page) => html`<div class="stack suggestions"><p class="soft">For a quick question. When it deserves several models and their criticism, make a project of it.</p>
  ${may("spend") ? html`<ul>${SUGGESTIONS.map((text) => html`<li><button type="button" class="card" @click=${() => { change(page, text); document.getElementById("question")?.focus(); }}>${text}</button></li>`)}</ul>` : nothing}</div>`;

function failure(page) {
  const { problem, failed } = page;
  if (!problem) return nothing;
  const again = () => { const body = failed; change(page, ""); return ask(page, body); };
  return html`<div class="notice bad" role="alert">${glyph("failed")}<div class="grow"><p>${problem.detail}</p>${problem.requestId ? html`<p class="meta mono">${problem.requestId}</p>` : nothing}</div>
    ${problem.status === 402 ? html`<a class="button" href="/wallet">To the wallet</a><button class="button" type="button" @click=${() => document.getElementById("model")?.focus()}>Choose another model</button>` : nothing}
    ${problem.status !== 413 && problem.status !== 422 && failed ? action({ name: "again", label: "Ask again", kind: problem.status === 402 ? "" : "main", run: again }) : nothing}</div>`;
}

// -- doing ----------------------------------------------------------------------------------------

async function rename(page) {
  const form = { title: page.chat.title };
  const found = await askWith({ title: "Rename this chat", yes: "Rename", form, body: () => textField(form, "title", { label: "Title", isFirst: true, max: 200 }), send: () => patch(`/chats/${page.chat.id}`, { title: form.title }) });
  if (found) page.chat.title = found.title;
  draw();
}

async function remove(page) {
  if (!await confirm({ title: "Delete this chat?", text: "Its messages cannot be brought back. What it cost stays in the journal of the wallet.", yes: "Delete", isDangerous: true })) return;
  await del(`/chats/${page.chat.id}`);
  toast("The chat was deleted.");
  go("/chat", { replace: true });
}

async function makeProject(page) {
  const form = { name: page.chat.title.slice(0, 100), chosen: new Set(page.chat.messages.map((one) => one.id)) };
  const pick = (id) => (event) => { if (event.target.checked) form.chosen.add(id); else form.chosen.delete(id); draw(); };
  const project = await askWith({
    title: "Make a project of this", yes: "Make a project", form,
    body: () => html`${textField(form, "name", { label: "Name", isFirst: true })}
      <fieldset class="picks"><legend>Messages that become its prompt</legend>${page.chat.messages.map((one) => html`<label class="row"><input type="checkbox" .checked=${form.chosen.has(one.id)} @change=${pick(one.id)}> <span class="one-line">${one.role === "user" ? "You" : written(one.model ?? "Answer")}: ${written(one.content.slice(0, 120))}</span></label>`)}</fieldset>`,
    send: (once) => once.post(`/chats/${page.chat.id}/project`, { name: form.name, message_ids: [...form.chosen] }),
  });
  if (project) go(`/projects/${project.id}`);
}
