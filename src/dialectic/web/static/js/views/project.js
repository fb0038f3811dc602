// A project: the agreed plan to work on, its sessions, what was given, its files, and a search over all of it.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { live } from "../../vendor/lit/directives/live.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { del, get, patch } from "../api.js";
import { ago, describeSession, list, moment, money, plural, sessionGlyph } from "../format.js";
import { openDialog, toast } from "../overlay.js";
import { go } from "../router.js";
import { draw, may } from "../store.js";
import { action, attempt, blank as blocks, glyph, progressBar, readOnly, seat, tabPanel, tabs, written } from "./parts.js";
import { files, loadFiles } from "./project/files.js";
import { given, loadGiven } from "./project/given.js";
import { focusCard, loadPlan, moveByKey, plan, startMoving } from "./project/plan.js";
import { ask, search } from "./project/search.js";

/** Events after which sessions or plan may read otherwise. */
const MOVES = /^(session|jobs|money|document)_changed$|^contribution_generation_|^session_|^plan_/;
const WAIT_MS = 400;

export const title = (page) => page.project.name;
export const crumbs = (page) => [{ label: "Projects", href: "/" }, { label: page.project.name }];
export const keys = [
  { keys: "m", label: "Move the milestone, then ← →", run: (page) => startMoving(page) },
  { keys: "ArrowLeft", label: "Move it to the column before", run: (page) => moveByKey(page, -1) },
  { keys: "ArrowRight", label: "Move it to the next column", run: (page) => moveByKey(page, 1) },
  { keys: "j", label: "Next milestone or session", run: () => focusCard(1) },
  { keys: "k", label: "Previous milestone or session", run: () => focusCard(-1) },
  { keys: "e", label: "Rename", run: (page) => rename(page) },
  { keys: "n", label: "New session", run: (page) => { go(`/new?from=${page.project.id}`); } },
];
export const actions = (page) => TABS.map(([id, label]) => ({ label: `${page.project.name}: ${label}`, run: () => go(`/projects/${page.project.id}#${id}`) }));

const TABS = [["plan", "Plan"], ["sessions", "Sessions"], ["given", "Given"], ["files", "Files"], ["search", "Search"]];

export const blank = () => html`<div class="page project-page"><div class="page-head"><h1>Project</h1></div>${blocks(1, 60)}<div class="plan-board">${blocks(2, 120)}${blocks(2, 120)}${blocks(2, 120)}</div></div>`;

export async function load({ id, hash, query, signal }) {
  const [project, sessions, files] = await Promise.all([
    get(`/projects/${encodeURIComponent(id)}`, { signal }), get(`/projects/${encodeURIComponent(id)}/sessions`, { signal }), loadPlan(encodeURIComponent(id), signal),
  ]);
  const page = {
    project, sessions: sessions.items, plan: files, tab: "", hash, query, moving: null, lifted: null, over: null, isLong: false, isRenaming: false, name: "",
    given: null, files: null, folders: new Set(), found: null, asked: "", problem: null, timer: 0, waits: new Set(), isGone: false, adding: null,
  };
  address(page, { hash, query });
  return page;
}

export function address(page, { hash, query }) {
  page.hash = hash;
  page.query = query;
  page.tab = TABS.some(([id]) => id === hash) ? hash : page.plan.length || !page.sessions.length ? "plan" : "sessions";
  if (page.tab === "given" && !page.given) attempt("load-given", () => loadGiven(page));
  if (page.tab === "files" && !page.files) attempt("load-files", () => loadFiles(page));
  if (page.tab === "search" && query.get("q") && query.get("q") !== page.asked) attempt("ask", () => ask(page, query.get("q")));
}

export const leave = (page) => clearTimeout(page?.timer);
export const ticks = (page) => page.sessions.some((one) => one.running);

// -- live -----------------------------------------------------------------------------------------

/** Load again what may have changed, once for several events. */
export function event(page, { type, data }) {
  if (type === "project_changed") {
    if (data.project_id !== page.project.id) return;
    if (data.is_gone) page.isGone = true;
    else ["project", "plan"].forEach((part) => page.waits.add(part));
  } else if (MOVES.test(type)) ["sessions", "plan"].forEach((part) => page.waits.add(part));
  else return;
  if (page.waits.size && !page.timer) page.timer = setTimeout(() => refresh(page), WAIT_MS);
}

