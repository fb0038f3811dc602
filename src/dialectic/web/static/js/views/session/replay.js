// A session as a film: the page at a moment of its past, and a bar to move through it.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { get } from "../../api.js";
import { clock, duration, moment as told } from "../../format.js";
import { at, listTimes, shareAt, span } from "../../model.js";
import { toast } from "../../overlay.js";
import { address } from "../../router.js";
import { draw } from "../../store.js";
import { icon } from "../parts.js";
import { facts, placeCalls } from "./facts.js";
import { buildScale } from "./timescale.js";

/** How long a film is at its usual speed, however long the session was. */
export const FILM_S = 24;
const SPEEDS = [0.5, 1, 2, 4];
// Texts are asked for while their tiles are seen, a few at a time.
const ASKED_AT_ONCE = 4;
const ASKED_MAX = 120;
const TEXT_CHARS = 6000;
const FRAME_MAX_S = 0.1;
// A stage that has less room than this is marked without its name.
const NAME_MIN = 0.09;

/** What a film keeps: made when a replay begins, dropped when it ends. */
function filmOf(page) {
  page.film ??= { isPlaying: false, speed: 1, texts: new Map(), asking: 0, known: null, last: null };
  if (page.film.of !== page.model) Object.assign(page.film, { of: page.model, scale: scaleOf(page.model), known: null, starts: null });
  return page.film;
}

/** The scale of a film: from the making of the session to the end of its last call; pauses are short. */
export function scaleOf(model) {
  const { from, to } = span(model);
  const runs = [...listTimes(model).values()].filter(({ start }) => start !== null).map(({ start, end }) => [start, end ?? to]);
  return buildScale([[from, from], ...runs, [to, to]]);
}

/** The model that is drawn: how it stood, with the words that were there. Also gives running calls their places. */
export function shownModel(page, tiles) {
  const film = filmOf(page);
  if (film.known?.moment === page.moment && film.known.texts === film.texts.size) return film.known.model;
  const past = at(page.model, page.moment);
  const { running } = facts(past);
  page.places = placeCalls(page.places, running, tiles);
  const model = past === page.model ? past : { ...past, drafts: draftsAt(page, film) };
  film.known = { moment: page.moment, texts: film.texts.size, model };
  return model;
}

function draftsAt(page, film) {
  const drafts = new Map();
  for (const id of page.places) {
    const job = id ? page.model.jobs.get(id) : null;
    if (!job) continue;
    const share = shareAt(job, page.moment, listTimes(page.model).get(id).start);
    const document = facts(page.model).find(job.document_id);
    const text = film.texts.get(id) ?? [document?.title, document?.excerpt].filter(Boolean).join(". ");
    ask(page, film, job);
    if (share && text) drafts.set(id, { attempt: job.attempt, turn: 0, from: 0, end: text.length, text: text.slice(0, Math.ceil(text.length * share)), words: Math.round((document?.words ?? 0) * share) });
  }
  return drafts;
}

/** Ask for the text of a call that is seen, once. */
function ask(page, film, { id, document_id: document }) {
  if (!document || page.tab !== "board" || film.texts.has(id) || film.asking >= ASKED_AT_ONCE || (film.asked ??= new Set()).has(id) || film.asked.size >= ASKED_MAX) return;
  film.asking += 1;
  film.asked.add(id);
  get(`/contributions/${document}`).then((found) => { film.texts.set(id, found.content.slice(0, TEXT_CHARS)); draw(); }, () => {})
    .finally(() => { film.asking -= 1; });
}

// -- moving ---------------------------------------------------------------------------------------

const shareOf = (page) => filmOf(page).scale.share(page.moment);

/** Show a moment, given as a share of the film. */
function show(page, share) {
  page.moment = Math.round(filmOf(page).scale.time(Math.min(1, Math.max(0, share))));
  draw();
}

/** Put the moment into the address, so that it can be sent to someone. */
const keep = (page) => address({ at: page.moment }, undefined, { replace: true });

export function play(page) {
  const film = filmOf(page);
  if (film.isPlaying) return stop(page);
  if (shareOf(page) >= 1) show(page, 0);
  // A moment has whole milliseconds; a slow film needs parts of them between two frames.
  Object.assign(film, { isPlaying: true, last: null, begun: page.moment, share: shareOf(page) });
  return requestAnimationFrame((now) => step(page, film, now));
}

function step(page, film, now) {
  if (!film.isPlaying || page.film !== film || page.moment === null) return;
  const passed = film.last === null ? 0 : Math.min(FRAME_MAX_S, (now - film.last) / 1000);
  film.last = now;
  film.share += (passed * film.speed) / FILM_S;
  show(page, film.share);
  if (film.share >= 1) stop(page);
  else requestAnimationFrame((next) => step(page, film, next));
}

