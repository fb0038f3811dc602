// One document: read, where its passages come from, edit, source, versions, what changed.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { get, read } from "../api.js";
import { ago, list, moment, plural } from "../format.js";
import { apply, applyDraft, fromBoard } from "../model.js";
import { address as change, go, reload } from "../router.js";
import { draw, kept, may } from "../store.js";
import { watchDrafts } from "../stream.js";
import { action, attempt, blank as blocks, glyph, icon, seat, stars, written } from "./parts.js";
import { chooseCompared, continueIt, listMenu, priceOnce, rate, refreshReaders } from "./document/acts.js";
import { margin } from "./document/margin.js";
import { contents, findSource, handleText, isAt, labelsOf, marksOf, showBlock, stepMark, text, watchScroll } from "./document/text.js";
import { facts, findStage, isPast } from "./session/facts.js";

const MODES = [{ id: "read", label: "Read", key: "" }, { id: "edit", label: "Edit", key: "e" }, { id: "source", label: "Source", key: "" }, { id: "diff", label: "Changes", key: "" }];
// Parts that only some modes need are loaded when they are.
const loaded = {};

// -- loading --------------------------------------------------------------------------------------

export async function load({ id, query, hash, signal, isAgain }) {
  const page = isAgain && shown ? shown : makePage();
  const session = query.get("writing");
  if (session) await loadWriting(page, id, session, signal);
  else await loadDocument(page, await pickVersion(id, query.get("v"), signal), signal);
  take(page, { query, hash });
  // A link to a block shows which one is meant.
  if (hash && !isAgain && page.rendered?.blocks.some((block) => block.id === hash)) showBlock(hash);
  await bring(page);
  shown = page;
  return page;
}

/** @type {object|null} the page that is shown, kept when its data is loaded again */
let shown = null;

const makePage = () => ({
  one: null, etag: null, rendered: null, versions: [], model: null, job: null, extract: null, mode: "read", other: null, heading: null,
  picked: null, card: null, trace: null, edit: null, diff: null, newer: null, prices: {}, menu: false, contentsOpen: false, stop: null,
});

async function pickVersion(id, wanted, signal) {
  if (!wanted) return id;
  const { items } = await get(`/contributions/${id}/versions`, { signal });
  return items.find((each) => String(each.version) === wanted)?.id ?? id;
}

/** Load a contribution, or else a document that was taken from one, a prompt or a resource. */
async function loadDocument(page, id, signal) {
  const found = await read(`/contributions/${id}`, { signal }).catch((problem) => {
    if (problem.status !== 404) throw problem;
    return null;
  });
  if (!found) return loadExtract(page, id, signal);
  const { session_id: session, iteration } = found.data;
  const [rendered, versions] = await Promise.all([
    get(`/contributions/${id}/html`, { signal }),
    get(`/contributions/${id}/versions`, { signal }),
    page.model?.session.id === session ? null : loadBoard(page, session, iteration, signal),
  ]);
  Object.assign(page, { one: found.data, etag: found.etag, rendered, versions: versions.items, job: null, extract: null, newer: null, marks: null, picked: null });
  page.links = labelsOf(page);
  loadStrength(page);
  return loadTrace(page);
}

async function loadExtract(page, id, signal) {
  const [one, rendered] = await Promise.all([get(`/documents/${id}`, { signal }), get(`/documents/${id}/html`, { signal })]);
  Object.assign(page, { one: null, extract: one, rendered, versions: [] });
  if (one.session_id) await loadBoard(page, one.session_id, one.iteration, signal);
}

async function loadBoard(page, session, iteration, signal) {
  page.model = fromBoard(await get(`/sessions/${session}/board${iteration ? `?iteration=${iteration}` : ""}`, { signal }));
}

/** Load a call that is under way; the document takes its place when it is written. */
async function loadWriting(page, job, session, signal) {
  await loadBoard(page, session, null, signal);
  const written = page.model.jobs.get(job)?.document_id;
  if (written) {
    await loadDocument(page, written, signal);
    return;
  }
  page.job = job;
  watchDrafts([session]);
  try {
    const so = await get(`/jobs/${job}/draft`, { signal });
    page.model = applyDraft(page.model, { ...so, job_id: job, at: 0 });
  } catch (problem) {
    if (problem?.reason !== "no_draft") throw problem;
    // The call has ended since the board was read: its document is there now, or the board says why not.
    await loadBoard(page, session, null, signal);
    const document = page.model.jobs.get(job)?.document_id;
    if (document) await loadDocument(page, document, signal);
  }
}

