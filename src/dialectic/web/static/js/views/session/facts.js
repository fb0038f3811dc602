// What the parts of a session page ask of its model: which document, which state, which places. Pure.

/** @import { Job, Model } from "../../model.js" */
/** @import * as Api from "../../../api.d.ts" */

export const ENDED = new Set(["completed", "failed", "retry_loop_failed", "cancelled"]);
export const FAILED = new Set(["failed", "retry_loop_failed"]);
// A call between two turns or two tries keeps its tile.
const UNDER_WAY = new Set(["processing", "retrying", "pending_continuation"]);
/** What can become of a claim: what is there first. */
export const STATUSES = ["kept", "changed", "refused", "dropped", "pending"];
/** How long a call may be silent before the page says so. */
export const SILENCE_S = 60;

const known = new WeakMap();

/**
 * Look a model's parts up; made once for each model.
 * @param {Model} model
 * @returns {{find: (id: string|null) => any, jobs: (stage: string, step: string) => Job[],
 *   documents: (stage: string, step: string) => Api.BoardDocument[], running: Job[], failed: Job[], readers: (id: string) => Api.BoardDocument[]}}
 */
export function facts(model) {
  if (!known.has(model)) known.set(model, collect(model));
  return known.get(model);
}

/** @param {Model} model */
function collect(model) {
  const byId = new Map();
  const documents = new Map();
  const jobs = new Map();
  const at = (map, key) => map.get(key) ?? start(map, key);
  for (const job of model.jobs.values()) {
    if (job.document_id) byId.set(job.document_id, { id: job.document_id, original_id: job.document_id, seat: job.seat, stage: job.stage, step: job.step, isDraft: true });
    at(jobs, `${job.stage}/${job.step}`).push(job);
  }
  for (const one of model.documents.values()) {
    byId.set(one.original_id, one);
    byId.set(one.id, one);
    at(documents, `${one.stage}/${one.step}`).push(one);
  }
  // Few ask who reads a document, and a frame need not count it.
  let readers = null;
  const findReaders = () => {
    readers = new Map();
    for (const one of model.documents.values()) for (const id of one.source_ids ?? []) at(readers, byId.get(id)?.original_id ?? id).push(one);
    return readers;
  };
  const all = [...model.jobs.values()].filter((job) => job.kind !== "plan");
  return {
    find: (id) => (id ? byId.get(id) ?? null : null),
    jobs: (stage, step) => jobs.get(`${stage}/${step}`) ?? [],
    documents: (stage, step) => documents.get(`${stage}/${step}`) ?? [],
    readers: (id) => (readers ?? findReaders()).get(id) ?? [],
    running: all.filter((job) => UNDER_WAY.has(job.status)).sort((a, b) => order(a.started_at ?? a.created_at, b.started_at ?? b.created_at) || order(a.id, b.id)),
    failed: all.filter((job) => FAILED.has(job.status)),
  };
}

function start(map, key) {
  map.set(key, []);
  return map.get(key);
}

const order = (a, b) => (a === b ? 0 : (a ?? "") < (b ?? "") ? -1 : 1);

/** The documents of a step, by seat. */
export const bySeat = (a, b) => (a.seat ?? 0) - (b.seat ?? 0) || order(a.created_at, b.created_at);

/** Find a stage, and a step of it. @param {Model} model */
export const findStage = (model, slug) => model.stages.find((stage) => stage.slug === slug) ?? null;
export const findStep = (model, slug, key) => findStage(model, slug)?.steps.find((step) => step.key === key) ?? null;

// -- the state of a session -----------------------------------------------------------------------

/**
 * Name the state that a session is in; the page says something else in each.
 * @param {Model} model
 * @returns {"gone"|"new"|"ready"|"starting"|"live"|"blocked"|"gate"|"paused"|"failed"|"done"|"cancelled"}
 */
