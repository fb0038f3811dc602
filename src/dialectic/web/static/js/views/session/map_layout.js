// Where the threads of an argument map run: which claims, which columns, which curves. Pure.
import { facts, runStages, shapeOf, STATUSES } from "./facts.js";

export const ROW_PX = 24;
export const GROUP_PX = 34;
export const HEAD_PX = 30;
const MARK_PX = 18;
const MARK_ROOM_PX = 20;
// How far a thread moves towards the middle from one column to the next, and how near two may come.
const PULL = 0.3;
const LANE_PX = 13;
/** More claims than this are folded: the most contested of each seat are shown. */
export const CLAIMS_MAX = 60;
export const CLAIMS_OF_A_SEAT = 12;

const ALIVE = new Set(["kept", "changed"]);

/** How much a claim is worth showing: what people ruled on, then what critics fight over, then what others took up. */
export const weigh = (claim, isRuled) => (isRuled ? 1000 : 0) + 100 * claim.critics.filter((critic) => ["change", "drop"].includes(critic.verdict)).length
  + 10 * claim.critics.length + (claim.is_lone ? 2 : 0) + (ALIVE.has(claim.final) ? 1 : 0);

/** How claims stood at the moment of a model: only what its documents say. The present has all of them. */
export function claimsAt(model, claims) {
  const { find } = facts(model);
  const isThere = (id) => { const one = find(id); return Boolean(one) && !one.isDraft; };
  const reached = new Set([...model.documents.values()].map((one) => one.stage));
  return claims.filter((claim) => isThere(claim.document_id)).map((claim) => {
    const fates = claim.fates.filter((fate) => reached.has(fate.stage));
    const last = fates.at(-1);
    const final = fates.length === claim.fates.length ? claim.final : last?.fate ?? "pending";
    return { ...claim, critics: claim.critics.filter((critic) => isThere(critic.document_id)), fates, final };
  });
}

/** Choose claims by what a person wants to see. `filter` is `{statuses, seats, only}`. */
export function choose(claims, { statuses, seats, only }, isRuled) {
  return claims.filter((claim) => (!statuses.size || statuses.has(claim.final)) && (!seats.size || seats.has(claim.seat))
    && (!only.has("contested") || claim.is_contested) && (!only.has("lone") || claim.is_lone) && (!only.has("ruled") || isRuled(claim)));
}

/**
 * Group claims by seat, in reading order; many are folded to the weightiest.
 * @returns {{seat: number|null, claims: object[], all: number}[]}
 */
export function group(claims, isRuled, { isOpen = false, picked = null } = {}) {
  const seats = new Map();
  for (const claim of claims) seats.set(claim.seat, [...(seats.get(claim.seat) ?? []), claim]);
  const isFolded = !isOpen && claims.length > CLAIMS_MAX;
  return [...seats].sort(([a], [b]) => (a ?? 99) - (b ?? 99)).map(([seat, own]) => {
    if (!isFolded || own.length <= CLAIMS_OF_A_SEAT) return { seat, claims: own, all: own.length };
    const weight = new Map(own.map((claim) => [claim, weigh(claim, isRuled(claim))]));
    const best = new Set([...own].sort((a, b) => weight.get(b) - weight.get(a)).slice(0, CLAIMS_OF_A_SEAT));
    return { seat, claims: own.filter((claim) => best.has(claim) || claim.id === picked), all: own.length };
  });
}

/**
 * The columns of a map: where claims are born, where critics answer, and what became of them.
 * @returns {{slug: string, title: string, kind: "birth"|"critics"|"fates", isOpen: boolean}[]}
 */