async function refresh(page) {
  const { id } = page.project;
  const wanted = page.waits;
  [page.timer, page.waits] = [0, new Set()];
  try {
    if (wanted.has("project")) page.project = await get(`/projects/${id}`);
    if (wanted.has("sessions")) page.sessions = (await get(`/projects/${id}/sessions`)).items;
    if (wanted.has("plan")) page.plan = await loadPlan(id);
  } catch (problem) {
    if (problem.status === 404) page.isGone = true;
  }
  draw();
}

// -- drawing --------------------------------------------------------------------------------------

export function view(page) {
  if (page.isGone) return html`<div class="page narrow empty"><h1>This project was deleted</h1><p><a href="/">All projects</a></p></div>`;
  const items = TABS.map(([id, label]) => ({ id, label, href: `/projects/${page.project.id}${id === "search" && page.asked ? `?q=${encodeURIComponent(page.asked)}` : ""}#${id}`, count: { plan: page.plan.length, sessions: page.sessions.length }[id] }));
  const draws = { plan, sessions, given, files, search }[page.tab];
  return html`<div class="page project-page">
    ${page.project.status === "archived" ? html`<div class="notice"><p class="grow">This project is archived. It is not in the list of projects.</p>${may("write") ? action({ name: "restore", label: "Restore", run: () => archive(page, false) }) : nothing}</div>` : nothing}
    ${may("write") ? nothing : readOnly()}
    ${head(page)}
    ${page.sessions.length ? html`${tabs(items, page.tab, "Parts of the project")}${tabPanel(page.tab, draws(page))}` : first(page)}
    ${canStart() ? html`<div class="bar-bottom"><a class="button main" href="/new?from=${page.project.id}">New session</a></div>` : nothing}</div>`;
}

const canStart = () => may("write") && may("spend");

function head(page) {
  const { project } = page;
  const isLong = project.prompt.length > 240 || project.prompt.split("\n").length > 3;
  return html`<header class="project-head"><div class="page-head">
    ${page.isRenaming ? renaming(page) : html`<h1>${written(project.name)}</h1>`}
    <div class="row wrap head-actions">${may("write") && !page.isRenaming ? html`${action({ name: "rename", label: "Rename", kind: "plain", key: "E", run: () => rename(page) })}
      ${project.status === "archived" ? nothing : action({ name: "archive", label: "Archive", kind: "plain", run: () => archive(page, true) })}
      ${action({ name: "delete", label: "Delete", kind: "plain", run: () => remove(page) })}` : nothing}
      ${canStart() && page.sessions.length ? html`<a class="button main wide-only" href="/new?from=${project.id}">New session <kbd aria-hidden="true">N</kbd></a>` : nothing}</div></div>
    <p class="serif soft project-prompt ${page.isLong ? "" : "lines-3"}">${written(project.prompt)}</p>
    ${isLong ? html`<button class="link" type="button" aria-expanded=${page.isLong} @click=${() => { page.isLong = !page.isLong; draw(); }}>${page.isLong ? "Show less" : "Show the whole prompt"}</button>` : nothing}
    <p class="meta project-facts"><span>${written(project.domain)}</span><span>${cost(page)}</span><span title=${moment(project.created_at)}>begun ${ago(project.created_at, Date.now())}</span></p></header>`;
}

/** What all sessions have cost, real and play money apart. */
function cost({ sessions: all }) {
  const sum = (isPlay) => all.filter((one) => one.is_play === isPlay).reduce((total, one) => total + Number(one.spent), 0);
  const [real, play] = [sum(false), sum(true)];
  const told = [real ? money(real) : "", play ? money(play, { play: true }) : ""].filter(Boolean);
  return told.length ? `${list(told)} in all` : "nothing spent yet";
}

function first(page) {
  return html`<div class="empty first-session"><h2>No session yet</h2><p class="soft">A session lets several models argue about the prompt. You see the price before it starts.</p>
    ${canStart() ? html`<p><a class="button main" href="/new?from=${page.project.id}">Start a session</a></p>` : nothing}</div>`;
}