export function stateOf(model) {
  const { session, stages } = model;
  const { status } = session;
  if (model.isGone) return "gone";
  // An older iteration is as it was, whatever becomes of the newest.
  if (isPast(model) && isComplete(model)) return "done";
  if (status === "cancelled") return "cancelled";
  if (status === "paused") return "paused";
  if (status.endsWith("_generation_failed")) return "failed";
  if (isComplete(model)) return "done";
  if (status.endsWith("_generation_complete")) return "gate";
  if (status.startsWith("pending_")) return stages.some((stage) => stage.finished > 0) ? "ready" : "new";
  if (session.blocked_by) return "blocked";
  return stages.some((stage) => stage.finished + stage.running + stage.failed > 0) ? "live" : "starting";
}

/** Tell whether an iteration is done: its last stage, or the one that the session ends after. @param {Model} model */
export function isComplete(model) {
  const { status, until, current_stage: stage, iteration, iterations } = model.session;
  if (iteration < iterations) return model.stages.every((each) => each.status === "complete" || each.position > (findStage(model, until)?.position ?? 0));
  return status === "iteration_complete" || (status === `${until}_generation_complete` && stage === until);
}

/** Tell whether an older iteration is shown: nothing of it can be steered. @param {Model} model */
export const isPast = (model) => model.session.iteration < model.session.iterations;

/** The stage that is worked on, or that the session stands at. @param {Model} model */
export function stageOf(model) {
  return findStage(model, model.session.current_stage) ?? model.stages[0];
}

/** The stages of this run: those up to the one that it ends after. @param {Model} model */
export function runStages(model) {
  const last = findStage(model, model.session.until)?.position ?? Infinity;
  return model.stages.filter((stage) => stage.position <= last || stage.status !== "not_begun");
}

/** The stages that are worked on: on autopilot several are at once. @param {Model} model */
export const workingStages = (model) => (isPast(model) ? [] : model.stages.filter((stage) => stage.status === "generating" && (stage.running || stage.finished || stage === stageOf(model))));

/** The stage after one; null after the last. @param {Model} model */
export const nextStage = (model, slug) => model.stages[model.stages.findIndex((stage) => stage.slug === slug) + 1] ?? null;

/** The documents of the last stage that is complete, and the one to read first: the plan's, else the lead's. @param {Model} model */
export function outcomeOf(model) {
  const last = model.stages.filter((stage) => stage.status === "complete").at(-1) ?? null;
  if (!last) return { last, finals: [], main: null };
  const { find, documents } = facts(model);
  const finals = last.steps.filter((step) => shapeOf(step) !== "dots").flatMap((step) => documents(last.slug, step.key)).sort(bySeat);
  const source = find(model.plan.find((file) => file.document_id)?.document_id ?? null);
  const lead = model.session.seats.find((seat) => seat.is_lead)?.index;
  return { last, finals, main: source && !source.isDraft ? source : finals.find((one) => one.seat === lead) ?? finals[0] ?? null };
}

/** Find the need of a code. @param {Model} model */
export const findNeed = (model, code) => model.needs.find((need) => need.code === code) ?? null;

/** The calls that wait because money is reserved for others. */
// A call that is under way reserves its money for a moment; only one that was put off waits for it.
const PUT_OFF = new Set(["pending", "retrying"]);
export const waitingForMoney = (model) => [...model.jobs.values()].filter((job) => job.phase === "waiting_for_money" && PUT_OFF.has(job.status));

/** Who is told in the rail: the failures of each seat. @param {Model} model */
export const failuresOf = (model, seat) => facts(model).failed.filter((job) => job.seat === seat).length;

/** The rulings that the prompts of a document or stage have: on an earlier stage, made before it was begun. */
export function listRulingsOn(model, slug, begun) {
  const position = findStage(model, slug)?.position ?? 0;
  return begun ? [...model.feedback.values()].filter((one) => one.kind === "ruling" && (findStage(model, one.stage)?.position ?? 0) < position
    && one.created_at < begun && !(one.withdrawn_at && one.withdrawn_at < begun)) : [];
}

// -- places of running calls ----------------------------------------------------------------------

/**
 * Put running calls on places that do not move: who has one keeps it, a free one is taken by the next.
 * @param {(string|null)[]} places job ids
 * @param {object[]} running the oldest first
 */
