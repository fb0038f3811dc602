// The sentences of a session page. Pure: a model and a moment in, words out.
import { between, clock, count, duration, list, money, plural, tail, titled, words } from "../../format.js";
import { countCalls } from "../../model.js";
import { facts, findNeed, findStage, findStep, isComplete, isPast, runStages, SILENCE_S, stageOf, stateOf, waitingForMoney } from "./facts.js";

/** An amount of this session: dollars, or play money. */
export const amount = (model, value, options = {}) => money(value, { play: model.money.is_play, ...options });

const seconds = (left) => (left < 50 ? `about ${duration(Math.max(5, Math.ceil(left / 5) * 5))} left` : `about ${duration(Math.ceil(left / 60) * 60)} left`);

/**
 * Say how a session stands, in one line.
 * @param {Map<string, number>} heard when a running call was last heard of, in ms
 * @returns {{glyph: string, lead: string, parts: string[]}}
 */
export function sentence(model, now, heard = new Map()) {
  const calls = countCalls(runStages(model));
  const stage = stageOf(model);
  const written = `${count(calls.finished)} of ${count(calls.planned)}`;
  switch (stateOf(model)) {
    case "gone": return { glyph: "cancelled", lead: "This project was deleted", parts: [] };
    case "new": return { glyph: "wait", lead: "Not started", parts: model.money.forecast ? [`${amount(model, model.money.forecast)} expected`] : [] };
    case "ready": return { glyph: "wait", lead: `${stage.title} can start`, parts: [`${written} written`] };
    case "starting": return { glyph: "run", lead: "Starting", parts: [`${plural(calls.planned, "call")} planned`] };
    case "gate": return { glyph: "you", lead: `Waiting for you after ${stage.title}`, parts: [`${written} written`] };
    case "paused": return { glyph: "paused", lead: "Paused", parts: [`${written} written`, ...(calls.running ? [`${plural(calls.running, "call")} finishing`] : [])] };
    case "blocked": return { glyph: "paused", lead: blocked(model), parts: [`${written} written`] };
    case "failed": return { glyph: "failed", lead: `${stage.title} failed`, parts: [`${written} written and kept`] };
    case "cancelled": return { glyph: "cancelled", lead: `Cancelled after ${written}`, parts: [] };
    case "done": return done(model, calls);
    default: return live(model, calls, now, heard);
  }
}

function done(model, calls) {
  const [stale, cut] = [findNeed(model, "stale"), findNeed(model, "incomplete")];
  const took = runTime(model);
  const { spent, quoted } = model.money;
  const cost = `${amount(model, spent)}${quoted ? ` of ${amount(model, quoted)} expected` : ""}`;
  const lead = stale ? `Done, ${plural(need(stale), "document")} ${need(stale) === 1 ? "rests" : "rest"} on older versions`
    : cut ? `Done, ${plural(need(cut), "document")} ${need(cut) === 1 ? "is" : "are"} cut off` : "Done";
  return { glyph: "done", lead, parts: [`${plural(calls.finished, "document")}${took ? ` in ${duration(took)}` : ""}`, cost] };
}

const need = (one) => one.figures?.count ?? one.documents?.length ?? 0;

/** How long an iteration took, in seconds; null while it runs. */
export function runTime(model) {
  const begun = model.stages.map((stage) => stage.started_at).filter(Boolean).sort()[0];
  const ended = model.stages.map((stage) => stage.completed_at).filter(Boolean).sort().at(-1);
  return isComplete(model) ? between(begun, ended) : null;
}

function blocked(model) {
  const [first] = model.needs;
  const { needed, left } = first?.figures ?? {};
  const play = { play: first?.figures?.is_play ?? model.money.is_play };
  switch (model.session.blocked_by) {
    case "funds":
    case "budget":
      return needed ? `Waiting for money: next call ${money(needed, play)}, left ${money(left, play)}` : "Waiting for money";
    case "approval": return needed ? `Waiting for your approval: one call may cost ${money(needed, play)}` : "Waiting for your approval";
    case "key": return "Waiting for a key";
    default: return "Waiting for an endpoint";
  }
}