/** Ask what a finished document rests on; the page does not wait for it. */
function loadStrength(page) {
  const { id, original_id: original } = page.one;
  if (page.strength?.version_id !== id) page.strength = null;
  const known = facts(page.model).find(original);
  if (known && !known.isDraft && (page.one.source_ids ?? []).length) get(`/contributions/${id}/strength`).then((found) => { if (page.one?.id === id) page.strength = found; draw(); }, () => {});
}

/** Ask which passages of others say the same; the page does not wait for it. */
function loadTrace(page) {
  page.trace = { state: "loading" };
  trace(page, page.one.id);
}

async function trace(page, id) {
  try {
    const found = await get(`/contributions/${id}/provenance`);
    if (page.one?.id !== id) return;
    page.trace = { state: "ready", ...found };
    page.marks = marksOf(page);
  } catch (problem) {
    if (problem.name !== "Problem") throw problem;
    page.trace = { state: "failed", problem };
  }
  draw();
}

function take(page, { query, hash }) {
  const mode = query.get("mode") ?? "read";
  const canEdit = page.one && may("write") && (page.one.is_latest || kept(`edit:${page.one.original_id}`));
  page.mode = MODES.some((each) => each.id === mode) && (mode !== "edit" || canEdit) && !page.job ? mode : "read";
  page.other = query.get("with");
  page.hash = hash;
  page.menu = false;
  const at = query.get("at");
  if (at !== null && at !== page.at) showBlock(isAt(page, Number(at)));
  page.at = at;
}

async function bring(page) {
  const name = { edit: "edit", diff: "diff" }[page.mode];
  if (name && !loaded[name]) loaded[name] = await import(`./document/${name}.js`);
  if (page.mode === "edit" && !page.edit) {
    loaded.edit.begin(page);
    requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("edit-text")?.focus({ preventScroll: true })));
  }
  if (page.mode === "diff") await loaded.diff.begin(page);
  draw();
}

export function address(page, params) {
  if (params.query.get("v") !== page.v) {
    page.v = params.query.get("v");
    reload();
    return;
  }
  take(page, params);
  bring(page);
}

export function leave(page) {
  shown = null;
  watchDrafts([]);
  page?.stop?.();
  if (page?.edit) loaded.edit.leave(page);
}

// -- what arrives ---------------------------------------------------------------------------------

export function event(page, event) {
  if (!page.model) return;
  const before = page.model;
  page.model = apply(before, event);
  if (page.job) land(page);
  const now = page.one && facts(page.model).find(page.one.original_id);
  if (now && !now.isDraft && now.version > Math.max(page.one.version, page.newer?.version ?? 0)) page.newer = now;
}

/** What was being written is written: the document takes the place of the draft. */
async function land(page) {
  const job = page.model.jobs.get(page.job);
  if (!job?.document_id || page.landing) return;
  page.landing = true;
  const { scrollY } = globalThis;
  try {
    await loadDocument(page, job.document_id);
    draw();
    requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, scrollY)));
  } finally {
    page.landing = false;
  }
}

export function draft(page, piece) {
  if (page.job && piece.job_id === page.job) page.model = applyDraft(page.model, piece);
}

export const ticks = (page) => Boolean(page.job);

// -- what is drawn --------------------------------------------------------------------------------

/** The name of a document: its stage and its seat's model. */
function nameOf(page) {
  const one = page.one ?? page.model?.jobs.get(page.job);
  if (page.extract) return { kind: titleOfExtract(page.extract), model: "", seat: null };
  const own = page.model.session.seats.find((each) => each.index === one.seat);
  const step = findStage(page.model, one.stage)?.steps.find((each) => each.key === facts(page.model).find(one.original_id)?.step || each.key === one.step);
  const stage = findStage(page.model, one.stage)?.title ?? one.stage;
  const isPart = step && findStage(page.model, one.stage).steps.length > 1;
  return { kind: isPart ? `${stage}: ${step.title}` : stage, model: own?.label ?? one.model ?? "", full: one.model ?? own?.model, seat: one.seat };
}

