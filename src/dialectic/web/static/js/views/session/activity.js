// What happened in a session, newest first. It is read from the times in the rows, so that it is the same after a reload.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { ref } from "../../../vendor/lit/directives/ref.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, day, moment, plural, timeOfDay } from "../../format.js";
import { draw } from "../../store.js";
import { glyph, icon, seat, stars, written } from "../parts.js";
import { facts, FAILED, subjectsOf } from "./facts.js";
import { describeReason, taskOf } from "./words.js";

const SHOWN_MAX = 150;
const FILTERS = [["all", "All"], ["document", "Documents"], ["failure", "Failures"], ["person", "People"], ["stage", "Stages"]];
const GLYPHS = { document: "done", failure: "failed", retry: "retry", stage_done: "done", cancelled: "cancelled" };

/**
 * List what happened, newest first; what is alike and of one second is one line.
 * @returns {{key: string, at: number, kind: string, sign: string, items: object[]}[]}
 */
export function listActivity(model) {
  const happened = [...ofStages(model), ...ofCalls(model), ...ofDocuments(model), ...ofPeople(model)];
  const lines = new Map();
  for (const one of happened) {
    const at = Date.parse(one.at);
    if (!Number.isFinite(at)) continue;
    const key = `${Math.floor(at / 1000)}/${one.fold}`;
    const line = lines.get(key) ?? { key, at, kind: one.kind, sign: one.sign ?? one.kind, items: [] };
    line.at = Math.max(line.at, at);
    line.items.push(one);
    lines.set(key, line);
  }
  return [...lines.values()].sort((a, b) => b.at - a.at || (a.key < b.key ? -1 : 1));
}

function* ofStages(model) {
  yield { at: model.session.created_at, kind: "stage", sign: "person", fold: "made", text: "The session was created" };
  for (const stage of model.stages) {
    if (stage.started_at) yield { at: stage.started_at, kind: "stage", fold: `started-${stage.slug}`, text: `${stage.title} started` };
    if (stage.completed_at && stage.status === "complete") yield { at: stage.completed_at, kind: "stage", sign: "stage_done", fold: `completed-${stage.slug}`, text: `${stage.title} is complete` };
  }
}

function* ofCalls(model) {
  for (const job of model.jobs.values()) {
    if (job.kind === "plan") continue;
    const errors = job.errors ?? [];
    for (const [index, error] of errors.entries()) {
      const isLast = FAILED.has(job.status) && index === errors.length - 1;
      yield { at: error.at ?? job.completed_at, kind: "failure", sign: isLast ? "failure" : "retry", fold: `error-${isLast}-${job.stage}-${job.step}-${error.code}`, job, error, isLast };
    }
    if (job.status === "completed" && job.kind === "call") yield { at: job.completed_at, kind: "document", fold: `written-${job.stage}-${job.step}`, job };
    if (job.status === "cancelled") yield { at: job.completed_at, kind: "stage", sign: "cancelled", fold: `cancelled-${job.stage}`, job };
  }
}

function* ofDocuments(model) {
  for (const one of model.documents.values()) if (one.version > 1) yield { at: one.created_at, kind: "person", fold: `edited-${one.id}`, document: one, by: one.by };
}

function* ofPeople(model) {
  for (const one of model.feedback.values()) yield { at: one.created_at, kind: "person", fold: `said-${one.id}`, said: one, by: one.by };
}

// -- drawing --------------------------------------------------------------------------------------

export function view(model, ui, page) {
  ui.filter ??= "all";
  ui.open ??= new Set();
  ui.openedAt ??= Date.now();
  // The same function each time: another one would be told that the element is new.
  ui.watch ??= (element) => watchTop(ui, element);
  const all = listActivity(model);
  const wanted = ui.filter === "all" ? all : all.filter((line) => line.kind === ui.filter);
  const held = ui.since ? wanted.filter((line) => line.at > ui.since) : [];
  const shown = held.length ? wanted.slice(held.length) : wanted;
  ui.newest = wanted[0]?.at ?? 0;
  const limit = ui.limit ?? SHOWN_MAX;
  return html`<div class="tab-head" ${ref(ui.watch)}><h2 class="sr">Activity</h2>
      <div class="segmented" role="group" aria-label="What is listed">${FILTERS.map(([id, label]) => html`<button type="button" aria-pressed=${ui.filter === id} @click=${() => { ui.filter = id; draw(); }}>${label}</button>`)}</div></div>
    <div class="pill-place">${held.length ? html`<button class="pill-new" type="button" @click=${() => showNew(ui)}>${count(held.length)} new</button>` : nothing}</div>
    ${shown.length ? html`<ol class="activity">${repeat(shown.slice(0, limit), (line) => line.key, (line, index) => drawLine(model, ui, page, line, shown[index - 1]))}</ol>` : html`<p class="soft">${EMPTY[ui.filter]}</p>`}
    ${shown.length > limit ? html`<div><button class="button" type="button" @click=${() => { ui.limit = limit + SHOWN_MAX; draw(); }}>Show ${count(Math.min(SHOWN_MAX, shown.length - limit))} older</button></div>` : nothing}`;
}

const EMPTY = { all: "Nothing has happened yet.", document: "No document is written yet.", failure: "Nothing has failed.", person: "No one has said or edited anything yet.", stage: "No stage has started yet." };