export function listColumns(model, claims) {
  const birth = claims[0]?.stage;
  const judged = new Set(claims.flatMap((claim) => claim.fates.map((fate) => fate.stage)));
  const stages = runStages(model);
  const first = stages.findIndex((stage) => stage.slug === birth);
  return stages.slice(Math.max(0, first)).map((stage, index) => {
    const isCross = stage.steps.some((step) => shapeOf(step) === "cross");
    const kind = index === 0 ? "birth" : isCross && !judged.has(stage.slug) ? "critics" : "fates";
    return { slug: stage.slug, title: stage.title, kind, isOpen: kind === "fates" && !judged.has(stage.slug) };
  });
}

/**
 * Lay a map out: a row for each claim, an x for each column, a line for each stretch of a thread.
 * @param {ReturnType<typeof group>} groups
 * @param {{columns: object[], seats: number[], step: number}} of `step` is the distance of two columns
 */
export function layOut(groups, { columns, seats, step }) {
  const marks = Math.max(1, seats.length) * MARK_PX;
  const places = [];
  let x = 8;
  columns.forEach((column, index) => {
    if (index) x += column.kind === "critics" ? step * 0.55 + marks / 2 : columns[index - 1].kind === "critics" ? step * 0.75 + marks / 2 : step;
    places.push(x);
  });
  const width = Math.round(x + 46);
  const rows = [];
  let y = HEAD_PX;
  for (const each of groups) {
    y += GROUP_PX;
    for (const claim of each.claims) {
      rows.push({ claim, y: y + ROW_PX / 2 });
      y += ROW_PX;
    }
  }
  const height = y + 12;
  const threads = rows.map(({ claim, y: own }) => ({ claim, y: own, points: [{ x: places[0], y: own, kind: "birth" }], lines: [], ends: [], critics: [] }));
  columns.forEach((column, index) => {
    if (column.kind === "critics") placeCritics(threads, column, places[index], marks);
    else if (column.kind === "fates") placeFates(threads, column, { x: places[index], middle: (HEAD_PX + height) / 2, height });
  });
  const at = new Map(seats.map((seat, index) => [seat, places[columns.findIndex((column) => column.kind === "critics")] - marks / 2 + (index + 0.5) * MARK_PX]));
  for (const thread of threads) thread.critics = placeMarks(thread, at);
  return { places, width, height, threads };
}

/** Two critiques of one seat stand at one place; the sterner one is shown. */
function placeMarks({ claim, y }, at) {
  const stern = { drop: 3, change: 2, keep: 1, unclear: 0 };
  const found = new Map();
  for (const critic of claim.critics) {
    const known = found.get(critic.seat);
    if (at.has(critic.seat) && (!known || stern[critic.verdict] > stern[known.verdict])) found.set(critic.seat, critic);
  }
  return [...found.values()].map((critic) => ({ critic, x: at.get(critic.seat), y }));
}

function placeCritics(threads, column, x, marks) {
  for (const thread of threads) {
    const last = thread.points.at(-1);
    const end = { x: x + marks / 2, y: last.y, kind: "critics" };
    thread.lines.push({ d: `M${last.x} ${last.y}H${end.x}`, kind: "line" });
    thread.points.push(end);
  }
}

function placeFates(threads, column, { x, middle, height }) {
  const fateOf = ({ claim }) => claim.fates.find((fate) => fate.stage === column.slug) ?? null;
  const alive = threads.filter((thread) => ALIVE.has(fateOf(thread)?.fate));
  const lanes = spread(alive.map((thread) => lerp(thread.points.at(-1).y, middle, PULL)), height);
  alive.forEach((thread, index) => { thread.lane = lanes[index]; });
  for (const thread of threads) {
    const fate = fateOf(thread);
    const last = thread.points.at(-1);
    if (ALIVE.has(fate?.fate)) {
      const point = { x, y: thread.lane, kind: fate.fate, fate };
      thread.lines.push({ d: curve(last, point), kind: thread.isCut ? "gap" : "line" });
      thread.points.push(point);
      thread.isCut = false;
    } else if (fate && fate.fate !== "pending") {
      if (thread.isCut) continue;
      const end = { x: (last.x + x) / 2 + MARK_ROOM_PX / 2, y: last.y, kind: fate.fate, fate };
      thread.lines.push({ d: `M${last.x} ${last.y}H${end.x - 6}`, kind: "ending" });
      thread.ends.push(end);
      thread.isCut = true;
    } else if (!thread.isCut && !thread.isOpen) {
      thread.lines.push({ d: `M${last.x} ${last.y}H${last.x + 26}`, kind: "open" });
      thread.ends.push({ x: last.x + 32, y: last.y, kind: "pending", fate });
      thread.isOpen = true;
    }
  }
}