const titleOfExtract = (one) => (one.document_key ?? one.path.split("/").at(-1)).replaceAll("_", " ").replace(/\.md$/, "").replace(/^./, (letter) => letter.toUpperCase());

export function title(page) {
  const { kind, model } = nameOf(page);
  const sign = page.mode === "edit" && page.edit?.isDirty ? "• " : "";
  return `${sign}${kind}${model ? ` by ${model}` : ""}${page.model ? ` · ${page.model.session.project.name}` : ""}`;
}

export function crumbs(page) {
  const { kind, model } = nameOf(page);
  const own = { label: model ? `${kind} by ${model}` : kind };
  if (!page.model) return [{ label: "Projects", href: "/" }, own];
  const { project, id } = page.model.session;
  return [{ label: "Projects", href: "/" }, { label: project.name, href: `/projects/${project.id}` }, { label: "Session", href: `/sessions/${id}` }, own];
}

export const blank = () => html`<div class="document"><header class="doc-bar"><h1 class="grow">Document</h1></header>
  <div class="doc-body"><div class="doc-contents"></div><div class="doc-main">${blocks(9, 54)}</div><div class="doc-margin"></div></div></div>`;

export function view(page) {
  if (page.mode === "read" && !page.job) page.stop ??= watchScroll(page);
  return html`<div class="document" data-mode=${page.job ? "writing" : page.mode}>
    ${bar(page)}
    <div class="doc-body">
      ${page.mode === "read" ? contents(page) : nothing}
      <div class="doc-main">${notices(page)}${body(page)}</div>
      ${page.mode === "read" ? margin(page) : nothing}
    </div>
    ${handleText(page)}
  </div>`;
}

function bar(page) {
  const { kind, model, full, seat: index } = nameOf(page);
  const back = page.model ? `/sessions/${page.model.session.id}` : "/";
  const live = page.one && facts(page.model).find(page.one.original_id);
  const rating = live?.my_rating ?? page.one?.my_rating ?? null;
  return html`<header class="doc-bar">
    <a class="button plain doc-back" href=${back}><span aria-hidden="true">←</span><span class="wide-only">Session</span><span class="sr">Back to the session</span></a>
    <h1 class="grow">${index ? seat(index, { label: full }) : nothing}<span class="doc-name">${written(model)}</span><span class="doc-kind">${kind}</span></h1>
    ${page.one ? html`<nav class="segmented doc-modes" aria-label="Ways to see it">${modesOf(page).map((mode) => html`<a href=${hrefOf(page, mode)} aria-current=${mode.id === page.mode ? "page" : nothing}>${mode.label}</a>`)}</nav>
      <button class="button doc-compare" type="button" @click=${() => chooseCompared(page)}>Compare</button>
      <span class="doc-stars">${may("write") ? stars(rating, (n) => rate(page, n)) : stars(rating)}</span>` : nothing}
    ${page.job ? nothing : menu(page)}
    <p class="print-only doc-print">${page.model ? html`${written(page.model.session.project.name)} · ` : nothing}${page.one ? moment(page.one.created_at) : nothing}${page.one && page.one.version > 1 ? ` · version ${page.one.version}` : nothing}</p>
  </header>`;
}

const modesOf = (page) => MODES.filter((mode) => mode.id !== "edit" || (may("write") && page.one?.is_latest)).filter((mode) => mode.id !== "diff" || page.versions.length > 1 || page.mode === "diff");

function hrefOf(page, mode) {
  const query = new URLSearchParams(page.v ? { v: page.v } : {});
  if (mode.id !== "read") query.set("mode", mode.id);
  return `${location.pathname}${query.size ? `?${query}` : ""}`;
}

