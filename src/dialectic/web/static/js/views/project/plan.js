// The agreed plan as three columns: cards of milestones that are moved, ticked, read and changed.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { get, patch, post } from "../../api.js";
import { plural } from "../../format.js";
import { announce, toast } from "../../overlay.js";
import { draw, isBusy, may } from "../../store.js";
import { attempt, chip, glyph, written } from "../parts.js";
import { readPlanFile } from "./reader.js";

const COLUMNS = ["Pending", "Current", "Complete"];
const STATES = { changed: ["changed", ""], superseded: ["from an earlier plan", "hold"], own: ["yours", ""] };

/** Load the files of the plan. */
export async function loadPlan(id, signal) {
  return (await get(`/projects/${id}/plan`, { signal })).items;
}

/** Draw the plan. */
export function plan(page) {
  if (!page.plan.length) return html`<div class="empty"><h2>No plan yet</h2><p class="soft">When a session has gone through all its stages, its checklist stands here, one card for each milestone.</p></div>`;
  const steps = page.plan.flatMap((file) => file.steps);
  const done = steps.filter((step) => step.is_done).length;
  return html`<div class="section-head plan-head"><h2 class="sr">Plan</h2><p class="grow soft">${plural(page.plan.length, "milestone")}${steps.length ? `, ${done} of ${plural(steps.length, "step")} done` : ""}</p>
      <button class="button small" type="button" @click=${() => readPlanFile(page, `${page.project.slug}/PLAN.md`, "The plan")}>Read the whole plan</button></div>
    <div class="plan-board">${COLUMNS.map((status) => column(page, status))}</div>`;
}

function column(page, status) {
  const cards = page.plan.filter((file) => file.status === status);
  return html`<section class="plan-column ${page.over === status ? "is-over" : ""}" aria-label="${status}, ${plural(cards.length, "milestone")}" data-column=${status}
      @dragover=${(event) => hover(page, event, status)} @dragleave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) { page.over = null; draw(); } }} @drop=${(event) => put(page, event, status)}>
    <h3 class="label">${status} <span class="faint">${cards.length}</span></h3>
    <ol class="stack">${repeat(cards, (file) => file.name, (file) => html`<li>${card(page, file)}</li>`)}</ol>
    ${cards.length ? nothing : html`<p class="card not-yet meta">${{ Pending: "Nothing is left.", Current: "Move here what you begin with.", Complete: "Move here what is done." }[status]}</p>`}</section>`;
}

function card(page, file) {
  const done = file.steps.filter((step) => step.is_done).length;
  const isMoving = page.moving === file.name;
  const [word, kind] = STATES[file.state] ?? [];
  const isAll = file.steps.length > 0 && done === file.steps.length;
  return html`<article class="card milestone ${isMoving ? "is-moving" : ""}" tabindex="0" data-card data-file=${file.name} draggable=${may("write")} aria-label="${file.title}, ${file.status}" aria-describedby=${isMoving ? "moving-help" : nothing}
      @dragstart=${(event) => lift(page, event, file)} @dragend=${() => { Object.assign(page, { lifted: null, over: null }); draw(); }} @keydown=${(event) => keyed(page, event)} @focusout=${(event) => left(page, event)}>
    <h4>${written(file.title)}</h4>
    ${word || file.steps.length ? html`<p class="meta row wrap">${file.steps.length ? html`${glyph(isAll ? "done" : "wait")}<span>${done} of ${plural(file.steps.length, "step")}</span>` : nothing}${word ? chip(word, kind) : nothing}</p>` : nothing}
    ${isMoving ? html`<p class="meta moving-help" id="moving-help">← → move it, Enter leaves it here</p>` : nothing}
    ${file.steps.length ? html`<details class="steps" ?open=${file.status === "Current"}><summary>Steps</summary><ol>${file.steps.map((step) => html`<li><label><input type="checkbox" .checked=${live(step.is_done)} ?disabled=${!may("write")} @change=${(event) => tick(page, file, step, event.target.checked)}><span>${written(step.text)}</span></label></li>`)}</ol></details>` : nothing}
    <div class="row wrap card-foot"><button class="button small plain" type="button" @click=${() => readPlanFile(page, file.path, file.title)}>Read<span class="sr"> ${written(file.title)}</span></button>
      ${may("write") ? COLUMNS.filter((status) => status !== file.status).map((status) => html`<button class="button small ${isAll && status === "Complete" ? "main" : "plain"}" type="button" aria-busy=${isBusy(`move-${file.name}`) ? "true" : nothing} @click=${() => move(page, file, status)}><span aria-hidden="true">${COLUMNS.indexOf(status) > COLUMNS.indexOf(file.status) ? "→" : "←"}</span> <span class="sr">Move ${written(file.title)} to </span>${status}</button>`) : nothing}</div></article>`;
}

