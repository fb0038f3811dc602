// The claims and dissents of a session: asked for, asked for again, and ruled on. Draws nothing.
import { del, get, Problem, put } from "../../api.js";
import { toast } from "../../overlay.js";
import { draw, keep, kept, state } from "../../store.js";

// Claims are compared on the server, once for each set of documents: not with every document that lands.
const AGAIN_MS = 3_000;
const PATHS = { claims: "/claims", dissents: "/dissents", coverage: "/coverage", worth: "/worth" };

/**
 * What a page knows of one report of the iteration that it shows; asked for on first use.
 * @param {"claims"|"dissents"|"coverage"|"worth"} name
 * @returns {{state: "loading"|"none"|"computing"|"ready"|"failed", data: any, problem: any, isBehind?: boolean}}
 */
export function reportOf(page, name) {
  const { iteration } = page.model.session;
  page.reports ??= {};
  const known = page.reports[name];
  if (known && known.iteration === iteration) {
    // What is shown stays until the newer one is there.
    if (known.seen !== versionOf(page.model, name) && !known.isAsked && !known.problem) later(page, known);
    return known;
  }
  /** @type {ReturnType<typeof reportOf> & Record<string, unknown>} */
  const made = { name, iteration, state: "loading", data: null, problem: null, seen: null, isAsked: false, timer: 0 };
  page.reports[name] = made;
  ask(page, made);
  return made;
}

/** What a report depends on: the documents of the iteration, and of dissents also the rulings. Coverage follows whole stages. */
function versionOf({ documents, feedback, stages }, name) {
  const whole = new Set(stages.filter((stage) => stage.status === "complete").map((stage) => stage.slug));
  const ids = [...documents.values()].filter((one) => name !== "coverage" || whole.has(one.stage)).map((one) => one.id).sort();
  const rulings = name === "dissents" ? [...feedback.values()].filter((one) => one.kind === "ruling").map((one) => one.id + Boolean(one.withdrawn_at)) : [];
  return [...ids, ...rulings].join();
}

const isCurrent = (page, report) => page.reports?.[report.name] === report;

function later(page, report) {
  if (report.timer) return;
  report.timer = setTimeout(() => {
    report.timer = 0;
    if (isCurrent(page, report) && !page.isLeft) ask(page, report);
  }, AGAIN_MS);
}

async function ask(page, report) {
  report.isAsked = true;
  const seen = versionOf(page.model, report.name);
  try {
    const data = await get(`/sessions/${page.id}${PATHS[report.name]}?iteration=${report.iteration}`);
    if (!isCurrent(page, report)) return;
    const now = data.state ?? "ready";
    report.problem = null;
    if (now === "computing") {
      // What was known stays meanwhile.
      if (!report.data) report.state = now;
      report.isBehind = true;
    } else Object.assign(report, { state: now, data, seen, isBehind: false });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    Object.assign(report, { state: report.data ? report.state : "failed", problem });
  } finally {
    report.isAsked = false;
  }
  if (report.isBehind && !report.problem) later(page, report);
  draw();
}

/** Ask again for a report that could not be read. */
export function askAgain(page, name) {
  const report = page.reports[name];
  return ask(page, Object.assign(report, { state: report.data ? report.state : "loading", problem: null }));
}

// -- rulings --------------------------------------------------------------------------------------

/** The verdicts of a ruling: key, button, and what it says afterwards. */
export const VERDICTS = [
  { verdict: "keep", key: "y", sign: "✓", label: "Keep it", told: "Keep it" },
  { verdict: "change", key: "m", sign: "✎", label: "As criticised", told: "As criticised" },
  { verdict: "drop", key: "d", sign: "✕", label: "Drop it", told: "Drop it" },
  { verdict: "own", key: "w", sign: "✍", label: "Own words", told: "In your words" },
];

/**
 * The ruling that counts on a claim or a dissent: what arrived on the stream is newer than what was asked for.
 * @param {{id: string, ruling?: object|null}} subject
 */
export function rulingOf(model, subject) {
  let newest = null;
  for (const one of model.feedback.values()) {
    if (one.kind === "ruling" && one.subject_id === subject.id && (!newest || isNewer(one, newest))) newest = one;
  }
  if (newest) return newest.withdrawn_at ? null : newest;
  // A ruling of an earlier iteration is not on the board of this one; one that was just removed is.
  return subject.ruling && !isRemoved(model, subject.ruling) ? subject.ruling : null;
}

// Of two made at the same moment the one that counts is newer.
const isNewer = (one, other) => (one.created_at === other.created_at ? !one.withdrawn_at : one.created_at > other.created_at);
const isRemoved = (model, ruling) => ruling.iteration === model.session.iteration && !model.feedback.has(ruling.id);

