// What a person asks for on the New page, as data: made, kept, and turned into a request. Pure.
import { KINDS } from "../kinds.js";

export const SEATS_MAX = 16;

/** @typedef {{kind: string, name: string, text: string}} Given */

/**
 * An empty form.
 * @param {string[]} seats the models, by seat
 */
export function emptyForm(seats) {
  return {
    prompt: "", name: "", domain: "General", process: "standard", description: "",
    /** @type {Given[]} */ resources: [], seats: [...seats],
    continues: true, stops: false, until: "", tokens: "", budget: "", shrink: 0,
  };
}

/** Fill a form from what was kept as text; fields that do not fit are left as they are. */
export function restore(form, text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return form;
  }
  const known = Object.entries(found ?? {}).filter(([name, value]) => name in form && typeof value === typeof form[name] && Array.isArray(value) === Array.isArray(form[name]));
  return { ...form, ...Object.fromEntries(known) };
}

/** The form as text, to keep; "" if nothing is in it that a person would miss. */
export function remember(form, fresh) {
  return JSON.stringify(form) === JSON.stringify(fresh) ? "" : JSON.stringify(form);
}

/**
 * The request of a form: for a quote, and with `start` for a run.
 * @param {string|null} project the project that gets a further session
 */
export function buildRequest(form, project = null) {
  const of = project
    ? { project_id: project, session_description: form.description.trim() }
    : { prompt: form.prompt, name: form.name.trim(), domain: form.domain };
  /** @type {Record<string, unknown>} */
  const request = {
    ...of, process: form.process, models: form.seats, resources: listGiven(form),
    continue_until_complete: form.continues, is_autopilot: !form.stops, shrink: form.shrink,
  };
  if (form.until) request.until = form.until;
  if (form.tokens !== "") request.max_output_tokens = Number(form.tokens);
  if (form.budget !== "") request.budget = form.budget;
  return request;
}

/** The texts that are given along; one without a name is called by its kind. */
export const listGiven = (form) => form.resources.filter((one) => one.text.trim())
  .map((one) => ({ ...one, name: one.name.trim() || KINDS.find(([kind]) => kind === one.kind)[1] }));

/** Tell whether a form has enough for a quote. */
export const isAsked = (form, project) => (project !== null || form.prompt.trim() !== "") && form.seats.length > 0;

/** The first field that cannot be sent, and why; null if all can. */
export function findWrong(form) {
  if (form.tokens !== "" && !/^[1-9]\d{0,8}$/.test(form.tokens)) return { field: "tokens", message: "Give a whole number of tokens, such as 4000." };
  if (form.budget !== "" && !/^\d{1,9}(\.\d{1,6})?$/.test(form.budget)) return { field: "budget", message: "Give an amount in dollars, such as 2.50." };
  return null;
}

/** The name that a project gets without one: the first sentence of its prompt, shortened. */
export function suggestName(prompt) {
  const line = prompt.trim().split("\n").map((one) => one.replace(/^[#>*\-\s]+/, "").trim()).find(Boolean) ?? "";
  const sentence = line.split(/(?<=[.!?:;])\s/)[0].replace(/[.!?:;]+$/, "");
  return sentence.length <= 60 ? sentence : `${sentence.slice(0, 60).replace(/\s+\S*$/, "")}…`;
}

/** Count the words of a text, in scripts without spaces too. */
export function countWords(text) {
  if (!text.trim()) return 0;
  // A long text is counted by its spaces: segmenting it takes longer than a frame.
  if (text.length > 20_000) return text.trim().split(/\s+/).length;
  let words = 0;
  for (const part of new Intl.Segmenter(undefined, { granularity: "word" }).segment(text)) words += part.isWordLike ? 1 : 0;
  return words;
}

/** Guess the tokens of a text: about four characters of Latin script, one of others. */
export function guessTokens(text) {
  const latin = text.replace(/[^\u0000-\u024f]/g, "").length;
  return Math.ceil(latin / 4 + (text.length - latin) * 0.8);
}

/** Move one of several to another place. */
export function moveTo(items, from, to) {
  const place = Math.max(0, Math.min(items.length - 1, to));
  const rest = items.filter((_, index) => index !== from);
  return [...rest.slice(0, place), items[from], ...rest.slice(place)];
}

/** The field of the form that a problem's path means: "/body/budget" → "budget". */
export function findField(path) {
  const name = path.split("/").find((part) => part && part !== "body") ?? "";
  return { models: "models", max_output_tokens: "tokens", session_description: "description", overlay: "prompt" }[name] ?? name;
}

/** Amount × 1.5, rounded up to cents: what one tap sets as budget. */
export const roomyBudget = (expected) => (Math.ceil(Number(expected) * 150) / 100).toFixed(2);