// -- moving ---------------------------------------------------------------------------------------

function lift(page, event, file) {
  page.lifted = file;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", file.title);
}

function hover(page, event, status) {
  if (!page.lifted) return;
  event.preventDefault();
  if (page.over === status) return;
  page.over = status;
  draw();
}

function put(page, event, status) {
  const { lifted } = page;
  Object.assign(page, { lifted: null, over: null });
  if (!lifted) return;
  event.preventDefault();
  move(page, lifted, status);
}

/** Move a milestone to another column: in the files too, for everyone. */
async function move(page, file, status, { undone = false } = {}) {
  if (file.status === status) return;
  const before = file.status;
  const moved = await attempt(`move-${file.name}`, () => change(page, () => post(`/projects/${page.project.id}/plan/move?path=${encodeURIComponent(file.path)}`, { status }, { etag: file.etag })));
  if (!moved) return;
  replace(page, file, moved);
  announce(`${moved.title} is in ${status}.`);
  if (page.moving !== file.name && !undone) toast(`Moved to ${status}: ${moved.title}`, { undo: () => move(page, moved, before, { undone: true }) });
  focus(file.name);
}

function replace(page, old, file) {
  page.plan = page.plan.map((one) => (one.path === old.path ? file : one)).toSorted((a, b) => (a.name < b.name ? -1 : 1));
  draw();
}

/** Change a file; one that changed meanwhile is loaded again, and the person told. */
async function change(page, run) {
  try {
    return await run();
  } catch (problem) {
    if (problem.status !== 412 && problem.status !== 404) throw problem;
    page.plan = await loadPlan(page.project.id);
    toast("Someone changed this milestone meanwhile. This is how it is now.");
    return null;
  }
}

const find = (name) => document.querySelector(`[data-file="${CSS.escape(name)}"]`);
const focus = (name) => requestAnimationFrame(() => find(name)?.focus());
const focused = (page) => page.plan.find((one) => one.name === document.activeElement?.closest?.("[data-file]")?.dataset.file);

/** The key `m`: the focused milestone follows the arrow keys from now on. */
export function startMoving(page) {
  const file = focused(page);
  if (!file || !may("write")) return false;
  page.moving = page.moving === file.name ? null : file.name;
  find(file.name)?.focus();
  announce(page.moving ? `Moving ${file.title}: left and right arrow keys` : `${file.title} stays in ${file.status}`);
  draw();
  return true;
}

/** An arrow key while a milestone is being moved. */
export function moveByKey(page, step) {
  const file = page.plan.find((one) => one.name === page.moving);
  const target = file && COLUMNS[COLUMNS.indexOf(file.status) + step];
  if (!file) return false;
  if (target) move(page, file, target);
  return true;
}

function keyed(page, event) {
  if (!page.moving || (event.key !== "Enter" && event.key !== "Escape")) return;
  event.preventDefault();
  page.moving = null;
  draw();
}

/** Moving ends when the focus goes elsewhere, but not while the card itself is redrawn. */
function left(page, event) {
  if (page.moving && event.relatedTarget && !event.currentTarget.contains(event.relatedTarget)) {
    page.moving = null;
    draw();
  }
}

/** Focus the next or the previous card or session. */
export function focusCard(step) {
  const all = [...document.querySelectorAll("[data-card]")];
  const now = all.indexOf(document.activeElement?.closest?.("[data-card]"));
  all[Math.max(0, Math.min(all.length - 1, now + step))]?.focus();
}

// -- ticking --------------------------------------------------------------------------------------

/** Ticks of one file go out one after the other, each with the version that the last one made. */
const ticking = new Map();

function tick(page, file, step, isDone) {
  show(page, file, step.number, isDone);
  const before = ticking.get(file.path) ?? Promise.resolve();
  const sent = before.then(async () => {
    const now = page.plan.find((one) => one.path === file.path) ?? file;
    const ticked = await attempt(`tick-${file.path}-${step.number}`, () => change(page, () => patch(`/projects/${page.project.id}/plan/file?path=${encodeURIComponent(file.path)}`, { steps: { [step.number]: isDone } }, { etag: now.etag })));
    if (ticked) replace(page, file, ticking.get(file.path) === sent ? ticked : { ...now, etag: ticked.etag });
    else if (ticked === undefined) show(page, file, step.number, !isDone);
    if (ticking.get(file.path) === sent) ticking.delete(file.path);
  });
  ticking.set(file.path, sent);
}

function show(page, file, number, isDone) {
  page.plan = page.plan.map((one) => (one.path === file.path ? { ...one, steps: one.steps.map((step) => (step.number === number ? { ...step, is_done: isDone } : step)) } : one));
  draw();
}
