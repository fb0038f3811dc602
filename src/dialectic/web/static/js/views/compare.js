// Two to four documents side by side: rows are sections, so that eyes go straight across.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { guard } from "../../vendor/lit/directives/guard.js";
import { get, Problem } from "../api.js";
import { plural } from "../format.js";
import { sanitised, splitSections } from "../html.js";
import { apply, fromBoard } from "../model.js";
import { address as change } from "../router.js";
import { draw, may } from "../store.js";
import { blank as blocks, chip, seat, seatClass, stars, written } from "./parts.js";
import { align, chooseDepth, sharedRuns } from "./compare/rows.js";
import { rateOne } from "./document/acts.js";
import { facts, findStage } from "./session/facts.js";

const COLUMNS_MAX = 4;
const SWIPE_PX = 60;
// Below what sticks to the top; a section that was scrolled to begins above it.
const READING_LINE_PX = 240;

// -- loading --------------------------------------------------------------------------------------

/** @param {{query: URLSearchParams, signal?: AbortSignal, isAgain?: boolean}} params */
export async function load({ query, signal, isAgain = false }) {
  const ids = listIds(query);
  const page = { ids, columns: [], rows: [], model: null, column: isAgain && shown ? shown.column : 0, section: null, only: false, faint: false, left: 0 };
  page.left = listAll(query).length - ids.length;
  const found = await Promise.all(ids.map(async (id) => {
    const [one, rendered] = await Promise.all([get(`/contributions/${id}`, { signal }), get(`/contributions/${id}/html`, { signal })]);
    return { id, one, rendered };
  }));
  if (found.length) page.model = fromBoard(await get(`/sessions/${found[0].one.session_id}/board?iteration=${found[0].one.iteration}`, { signal }));
  const depth = chooseDepth(found.map(({ rendered }) => rendered.toc));
  page.columns = found.map((each) => ({ ...each, ...nameOf(page, each.one) }));
  page.rows = align(found.map(({ rendered }) => splitSections(rendered.html, depth)));
  take(page, query);
  shown = page;
  return page;
}

/** @type {object|null} the page that is shown, kept when its data is loaded again */
let shown = null;

const listAll = (query) => [...new Set((query.get("ids") ?? "").split(",").map((id) => id.trim()).filter(Boolean))];
const listIds = (query) => listAll(query).slice(0, COLUMNS_MAX);

function nameOf(page, one) {
  const isHere = one.session_id === page.model.session.id;
  const own = isHere ? page.model.session.seats.find((each) => each.index === one.seat) : null;
  const others = isHere ? "" : "another session, ";
  const iteration = page.model.session.iterations > 1 || one.iteration > 1 ? `, iteration ${one.iteration}` : "";
  const version = one.version > 1 ? `, version ${one.version}` : "";
  return { label: own?.label ?? one.model.split("/").at(-1), isLead: own?.is_lead ?? false, kind: `${others}${findStage(page.model, one.stage)?.title ?? one.stage}${iteration}${version}` };
}

function take(page, query) {
  page.section = page.rows.some((row) => row.key === query.get("section")) ? query.get("section") : null;
  page.only = query.has("only");
  page.faint = query.has("faint");
}

export function address(page, { query, path }) {
  if (String(listIds(query)) !== String(page.ids)) {
    load({ query }).then((next) => { Object.assign(page, next); draw(); }, (problem) => { if (!(problem instanceof Problem)) throw problem; });
    return;
  }
  take(page, query);
}

export const leave = () => { shown = null; };

export function event(page, event) {
  if (page.model) page.model = apply(page.model, event);
}

// -- what is drawn --------------------------------------------------------------------------------

export const title = (page) => (page.columns.length ? `Compare ${page.columns.map((each) => each.label).join(", ")}` : "Compare");

export function crumbs(page) {
  const own = { label: "Compare" };
  if (!page.model) return [{ label: "Projects", href: "/" }, own];
  const { project, id } = page.model.session;
  return [{ label: "Projects", href: "/" }, { label: project.name, href: `/projects/${project.id}` }, { label: "Session", href: `/sessions/${id}` }, own];
}

export const blank = () => html`<div class="page wide"><h1>Compare</h1>${blocks(8, 90)}</div>`;

export function view(page) {
  if (page.columns.length < 2) return tooFew(page);
  const rows = listRows(page);
  return html`<div class="compare" .style=${`--columns:${page.columns.length}`} data-column=${page.column} @touchstart=${(event) => touch(page, event)} @touchend=${(event) => swipe(page, event)}>
    ${bar(page, rows)}
    <div class="compare-heads">${page.columns.map((column, n) => head(page, column, n))}</div>
    <div class="compare-rows">${rows.length ? rows.map((row) => rowOf(page, row)) : html`<p class="empty">All sections are the same.</p>`}</div>
  </div>`;
}

function tooFew(page) {
  const [one] = page.columns;
  return html`<div class="page"><div class="empty"><h1>Compare</h1><p>Choose two to four documents. On a session's board, X collects them; in a document, press Compare.</p>
    <p><a class="button main" href=${one ? `/documents/${one.id}` : "/"}>${one ? "Back to the document" : "To all projects"}</a></p></div></div>`;
}

function listRows(page) {
  if (page.section !== null) return page.rows.filter((row) => row.key === page.section);
  return page.only ? page.rows.filter((row) => !row.isSame) : page.rows;
}

const headingOf = (row) => row.heading || "Before the first heading";

