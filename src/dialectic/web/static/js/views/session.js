// One session: what its models argue, live; what came out of it; and what a person can do.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { get } from "../api.js";
import { plural } from "../format.js";
import { apply, applyDraft, at, countCalls, fromBoard, isWorking, span } from "../model.js";
import { alarm, announce } from "../overlay.js";
import { address as change, loadStyle } from "../router.js";
import { draw, may, state } from "../store.js";
import { watchDrafts } from "../stream.js";
import { blank as blocks, errorBar, glyph, tabPanel, tabs, written } from "./parts.js";
import { compare } from "./session/acts.js";
import { board } from "./session/board.js";
import { facts, FAILED, isPast, placeCalls, runStages, stateOf } from "./session/facts.js";
import { bottomBar, hero } from "./session/hero.js";
import { collect, focusLater, listActions, listKeys, showStage } from "./session/keys.js";
import { writingNow } from "./session/now.js";
import { rail } from "./session/rail.js";
import { amount, describeFailure, detailOf, sentence } from "./session/words.js";

const TILES = 9;
const TILES_OF_A_PHONE = 6;
const PICKS = ["doc", "job", "stage", "claim"];
// A tab is a module with `view(model, ui, page)`; it may have `keys(model, ui, page)` and `event(model, ui, event)`.
const TABS = [
  { id: "board", label: "Board" },
  { id: "map", label: "Argument map" },
  { id: "jobs", label: "Jobs" },
  { id: "time", label: "Timeline" },
  { id: "activity", label: "Activity" },
];
// Parts that only some states need are loaded when they are.
const LAZY = ["needs", "outcome", "inspector", "claim", "map", "jobs", "time", "activity", "replay"];
// The styles of these are loaded with them.
const [TAB, MAP] = ["session_tabs", "session_map"];
const STYLES = { jobs: [TAB], time: [TAB], activity: [TAB], replay: [TAB], map: [TAB, MAP], claim: [MAP] };
const loaded = {};

// -- loading --------------------------------------------------------------------------------------

export async function load({ id, query, hash, signal, isAgain }) {
  const iteration = query.get("i");
  const model = fromBoard(await get(`/sessions/${id}/board${iteration ? `?iteration=${Number(iteration)}` : ""}`, { signal }));
  const before = isAgain ? shown : null;
  const page = before ?? makePage(id);
  page.iteration = iteration;
  read(page, { query, hash });
  page.change(model);
  if (!before) for (const stage of model.stages) page.folds.set(stage.slug, stage.status === "complete" && isWorking(model));
  shown = page;
  watchDrafts(isPast(model) ? [] : [id]);
  await need(page);
  return page;
}

/** @type {object|null} the page that is shown, kept when its data is loaded again */
let shown = null;

const phone = matchMedia("(max-width: 760px)");
const tiles = () => (phone.matches ? TILES_OF_A_PHONE : TILES);

const isBeforeEnd = ({ model, moment }) => moment !== null && moment < span(model).to;

/** Make what a page knows besides its model: what is open, picked, collected. */
function makePage(id) {
  const page = {
    id, model: null, tab: "board", pick: {}, iteration: null, moment: null, places: [], heard: new Map(), landed: new Map(), folds: new Map(),
    collected: [], prices: {}, texts: new Map(), asked: new Set(), ui: {}, menu: false, costs: false, draw,
    change(model) {
      page.model = model;
      if (page.moment === null) page.places = placeCalls(page.places, facts(model).running, tiles());
    },
    hrefOf: (changes, hash = "") => href(page, changes, hash),
    isPicked: (document) => page.pick.doc === document.original_id || page.pick.doc === document.id,
    // A moment of the past looks the same for everyone: it does not depend on when this page was opened.
    isFolded: (stage) => !isBeforeEnd(page) && stage.status === "complete" && page.folds.get(stage.slug) === true,
    unfold: (slug, isOpen) => { page.folds.set(slug, !isOpen); draw(); focusLater(`[data-key="fold-${slug}"]`); },
    unpick: () => { const { doc, job, claim } = page.pick; change({ doc: null, job: null, stage: null, claim: null }); focusLater(`[data-doc="${doc}"], [data-item][data-job="${job}"], [data-item][data-claim="${claim}"]`); },
    pickClaim: (claim) => change({ doc: null, job: null, stage: null, claim }),
    showStage: (event, slug) => showStage(page, event, slug),
    collect: (document) => collect(page, document),
    wait: (job) => { page.heard.set(job.id, Date.now()); draw(); },
    catchUp: (job) => catchUp(page, job),
    priceOf: (name, path) => priceOf(page, name, path),
  };
  return page;
}