function sessions(page) {
  return html`<h2 class="sr">Sessions</h2><ul class="rows session-rows">${repeat(page.sessions, (one) => one.id, (one) => html`<li class="session-row">
    <a class="session-link" href="/sessions/${one.id}" data-card><h3>Session <span class="mono">${one.id.slice(0, 4)}</span>${one.iteration > 1 ? html` <span class="faint">iteration ${one.iteration}</span>` : nothing}</h3></a>
    <p class="state row">${glyph(sessionGlyph(one.status, { needs: one.needs.length, running: one.running }))}<span>${describeSession(one)}</span></p>
    <div class="progress">${progressBar(one.stages, { thin: true })}</div>
    <p class="seats row wrap">${one.seats.filter((each) => !each.is_dropped).map((each) => html`<span class="row seat-name">${seat(each.index, { label: each.label, small: true })}<span class="meta">${written(each.label)}</span></span>`)}</p>
    <p class="meta facts-line"><span>${money(one.spent, { play: one.is_play })}${one.budget ? ` of ${money(one.budget, { play: one.is_play })}` : ""}</span><span title=${moment(one.updated_at)}>${ago(one.updated_at, Date.now())}</span></p></li>`)}</ul>`;
}

// -- acting ---------------------------------------------------------------------------------------

function rename(page) {
  if (!may("write")) return false;
  Object.assign(page, { isRenaming: true, name: page.project.name });
  draw();
  requestAnimationFrame(() => /** @type {HTMLInputElement|null} */ (document.getElementById("project-name"))?.select());
  return true;
}

function renaming(page) {
  const close = () => { page.isRenaming = false; draw(); requestAnimationFrame(() => document.querySelector(`[data-action="rename"]`)?.focus()); };
  const save = async () => {
    const name = page.name.trim();
    if (name && name !== page.project.name) page.project = await patch(`/projects/${page.project.id}`, { name });
    close();
  };
  return html`<form class="row rename" @submit=${(event) => { event.preventDefault(); attempt("save-name", save); }} @keydown=${(event) => { if (event.key === "Escape") { event.preventDefault(); close(); } }}>
    <h1 class="sr">${written(page.project.name)}</h1>
    <input id="project-name" type="text" aria-label="Name of the project" maxlength="200" .value=${live(page.name)} @input=${(event) => { page.name = event.target.value; }}>
    ${action({ name: "save-name", label: "Save", kind: "main", run: save })}<button class="button plain" type="button" @click=${close}>Leave it</button></form>`;
}

async function archive(page, isArchived) {
  page.project = await patch(`/projects/${page.project.id}`, { is_archived: isArchived });
  if (isArchived) toast(`${page.project.name} is archived.`, { undo: () => attempt("archive", () => archive(page, false)) });
}

/** Delete after its name was typed; while a session works, say which. */
async function remove(page) {
  const { project } = page;
  let [typed, problem, isDeleting] = ["", null, false];
  const fits = () => typed.trim() === project.name.trim();
  const run = async (close) => {
    if (!fits() || isDeleting) return;
    isDeleting = true;
    draw();
    try {
      await del(`/projects/${project.id}`);
      close(true);
    } catch (found) {
      if (found.name !== "Problem") throw found;
      problem = found;
    }
    isDeleting = false;
    draw();
  };
  const working = () => page.sessions.filter((one) => one.running || one.status.startsWith("generating"));
  const isGone = await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); run(close); }}>
    <h2>Delete ${written(project.name)}?</h2>
    <p class="soft">${plural(page.sessions.length, "session")}, all documents and all files are deleted for good. What was spent stays in the wallet’s history.</p>
    <div class="field"><label for="typed-name">Type the project’s name to confirm: <strong>${written(project.name)}</strong></label><input id="typed-name" type="text" autocomplete="off" autofocus .value=${live(typed)} @input=${(event) => { typed = event.target.value; draw(); }}></div>
    ${problem ? html`<div class="notice bad" role="alert"><div><p>${problem.detail}</p>${working().map((one) => html`<p><a href="/sessions/${one.id}" @click=${() => close(false)}>Open session ${one.id.slice(0, 4)}</a></p>`)}</div></div>` : nothing}
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close(false)}>Leave it</button><button class="button bad" type="submit" aria-disabled=${fits() ? nothing : "true"} aria-busy=${isDeleting ? "true" : nothing}>Delete for good</button></div></form>`, { label: `Delete ${project.name}` });
  if (!isGone) return;
  toast(`${project.name} is deleted.`);
  await go("/", { replace: true });
}

