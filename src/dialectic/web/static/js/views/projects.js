// All projects: what needs you, what runs, and the rest by when it last moved.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { get, patch } from "../api.js";
import { ago, count, describeNeed, describeSession, moment, money, plural, sessionGlyph } from "../format.js";
import { toast } from "../overlay.js";
import { address as change, go, reload } from "../router.js";
import { draw, may } from "../store.js";
import { action, blank as blocks, glyph, needCard, progressBar, readOnly, seat, written } from "./parts.js";

const PAGE = 50;
const WAIT_MS = 250;
/** Events after which a row may read otherwise. */
const MOVES = /^(session|jobs|project|money|document)_changed$|^contribution_generation_|^dialectic_progress_update$|^session_/;
const EXAMPLES = [
  "A booking service for a village hall that volunteers can run in an hour a week.",
  "A repair café for one town: who repairs, what it costs, how it stays open in winter.",
  "A seed library that lends by post, with rules that ten volunteers can keep.",
];
const FILTERS = [["", "All"], ["generating", "Running"], ["stage_complete", "Waits for you"], ["iteration_complete", "Done"], ["failed", "Failed"], ["paused", "Paused"]];

export const title = (page) => (page.needs.length ? `${count(page.needs.length)} to do · Projects` : "Projects");
export const keys = [
  { keys: "j", label: "Next project", run: () => move(1) },
  { keys: "k", label: "Previous project", run: () => move(-1) },
];

export const blank = () => html`<div class="page-head"><h1>Projects</h1></div>${blocks(8, 76)}`;

/** @param {{query: URLSearchParams, signal?: AbortSignal}} params */
export async function load({ query, signal }) {
  const wanted = readQuery(query);
  const [needs, { items, next_cursor: next }] = await Promise.all([
    get("/needs", { signal }), get(`/projects?${ask(wanted)}`, { signal }),
  ]);
  return { wanted, needs: needs.items, projects: items, next, running: listRunning(items), timer: 0, isHeld: false, fresh: null };
}

/** The projects whose session works: they stand above all others. */
const listRunning = (projects) => new Set(projects.filter(({ last_session: one }) => one?.running || one?.status.startsWith("generating")).map((one) => one.id));

function readQuery(query) {
  return { q: query.get("q") ?? "", status: query.get("status") ?? "", archived: query.get("archived") === "true", mine: query.get("mine") === "true" };
}

function ask({ q, status, archived, mine }, cursor = null) {
  const query = new URLSearchParams({ sort: "activity", archived: String(archived), limit: String(PAGE) });
  if (q) query.set("q", q);
  if (status) query.set("status", status);
  if (mine) query.set("mine", "true");
  if (cursor) query.set("cursor", cursor);
  return query;
}

export const leave = (page) => clearTimeout(page?.timer);
export const ticks = (page) => page.projects.some((one) => one.last_session?.running);

// -- live -----------------------------------------------------------------------------------------

/** Rows are loaded again a moment after something moved: one request, however many events came. */
export function event(page, { type }) {
  if (!MOVES.test(type) || page.timer) return;
  page.timer = setTimeout(() => refresh(page), 1000);
}

async function refresh(page) {
  page.timer = 0;
  try {
    const loaded = await load({ query: new URLSearchParams(location.search) });
    Object.assign(page, { needs: loaded.needs, fresh: loaded });
    settle(page);
  } catch { /* the connection's sign tells; the list stays as last seen */ }
  draw();
}

/** Put new rows into the list; while someone points into it, each row stays where it is. */
function settle(page) {
  if (!page.fresh) return;
  const { projects, next } = page.fresh;
  if (!page.isHeld) {
    Object.assign(page, { projects, next, running: listRunning(projects), fresh: null });
    return;
  }
  const newest = new Map(projects.map((one) => [one.id, one]));
  page.projects = page.projects.map((one) => newest.get(one.id) ?? one);
}

function hold(page, isHeld) {
  page.isHeld = isHeld;
  if (!isHeld) settle(page);
  draw();
}