function read(page, { query, hash }) {
  page.pick = Object.fromEntries(PICKS.map((name) => [name, query.get(name)]).filter(([, value]) => value));
  page.tab = TABS.some((tab) => tab.id === hash) ? hash : "board";
  page.view = query.get("view") ?? "";
  const [before, asked] = [page.moment, Number(query.get("at"))];
  page.moment = query.has("at") && Number.isFinite(asked) ? asked : null;
  // A link that was followed while a film plays does not move it.
  if (page.moment !== null && page.film?.isPlaying) page.moment = before;
  if (before !== null && page.moment === null) leaveReplay(page);
}

/** What runs now takes its places again. */
function leaveReplay(page) {
  page.film = null;
  page.places = [];
  page.change(page.model);
}

/** Play the session from its beginning, or end that. */
async function replay(page) {
  if (!loaded.replay) await bring("replay");
  loaded.replay.turn?.(page);
}

function href(page, changes, hash) {
  // One thing is picked at a time, and nothing of another iteration.
  const picks = "i" in changes || PICKS.some((name) => changes[name]) ? {} : page.pick;
  // While a film plays, links keep the moment at which it began to play: else each of them would change in each frame.
  const at = page.film?.isPlaying ? page.film.begun : page.moment;
  const all = Object.entries({ i: page.iteration, at, view: hash === "map" ? page.view || null : null, ...picks, ...changes });
  const query = all.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  const tab = hash || (page.tab === "board" ? "" : page.tab);
  return `/sessions/${page.id}${query ? `?${query}` : ""}${tab ? `#${tab}` : ""}`;
}

/** Load the modules that the state, the tab and the pick need; the head and its buttons do not wait for a tab. */
async function need(page) {
  const now = stateOf(page.model);
  const isMissing = (name) => LAZY.includes(name) && !loaded[name];
  if (isMissing(page.tab)) bring(page.tab);
  const wanted = [page.model.needs.length && "needs", now === "done" && "outcome", Object.keys(page.pick).length && "inspector", page.pick.claim && "claim", page.moment !== null && "replay"];
  await Promise.all(wanted.filter(isMissing).map(bring));
  if (loaded.needs) for (const code of loaded.needs.unpriced(page.model)) priceOf(page, code, code === "stale" ? "/refresh" : "/continue");
}

async function bring(name) {
  try {
    [loaded[name]] = await Promise.all([import(`./session/${name}.js`), ...(STYLES[name] ?? []).map(loadStyle)]);
  } catch (error) {
    loaded[name] = { problem: { detail: "This part of the page could not be loaded. Reload the page." } };
    console.warn(error);
  }
  draw();
}

/** Ask for a price once; null until it is known. */
function priceOf(page, name, path) {
  if (page.prices[name] === undefined && may("spend") && !isPast(page.model)) {
    page.prices[name] = null;
    get(`/sessions/${page.id}${path}?price=true`).then((found) => { page.prices[name] = found; draw(); }, () => {});
  }
  return page.prices[name] ?? null;
}

// -- what arrives ---------------------------------------------------------------------------------

export function event(page, event) {
  const before = page.model;
  const fitting = fit(page, event);
  if (fitting === null) return;
  const next = apply(before, fitting);
  if (next === before) return;
  if (next.isGone) watchDrafts([]);
  hear(page, before, next);
  page.change(withOwnRating(next, fitting));
  foldOutOfSight(page, before);
  tellPeople(page, before);
  if (stateOf(page.model) === "done" && stateOf(before) !== "done" && page.model.stages.every((stage) => stage.status === "complete")) loadPlan(page);
  need(page);
}

/** The plan is assembled when the last stage has ended, and no event carries it. */
async function loadPlan(page) {
  try {
    const { plan } = await get(`/sessions/${page.id}/board`);
    page.change({ ...page.model, plan });
    draw();
  } catch { /* the connection's sign tells; a reload shows it */ }
}

/** A rating of one's own comes as feedback from another tab or device. */
function withOwnRating(model, { type, data }) {
  const { feedback } = data;
  if (type !== "feedback_changed" || !feedback?.rating || feedback.by.user_id !== state.me?.user_id) return model;
  const one = facts(model).find(feedback.document_id);
  return one && !one.isDraft ? { ...model, documents: new Map(model.documents).set(one.id, { ...one, my_rating: feedback.rating }) } : model;
}

/** Leave out what belongs to another iteration; a new one is loaded if the newest was shown. */
function fit(page, event) {
  const { session } = page.model;
  const isOwn = (one) => one.iteration === undefined || one.iteration === session.iteration;
  const data = event.data ?? event;
  if ((event.session_id ?? data.session_id ?? data.sessionId ?? data.session?.id ?? page.id) !== page.id) return null;
  if (data.session && data.session.iterations > session.iterations && !page.iteration) {
    reloadIteration(page);
    return null;
  }
  if (data.document && !isOwn(data.document)) return null;
  const own = { ...data };
  if (data.jobs) own.jobs = data.jobs.filter(isOwn);
  if (data.stages) own.stages = data.stages.filter(isOwn);
  if (data.session) own.session = { ...data.session, iteration: session.iteration };
  if (data.session && isPast(page.model)) delete own.needs;
  return { ...event, data: own };
}

