// A session as its page knows it. Pure: a board and events in, a model out; no DOM, no fetch, no clock.
// A model is never changed: `apply` and `at` return a new one, or the same if nothing changed.

/** @import * as Api from "../api.d.ts" */
/** @typedef {Api.BoardJob & {isReplayed?: boolean}} Job as it is, or as it was at a moment of a replay */

/**
 * @typedef {object} Model
 * @property {Api.BoardSession} session
 * @property {Api.BoardStage[]} stages in order
 * @property {Map<string, Job>} jobs by id
 * @property {Map<string, Api.BoardDocument>} documents by id
 * @property {Map<string, Api.BoardFeedback>} feedback by id
 * @property {Api.SessionMoney} money
 * @property {Api.BoardNeed[]} needs
 * @property {Api.PlanStepFile[]} plan
 * @property {Map<string, {attempt: number, turn: number, text: string, words: number, from: number, end: number}>} drafts by job
 * @property {boolean} isGone the project was deleted
 */

const ENDED = new Set(["completed", "failed", "retry_loop_failed", "cancelled"]);

const byId = (items = []) => new Map(items.map((item) => [item.id, item]));

/** Build the model of `GET /sessions/{id}/board`. @param {Api.Board} board @returns {Model} */
export function fromBoard(board) {
  return {
    session: board.session,
    stages: board.stages,
    jobs: byId(board.jobs),
    documents: byId(board.documents),
    feedback: byId(board.feedback),
    money: board.money,
    needs: board.needs ?? [],
    plan: board.plan ?? [],
    drafts: new Map(),
    isGone: false,
  };
}

/** How each event changes a model; all others change nothing. */
/** @type {Record<string, (model: Model, data: any) => Model>} */
const CHANGES = {
  jobs_changed: (model, { jobs = [], gone = [], stages = [] }) => ({
    ...model,
    jobs: merge(model.jobs, jobs, gone),
    stages: mergeStages(model.stages, stages),
    drafts: dropDrafts(model.drafts, jobs, gone),
  }),
  session_changed: (model, { session, needs, money }) => ({
    ...model,
    session: session ? { ...model.session, ...session } : model.session,
    needs: needs ?? model.needs,
    money: money ?? model.money,
  }),
  document_changed: (model, data) => withDocument(model, data.document),
  dialectic_contribution_received: (model, data) => withDocument(model, data.document),
  money_changed: (model, { money }) => (money ? { ...model, money } : model),
  feedback_changed: (model, { feedback, feedback_id: id, is_gone: isGone }) => ({
    ...model, feedback: isGone ? merge(model.feedback, [], [id]) : merge(model.feedback, [feedback]),
  }),
  project_changed: (model, { project, project_id: id, is_gone: isGone = false }) => {
    const known = model.session.project;
    if (id !== known.id) return model;
    return { ...model, isGone, session: { ...model.session, project: { ...known, name: project?.name ?? known.name } } };
  },
};

/** Apply an event of the stream. Telling it twice is harmless. @param {Model} model @param {any} event @returns {Model} */
export function apply(model, event) {
  const data = event.data ?? event;
  const change = CHANGES[event.type];
  const session = event.session_id ?? data.session_id ?? data.sessionId ?? data.session?.id;
  if (!change || (session && session !== model.session.id)) return model;
  return change(model, data);
}

/**
 * Take a piece of a draft. Offsets count characters of the whole; a gap restarts the text at the
 * piece, and `from` says where that is. A piece from the start fills the gap.
 * @param {Model} model @param {Api.Draft} piece @returns {Model}
 */
export function applyDraft(model, { job_id: id, attempt, turn, phase, at: offset, text, words }) {
  const known = model.drafts.get(id);
  const isSame = known && known.attempt === attempt && known.turn === turn;
  if (known && !isSame && (known.attempt > attempt || (known.attempt === attempt && known.turn > turn))) return model;
  const jobs = followPhase(model.jobs, id, phase);
  const joined = join(isSame ? known : { from: 0, end: 0, text: "" }, offset, text);
  if (!joined) return jobs === model.jobs ? model : { ...model, jobs };
  return { ...model, jobs, drafts: new Map(model.drafts).set(id, { attempt, turn, words, ...joined }) };
}