/** The list is let go when the focus has left it, not when it goes from row to row or the window is left. */
function release(page, { currentTarget: list, relatedTarget }) {
  if (!list.contains(relatedTarget) && !list.contains(document.activeElement) && !list.matches(":hover")) hold(page, false);
}

// -- drawing --------------------------------------------------------------------------------------

export function view(page) {
  const { projects, needs, wanted } = page;
  const isFiltered = wanted.q || wanted.status || wanted.archived || wanted.mine;
  if (!projects.length && !isFiltered) return first();
  const running = projects.filter((one) => page.running.has(one.id));
  const others = projects.filter((one) => !page.running.has(one.id));
  return html`<div class="page projects">
    <div class="page-head"><h1>Projects</h1>${may("write") ? html`<div class="row">${importButton()}<a class="button main wide-only" href="/new">New <kbd aria-hidden="true">N</kbd></a></div>` : nothing}</div>
    ${may("write") ? nothing : readOnly()}
    ${needs.length ? html`<section aria-labelledby="needs"><h2 class="label" id="needs">Needs you</h2><div class="stack">${repeat(needs, (need) => need.session_id + need.code, needRow)}</div></section>` : nothing}
    ${filters(page)}
    <div @pointerenter=${() => hold(page, true)} @pointerleave=${(event) => release(page, event)} @focusin=${() => { page.isHeld = true; }} @focusout=${(event) => release(page, event)}>
      ${running.length ? group(page, "Running", running) : nothing}
      ${others.length ? group(page, running.length ? "Others" : "", others) : nothing}
      ${projects.length ? nothing : html`<p class="empty">Nothing fits this filter. <a href="/">Show all</a></p>`}</div>
    ${page.next ? html`<p class="more">${action({ name: "more", label: "Show more", run: () => more(page) })}</p>` : nothing}
    ${may("write") ? html`<div class="bar-bottom"><a class="button main" href="/new">New project</a></div>` : nothing}</div>`;
}

const group = (page, label, rows) => html`<section>${label ? html`<h2 class="label">${label}</h2>` : html`<h2 class="sr">All projects</h2>`}
  <ul class="rows">${repeat(rows, (one) => one.id, (one) => row(page, one))}</ul></section>`;

function needRow(need) {
  const told = describeNeed(need);
  return needCard({
    title: html`<a href="/sessions/${need.session_id}">${written(need.project_name)}</a>: ${told.what}`,
    meta: need.since ? html`<span title=${moment(need.since)}>${ago(need.since, Date.now())}</span>` : "",
    isFailure: need.code === "failure",
  }, html`<a class="button main" href="/sessions/${need.session_id}">${told.verb}<span class="sr"> ${written(need.project_name)}</span></a>`);
}

function row(page, project) {
  const session = project.last_session;
  const href = session ? `/sessions/${session.id}` : `/projects/${project.id}`;
  const mark = session ? sessionGlyph(session.status, { needs: session.needs.length, running: session.running }) : "wait";
  return html`<li class="project" data-id=${project.id} @pointerdown=${(event) => swipe(event, project)}>
    <a class="project-link" href=${href} aria-describedby="about-${project.id}"><h3 class="one-line">${written(project.name)}</h3></a>
    <p class="excerpt one-line serif soft">${written(project.prompt_excerpt)}</p>
    <p class="state row" id="about-${project.id}">${glyph(mark)}<span>${session ? describeSession(session) : "no session yet"}</span></p>
    <div class="progress">${session ? progressBar(session.stages, { thin: true }) : nothing}</div>
    <p class="seats row">${(session?.seats ?? []).filter((one) => !one.is_dropped).map((one) => seat(one.index, { label: one.label, small: true }))}</p>
    <p class="meta facts-line"><span>${cost(project)}</span><span title=${moment(project.updated_at)}>${ago(project.updated_at, Date.now())}</span>
      <a href="/projects/${project.id}">${plural(project.sessions, "session")}<span class="sr"> of ${written(project.name)}</span></a></p></li>`;
}