export function draft(page, piece) {
  if (piece.session_id !== page.id) return;
  page.model = applyDraft(page.model, piece);
  page.heard.set(piece.job_id, Date.now());
}

/** The drafts so far, for another tab that opens one of these sessions. */
export function drafts(page, sessions) {
  return sessions.includes(page.id) ? [...page.model.drafts].map(([job, { from, text, attempt, turn, words }]) => ({ session_id: page.id, job_id: job, attempt, turn, at: from, text, words })) : [];
}

/** Ask for the beginning of a draft that someone reads: a tile shows its end alone. */
async function catchUp(page, job) {
  if (page.moment !== null || page.asked.has(job)) return;
  page.asked.add(job);
  try {
    const whole = await get(`/jobs/${job}/draft`);
    page.model = applyDraft(page.model, { ...whole, job_id: job, at: 0, words: page.model.drafts.get(job)?.words ?? 0 });
    draw();
  } catch { /* the call has ended meanwhile */ }
}

/** Note which calls were heard of, and which documents landed. */
function hear(page, before, next) {
  const now = Date.now();
  for (const [id, job] of next.jobs) {
    const old = before.jobs.get(id);
    if (old !== job && (!old || old.words !== job.words || old.phase !== job.phase || old.attempt !== job.attempt || old.status !== job.status)) page.heard.set(id, now);
  }
  for (const id of page.heard.keys()) if (!next.jobs.has(id)) page.heard.delete(id);
  for (const [key, when] of page.landed) if (now - when > 1500) page.landed.delete(key);
  for (const [id, one] of next.documents) if (!before.documents.has(id) && one.version === 1) page.landed.set(one.job_id ?? one.original_id, now);
}

/** A stage that is complete folds away where it is out of sight: nothing that is seen moves. */
function foldOutOfSight(page, before) {
  for (const stage of page.model.stages) {
    if (stage.status !== "complete" || before.stages.some((was) => was.slug === stage.slug && was.status === "complete")) continue;
    const box = document.getElementById(`stage-${stage.slug}`)?.getBoundingClientRect();
    page.folds.set(stage.slug, isWorking(page.model) && !(box && box.bottom > 0 && box.top < innerHeight));
  }
}

/** Screen readers hear how it stands, and each failure or need once. */
function tellPeople(page, before) {
  const { model } = page;
  const { lead, parts } = sentence(model, Date.now(), page.heard);
  const landed = [...model.documents.values()].filter((one) => !before.documents.has(one.id));
  const news = landed.length > 1 ? `${plural(landed.length, "document")} written. ` : landed.length ? `${landed[0].title} is written. ` : "";
  announce(`${news}${[lead, ...parts].join(", ")}.`);
  for (const job of facts(model).failed) if (!FAILED.has(before.jobs.get(job.id)?.status)) alarm(`failed-${job.id}-${job.attempt}`, describeFailure(model, job));
  if (stateOf(model) !== stateOf(before) && ["gate", "blocked", "failed"].includes(stateOf(model))) alarm(`${stateOf(model)}-${model.session.iteration}-${model.session.updated_at}`, lead);
}

export function address(page, params) {
  const wanted = params.query.get("i");
  read(page, params);
  page.menu = false;
  if (wanted !== page.iteration) {
    page.iteration = wanted;
    reloadIteration(page);
    return;
  }
  need(page);
}

async function reloadIteration(page) {
  const model = fromBoard(await get(`/sessions/${page.id}/board${page.iteration ? `?iteration=${Number(page.iteration)}` : ""}`));
  page.places = [];
  page.change(model);
  watchDrafts(isPast(model) ? [] : [page.id]);
  await need(page);
  draw();
}

export function leave(page) {
  if (page) page.isLeft = true;
  shown = null;
  watchDrafts([]);
}

export const ticks = (page) => isWorking(page.model) && !isPast(page.model);

// -- what is drawn --------------------------------------------------------------------------------

export function title(page) {
  const { model } = page;
  const { finished, planned } = countCalls(runStages(model));
  const name = model.session.project.name;
  const sign = { live: `${finished} of ${planned}`, gate: "▲", failed: "failed", blocked: "▲", done: "done", paused: "paused" }[stateOf(model)];
  return sign ? `${sign} · ${name}` : name;
}

export const crumbs = (page) => [
  { label: "Projects", href: "/" },
  { label: page.model.session.project.name, href: `/projects/${page.model.session.project.id}` },
  { label: `Session ${page.id.slice(0, 4)}` },
];