/** What a running call does is told with its draft alone: no event is written for it. */
function followPhase(jobs, id, phase) {
  const job = jobs.get(id);
  return !phase || job?.status !== "processing" || job.phase === phase ? jobs : new Map(jobs).set(id, { ...job, phase });
}

function join({ from, end, text: before }, offset, text) {
  // Characters as the server counts them, not units of UTF-16.
  const piece = [...text];
  const to = offset + piece.length;
  if (offset > end) return { from: offset, end: to, text };
  if (to > end && offset >= from) return { from, end: to, text: before + piece.slice(end - offset).join("") };
  return offset < from && to >= from ? { from: offset, end, text: piece.slice(0, from - offset).join("") + before } : null;
}

function merge(map, items, gone = []) {
  if (!items.length && !gone.some((id) => map.has(id))) return map;
  const next = new Map(map);
  for (const item of items) next.set(item.id, item);
  for (const id of gone) next.delete(id);
  return next;
}

function mergeStages(stages, changed) {
  if (!changed.length) return stages;
  const key = (stage) => `${stage.iteration}/${stage.slug}`;
  const next = new Map(stages.map((stage) => [key(stage), stage]));
  for (const stage of changed) next.set(key(stage), { ...next.get(key(stage)), ...stage });
  return [...next.values()].sort((a, b) => a.iteration - b.iteration || a.position - b.position);
}

function dropDrafts(drafts, jobs, gone) {
  const ended = [...jobs.filter((job) => ENDED.has(job.status)).map((job) => job.id), ...gone];
  return ended.some((id) => drafts.has(id)) ? merge(drafts, [], ended) : drafts;
}

/** @param {Model} model @param {Api.BoardDocument|undefined} document @returns {Model} */
function withDocument(model, document) {
  if (!document) return model;
  const before = [...model.documents.values()].find((known) => known.original_id === document.original_id);
  if (before && before.version > document.version) return model;
  const documents = new Map(model.documents);
  // A newer version takes the place of the one it was made from.
  if (before) documents.delete(before.id);
  // Events are the same for all users: what is one's own stays.
  documents.set(document.id, { ...document, my_rating: document.my_rating ?? before?.my_rating ?? null });
  return { ...model, documents, ...endCall(model, document) };
}

/**
 * A document ends its call, in the same commit: the call need not wait for the event that tells of it.
 * @param {Model} model @param {Api.BoardDocument} document @returns {Partial<Model>}
 */
function endCall({ jobs, drafts }, { job_id: id, by, original_id: written, words, charged, created_at: ended }) {
  const job = jobs.get(id);
  if (job?.status !== "processing" || by || ms(ended) < ms(job.started_at)) return {};
  /** @type {Job} */
  const done = { ...job, status: "completed", phase: null, document_id: written, words: words ?? job.words, charged: charged ?? job.charged, completed_at: ended };
  return { jobs: new Map(jobs).set(id, done), drafts: dropDrafts(drafts, [done], []) };
}

// -- what a page asks of a model ------------------------------------------------------------------

/** Count the calls of the stages: `{planned, finished, running, failed}`. @param {Api.BoardStage[]} stages */
export function countCalls(stages) {
  const counted = { planned: 0, finished: 0, running: 0, failed: 0 };
  for (const stage of stages) for (const name of Object.keys(counted)) counted[name] += stage[name] ?? 0;
  return counted;
}

/** Find the stage that is worked on: the first that generates, else the last that has begun. @param {Api.BoardStage[]} stages */
export function currentStage(stages) {
  return stages.find((stage) => stage.status === "generating")
    ?? stages.filter((stage) => stage.status !== "not_begun").at(-1) ?? stages[0] ?? null;
}

/** List the calls that are under way, the oldest first. @param {Model} model */
export function listRunning(model) {
  return [...model.jobs.values()]
    .filter((job) => job.status === "processing" || job.status === "retrying")
    .sort((a, b) => order(a.started_at, b.started_at) || order(a.id, b.id));
}