/** Hold new lines back while the top of the list is out of sight: nothing that is read moves. */
function watchTop(ui, element) {
  if (ui.head === element) return;
  ui.observer?.disconnect();
  Object.assign(ui, { head: element, observer: null, since: null });
  if (!element) return;
  ui.observer = new IntersectionObserver(([seen]) => {
    ui.since = seen.isIntersecting ? null : ui.newest;
    draw();
  }, { rootMargin: "-90px 0px 0px 0px" });
  ui.observer.observe(element);
}

function showNew(ui) {
  ui.since = null;
  ui.head?.querySelector("[aria-pressed=true]").focus({ preventScroll: true });
  ui.head?.scrollIntoView({ block: "center", behavior: "instant" });
  draw();
}

function drawLine(model, ui, page, line, before) {
  const isOtherDay = before ? day(before.at) !== day(line.at) : day(line.at) !== day(Date.now());
  const isOpen = ui.open.has(line.key);
  return html`${isOtherDay ? html`<li class="activity-day label">${day(line.at)}</li>` : nothing}
    <li class="activity-line ${line.at > ui.openedAt ? "is-new" : ""}" data-kind=${line.kind}><time class="meta" datetime=${new Date(line.at).toISOString()} title=${moment(line.at)}>${timeOfDay(line.at)}</time>
      <span class="sign ${line.sign}">${sign(line.sign)}</span><span class="grow">${line.items.length === 1 ? single(model, page, line.items[0]) : folded(model, page, line, isOpen, () => turn(ui, line.key))}</span></li>`;
}

/** A person, the start of a stage, or the glyph of what became of a call. */
function sign(name) {
  if (name === "person") return icon("user");
  return name === "stage" ? "▸" : glyph(GLYPHS[name]);
}

function turn(ui, key) {
  if (!ui.open.delete(key)) ui.open.add(key);
  draw();
}

function folded(model, page, line, isOpen, toggle) {
  const jobs = line.items.map((item) => item.job);
  const seats = [...new Set(jobs.map((job) => job.seat).filter(Boolean))].sort((a, b) => a - b);
  const [{ error, isLast }] = line.items;
  const n = jobs.length;
  const text = line.sign === "cancelled" ? `${plural(n, "call")} cancelled`
    : line.kind === "document" ? html`${taskOf(model, jobs[0])}: ${plural(n, "document")} written`
      : html`${taskOf(model, jobs[0])}: ${plural(n, "call")} ${isLast ? "failed" : "tried again"}. ${describeReason(error)}`;
  return html`<button class="activity-fold" type="button" aria-expanded=${isOpen} @click=${toggle}><span>${text}</span>${seats.map((index) => seat(index, { small: true }))}<span class="chevron" aria-hidden="true"></span></button>
    ${isOpen ? html`<ul class="activity-items">${line.items.map((item) => html`<li>${single(model, page, item)}</li>`)}</ul>` : nothing}`;
}

/** One thing that happened: who, what, on what. */
function single(model, page, item) {
  if (item.text) return html`<strong class="plain-strong">${item.text}</strong>`;
  if (item.said) return said(model, item);
  if (item.document) return html`${person(item.by)} edited ${link(item.document)} <span class="meta">version ${item.document.version}</span>`;
  const { job, error } = item;
  const href = page.hrefOf({ job: job.id, doc: null, stage: null });
  const who = html`${job.seat ? seat(job.seat, { small: true }) : nothing} ${written(model.session.seats.find((each) => each.index === job.seat)?.label ?? "")}`;
  if (error) return html`${who}: <a href=${href}>${item.isLast ? `${taskOf(model, job)} failed` : `${taskOf(model, job)} tried again`}</a>. <span class="soft">${describeReason(error)}</span>`;
  if (job.status === "cancelled") return html`${who}: <a href=${href}>${taskOf(model, job)}</a> cancelled`;
  const one = facts(model).find(job.document_id);
  const on = subjectsOf(model, job);
  const about = on.length ? html` <span class="meta">on ${on.map((index) => seat(index, { small: true }))}</span>` : nothing;
  return one && !one.isDraft ? html`${who} wrote ${link(one)}${about} <span class="meta">${plural(one.words ?? 0, "word")}</span>` : html`${who}: <a href=${href}>${taskOf(model, job)}</a> written${about}`;
}

const person = (by) => html`<strong class="plain-strong">${written(by?.name ?? "A former member")}</strong>`;
const link = (one) => html`<a class="serif" href="/documents/${one.id}">${written(one.title || "a document")}</a>`;

function said(model, { said: one, by }) {
  if (one.kind === "ruling") return html`${person(by)} ruled on “<span class="serif">${written(one.subject ?? "")}</span>”${one.text ? html`: <span class="serif">${written(one.text)}</span>` : `: ${{ keep: "it holds", drop: "drop it" }[one.verdict] ?? one.verdict}`}${one.withdrawn_at ? " (taken back)" : ""}`;
  const about = facts(model).find(one.document_id);
  const on = about && !about.isDraft ? link(about) : model.stages.find((stage) => stage.slug === one.stage)?.title ?? "";
  if (one.rating) return html`${person(by)} rated ${on} ${stars(one.rating)}`;
  return html`${person(by)} on ${on}: <span class="serif">${written(one.text)}</span>`;
}
