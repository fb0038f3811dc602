// How things read: money, time, counts, states. Pure: no DOM, no fetch, no clock.

/** @type {string|undefined} The language of dates and numbers; undefined is the browser's. */
let locale;

/** Choose the language of dates and numbers ("de-DE"), or the browser's (undefined). */
export function speak(language) {
  locale = language || undefined;
  made.clear();
}

const made = new Map();

function formatter(Kind, options) {
  const key = `${Kind.name}${JSON.stringify(options)}`;
  if (!made.has(key)) made.set(key, new Kind(locale, options));
  return made.get(key);
}

/** A whole number: 13,331. */
export const count = (n) => formatter(Intl.NumberFormat, { maximumFractionDigits: 0 }).format(n);

/** A large number in short: 128K, 1.05M. */
export const compact = (n) => formatter(Intl.NumberFormat, { notation: "compact", maximumSignificantDigits: 3 }).format(n);

/** A number with its noun: "1 call", "3 calls". */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A share of one: 42 %. */
export const percent = (share) => formatter(Intl.NumberFormat, { style: "percent", maximumFractionDigits: 0 }).format(share);

/**
 * An amount of dollars, given as the API gives it: $1.26; below ten cents with four places;
 * play money "play 0.0580".
 * @param {string|number|null} amount @param {{play?: boolean, places?: number}} [options]
 */
export function money(amount, { play = false, places } = {}) {
  const value = Number(amount ?? 0);
  const digits = places ?? (play || (value !== 0 && Math.abs(value) < 0.1) ? 4 : 2);
  const style = play ? {} : { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol" };
  const text = formatter(Intl.NumberFormat, { ...style, minimumFractionDigits: digits, maximumFractionDigits: digits }).format(value);
  return play ? `play ${text}` : text;
}

/** A length of time in words: "5.2 s", "14 s", "3 min", "2 h 5 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 9.95) return `${formatter(Intl.NumberFormat, { maximumFractionDigits: 1 }).format(seconds)} s`;
  if (seconds < 100) return `${count(Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 100) return `${count(minutes)} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${count(hours)} h ${minutes % 60} min` : `${count(Math.round(hours / 24))} days`;
}

/** A running clock: 0:14, 1:02:03. */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, "0");
  return h ? `${h}:${two(m)}:${two(s)}` : `${m}:${two(s)}`;
}

/** How long ago: "just now", "3 min ago", "yesterday", "12 Mar". `when` and `now` in ms or as texts. */
export function ago(when, now) {
  const [then, today] = [toMs(when), toMs(now)];
  const seconds = (today - then) / 1000;
  if (seconds < 45) return "just now";
  const relative = formatter(Intl.RelativeTimeFormat, { numeric: "auto", style: "short" });
  if (seconds < 3600 * 0.95) return relative.format(-Math.max(1, Math.round(seconds / 60)), "minute");
  if (seconds < 86400 * 0.95) return relative.format(-Math.round(seconds / 3600), "hour");
  if (seconds < 86400 * 6) return relative.format(-Math.round(seconds / 86400), "day");
  const isThisYear = new Date(then).getFullYear() === new Date(today).getFullYear();
  return formatter(Intl.DateTimeFormat, { day: "numeric", month: "short", ...(isThisYear ? {} : { year: "numeric" }) }).format(then);
}

/** The whole date and time, for a hover. */
export const moment = (when) => formatter(Intl.DateTimeFormat, { dateStyle: "medium", timeStyle: "medium" }).format(toMs(when));

/** The time of day: 14:05:09, or 2:05:09 PM. */
export const timeOfDay = (when) => formatter(Intl.DateTimeFormat, { timeStyle: "medium" }).format(toMs(when));

/** The day: 12 March 2026. */
export const day = (when) => formatter(Intl.DateTimeFormat, { dateStyle: "long" }).format(toMs(when));

/** Seconds between two times of the API; null if one is missing. */
export function between(from, to) {
  return from && to ? (toMs(to) - toMs(from)) / 1000 : null;
}

const toMs = (when) => (typeof when === "number" ? when : Date.parse(when));

/** A size: 3.0 KB. */
export function bytes(size) {
  const units = ["B", "KB", "MB", "GB"];
  const power = size < 1000 ? 0 : Math.min(3, Math.floor(Math.log10(size) / 3));
  return `${formatter(Intl.NumberFormat, { maximumFractionDigits: power ? 1 : 0 }).format(size / 1000 ** power)} ${units[power]}`;
}