function live(model, calls, now, heard) {
  const { running } = facts(model);
  const stage = workedOn(model);
  const writing = running.filter((job) => job.status === "processing").length;
  const parts = [`${count(calls.finished)} of ${count(calls.planned)}`];
  if (writing) parts.push(`${count(writing)} writing now`);
  const left = model.money.seconds_left;
  if (left) parts.push(seconds(left));
  const trouble = findTrouble(model, now, heard);
  if (trouble) parts.push(trouble.told);
  return { glyph: "run", lead: stage.title, parts };
}

/** The first stage that generates; on autopilot several do at once. */
export function workedOn(model) {
  return model.stages.find((stage) => stage.status === "generating") ?? stageOf(model);
}

/** What slows a session that goes on by itself. @returns {{kind: "slowed"|"retrying"|"silent"|"lost", told: string}|null} */
function findTrouble(model, now, heard) {
  const { running, failed } = facts(model);
  const waiting = waitingForMoney(model);
  if (waiting.length) return { kind: "slowed", told: `${plural(waiting.length, "call")} ${waiting.length === 1 ? "waits" : "wait"} until others return the money reserved for them` };
  const retried = running.find((job) => job.status === "retrying");
  if (retried) return { kind: "retrying", told: `seat ${retried.seat} is tried again${retryIn(retried, now)}` };
  const silent = running.find((job) => isSilent(job, now, heard));
  if (silent) return { kind: "silent", told: `no word for ${duration(silence(silent, now, heard))} from seat ${silent.seat}` };
  return failed.length ? { kind: "lost", told: `${plural(failed.length, "call")} failed; the others go on` } : null;
}

/** What is special about the state of a session: what blocks it, what slows it, what its documents lack; "" if nothing is. */
export function detailOf(model, now, heard = new Map()) {
  if (isPast(model)) return "older";
  switch (stateOf(model)) {
    case "blocked": return model.session.blocked_by;
    case "done": return ["stale", "incomplete"].find((code) => findNeed(model, code)) ?? "";
    case "live": return findTrouble(model, now, heard)?.kind ?? "";
    default: return "";
  }
}

/** " in 12 s", until a call is tried again. */
export function retryIn(job, now) {
  const wait = job.retry_at ? Math.ceil((Date.parse(job.retry_at) - now) / 1000) : 0;
  return wait > 0 ? ` in ${duration(wait)}` : "";
}

/** For how many seconds a call has been silent. */
export function silence(job, now, heard) {
  return Math.max(0, (now - (heard.get(job.id) ?? Date.parse(job.first_token_at ?? job.started_at ?? now))) / 1000);
}

/** Tell whether a call has been silent for too long: it was sent, and nothing comes. */
export function isSilent(job, now, heard) {
  return job.status === "processing" && !job.isReplayed && ["preparing", "calling", "writing", null, undefined].includes(job.phase) && silence(job, now, heard) >= SILENCE_S;
}

// -- calls ----------------------------------------------------------------------------------------

const PHASES = {
  queued: "waiting for a worker", preparing: "reading", waiting_for_endpoint: "waiting for the provider",
  waiting_for_money: "waiting for money", reserving: "reserving money", calling: "thinking", writing: "writing", saving: "saving",
};

const WAITS = { insufficient_funds: "waiting for money", spend_needs_approval: "waiting for your approval", key_missing: "waiting for a key" };

/** What a call is doing, in a word or two; `isHeard` if words of it have arrived. */
export function phaseOf(job, now, isHeard = false) {
  if (job.status === "retrying") return job.phase === "waiting_for_money" ? PHASES.waiting_for_money : `tried again${retryIn(job, now)}`;
  if (job.status === "pending_continuation") return "continuing";
  if (job.status === "paused") return WAITS[job.reason?.code] ?? "paused";
  if (isHeard && ["calling", "preparing"].includes(job.phase)) return PHASES.writing;
  if (job.status === "processing" && job.phase === "waiting_for_money") return PHASES.reserving;
  return PHASES[job.phase] ?? (job.status === "processing" ? "writing" : "waiting");
}

/** How long a call has run: 0:14. */
export const elapsed = (job, now) => (job.started_at ? clock((now - Date.parse(job.started_at)) / 1000) : "");

