// New: what is asked and who argues on the left, what it will cost on the right; one request starts it.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { get, post, press, Problem } from "../api.js";
import { plural } from "../format.js";
import { toast } from "../overlay.js";
import { go } from "../router.js";
import { draw, isBusy, keep, kept, may, state } from "../store.js";
import { buildRequest, emptyForm, findField, findWrong, isAsked, remember, restore, SEATS_MAX } from "./new/form.js";
import { models } from "./new/models.js";
import { about, options } from "./new/options.js";
import { given, prompt } from "./new/prompt.js";
import { quoteBar, quotePanel } from "./new/quote.js";
import { attempt, blank as blocks, readOnly, written } from "./parts.js";

const QUOTE_MS = 350;
const KEEP_MS = 200;

export const title = (page) => (page.project ? `New session of ${page.project.name}` : "New project");
export const crumbs = (page) => [{ label: "Projects", href: "/" }, ...(page.project ? [{ label: page.project.name, href: `/projects/${page.project.id}` }] : []), { label: page.project ? "New session" : "New" }];
export const keys = [{ keys: "mod+enter", label: "Start", inFields: true, run: (page) => { start(page); } }];

export const blank = () => html`<div class="page new-page"><h1>New project</h1><div class="new-columns">
  <div class="stack loose">${blocks(1, 220)}${blocks(3, 64)}</div>${blocks(1, 320)}</div></div>`;

/** @type {any} the page that is shown, kept when its data is loaded again */
let shown = null;

/** @param {{query: URLSearchParams, signal?: AbortSignal, isAgain?: boolean}} params */
export async function load({ query, signal, isAgain = false }) {
  const from = query.get("from");
  const [known, processes, project] = await Promise.all([
    get("/models", { signal }), get("/processes", { signal }), from ? get(`/projects/${encodeURIComponent(from)}`, { signal }) : null,
  ]);
  const page = {
    project, models: known.items, processes: sortProcesses(processes.items), outlines: new Map(),
    quote: null, problem: null, isQuoting: false, wrong: null, picked: null, filter: "", showsAll: false,
    opened: null, isOpen: false, isOver: false, timer: 0, keeping: 0, asked: null, pressed: null,
  };
  page.place = ["new", from, (query.get("prompt") ?? "").slice(0, 80), query.get("models")].filter(Boolean).join(":");
  page.fresh = begin(page, query);
  const before = isAgain ? shown : null;
  leave(before);
  page.form = before ? { ...before.form } : restore(page.fresh, kept(page.place));
  page.form.seats = page.form.seats.filter((name) => page.models.some((one) => one.name === name));
  loadOutline(page);
  if (isAsked(page.form, project?.id ?? null)) ask(page);
  shown = page;
  return page;
}

/** The processes that work, the standard one first. */
const sortProcesses = (all) => all.filter((one) => !one.problem).toSorted((a, b) => Number(b.name === "standard") - Number(a.name === "standard"));

/** The form before anything was typed: what the address says, and the server's models. */
function begin(page, query) {
  const usual = page.models.flatMap((one) => one.default_seats.map((seat) => [seat, one.name])).sort(([a], [b]) => a - b).map(([, name]) => name);
  const wished = (query.get("models") ?? "").split(",").map((name) => name.trim()).filter(Boolean).flatMap((name) => {
    const [model, times] = name.split("*");
    return Array.from({ length: Math.max(1, Math.min(SEATS_MAX, Number(times) || 1)) }, () => model);
  }).filter((name) => page.models.some((one) => one.name === name));
  const form = emptyForm(wished.length ? wished : usual);
  return { ...form, prompt: page.project ? "" : query.get("prompt") ?? "", domain: page.project?.domain ?? form.domain };
}

export function leave(page) {
  shown = null;
  if (!page) return;
  clearTimeout(page.timer);
  save(page);
  page.asked?.abort();
}

// -- changing -------------------------------------------------------------------------------------

/** Change the form: it is kept, and quoted again a moment later. */
export function change(page, changes) {
  page.form = { ...page.form, ...changes };
  page.wrong = findWrong(page.form);
  clearTimeout(page.keeping);
  page.keeping = setTimeout(() => save(page), KEEP_MS);
  if ("seats" in changes || "process" in changes) loadOutline(page);
  quoteSoon(page);
  draw();
}

function save(page) {
  clearTimeout(page.keeping);
  if (!page.isStarted) keep(page.place, remember(page.form, page.fresh));
}

/** Load what the process does with this number of seats, once for each. */
async function loadOutline(page) {
  const { process, seats } = page.form;
  const key = `${process} ${seats.length}`;
  if (!seats.length || page.outlines.has(key)) return;
  page.outlines.set(key, null);
  const outline = await get(`/processes/${encodeURIComponent(process)}/outline?seats=${seats.length}`).catch(() => null);
  if (outline) page.outlines.set(key, outline);
  else page.outlines.delete(key);
  draw();
}

// -- the quote ------------------------------------------------------------------------------------