function menu(page) {
  const toggle = () => { page.menu = !page.menu; draw(); };
  return html`<div class="menu"><button class="icon" type="button" id="open-more" aria-expanded=${page.menu} aria-label="More actions" @click=${toggle}>${icon("more")}</button>
    ${page.menu ? html`<ul class="panel menu-panel" aria-label="More actions">${listMenu(page).map((item) => html`<li>${item.href
      ? html`<a class="item ${item.className ?? ""}" href=${item.href} download=${item.download ?? nothing} target=${item.target ?? nothing} @click=${toggle}>${item.label}</a>`
      : html`<button class="item ${item.className ?? ""}" type="button" data-action=${item.name} @click=${() => { toggle(); attempt(item.name, item.run); }}>${item.label}${item.price ? html` <span class="faint">about ${item.price}</span>` : nothing}</button>`}</li>`)}</ul>` : nothing}</div>`;
}

// -- what must be known before reading ------------------------------------------------------------

function notices(page) {
  if (!page.one) return page.extract?.contribution_id ? html`<p class="notice"><span class="grow">This is a part of a longer answer.</span><a class="button" href="/documents/${page.extract.contribution_id}">Open the answer</a></p>` : nothing;
  return html`${strengthOf(page)}${olderVersion(page)}${newerVersion(page)}${unsaved(page)}${staleHere(page)}${staleReaders(page)}`;
}

/** What a final document rests on: in a line, and what makes it weaker. */
function strengthOf(page) {
  const { strength } = page;
  if (!strength || page.mode !== "read") return nothing;
  const facts = [`${plural(strength.seats.length, "seat")} of ${strength.seats_asked}`, strength.models.length === strength.seats.length ? "" : plural(strength.models.length, "model"), strength.critiques ? `${plural(strength.critiques, "critique")} of ${plural(strength.theses, "proposal")}` : "", plural(strength.documents, "document")].filter(Boolean);
  return html`<aside class="strength ${strength.is_single_model ? "is-weak" : ""}" aria-label="What this document rests on"><p class="meta">Rests on ${list(facts)}.</p>
    ${strength.notes.length ? html`<ul>${strength.notes.map((note) => html`<li data-note=${note.code}>${glyph(note.code === "single_model" || note.code === "broken_ruling" ? "failed" : "you")}<span>${written(note.text)}</span></li>`)}</ul>` : nothing}</aside>`;
}

function olderVersion(page) {
  const newest = page.versions.at(-1);
  if (page.mode === "edit" || page.one.is_latest || !newest || newest.id === page.one.id) return nothing;
  return html`<p class="notice you" role="status"><span class="grow">This is version ${page.one.version} of ${newest.version}. ${describeAuthor(newest)} wrote the newest ${ago(newest.created_at, Date.now())}.</span>
    <a class="button" href="/documents/${page.one.id}?mode=diff&with=${newest.id}">What changed</a><a class="button main" href="/documents/${newest.id}">Go to version ${newest.version}</a></p>`;
}

export const describeAuthor = (version) => (version.is_by_user ? version.by?.name ?? "A former member" : version.model);

function newerVersion(page) {
  if (!page.newer || page.mode === "edit") return nothing;
  const who = page.newer.by?.name ?? page.newer.model;
  return html`<p class="notice you" role="status"><span class="grow">${written(who)} saved version ${page.newer.version} ${ago(page.newer.created_at, Date.now())}.</span>
    <a class="button" href="/documents/${page.newer.id}?mode=diff&with=${page.one.id}">What changed</a><a class="button main" href="/documents/${page.newer.id}">Show version ${page.newer.version}</a></p>`;
}

function unsaved(page) {
  if (page.mode === "edit" || !may("write") || !kept(`edit:${page.one.original_id}`)) return nothing;
  return html`<p class="notice you" role="status">${glyph("you")}<span class="grow">Your text of this document is not saved yet.</span><a class="button main" href="/documents/${(page.versions.at(-1) ?? page.one).id}?mode=edit">Continue editing</a></p>`;
}

function staleHere(page) {
  const now = facts(page.model).find(page.one.original_id) ?? page.one;
  if (!(now.is_stale ?? page.one.is_stale) || !page.one.is_latest) return nothing;
  const price = may("spend") ? priceOnce(page, "regenerate", `/contributions/${page.one.id}/regenerate`) : null;
  return html`<div class="notice"><span class="grow">Something that it was written from has a newer version.</span>
    ${may("spend") && !isPast(page.model) ? action({ name: "regenerate", label: "Regenerate it", price, run: () => refreshReaders(page, [page.one.id]) }) : nothing}</div>`;
}