function cost({ spent, play_spent: play }) {
  return [Number(spent) ? money(spent) : "", Number(play) ? money(play, { play: true }) : ""].filter(Boolean).join(" + ") || "nothing spent";
}

function filters(page) {
  const { wanted } = page;
  const type = (event) => {
    clearTimeout(page.typing);
    const text = event.target.value;
    page.typing = setTimeout(() => change({ q: text }, "", { replace: true }), WAIT_MS);
  };
  return html`<form class="filters row wrap" role="search" aria-label="Filter projects" @submit=${(event) => event.preventDefault()}>
    <input type="search" data-filter aria-label="Filter by name or prompt" placeholder="Filter" .value=${wanted.q} @input=${type}>
    <div class="row wrap chips">${FILTERS.map(([status, label]) => html`<button class="chip" type="button" aria-pressed=${wanted.status === status} @click=${() => change({ status })}>${label}</button>`)}
      <button class="chip" type="button" aria-pressed=${wanted.mine} @click=${() => change({ mine: wanted.mine ? null : "true" })}>Mine</button>
      <button class="chip" type="button" aria-pressed=${wanted.archived} @click=${() => change({ archived: wanted.archived ? null : "true" })}>Archived</button></div></form>`;
}

function first() {
  return html`<div class="page narrow first stack loose"><h1>Several language models argue until a plan holds</h1>
    <p class="lead serif">You write a prompt. Each model answers, each criticises every answer without knowing whose it is, and what survives becomes one plan. You can stop, steer and rule at any point.</p>
    ${may("write") ? html`<p class="row wrap"><a class="button main" href="/new">Begin with a prompt</a>${importButton("Import a project")}</p>
      <section aria-labelledby="examples"><h2 class="label" id="examples">Or try one of these</h2>
      <ul class="stack">${EXAMPLES.map((prompt) => html`<li><a class="card serif" href="/new?prompt=${encodeURIComponent(prompt)}">${prompt}</a></li>`)}</ul></section>
      <p class="meta">Offline models cost nothing: you see how it works without a key.</p>` : readOnly()}</div>`;
}

/** Loaded when it is wanted: few import. */
async function startImport() {
  const { openImport } = await import("./projects/import_dialog.js");
  openImport();
}
const importButton = (label = "Import") => action({ name: "import", label, run: startImport });

// -- acting ---------------------------------------------------------------------------------------

async function more(page) {
  const { items, next_cursor: next } = await get(`/projects?${ask(page.wanted, page.next)}`);
  const known = new Set(page.projects.map((one) => one.id));
  page.projects = [...page.projects, ...items.filter((one) => !known.has(one.id))];
  for (const id of listRunning(items)) page.running.add(id);
  page.next = next;
}

function move(step) {
  const links = [...document.querySelectorAll(".project-link")];
  const now = links.indexOf(document.activeElement);
  links[Math.max(0, Math.min(links.length - 1, now + step))]?.focus();
}

/** Swipe left on a touch screen: archive. */
function swipe(down, project) {
  if (down.pointerType !== "touch" || !may("write")) return;
  const element = down.currentTarget;
  const up = (event) => {
    element.removeEventListener("pointerup", up);
    if (down.clientX - event.clientX > 96 && Math.abs(down.clientY - event.clientY) < 32) archive(project, true);
  };
  element.addEventListener("pointerup", up);
}

async function archive(project, isArchived) {
  try {
    await patch(`/projects/${project.id}`, { is_archived: isArchived });
    if (isArchived) toast(`${project.name} is archived.`, { undo: () => archive(project, false) });
    await reload();
  } catch (problem) {
    toast(problem.detail);
  }
}

export const actions = (page) => [
  ...(may("write") ? [{ label: "Import a project", run: startImport }] : []),
  ...page.projects.slice(0, 8).map((one) => ({ label: one.name, kind: "project", run: () => go(`/projects/${one.id}`) })),
];