/** Ask for a quote 350 ms after the last change; only the newest answer is shown. */
function quoteSoon(page) {
  clearTimeout(page.timer);
  page.asked?.abort();
  page.asked = null;
  page.isQuoting = isAsked(page.form, page.project?.id ?? null) && !page.wrong;
  if (page.isQuoting) page.timer = setTimeout(() => ask(page), QUOTE_MS);
  else if (!page.wrong) Object.assign(page, { quote: null, problem: null });
}

/** Ask for the price of what the form says now. */
export async function ask(page) {
  const mine = new AbortController();
  page.asked?.abort();
  page.asked = mine;
  page.isQuoting = true;
  const request = buildRequest(page.form, page.project?.id ?? null);
  try {
    const quote = await post("/quotes", { ...request, lists_smaller: true }, { signal: mine.signal });
    if (page.asked === mine) Object.assign(page, { quote, problem: null, wrong: findWrong(page.form) });
  } catch (problem) {
    if (page.asked !== mine) return;
    if (!(problem instanceof Problem)) throw problem;
    page.problem = problem;
    point(page, problem);
  } finally {
    if (page.asked === mine) Object.assign(page, { isQuoting: false, asked: null });
    draw();
  }
}

/** Say at its field what does not fit. */
function point(page, problem) {
  const [first] = problem.errors;
  if (first) page.wrong = { field: findField(first.path), message: first.message, isServers: true };
}

// -- starting -------------------------------------------------------------------------------------

export const isStarting = () => isBusy("start");

/** Make project and session and start them: one request, and one key however often it is sent. */
async function start(page) {
  if (!canStart(page) || isStarting()) {
    if (!page.form.prompt.trim() && !page.project) focusField("prompt");
    return;
  }
  await attempt("start", () => send(page));
}

export const canStart = (page) => may("write") && may("spend") && isAsked(page.form, page.project?.id ?? null) && !page.wrong;

/** Send it. Run as the action "start", so once at a time. */
export async function send(page) {
  [...document.querySelectorAll(`[data-action="start"]`)].find((one) => one.checkVisibility())?.focus({ preventScroll: true });
  clearTimeout(page.timer);
  // What has to be left out to fit a budget is known from the quote alone.
  if (page.isQuoting && page.form.budget !== "") {
    await ask(page);
    if (page.problem) return;
  }
  const request = buildRequest(page.form, page.project?.id ?? null);
  // What the quote leaves out to fit the budget is left out.
  if (page.quote && !page.isQuoting) request.shrink = page.quote.shrink;
  const text = JSON.stringify(request);
  if (page.pressed?.text !== text) page.pressed = { text, press: press() };
  let made;
  try {
    made = await page.pressed.press.post("/runs", request);
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    if (problem.status === 422 && problem.code === "idempotency_key_reused") page.pressed = null;
    page.problem = problem;
    point(page, problem);
    draw();
    if (page.wrong) focusField(page.wrong.field);
    else toast(problem.detail);
    return;
  }
  page.isStarted = true;
  keep(page.place, "");
  await go(`/sessions/${made.session.id}`);
}

/** Put the focus on a field of the form. */
export function focusField(name) {
  requestAnimationFrame(() => document.getElementById(`new-${name}`)?.focus());
}

// -- drawing --------------------------------------------------------------------------------------

export function view(page) {
  if (!may("write") || !may("spend")) return html`<div class="page narrow"><h1>${page.project ? "New session" : "New project"}</h1>${may("write") ? html`<p class="notice">Your token may not spend, so it cannot start models.</p>` : readOnly()}</div>`;
  return html`<div class="page new-page ${page.isOpen ? "quote-open" : ""}">
    <div class="page-head"><h1>${page.project ? html`New session <span class="soft">of ${written(page.project.name)}</span>` : "New project"}</h1></div>
    ${noKeys(page)}
    <div class="new-columns">
      <form class="new-form" aria-label=${page.project ? "New session" : "New project"} ?inert=${isStarting()} @submit=${(event) => event.preventDefault()}>
        ${prompt(page)}${given(page)}${about(page)}${models(page)}${options(page)}
      </form>
      ${quotePanel(page)}
    </div>
    ${quoteBar(page)}
  </div>`;
}

/** A line where no key is set: only the offline models can be used. */
function noKeys(page) {
  if (page.models.some((one) => one.is_usable && !one.is_play)) return nothing;
  const lacking = page.models.filter((one) => one.missing).length;
  return html`<p class="notice no-keys"><span><strong>No key is set.</strong> The offline models show how it works and cost nothing.
    ${lacking ? html`<a href="/models">${plural(lacking, "more model")}</a> can be used with a key.` : nothing}</span></p>`;
}

/** Actions of this page for the palette. */
export const actions = (page) => (state.me?.preferences?.councils ?? []).map((one) => ({ label: `Use the council ${one.name}`, run: () => change(page, { seats: one.models.filter((name) => page.models.some((model) => model.name === name)) }) }));