/** Tell whether anything is worked on, so that clocks must tick. @param {Model} model */
export function isWorking(model) {
  return model.stages.some((stage) => stage.running > 0 || stage.status === "generating");
}

/** Find the seat of a number. @param {Model} model @param {number|null} index */
export function findSeat(model, index) {
  return model.session.seats.find((seat) => seat.index === index) ?? null;
}

const order = (a, b) => (a === b ? 0 : (a ?? "") < (b ?? "") ? -1 : 1);

// -- when calls ran -------------------------------------------------------------------------------

const timed = new WeakMap();

/**
 * Tell when each call could begin and when it did, in ms. A worker may take a call before all that it reads is
 * written, and puts it back: it began when both were so.
 * @returns {Map<string, {made: number, ready: number, start: number|null, end: number|null, before: Job[]}>} by job
 */
export function listTimes({ jobs }) {
  if (!timed.has(jobs)) timed.set(jobs, buildTimes(jobs));
  return timed.get(jobs);
}

/** @param {Map<string, Job>} jobs */
function buildTimes(jobs) {
  const writers = new Map();
  for (const job of jobs.values()) if (job.document_id) writers.set(job.document_id, job);
  const when = (text) => (text ? Date.parse(text) : null);
  const times = new Map();
  for (const job of jobs.values()) {
    const needed = [...(job.reads ?? []).map((id) => writers.get(id)), ...(job.waits_for ?? []).map((id) => jobs.get(id))];
    const before = [...new Set(needed)].filter((each) => each && each !== job);
    const end = when(job.completed_at);
    const ready = Math.max(when(job.created_at), ...before.map((each) => when(each.completed_at) ?? 0));
    const taken = when(job.started_at);
    times.set(job.id, { made: when(job.created_at), ready, before, end, start: taken === null ? null : Math.min(Math.max(taken, ready), end ?? Infinity) });
  }
  return times;
}

/** For how many seconds a call ran; null until it has ended. @param {Model} model @param {Job} job */
export function ranFor(model, job) {
  const { start, end } = listTimes(model).get(job.id) ?? {};
  return start && end ? (end - start) / 1000 : null;
}

// -- a moment of the past -------------------------------------------------------------------------

const ms = (when) => (when ? Date.parse(when) : Infinity);

const spans = new WeakMap();

/**
 * Find the first and last moment of a run, in ms: of its calls and stages. What people did later is not part of it.
 * @param {Model} model
 */
export function span(model) {
  if (!spans.has(model)) {
    const jobs = [...model.jobs.values()];
    const rows = [...jobs, ...model.stages];
    const times = [...jobs.map((job) => ms(job.created_at)), ...rows.flatMap((row) => [ms(row.started_at), ms(row.completed_at)])].filter(Number.isFinite);
    const begun = Math.min(ms(model.session.created_at), ...times);
    spans.set(model, { from: begun, to: Math.max(begun, ...times) });
  }
  return spans.get(model);
}

/**
 * Tell how a session stood at a moment (ms), from the times in its rows; null, and its last moment, is now.
 * @param {Model} model @param {number|null} moment @returns {Model}
 */
export function at(model, moment) {
  if (moment === null || moment === undefined || moment >= span(model).to) return model;
  const times = listTimes(model);
  const jobs = new Map();
  for (const [id, job] of model.jobs) if (times.get(id).made <= moment) jobs.set(id, jobAt(job, times.get(id), moment));
  // An edited document was there, in its first version, when its call ended.
  const wasThere = (one) => (times.get(one.job_id)?.end ?? ms(one.created_at)) <= moment;
  const documents = new Map([...model.documents].filter(([, one]) => wasThere(one)));
  const stages = model.stages.map((stage) => stageAt(stage, [...jobs.values()], moment));
  return {
    ...model,
    session: sessionAt(model, stages),
    jobs,
    documents,
    stages,
    feedback: new Map([...model.feedback].filter(([, one]) => ms(one.created_at) <= moment)),
    money: moneyAt(model, jobs),
    needs: [],
    plan: [],
    drafts: new Map(),
  };
}