export const blank = () => html`<div class="session"><header class="hero"><h1 class="sr">Session</h1>${blocks(2, 28)}</header>
  <div class="session-body"><div class="rail">${blocks(5, 46)}</div><div class="main-column">${blocks(4, 110)}</div></div></div>`;

export function view(page) {
  const now = page.moment ?? Date.now();
  const isReplay = page.moment !== null && loaded.replay?.shownModel !== undefined;
  const model = isReplay ? loaded.replay.shownModel(page, tiles()) : at(page.model, page.moment);
  const picked = Object.keys(page.pick).length && loaded.inspector?.inspector ? loaded.inspector.inspector(page, model, now, loaded.claim) : nothing;
  return html`<div class="session ${picked === nothing ? "" : "has-pick"} ${model.isGone ? "is-gone" : ""} ${isReplay ? "is-replay" : ""}" data-state=${stateOf(model)} data-detail=${detailOf(model, now, page.heard) || nothing}>
    ${hero(page, model, now)}
    <div class="session-body">
      ${rail(page, model)}
      <div class="main-column">
        <div class="tab-row">${tabs(TABS.map((tab) => ({ ...tab, href: href(page, {}, tab.id === "board" ? "board" : tab.id) })), page.tab, "Views of the session")}<span class="grow"></span>
          ${page.model.jobs.size ? html`<button class="button small plain" type="button" id="replay" aria-pressed=${page.moment !== null} @click=${() => replay(page)}>▸ Replay</button>` : nothing}</div>
        ${tabPanel(page.tab, page.tab === "board" ? boardTab(page, model, now) : otherTab(page, model))}
      </div>
      ${picked}
    </div>
    ${collectBar(page)}${isReplay ? loaded.replay.bar(page) : bottomBar(page)}
  </div>`;
}

function boardTab(page, model, now) {
  return html`${banners(page, model)}
    ${loaded.needs?.needs?.(page, model, now) ?? nothing}
    ${stateOf(model) === "done" ? loaded.outcome?.outcome?.(page, model) ?? nothing : nothing}
    ${stateOf(model) === "new" ? opening(model) : nothing}
    ${writingNow(page, model, now)}
    ${board(page, model, now)}`;
}

function otherTab(page, model) {
  const module = loaded[page.tab];
  if (!module) return blocks(6, 40);
  if (module.problem) return errorBar(module.problem);
  return module.view(model, page.ui[page.tab] ??= {}, page);
}

function banners(page, model) {
  if (model.isGone) return html`<p class="notice bad" role="status">${glyph("cancelled")}<span class="grow">This project was deleted. What you see is how it was.</span><a class="button" href="/">To all projects</a></p>`;
  if (isPast(model)) return html`<p class="notice" role="status"><span class="grow">An older iteration: ${model.session.iteration} of ${model.session.iterations}.</span><a class="button" href=${page.hrefOf({ i: null, doc: null, job: null })}>Go to the newest</a></p>`;
  if (stateOf(model) === "cancelled") return html`<p class="notice" role="status">${glyph("cancelled")}<span class="grow">This session was cancelled. What is written stays here.</span><a class="button" href="/new?from=${model.session.project.id}">New session</a></p>`;
  return nothing;
}

function opening(model) {
  const planned = (slug) => model.stages.find((stage) => stage.slug === slug);
  const known = model.money.by_stage.filter((each) => each.expected !== null);
  return html`<section class="opening"><div><p class="label">The prompt</p><p class="serif">${written(model.session.project.prompt_excerpt)}</p></div>
    ${known.length ? html`<table aria-label="Expected cost"><thead><tr><th>Stage</th><th class="right">Calls</th><th class="right">Expected</th></tr></thead><tbody>
      ${known.map((each) => html`<tr><td>${planned(each.stage)?.title}</td><td class="right">${planned(each.stage)?.planned}</td><td class="right">${amount(model, each.expected)}</td></tr>`)}</tbody></table>` : nothing}</section>`;
}

function collectBar(page) {
  if (!page.collected.length) return nothing;
  return html`<div class="collect" role="region" aria-label="Collected to compare"><span class="grow">${plural(page.collected.length, "document")} to compare</span>
    <button class="button" type="button" @click=${() => { page.collected = []; draw(); }}>Clear</button>
    ${page.collected.length > 1 ? html`<button class="button main" type="button" @click=${() => compare(page)}>Compare ${page.collected.length}</button>` : nothing}</div>`;
}

export const keys = (page) => [...(loaded.replay?.keys?.(page) ?? []), { keys: "r", label: "Replay", run: () => { replay(page); } }, ...(page.tab === "board" ? loaded.needs?.keys?.(page) ?? [] : []), ...(loaded[page.tab]?.keys?.(page.model, page.ui[page.tab] ??= {}, page) ?? []), ...listKeys(page, TABS)];
export const actions = listActions;
