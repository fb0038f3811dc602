// What a person can do with a session: the requests, and which buttons each state has.
import { del, post } from "../../api.js";
import { money, plural } from "../../format.js";
import { confirm, toast } from "../../overlay.js";
import { go } from "../../router.js";
import { draw, keep, kept, may } from "../../store.js";
import { facts, findNeed, isPast, nextStage, outcomeOf, stageOf, stateOf } from "./facts.js";
import { amount } from "./words.js";

/** The path of a session in the API. */
export const at = (page, path = "") => `/sessions/${page.model.session.id}${path}`;

// -- requests -------------------------------------------------------------------------------------

export const pause = (page) => post(at(page, "/pause"));
export const resume = (page, body = {}) => post(at(page, "/resume"), body);
export const generate = (page) => post(at(page, "/generate"));
export const retryAll = (page) => post(at(page, "/retry"));
export const retryOne = (page, job) => post(at(page, `/jobs/${job}/retry`));
export const skipOne = (page, job) => post(at(page, `/jobs/${job}/skip`));
export const pauseOne = (page, job) => post(at(page, `/jobs/${job}/pause`));
export const resumeOne = (page, job) => post(at(page, `/jobs/${job}/resume`), {});
export const approveOne = (page, job) => post(at(page, `/jobs/${job}/resume`), { approve_spend: true });
export const approveStage = (page, stage) => resume(page, { approve_spend: true, ...(stage ? { stage } : {}) });
export const refresh = (page, documents = null) => post(at(page, "/refresh"), documents ? { document_ids: documents } : {});
export const continueCut = (page, documents = null) => post(at(page, "/continue"), documents ? { document_ids: documents } : {});
export const dropSeat = (page, seat) => del(at(page, `/seats/${seat}`));

/** Stop calls for good, once it is confirmed; tells whether it was. */
export async function cancelCalls(page, jobs) {
  const [title, text, yes] = jobs.length === 1
    ? ["Cancel this call?", "Its document will not be written. What depends on it may fail.", "Cancel the call"]
    : [`Cancel ${plural(jobs.length, "call")}?`, "Their documents will not be written. What depends on them may fail.", `Cancel ${plural(jobs.length, "call")}`];
  const sure = await confirm({ title, text, yes, isDangerous: true });
  if (sure) for (const job of jobs) await post(at(page, `/jobs/${job}/cancel`));
  return sure;
}

export const cancelOne = (page, job) => cancelCalls(page, [job]);

/** Submit what was said at the gate, and start the next stage. */
export async function submit(page) {
  const place = gatePlace(page);
  // What was typed as a ruling and not yet sent goes out with it.
  await page.sendRulings?.();
  await post(at(page, "/submit"), { feedback: kept(place).trim() });
  keep(place, "");
}

/** Where the text of the gate is kept until it is sent. */
export const gatePlace = (page) => `gate:${page.model.session.id}:${page.model.session.iteration}:${page.model.session.current_stage}`;

/** Rate a document: shown at once, taken back if the server refuses. */
export async function rate(page, document, rating) {
  const before = document.my_rating ?? null;
  const show = (value) => {
    const found = facts(page.model).find(document.original_id) ?? document;
    page.change({ ...page.model, documents: new Map(page.model.documents).set(found.id, { ...found, my_rating: value }) });
    draw();
  };
  show(rating);
  try {
    await post(`/contributions/${document.id}/rating`, { rating });
  } catch (problem) {
    show(before);
    toast(problem.detail ?? String(problem));
  }
}

// Dialogs are loaded when the first is opened.
const lazily = (name) => async (...given) => (await import("./dialogs.js"))[name](...given);
export const sayFeedback = lazily("sayFeedback");
export const changeBudget = lazily("changeBudget");
export const replaceModel = lazily("replaceModel");
export const iterate = lazily("iterate");

/** Cancel the session for good. */
export async function cancel(page) {
  const sure = await confirm({ title: "Cancel this session?", text: "No further call is made, and it cannot be resumed. What is written stays readable.", yes: "Cancel the session", isDangerous: true });
  if (sure) await post(at(page, "/cancel"));
}

export const compare = (page) => go(`/compare?ids=${page.collected.join(",")}`);

// -- which buttons --------------------------------------------------------------------------------

/**
 * The buttons of a state: the main one first.
 * @returns {{name: string, label: string, run: () => unknown, price?: string|null, kind?: string, key?: string, isOnBoard?: boolean}[]}
 */