/** What a call is for: the step's words, with the stage if the step does not name it. */
export function taskOf(model, job) {
  return findStep(model, job.stage, job.step)?.title ?? findStage(model, job.stage)?.title ?? titled(job.step);
}

/** The end of a draft for a narrow place: without the marks of Markdown. */
export const tailOf = (text) => tail(text.slice(-720).replace(/[*_`#|>]+/g, "").replace(/\s+/g, " "), 330);

// -- reasons --------------------------------------------------------------------------------------

const REASONS = {
  key_missing: "The key of this model's endpoint is not set.",
  provider_auth: "The provider rejected the key.",
  provider_quota: "The account at the provider has no credit or quota left.",
  provider_throttled: "The provider's rate limit was reached.",
  provider_transient: "The provider did not answer, or was unavailable for a moment.",
  provider_unreachable: "No connection to the provider could be opened.",
  provider_malformed: "The provider's answer could not be read.",
  provider_rejected: "The provider rejected the request.",
  provider_filtered: "The model or a content filter refused to answer.",
  provider_error: "The provider failed.",
  stream_truncated: "The provider ended the answer in the middle.",
  context_window_exceeded: "The prompt does not fit into the model's window, even shortened.",
  circuit_open: "This endpoint kept failing, so calls to it are blocked for a while.",
  endpoint_busy: "The endpoint's rate limits allow no call yet.",
  prerequisite_failed: "A call that it depends on failed.",
  child_failed: "A call that it depends on failed.",
  storage_unavailable: "The document storage could not be read or written.",
  model_unusable: "The model does not answer.",
  plan_error: "Its calls could not be planned.",
};

/** A reason in plain words, from its code and its figures. */
export function describeReason({ code, message, figures }) {
  const { needed, left, of, is_play: play = false } = figures ?? {};
  if (code === "insufficient_funds" && needed) return `The next call may cost ${money(needed, { play })}, and ${money(left, { play })} is left of the ${of}.`;
  if (code === "spend_needs_approval" && needed) return `One call may cost ${money(needed, { play })}. That is more than a run spends unasked.`;
  return REASONS[code] ?? message;
}

/** Who failed, in a sentence: "Seat 2 (gpt-6) failed: …". */
export function describeFailure(model, job) {
  const seat = model.session.seats.find((each) => each.index === job.seat);
  const last = job.errors?.at(-1) ?? job.reason;
  return `${seat ? `Seat ${seat.index} (${seat.label})` : "A call"}: ${last ? describeReason(last) : "it failed."}`;
}

// -- documents ------------------------------------------------------------------------------------

/** What is special about a document: words and the kind of chip. @returns {string[][]} */
export function marksOf(model, one) {
  const marks = [];
  if (model.plan.some((file) => file.document_id && facts(model).find(file.document_id)?.original_id === one.original_id)) marks.push(["agreed plan", "ok"]);
  if (one.is_incomplete) marks.push(["cut off", "bad"]);
  if (one.is_stale) marks.push(["stale", "you"]);
  if (one.by) marks.push([`edited by ${one.by.name ?? "a former member"}`, "you"]);
  if (one.shortened) marks.push(["read shortened", "hold"]);
  if ((one.flags ?? []).includes("self_critique")) marks.push(["own", ""]);
  if ((one.flags ?? []).includes("copy_of_input")) marks.push(["repeats an input", "bad"]);
  const named = (prefix) => (one.flags ?? []).filter((flag) => flag.startsWith(prefix)).map((flag) => words(flag.slice(prefix.length)));
  if (named("missing:").length) marks.push([`missing: ${list(named("missing:"))}`, "bad"]);
  if (named("begun_by:").length) marks.push([`begun by ${list(named("begun_by:"))}`, ""]);
  return marks;
}

/** Words, seconds and cost of a document. */
export function figuresOf(model, one) {
  const play = model.session.seats.find((seat) => seat.index === one.seat)?.is_play ?? model.money.is_play;
  return [plural(one.words ?? 0, "word"), one.duration_ms ? duration(one.duration_ms / 1000) : "", Number(one.charged) ? money(one.charged, { play }) : ""].filter(Boolean);
}