function stop(page) {
  filmOf(page).isPlaying = false;
  keep(page);
}

function move(page, seconds) {
  const film = filmOf(page);
  film.share = Math.min(1, Math.max(0, shareOf(page) + seconds / FILM_S));
  show(page, film.share);
  if (!film.isPlaying) keep(page);
}

/** Begin a replay, or end it. */
export function turn(page) {
  if (page.moment !== null) return leave(page);
  page.film = null;
  address({ at: span(page.model).from });
  return play(page);
}

function leave(page) {
  page.film = null;
  return address({ at: null });
}

async function copyLink(page) {
  filmOf(page).isPlaying = false;
  await keep(page);
  try {
    await navigator.clipboard.writeText(location.href);
    toast("The link to this moment is copied.");
  } catch {
    toast("The address of this page leads to this moment.");
  }
}

// -- the bar --------------------------------------------------------------------------------------

const PLAY = html`<svg viewBox="0 0 16 16" aria-hidden="true" fill="currentColor"><path d="M4 2.5v11l9-5.5z"/></svg>`;
const PAUSE = html`<svg viewBox="0 0 16 16" aria-hidden="true" fill="currentColor"><path d="M4 2.500h3v11H4zM9 2.500h3v11H9z"/></svg>`;

/** Where each stage begins on the line, and how much room its name has. */
function listStarts(model, scale) {
  const begun = model.stages.filter((stage) => stage.started_at).map((stage) => ({ title: stage.title, at: scale.share(Date.parse(stage.started_at)) }));
  return begun.map((stage, index) => ({ ...stage, room: (begun[index + 1]?.at ?? 1) - stage.at }));
}

/** Draw the bar of a replay. */
export function bar(page) {
  const film = filmOf(page);
  const { from, to } = span(page.model);
  const share = shareOf(page);
  const passed = Math.max(0, page.moment - from) / 1000;
  const whole = (to - from) / 1000;
  const tell = whole < 20 ? duration : clock;
  const starts = film.starts ??= listStarts(page.model, film.scale);
  return html`<div class="film" role="region" aria-label="Replay">
    <button class="icon" type="button" data-play aria-label=${film.isPlaying ? "Pause the replay" : "Play"} @click=${() => play(page)}>${film.isPlaying ? PAUSE : PLAY}</button>
    <div class="film-line">
      <div class="film-stages" aria-hidden="true">${starts.map(({ title, at: from, room }) => html`<span .style=${`--at:${from};--room:${room}`}><i></i>${room >= NAME_MIN ? html`<b>${title}</b>` : nothing}</span>`)}</div>
      <input type="range" min="0" max="1000" step="1" aria-label="Moment" aria-valuetext="${tell(passed)} of ${tell(whole)}" .value=${String(Math.round(share * 1000))} .style=${`--share:${share}`}
        @input=${(event) => { film.share = event.target.value / 1000; show(page, film.share); }} @change=${() => { if (!film.isPlaying) keep(page); }}></div>
    <span class="film-time meta" title=${told(page.moment)}>${tell(passed)} <span class="faint">of ${tell(whole)}</span></span>
    <select class="film-speed" aria-label="Speed" @change=${(event) => { film.speed = Number(event.target.value); draw(); }}>${SPEEDS.map((each) => html`<option value=${each} ?selected=${film.speed === each}>${each === 0.5 ? "½" : each}×</option>`)}</select>
    <button class="button small film-link" type="button" @click=${() => copyLink(page)}>Copy link</button>
    <button class="icon" type="button" data-leave aria-label="End the replay" @click=${() => leave(page)}>${icon("close")}</button></div>`;
}

// -- keys -----------------------------------------------------------------------------------------

/** Buttons and lists have their own Space. */
const hasOwn = (event) => event?.target?.closest?.("button, select, summary");

export function keys(page) {
  if (page.moment === null) return [];
  return [
    { keys: " ", label: "Play or pause the replay", run: (_, event) => { if (hasOwn(event)) return false; play(page); return true; } },
    { keys: "ArrowLeft", label: "A second back, with ⇧ ten", run: (_, event) => move(page, event?.shiftKey ? -10 : -1) },
    { keys: "ArrowRight", label: "A second on, with ⇧ ten", run: (_, event) => move(page, event?.shiftKey ? 10 : 1) },
    { keys: "Escape", label: "End the replay", run: () => { leave(page); return true; } },
  ];
}