/** @param {Model} model @param {Api.BoardStage[]} stages @returns {Api.BoardSession} */
function sessionAt({ session }, stages) {
  const begun = stages.filter((stage) => stage.status !== "not_begun");
  const current = begun.find((stage) => stage.status !== "complete") ?? begun.at(-1) ?? stages[0];
  const status = !begun.length ? `pending_${current?.slug}` : current.status === "complete" ? `${current.slug}_generation_complete` : `generating_${current.slug}`;
  return { ...session, status, current_stage: current?.slug, blocked_by: null, allowed: [] };
}

/** @param {Model} model @param {Map<string, Job>} jobs @returns {Api.SessionMoney} */
function moneyAt({ money, session }, jobs) {
  const isPlay = new Map((session.seats ?? []).map((seat) => [seat.index, seat.is_play]));
  const spent = { play: 0, real: 0, stage: new Map(), seat: new Map() };
  const add = (map, key, amount) => map.set(key, (map.get(key) ?? 0) + amount);
  for (const job of jobs.values()) {
    if (!ENDED.has(job.status)) continue;
    const [amount, play] = [Number(job.charged ?? 0), Boolean(isPlay.get(job.seat) ?? money.is_play)];
    spent[play ? "play" : "real"] += amount;
    add(spent.seat, job.seat, amount);
    if (play === Boolean(money.is_play)) add(spent.stage, job.stage, amount);
  }
  const text = (value) => String(Number((value ?? 0).toFixed(6)));
  return {
    ...money, spent: text(money.is_play ? spent.play : spent.real), play_spent: text(spent.play), held: "0", seconds_left: null,
    by_stage: (money.by_stage ?? []).map((each) => ({ ...each, spent: text(spent.stage.get(each.stage)) })),
    by_seat: (money.by_seat ?? []).map((each) => ({ ...each, spent: text(spent.seat.get(each.seat)) })),
  };
}

/** @param {Job} job @param {{start: number|null, end: number|null}} times @param {number} moment @returns {Job} */
function jobAt(job, { start, end }, moment) {
  if (end !== null && end <= moment) return job;
  const isBegun = start !== null && start <= moment;
  const written = isBegun ? shareAt(job, moment, start) : 0;
  return {
    ...job, status: isBegun ? "processing" : "pending", phase: written ? "writing" : isBegun ? "calling" : "queued",
    words: Math.round((job.words ?? 0) * written), document_id: null, completed_at: null, charged: "0", isReplayed: true,
    started_at: isBegun ? new Date(start).toISOString() : null, first_token_at: written ? job.first_token_at : null,
    reason: null, retry_at: null, errors: (job.errors ?? []).filter((error) => ms(error.at) <= moment),
  };
}

/**
 * Tell which part of a call's words was there at a moment: they flow evenly from the first to the end. When the
 * first came is forgotten with the draft; a tenth of the call is taken to be reading.
 */
export function shareAt(job, moment, start = ms(job.started_at)) {
  const to = ms(job.completed_at);
  const from = job.first_token_at || !Number.isFinite(to) ? ms(job.first_token_at) : start + (to - start) / 10;
  if (!Number.isFinite(from) || moment <= from) return 0;
  return Number.isFinite(to) && to > from ? Math.min(1, (moment - from) / (to - from)) : 1;
}

/** @param {Api.BoardStage} stage @param {Job[]} jobs @param {number} moment @returns {Api.BoardStage} */
function stageAt(stage, jobs, moment) {
  if (ms(stage.completed_at) <= moment) return stage;
  const own = jobs.filter((job) => job.stage === stage.slug && job.iteration === stage.iteration);
  const count = (test) => own.filter(test).length;
  const finished = count((job) => job.status === "completed");
  const running = count((job) => job.status === "processing");
  const failed = count((job) => job.status === "failed" || job.status === "retry_loop_failed");
  const isBegun = ms(stage.started_at) <= moment || finished + running + failed > 0;
  return {
    ...stage, finished, running, failed, completed_at: null,
    status: isBegun ? "generating" : "not_begun",
    steps: (stage.steps ?? []).map((step) => ({
      ...step, finished: own.filter((job) => job.step === step.key && job.status === "completed").length,
    })),
  };
}
