// Time on a line, from 0 to 1. Long pauses are shortened, so that what happens keeps its room. Pure.
import { listTimes } from "../../model.js";

// A pause that is longer than this share of the work is drawn as long as that one.
const PAUSE_MIN = 0.15;
const PAUSE_SHARE = 0.04;
const STEPS_S = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const TICKS = 8;

/** Join spans that touch, in order. */
function join(spans) {
  const joined = [];
  for (const [from, to] of spans.sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

/**
 * Build the scale of spans in ms.
 * @param {number[][]} spans when something ran: from and to
 * @returns {{from: number, to: number, parts: object[], pauses: {from: number, to: number, at?: number, size?: number}[], share: (ms: number) => number, time: (share: number) => number}}
 */
export function buildScale(spans) {
  const busy = join(spans);
  if (!busy.length) return { from: 0, to: 0, pauses: [], parts: [], share: () => 0, time: () => 0 };
  const worked = busy.reduce((sum, [from, to]) => sum + to - from, 0) || 1;
  /** @type {{from: number, to: number, width: number, isShort: boolean, at?: number, size?: number}[]} */
  const parts = [];
  for (const [index, [from, to]] of busy.entries()) {
    if (index) {
      const [start, end] = [busy[index - 1][1], from];
      const isShort = end - start > worked * PAUSE_MIN;
      parts.push({ from: start, to: end, width: isShort ? worked * PAUSE_SHARE : end - start, isShort });
    }
    parts.push({ from, to, width: to - from, isShort: false });
  }
  const whole = parts.reduce((sum, part) => sum + part.width, 0) || 1;
  let at = 0;
  for (const part of parts) {
    Object.assign(part, { at, size: part.width / whole });
    at += part.size;
  }
  const scale = { from: busy[0][0], to: busy.at(-1)[1], parts, pauses: parts.filter((part) => part.isShort) };
  return { ...scale, share: (time) => shareOf(scale, time), time: (share) => timeOf(scale, share) };
}

function shareOf({ from, to, parts }, time) {
  if (time <= from) return 0;
  if (time >= to) return 1;
  const part = parts.find((each) => time <= each.to);
  return part.at + (part.to > part.from ? (part.size * (time - part.from)) / (part.to - part.from) : 0);
}

function timeOf({ from, to, parts }, share) {
  if (share <= 0) return from;
  if (share >= 1) return to;
  const part = parts.find((each) => share <= each.at + each.size) ?? parts.at(-1);
  return part.from + (part.size ? ((share - part.at) / part.size) * (part.to - part.from) : 0);
}

/** The marks of an axis: `{at, seconds}` since the beginning, in round steps, none inside a pause. */
export function listTicks(scale) {
  const worked = scale.parts.filter((part) => !part.isShort).reduce((sum, part) => sum + part.to - part.from, 0) / 1000;
  const step = STEPS_S.find((each) => worked / each <= TICKS) ?? 86400 * Math.ceil(worked / 86400 / TICKS);
  const ticks = [];
  for (const part of scale.parts) {
    if (part.isShort) continue;
    const first = Math.ceil((part.from - scale.from) / 1000 / step - 1e-9);
    const last = Math.floor((part.to - scale.from) / 1000 / step + 1e-9);
    for (let n = first; n <= last; n += 1) {
      const at = shareOf(scale, scale.from + n * step * 1000);
      // Two marks that touch cannot be read.
      if (!ticks.length || at - ticks.at(-1).at > 0.06) ticks.push({ at, seconds: n * step });
    }
  }
  return { ticks, step };
}

// -- calls on the line ----------------------------------------------------------------------------

/** The chain of calls that set the end: from the last back, each time the one that was waited for. The first comes first. */
export function findCriticalPath(model) {
  const times = listTimes(model);
  const latest = (jobs) => jobs.filter((job) => job.kind !== "plan" && job.started_at && job.completed_at).reduce((best, job) => (!best || times.get(job.id).end > times.get(best.id).end ? job : best), null);
  const path = [];
  for (let job = latest([...model.jobs.values()]); job && !path.includes(job); job = latest(times.get(job.id).before)) path.unshift(job);
  return path;
}

/**
 * Put the calls of a seat into rows in which none overlaps.
 * @param {{from: number, to: number, row?: number}[]} bars in shares; each gets `row`
 * @returns {number} how many rows
 */
export function packRows(bars, gap) {
  const ends = [];
  for (const bar of bars.sort((a, b) => a.from - b.from || b.to - a.to)) {
    const free = ends.findIndex((end) => end <= bar.from + 1e-9);
    bar.row = free < 0 ? ends.length : free;
    ends[bar.row] = Math.max(bar.to, bar.from + gap) + gap / 4;
  }
  return ends.length;
}