/** A list in a sentence: "a, b and c". */
export const list = (items) => formatter(Intl.ListFormat, { type: "conjunction" }).format(items);

// -- states ---------------------------------------------------------------------------------------

/** @type {Record<string, [string, string]>} status → glyph and word */
const STATES = {
  not_begun: ["wait", "not begun"], pending: ["wait", "waits"], waiting: ["wait", "waits"],
  waiting_for_prerequisite: ["wait", "waits"], waiting_for_children: ["wait", "waits"],
  processing: ["run", "being written"], generating: ["run", "working"], active: ["run", "working"],
  retrying: ["retry", "tries again"], pending_continuation: ["retry", "goes on"],
  completed: ["done", "done"], complete: ["done", "done"], paused: ["paused", "paused"],
  failed: ["failed", "failed"], retry_loop_failed: ["failed", "failed"], cancelled: ["cancelled", "cancelled"],
  needs: ["you", "waits for you"],
};

/** The glyph and the word of a status of a job or a stage. @returns {{glyph: string, word: string}} */
export function describeStatus(status) {
  const [glyph, word] = STATES[status] ?? ["wait", words(status)];
  return { glyph, word };
}

/** The glyph of a session by its status ("generating_thesis") and whether something waits for a person. */
export function sessionGlyph(status, { needs = 0, running = 0 } = {}) {
  if (status.endsWith("failed")) return "failed";
  if (needs) return "you";
  if (status.startsWith("generating") || running) return "run";
  if (status.startsWith("paused")) return "paused";
  if (status.startsWith("cancelled")) return "cancelled";
  if (status.endsWith("complete") || status.startsWith("complete")) return "done";
  return "wait";
}

/** A code as words: "generating_thesis" → "generating thesis". */
export const words = (code) => String(code ?? "").replaceAll("_", " ");

/** A title from a code: "generating_thesis" → "Generating thesis". */
export const titled = (code) => words(code).replace(/^./, (letter) => letter.toUpperCase());

// -- sessions in lists ----------------------------------------------------------------------------

/** Say in words what a session needs, and what to press. */
export function describeNeed({ code, jobs, stage_title: stage }) {
  const calls = plural(jobs.length, "call");
  const wait = jobs.length === 1 ? "waits" : "wait";
  return {
    feedback: { what: `${stage} is complete, read and go on`, verb: "Read" },
    funds: { what: `${calls} ${wait} for money`, verb: "Top up" },
    budget: { what: `${calls} ${wait} for a larger budget`, verb: "Raise the budget" },
    approval: { what: `${calls} ${wait} for your approval`, verb: "Approve" },
    key: { what: `${calls} ${wait} for a key`, verb: "Set the key" },
    endpoint: { what: `${calls} ${wait} for a provider`, verb: "Look" },
    failure: { what: `${stage} failed, ${calls} can be retried`, verb: "Look" },
  }[code] ?? { what: `${calls} ${wait} for you`, verb: "Look" };
}

/** Say in words how a session stands. */
export function describeSession(session) {
  const sum = (name) => session.stages.reduce((total, stage) => total + stage[name], 0);
  const [planned, finished] = [sum("planned"), sum("finished")];
  const stage = session.stages.find((one) => one.slug === session.current_stage)?.title ?? session.current_stage;
  if (session.needs.length) return list(session.needs.map((need) => describeNeed(need).what));
  if (session.status.startsWith("generating")) {
    return [`${stage} ${count(finished)} of ${count(planned)}`, session.running ? `${count(session.running)} writing now` : ""].filter(Boolean).join(" · ");
  }
  if (session.status.startsWith("pending") && !finished) return "not started";
  return `${session.status_text}${planned && !/done/.test(session.status_text) ? ` · ${count(finished)} of ${count(planned)}` : ""}`;
}

// -- foreign text ---------------------------------------------------------------------------------

// Controls, and marks that turn the direction of writing: they can make a text read as another one.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g;

/** Show hidden characters of names, prompts and documents as marks. */
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (mark) => `⟨${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** The end of a draft: its last characters, from a word on. */
export function tail(text, length = 320) {
  if (text.length <= length) return text;
  const end = text.slice(-length);
  return `…${end.slice(end.search(/\s/) + 1)}`;
}