export function placeCalls(places, running, limit) {
  const ids = new Set(running.map((job) => job.id));
  const kept = places.slice(0, limit).map((id) => (ids.has(id) ? id : null));
  const waiting = running.map((job) => job.id).filter((id) => !kept.includes(id));
  const next = kept.map((id) => id ?? waiting.shift() ?? null);
  while (waiting.length && next.length < limit) next.push(waiting.shift());
  // Rows that stay free are given up when most places are, not each time that a call ends.
  if (running.length * 2 <= next.length) while (next.at(-1) === null) next.pop();
  return next;
}

// -- places on the board --------------------------------------------------------------------------

/** What a step is drawn as: "dots" for drafts, "cross" for one document on another, else "cards". */
export function shapeOf(step) {
  if (step.is_intermediate) return "dots";
  return step.strategy === "per_source_document" ? "cross" : "cards";
}

/**
 * The places of a step in the order of seats: written, being written, or not yet.
 * @param {Model} model
 * @returns {{key: string, seat: number|null, document: object|null, job: object|null}[]}
 */
export function listPlaces(model, stage, step) {
  const { documents, jobs } = facts(model);
  const written = [...documents(stage.slug, step.key)].sort(bySeat);
  const has = new Set(written.map((one) => one.job_id));
  const open = jobs(stage.slug, step.key).filter((job) => job.kind === "call" && !has.has(job.id) && job.status !== "cancelled").sort(bySeat);
  const taken = new Set([...written, ...open].map((one) => one.seat));
  const seats = stage.status === "complete" || stage.status === "cancelled" ? [] : (stage.seats ?? []).filter((seat) => !taken.has(seat) && !(stage.lost_seats ?? []).includes(seat));
  const places = [
    // The place keeps its key when its document lands: it is the same place.
    ...written.map((one) => ({ key: one.job_id ?? one.original_id, seat: one.seat, document: one, job: null })),
    ...open.map((job) => ({ key: job.id, seat: job.seat, document: null, job })),
    ...seats.map((seat) => ({ key: `seat-${seat}`, seat, document: null, job: null })),
  ];
  return places.sort(bySeat);
}

/**
 * Who wrote about whom: a row for each document that is written about, a place for each seat.
 * @param {Model} model
 * @returns {{rows: {key: string, seat: number|null, subject: object|null, cells: object[]}[], seats: number[]}}
 */
export function listCross(model, stage, step) {
  const { find } = facts(model);
  const places = listPlaces(model, stage, step).filter((place) => place.document || place.job);
  // A seat that left has a column only if it wrote something.
  const expected = stage.status === "complete" ? [] : (stage.seats ?? []).filter((seat) => !(stage.lost_seats ?? []).includes(seat));
  const seats = [...new Set([...expected, ...places.map((place) => place.seat)])].filter(Boolean).sort((a, b) => a - b);
  const rows = new Map();
  for (const place of places) {
    const id = (place.document ?? place.job).about_id;
    const subject = find(id);
    const key = subject?.original_id ?? id ?? "none";
    if (!rows.has(key)) rows.set(key, { key, subject, seat: subject?.seat ?? null, places: [] });
    rows.get(key).places.push(place);
  }
  const told = new Set([...rows.values()].map((row) => row.seat));
  if (stage.status !== "complete" && stage.status !== "cancelled") {
    for (const seat of seats.filter((each) => !told.has(each))) rows.set(`seat-${seat}`, { key: `seat-${seat}`, subject: null, seat, places: [] });
  }
  const sorted = [...rows.values()].sort(bySeat);
  return { seats, rows: sorted.map(({ places: own, ...row }) => ({ ...row, cells: seats.map((seat) => own.find((place) => place.seat === seat) ?? { key: `${row.key}-${seat}`, seat, document: null, job: null }) })) };
}

/** Whose documents a call reads: their seats, each once, at most three. @param {Model} model */
export function subjectsOf(model, { about_id: about, reads = [] }) {
  const { find } = facts(model);
  if (about) return [find(about)?.seat].filter(Boolean);
  const seats = [...new Set(reads.map((id) => find(id)?.seat).filter(Boolean))].sort((a, b) => a - b);
  return seats.length <= 3 && seats.length < model.session.seats.length ? seats : [];
}