const path = (page, kind, id) => `/sessions/${page.id}/${kind}/${id}/ruling`;

/** Where the words of a ruling are kept until they are sent. */
export const wordsPlace = (page, id) => `ruling:${page.id}:${id}`;

/** What the critics of a claim would say instead, for a ruling “as criticised”. */
export function betterWords(claim) {
  const wanting = claim.critics.filter((critic) => critic.verdict === "change" || critic.verdict === "drop");
  return [...new Set(wanting.map((critic) => critic.better || critic.note))].filter(Boolean).join("\n");
}

/** Rule on a claim: shown at once, taken back if the server refuses. */
export async function ruleOnClaim(page, claim, verdict, text = "") {
  const words = verdict === "change" && !text ? betterWords(claim) : text;
  await send(page, "claims", claim, { verdict, text: words });
}

/** Rule on a dissent: for a position, or in one's own words. */
export async function ruleOnDissent(page, dissent, { position = null, text = "" }) {
  await send(page, "dissents", dissent, position ? { position_id: position, text } : { text });
}

/** Requests on one subject go out one after the other: a quick change of mind is not lost. */
const turns = new Map();

function inTurn(id, work) {
  const next = (turns.get(id)?.done ?? Promise.resolve()).then(work);
  const turn = { done: next.then(() => true, () => false) };
  turns.set(id, turn);
  turn.done.then((isMade) => { if (isMade && turns.get(id) === turn) turns.delete(id); });
  return next;
}

/** Wait for the rulings that are under way; tells whether all were made. */
async function settleRulings() {
  const all = await Promise.all([...turns.values()].map((turn) => turn.done));
  turns.clear();
  return all.every(Boolean);
}

async function send(page, kind, subject, body) {
  const { session } = page.model;
  const before = rulingOf(page.model, subject);
  const shown = {
    id: `sent-${crypto.randomUUID()}`, kind: "ruling", session_id: session.id, iteration: subject.iteration ?? session.iteration, stage: subject.stage, document_id: null,
    rating: null, subject_id: subject.id, subject: subject.subject ?? subject.text, verdict: body.verdict ?? (body.position_id ? "keep" : "own"), text: body.text, withdrawn_at: null,
    by: { user_id: state.me?.user_id, name: state.me?.name ?? "" }, created_at: new Date().toISOString(), position_id: body.position_id ?? null,
  };
  show(page, shown);
  try {
    const replaces = before && before.by?.user_id !== shown.by.user_id ? { replaces: before.id } : {};
    const made = await inTurn(subject.id, () => put(path(page, kind, subject.id), { ...body, ...replaces }));
    keep(wordsPlace(page, subject.id), "");
    // It may have been taken back meanwhile.
    const { withdrawn_at: withdrawn } = page.model.feedback.get(shown.id) ?? shown;
    hide(page, shown.id);
    if (!page.model.feedback.has(made.id)) show(page, { ...shown, id: made.id, created_at: made.created_at, by: made.by, text: made.text, withdrawn_at: withdrawn });
    toast("It binds every later prompt of this session.", { undo: () => withdraw(page, kind, subject) });
  } catch (problem) {
    hide(page, shown.id);
    if (!(problem instanceof Problem)) throw problem;
    toast(problem.detail);
  }
}

/** Take a ruling back: later prompts do not have it. */
export async function withdraw(page, kind, subject) {
  const before = rulingOf(page.model, subject);
  if (!before) return;
  const told = (withdrawn) => show(page, { ...before, kind: "ruling", subject_id: subject.id, withdrawn_at: withdrawn });
  told(new Date().toISOString());
  try {
    await inTurn(subject.id, () => del(path(page, kind, subject.id)));
  } catch (problem) {
    told(null);
    if (!(problem instanceof Problem)) throw problem;
    toast(problem.detail);
  }
}

function show(page, ruling) {
  page.change({ ...page.model, feedback: new Map(page.model.feedback).set(ruling.id, ruling) });
  draw();
}

function hide(page, id) {
  const feedback = new Map(page.model.feedback);
  feedback.delete(id);
  page.change({ ...page.model, feedback });
  draw();
}

/** Send the words of rulings that were typed and not yet sent, and wait for all others: with the submit of the gate. */
export async function sendTyped(page, subjects) {
  for (const { kind, subject } of subjects) {
    const text = kept(wordsPlace(page, subject.id)).trim();
    if (text) await (kind === "claims" ? ruleOnClaim(page, subject, "own", text) : ruleOnDissent(page, subject, { text }));
  }
  if (!await settleRulings()) throw new Problem({ code: "ruling", detail: "A ruling could not be saved, so nothing was submitted. Look at your rulings, then submit again." });
}