/** The documents that were written from an older version of this one. */
function staleReaders(page) {
  const stale = findSource(page).readers.filter((one) => one.is_stale);
  if (!stale.length || !page.one.is_latest) return nothing;
  const ids = stale.map((one) => one.id);
  const price = may("spend") ? priceOnce(page, `refresh-${ids.length}`, `/sessions/${page.model.session.id}/refresh?${ids.map((id) => `document_ids=${id}`).join("&")}`) : null;
  const label = `Regenerate ${plural(ids.length, "document")}`;
  return html`<div class="notice you">${glyph("you")}<span class="grow">${plural(ids.length, "document")} ${ids.length === 1 ? "was" : "were"} written from an older version of this one.</span>
    ${may("spend") && !isPast(page.model) ? action({ name: "refresh", label, price, kind: "main", run: () => refreshReaders(page, ids) }) : nothing}</div>`;
}

function body(page) {
  if (page.job) return text.writing(page);
  if (page.mode === "edit") return page.edit ? loaded.edit.editor(page) : blocks(8, 40);
  if (page.mode === "diff") return loaded.diff?.changes(page) ?? blocks(8, 40);
  if (page.mode === "source") return text.source(page);
  return html`${text.article(page)}${cutOff(page)}`;
}

function cutOff(page) {
  if (!page.one?.is_incomplete) return nothing;
  const price = may("spend") ? priceOnce(page, "continue", `/sessions/${page.model.session.id}/continue?document_ids=${page.one.id}`) : null;
  return html`<div class="notice you cut-off">${glyph("you")}<span class="grow">The answer is cut off here.</span>
    ${may("spend") && page.one.is_latest && !isPast(page.model) ? action({ name: "continue", label: "Continue it", price, kind: "main", run: () => continueIt(page) }) : nothing}</div>`;
}

// -- keys -----------------------------------------------------------------------------------------

export function keys(page) {
  if (!page.one) return [];
  const rated = [1, 2, 3, 4, 5].map((n) => ({ keys: `s ${n}`, label: plural(n, "star"), run: () => { if (may("write")) rate(page, n); } }));
  const edit = page.mode === "edit" && loaded.edit ? loaded.edit.keys(page) : [];
  return [
    ...edit,
    { keys: "e", label: "Edit", run: () => { if (may("write") && page.one.is_latest) change({ mode: "edit" }, ""); } },
    { keys: "j", label: "Next passage that others said", run: () => stepMark(page, 1) },
    { keys: "k", label: "Previous passage that others said", run: () => stepMark(page, -1) },
    { keys: "Enter", label: "Open the source of the passage", run: () => openSource(page) },
    { keys: "v", label: "Versions", run: () => focusOn("#versions summary, #versions a") },
    { keys: "shift+d", label: "What changed", run: () => { if (page.versions.length > 1) change({ mode: "diff" }, ""); } },
    { keys: "o", label: "Contents", run: () => focusOn(".doc-contents a") },
    { keys: "f", label: "Write feedback", run: () => focusOn("#note") },
    { keys: "c", label: "Compare", run: () => chooseCompared(page) },
    ...rated,
    { keys: "Escape", label: "Close what was opened last", run: () => close(page) },
  ];
}

function focusOn(selector) {
  const found = document.querySelector(selector);
  found?.focus();
  return found !== null;
}

function openSource(page) {
  const link = document.activeElement?.matches(".mark") && /** @type {HTMLAnchorElement|null} */ (document.querySelector(".source-card a[data-open]"));
  if (!link) return false;
  go(link.href);
  return true;
}

function close(page) {
  if (page.card) page.card = null;
  else if (page.menu) {
    page.menu = false;
    document.getElementById("open-more")?.focus();
  } else if (page.picked) page.picked = null;
  else if (page.mode !== "read") change({ mode: null, with: null }, "");
  else return false;
  draw();
  return true;
}

export const actions = (page) => (page.one ? listMenu(page).filter((item) => item.run).map(({ name, label, run }) => ({ label, run: () => attempt(name, run) })) : []);