function bar(page, rows) {
  const hidden = page.rows.length - rows.length;
  const choose = (event) => change({ section: event.target.value || null }, "");
  const toggle = (name) => () => change({ [name]: page[name] ? null : "1" }, "");
  const [a, b] = page.columns;
  return html`<header class="compare-bar">
    <h1>Compare ${plural(page.columns.length, "document")}</h1>
    <span class="row"><button class="icon" type="button" aria-label="Previous section" @click=${() => step(page, -1)}>‹</button>
      <label class="sr" for="section">Section</label><select id="section" @change=${choose}><option value="" ?selected=${page.section === null}>All sections</option>${page.rows.filter((row) => row.key).map((row) => html`<option value=${row.key} ?selected=${row.key === page.section}>${written(headingOf(row))}</option>`)}</select>
      <button class="icon" type="button" aria-label="Next section" @click=${() => step(page, 1)}>›</button></span>
    <label class="switch"><input type="checkbox" role="switch" .checked=${page.only} @change=${toggle("only")}>Only differences</label>
    <label class="switch"><input type="checkbox" role="switch" .checked=${page.faint} @change=${toggle("faint")}>Equal words faint</label>
    ${page.columns.length === 2 ? html`<a class="button" href="/documents/${b.id}?mode=diff&with=${a.id}">Words marked</a>` : nothing}
    <span class="meta grow" role="status">${page.section === null && page.only ? `${plural(hidden, "equal section")} left out` : nothing}${page.left > 0 ? ` Only the first ${COLUMNS_MAX} documents are shown.` : nothing}</span></header>`;
}

function head(page, column, n) {
  const { one } = column;
  const now = facts(page.model).find(one.original_id);
  const rating = now?.my_rating ?? one.my_rating ?? null;
  return html`<div class="compare-head ${one.seat ? seatClass(one.seat) : ""}" ?data-shown=${n === page.column}>
    <p class="row">${one.seat ? seat(one.seat, { label: one.model }) : nothing}<strong class="one-line">${written(column.label)}</strong>${column.isLead ? chip("leads") : nothing}</p>
    <p class="meta one-line">${column.kind}${now && !now.isDraft && now.version > one.version ? html` · <a href="/compare?ids=${page.ids.map((id) => (id === column.id ? now.id : id)).join(",")}">show version ${now.version}</a>` : nothing}</p>
    <p class="row"><a class="button small" href="/documents/${column.id}">Read</a>${may("write") ? stars(rating, (value) => rateOne(page, one, value)) : stars(rating)}</p>
    <div class="compare-tabs">${page.columns.map((each, index) => html`<button type="button" class="chip" aria-pressed=${index === page.column} aria-label="Show ${each.label}" @click=${() => showColumn(page, index)}>${each.one.seat ?? index + 1}</button>`)}</div></div>`;
}

function rowOf(page, row) {
  return html`<section class="compare-row ${row.isSame ? "is-same" : ""}" aria-label=${headingOf(row)} data-row=${row.key}>${row.cells.map((cell, n) => html`<div class="compare-cell ${page.columns[n].one.seat ? seatClass(page.columns[n].one.seat) : ""}" ?data-shown=${n === page.column}>
    ${row.heading ? html`<h2>${written(cell?.heading ?? row.heading)}</h2>` : nothing}
    ${cell ? guard([cell, page.faint], () => text(page, row, n)) : html`<p class="faint silent">${written(page.columns[n].label)} says nothing about it.</p>`}</div>`)}</section>`;
}

function text(page, row, n) {
  const { rendered } = page.columns[n];
  return html`<div class="prose" lang=${rendered.lang ?? nothing} ${sanitised(row.cells[n].html, { faint: page.faint ? sharedRuns(row.cells, n) : null, hasIds: false })}></div>`;
}

// -- one section, one column at a time ------------------------------------------------------------

function step(page, by) {
  const keys = page.rows.filter((row) => row.key && (!page.only || !row.isSame)).map((row) => row.key);
  if (!keys.length) return;
  const here = keys.indexOf(page.section);
  change({ section: here < 0 ? keys[by > 0 ? 0 : keys.length - 1] : keys[here + by] ?? null }, "");
}

/** Show another document on a narrow screen, at the section that was read. */
function showColumn(page, index) {
  const next = Math.max(0, Math.min(page.columns.length - 1, index));
  if (next === page.column) return;
  const reading = [...document.querySelectorAll(".compare-row")].find((row) => row.getBoundingClientRect().bottom > READING_LINE_PX)?.dataset.row;
  page.column = next;
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(`.compare-row[data-row="${CSS.escape(reading ?? "")}"]`)?.scrollIntoView()));
}

function touch(page, event) {
  const [at] = event.changedTouches;
  page.touched = event.touches.length === 1 && !event.target.closest("pre, .table") ? { x: at.clientX, y: at.clientY } : null;
}

function swipe(page, event) {
  const [at] = event.changedTouches;
  if (!page.touched || !matchMedia("(max-width: 760px)").matches) return;
  const [dx, dy] = [at.clientX - page.touched.x, at.clientY - page.touched.y];
  if (Math.abs(dx) > SWIPE_PX && Math.abs(dx) > 2 * Math.abs(dy)) showColumn(page, page.column + (dx < 0 ? 1 : -1));
}

export const keys = (page) => [
  { keys: "[", label: "Previous section", run: () => step(page, -1) },
  { keys: "]", label: "Next section", run: () => step(page, 1) },
  { keys: "d", label: "Only differences", run: () => { change({ only: page.only ? null : "1" }, ""); } },
  { keys: "a", label: "All sections", run: () => { change({ section: null }, ""); } },
];