const lerp = (a, b, share) => a + (b - a) * share;

function curve(from, to) {
  const half = (to.x - from.x) / 2;
  return `M${from.x} ${round(from.y)}C${round(from.x + half)} ${round(from.y)} ${round(to.x - half)} ${round(to.y)} ${to.x} ${round(to.y)}`;
}

const round = (value) => Math.round(value * 10) / 10;

/** Keep lanes apart, each as near as it can be to where it wants to be, in order. */
export function spread(wanted, height) {
  const gap = Math.min(LANE_PX, (height - HEAD_PX) / Math.max(1, wanted.length));
  // Blocks of touching lanes, each at the mean of what its lanes want.
  const blocks = [];
  wanted.forEach((y) => {
    blocks.push({ sum: y, size: 1 });
    for (;;) {
      const [one, two] = blocks.slice(-2);
      if (blocks.length < 2 || one.sum / one.size + (gap * one.size) / 2 <= two.sum / two.size - (gap * two.size) / 2) break;
      blocks.splice(-2, 2, { sum: one.sum + two.sum, size: one.size + two.size });
    }
  });
  return blocks.flatMap(({ sum, size }) => Array.from({ length: size }, (_, index) => round(sum / size + (index - (size - 1) / 2) * gap)));
}

/** Count claims by what became of them, and how many are contested, lone or ruled on. */
export function countClaims(claims, isRuled) {
  const found = Object.fromEntries([...STATUSES, "contested", "lone", "ruled"].map((name) => [name, 0]));
  for (const claim of claims) {
    found[claim.final] += 1;
    if (claim.is_contested) found.contested += 1;
    if (claim.is_lone) found.lone += 1;
    if (isRuled(claim)) found.ruled += 1;
  }
  return found;
}

// -- coverage -------------------------------------------------------------------------------------

/** The columns: the steps that merge, in order. @returns {{key: string, stage: object, title: string}[]} */
export function listSteps(model, birth) {
  const stages = runStages(model);
  const first = stages.findIndex((stage) => stage.slug === birth);
  return stages.slice(first + 1).filter((stage) => !stage.steps.some((step) => shapeOf(step) === "cross")).flatMap((stage) => (stage.steps.length > 1
    ? stage.steps.map((step) => ({ key: `${stage.slug}/${step.key}`, stage, title: step.title })) : [{ key: stage.slug, stage, title: stage.title }]));
}

/** The step of a passage, as reports name it. */
export const keyOf = (place) => (place.step ? `${place.stage}/${place.step}` : place.stage);

/**
 * What each step did with a point: "full", "changed", "named", "refused", "dropped", "empty" or "pending". A chain leads through every step before the one that ends it; what
 * is refused in the end may have been refused before.
 */
export function listCells(point, steps) {
  const find = (name) => steps.findIndex((step) => step.key === name);
  const { status } = point;
  if (status === "pending") return steps.map(() => "pending");
  if (status === "kept") return steps.map(() => "full");
  if (status === "changed") { const at = point.changed ? find(keyOf(point.changed.after)) : 0; return steps.map((_, n) => (n < at ? "full" : "changed")); }
  const end = status === "refused" ? find(keyOf(point.refused.place)) : find(point.lost_at);
  return steps.map((_, n) => (n < end ? (status === "refused" ? "named" : "full") : n === end ? status : "empty"));
}
