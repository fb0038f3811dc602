// Keys of a session page, and what they do with the card, cell or dot that has the focus.
import { plural } from "../../format.js";
import { toast } from "../../overlay.js";
import { address as change } from "../../router.js";
import { draw, may } from "../../store.js";
import { attempt } from "../parts.js";
import { compare, listActs, listMore, pause, rate, resume, sayFeedback } from "./acts.js";
import { facts, isPast, stageOf, stateOf } from "./facts.js";

const COLLECTED_MAX = 4;

/** Collect a document for compare, or leave it out again. */
export function collect(page, document) {
  const has = page.collected.includes(document);
  if (!has && page.collected.length === COLLECTED_MAX) toast("Four documents can be compared at a time.");
  else page.collected = has ? page.collected.filter((id) => id !== document) : [...page.collected, document];
  draw();
}

/** Scroll the board to a stage. */
export function showStage(page, event, slug) {
  event.preventDefault();
  if (page.tab !== "board") change({}, "board");
  requestAnimationFrame(() => document.getElementById(`stage-${slug}`)?.scrollIntoView({ behavior: "smooth", block: "start" }));
}

const FRAMES_MAX = 60;

/** Give the focus to something that a later frame draws; its module may have to be loaded first. */
export function focusLater(selector, frames = FRAMES_MAX) {
  requestAnimationFrame(() => {
    const found = document.querySelector(selector);
    if (found && frames < FRAMES_MAX) found.focus();
    else if (frames > 0) focusLater(selector, frames - 1);
  });
}

/** The card, cell or dot that has the focus. */
const focused = () => document.activeElement?.closest?.("[data-item]") ?? null;

function step(by) {
  const all = [...document.querySelectorAll("main [data-item][href]")];
  if (!all.length) return false;
  const here = all.indexOf(focused());
  const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by))];
  next.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function inspect(page) {
  const item = focused();
  if (!item) return false;
  change({ doc: item.dataset.doc ?? null, job: item.dataset.doc ? null : item.dataset.job ?? null, claim: item.dataset.claim ?? null, stage: null });
  focusLater("[data-close]");
  return true;
}

const documentInFocus = (page) => facts(page.model).find(focused()?.dataset.doc ?? page.pick.doc ?? null);

function pauseOrResume(page) {
  const { allowed } = page.model.session;
  if (isPast(page.model)) return false;
  if (stateOf(page.model) === "paused" && allowed.includes("resume") && may("spend")) attempt("resume", () => resume(page));
  else if (allowed.includes("pause") && may("write")) attempt("pause", () => pause(page));
  else return false;
  return true;
}

function turnIteration(page, by) {
  const { iteration, iterations } = page.model.session;
  const next = Math.min(iterations, Math.max(1, iteration + by));
  if (next !== iteration) change({ i: next === iterations ? null : next, doc: null, job: null, claim: null });
}

/** The keys of the page; `tabs` are its views. */
export function listKeys(page, tabs) {
  const rated = (stars) => () => { const one = documentInFocus(page); if (one && !one.isDraft && may("write")) rate(page, one, stars); };
  return [
    ...tabs.map((tab, index) => ({ keys: String(index + 1), label: tab.label, run: () => { change({}, tab.id); } })),
    { keys: "j", label: "Next card", run: () => step(1) }, { keys: "k", label: "Previous card", run: () => step(-1) },
    { keys: " ", label: "Details of the card", run: () => inspect(page) },
    { keys: "x", label: "Collect for compare", run: () => { const one = documentInFocus(page); if (one) collect(page, one.id); } },
    { keys: "c", label: "Compare what is collected", run: () => { if (page.collected.length > 1) compare(page); } },
    ...[1, 2, 3, 4, 5].map((n) => ({ keys: `s ${n}`, label: plural(n, "star"), run: rated(n) })),
    { keys: "f", label: "Write feedback", run: () => giveFeedback(page) },
    { keys: "p", label: "Pause or resume", run: () => pauseOrResume(page) },
    { keys: "[", label: "Previous iteration", run: () => turnIteration(page, -1) }, { keys: "]", label: "Next iteration", run: () => turnIteration(page, 1) },
    { keys: "Escape", label: "Close what was opened last", run: () => closeLast(page) },
  ];
}

function giveFeedback(page) {
  const gate = document.getElementById("gate-text");
  if (gate) gate.focus();
  else if (may("write")) sayFeedback(page, { stage: stageOf(page.model).slug, document: documentInFocus(page) });
}

function closeLast(page) {
  if (page.menu || page.costs) {
    const id = page.menu ? "open-more" : "open-costs";
    Object.assign(page, { menu: false, costs: false });
    draw();
    document.getElementById(id)?.focus();
    return true;
  }
  if (Object.keys(page.pick).length) {
    page.unpick();
    return true;
  }
  return false;
}

/** What *Search or act* offers on this page. */
export const listActions = (page) => [...listActs(page), ...listMore(page).filter((item) => item.run)]
  .map(({ name, label, run }) => ({ label, run: () => attempt(name, run) }));