export function listActs(page) {
  const { model } = page;
  const { allowed } = model.session;
  if (isPast(model) || model.isGone) return [];
  const acts = [];
  const add = (action, scope, act) => { if (allowed.includes(action) && may(scope)) acts.push(act); };
  const state = stateOf(model);
  add("start", "spend", { name: "start", label: state === "new" ? "Start" : `Start ${stageOf(model).title}`, price: startPrice(model), kind: "main", run: () => generate(page) });
  if (state === "gate") add("submit", "spend", { isOnBoard: true, name: "submit", label: submitLabel(model), price: needPrice(model, "feedback", "start_next"), kind: "main", run: () => submit(page) });
  if (state === "failed") add("retry", "spend", { isOnBoard: true, name: "retry-all", label: `Retry ${findNeed(model, "failure")?.jobs.length || ""}`.trim(), price: needPrice(model, "failure", "retry"), kind: "main", run: () => retryAll(page) });
  const { main } = state === "done" ? outcomeOf(model) : { main: null };
  if (main) acts.push({ isOnBoard: true, name: "read", label: model.plan.length ? "Read the plan" : "Read the outcome", kind: "main", run: () => { go(`/documents/${main.id}`); } });
  if (state === "done") add("iterate", "spend", { name: "iterate", label: "Iterate", run: () => { iterate(page); } });
  if (state === "blocked" && may("spend")) acts.push(...wayOut(page));
  if (state === "paused") add("resume", "spend", { name: "resume", label: "Resume", kind: "main", key: "P", run: () => resume(page) });
  else if (state !== "gate" && state !== "new" && state !== "ready") add("pause", "write", { name: "pause", label: "Pause", key: "P", run: () => pause(page) });
  return acts;
}

/** The way out of what blocks a session, if one press is enough. */
function wayOut(page) {
  const { model } = page;
  const need = findNeed(model, model.session.blocked_by);
  const raise = need?.actions.find((way) => way.do === "raise_budget")?.amount;
  if (raise) return [{ isOnBoard: true, name: "raise", label: `Raise the budget to ${amount(model, raise, { places: 2 })}`, kind: "main", run: () => resume(page, { budget: raise }) }];
  if (need?.code === "approval") return [{ isOnBoard: true, name: "approve-one", label: "Approve this call", price: need.figures?.needed ? money(need.figures.needed, { play: need.figures.is_play }) : null, kind: "main", run: () => approveOne(page, need.jobs[0]) }];
  return need ? [{ isOnBoard: true, name: "try-now", label: need.code === "funds" ? "Try again" : "Try now", kind: "main", run: () => resume(page) }] : [];
}

const startPrice = (model) => (model.money.forecast ? amount(model, Number(model.money.forecast) - Number(model.money.spent)) : null);

/** "Submit and start Antithesis". */
export function submitLabel(model) {
  const next = nextStage(model, model.session.current_stage);
  return next ? `Submit and start ${next.title}` : "Submit";
}

/** The price of a way out of a need, if it is known. */
export function needPrice(model, code, step) {
  const found = findNeed(model, code)?.actions.find((action) => action.do === step)?.price;
  return found === null || found === undefined ? null : amount(model, found);
}

async function share(page) {
  const { openShare } = await import("../share.js");
  return openShare(page.model.session.id);
}

/** What stands under ⋯. */
export function listMore(page) {
  const { model } = page;
  const { allowed, project } = model.session;
  const more = [];
  const isNow = !isPast(model) && !model.isGone;
  if (isNow && allowed.includes("change_budget") && may("write")) more.push({ name: "budget", label: model.money.budget ? "Change the budget" : "Set a budget", run: () => changeBudget(page) });
  if (isNow && may("write")) more.push({ name: "feedback", label: `Feedback on ${stageOf(model).title}`, keys: "f", run: () => sayFeedback(page, { stage: stageOf(model).slug }) });
  more.push({ name: "export", label: "Export the project", href: `/api/v1/projects/${project.id}/export`, download: true });
  more.push({ name: "report", label: "Share the report", run: () => share(page) });
  if (may("write")) more.push({ name: "duplicate", label: "New session of this project", href: `/new?from=${project.id}` });
  if (isNow && allowed.includes("cancel") && may("write")) more.push({ name: "cancel", label: "Cancel the session", kind: "bad", run: () => cancel(page) });
  return more;
}
