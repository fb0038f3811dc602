// When each call ran: a lane for each seat, calls packed into rows, on one axis.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { between, clock, count, describeStatus, duration, plural } from "../../format.js";
import { listTimes, ranFor } from "../../model.js";
import { draw } from "../../store.js";
import { chip, glyph, seat, seatClass, written } from "../parts.js";
import { ENDED, FAILED, runStages, subjectsOf } from "./facts.js";
import { buildScale, findCriticalPath, listTicks, packRows } from "./timescale.js";
import { taskOf } from "./words.js";

const ROWS_TALL_MAX = 9;
const LABEL_MIN = 0.055;
const WAIT_MIN = 0.008;
const BAR_MIN = 0.004;
const TABLE_MAX = 120;
const phone = matchMedia("(max-width: 760px)");

/** Calls that are shown: those that have started, or wait for money or an endpoint. */
const isShown = (job) => job.kind !== "plan" && (job.started_at || ["waiting_for_money", "waiting_for_endpoint"].includes(job.phase));

const runOf = ({ start, end }, now) => [start ?? now, Math.max(start ?? now, end ?? now)];

/** The scale of a session: the same during a replay as at its end. */
export function scaleOf(model, now) {
  const times = listTimes(model);
  return buildScale([...model.jobs.values()].filter(isShown).map((job) => runOf(times.get(job.id), now)));
}

/** Place every call: `{job, from, to, wait, tries, row}` in shares of the axis, by seat. */
export function placeBars(model, scale, now) {
  const times = listTimes(model);
  const lanes = new Map(model.session.seats.map((each) => [each.index, []]));
  for (const job of model.jobs.values()) {
    if (!isShown(job)) continue;
    const own = times.get(job.id);
    const [start, end] = runOf(own, now);
    const [begun, ready] = [scale.share(start), scale.share(Math.min(start, own.ready))];
    const from = begun - ready >= WAIT_MIN ? ready : begun;
    const tries = (job.errors ?? []).map((error) => Date.parse(error.at)).filter((at) => at > start && at < end).map(scale.share);
    if (!lanes.has(job.seat)) lanes.set(job.seat, []);
    lanes.get(job.seat).push({ job, from, to: Math.max(scale.share(end), begun + BAR_MIN), begun, tries });
  }
  return [...lanes].filter(([, bars]) => bars.length).map(([index, bars]) => ({ index, rows: packRows(bars, BAR_MIN), bars }));
}

// -- drawing --------------------------------------------------------------------------------------

export function view(model, ui, page) {
  const now = page.moment ?? Date.now();
  const scale = scaleOf(page.model, Date.now());
  const isPhone = phone.matches;
  const path = ui.isCritical ? findCriticalPath(model) : null;
  const head = html`<div class="tab-head"><h2 class="sr">Timeline</h2>${legend(model)}<span class="grow"></span>
    <button class="button" type="button" aria-pressed=${Boolean(ui.isCritical)} @click=${() => turn(ui, "isCritical")}>Critical path<kbd aria-hidden="true">C</kbd></button>
    ${isPhone ? nothing : html`<button class="button" type="button" aria-pressed=${Boolean(ui.isTable)} @click=${() => turn(ui, "isTable")}>Show as table<kbd aria-hidden="true">V</kbd></button>`}</div>`;
  const lanes = placeBars(model, scale, now);
  if (!lanes.length) return html`${head}<p class="soft">No call has started yet.</p>`;
  return html`${head}${path ? pathSentence(model, path) : nothing}
    ${ui.isTable && !isPhone ? nothing : chart(model, page, { lanes, scale, now, path, isPhone })}
    ${ui.isTable || isPhone ? table(model, ui, page, { scale, lanes, path }) : nothing}`;
}

function turn(ui, name) {
  ui[name] = !ui[name];
  draw();
}

/** How strong the colour of a stage is, from 0 to 1. */
function depths(model) {
  const stages = runStages(model);
  return new Map(stages.map((stage, index) => [stage.slug, stages.length > 1 ? index / (stages.length - 1) : 1]));
}

function legend(model) {
  const depth = depths(model);
  return html`<ul class="legend" aria-label="Stages by strength of colour">${runStages(model).map((stage) => html`<li><i .style=${`--depth:${depth.get(stage.slug)}`}></i>${stage.title}</li>`)}<li><i class="hatched"></i>waiting</li></ul>`;
}

function pathSentence(model, path) {
  if (!path.length) return html`<p class="soft">No call has ended yet.</p>`;
  const ran = path.reduce((sum, job) => sum + ranFor(model, job), 0);
  const whole = between(path[0].started_at, path.at(-1).completed_at);
  const longest = path.reduce((best, job) => (ranFor(model, job) > ranFor(model, best) ? job : best));
  return html`<p class="path-sentence">These ${plural(path.length, "call")} set the end: they ran for ${duration(ran)} of ${duration(whole)}. The longest was ${taskOf(model, longest)} by ${longest.seat ? seat(longest.seat, { small: true }) : nothing}, ${duration(ranFor(model, longest))}.</p>`;
}

function chart(model, page, { lanes, scale, now, path, isPhone }) {
  const { ticks, step } = listTicks(scale);
  const depth = depths(model);
  const tell = (seconds) => (step < 1 ? duration(seconds) : clock(seconds));
  const isLive = page.moment === null && now - scale.to < 2000;
  return html`<div class="timeline ${path ? "has-path" : ""}" role="group" aria-label="Calls by seat and time">
    <div class="axis" aria-hidden="true"><span></span><div class="axis-line">${ticks.map(({ at, seconds }) => html`<span class="tick ${at > 0.97 ? "at-end" : ""}" .style=${`--at:${at}`}>${tell(seconds)}</span>`)}</div></div>
    <div class="lanes">
      <div class="grid" aria-hidden="true"><span></span><div>${ticks.map(({ at }) => html`<i .style=${`--at:${at}`}></i>`)}
        ${scale.pauses.map((pause) => html`<i class="pause" .style=${`--at:${pause.at};--size:${pause.size}`} title="${duration((pause.to - pause.from) / 1000)} in which no call ran"><span>${duration((pause.to - pause.from) / 1000)}</span></i>`)}
        ${isLive || page.moment !== null ? html`<i class="now-line" .style=${`--at:${scale.share(now)}`}></i>` : nothing}</div></div>
      ${repeat(lanes, (lane) => lane.index, (lane) => drawLane(model, page, lane, { scale, depth, path, isPhone }))}
    </div></div>`;
}

function drawLane(model, page, lane, context) {
  const own = model.session.seats.find((each) => each.index === lane.index);
  const isDense = lane.rows > ROWS_TALL_MAX;
  return html`<section class="lane ${seatClass(lane.index ?? 1)} ${isDense ? "dense" : ""}" aria-label=${own ? `Seat ${own.index}: ${own.label}` : "Others"}>
    <div class="lane-name">${own ? seat(own.index) : nothing}<span><span class="one-line">${written(own?.label ?? "Others")}</span><span class="meta">${plural(lane.bars.length, "call")}</span></span></div>
    <div class="lane-rows" .style=${`--rows:${lane.rows}`}>${repeat(lane.bars, (bar) => bar.job.id, (bar) => drawBar(model, page, bar, context, isDense))}</div></section>`;
}

function drawBar(model, page, bar, { depth, path, isPhone }, isDense) {
  const { job, from, to, begun } = bar;
  const name = nameOf(model, job);
  const state = FAILED.has(job.status) ? "failed" : ENDED.has(job.status) ? "" : job.status === "processing" ? "run" : "open";
  const style = `--from:${from.toFixed(5)};--size:${(to - from).toFixed(5)};--begun:${to > from ? ((begun - from) / (to - from)).toFixed(4) : 0};--row:${bar.row};--depth:${depth.get(job.stage) ?? 1}`;
  const href = isPhone ? nothing : page.hrefOf({ job: job.id, doc: null, stage: null });
  return html`<a class="span ${state} ${path?.includes(job) ? "on-path" : ""}" .style=${style} href=${href} data-item data-job=${job.id} title=${name} aria-label=${isPhone ? nothing : name} aria-hidden=${isPhone ? "true" : nothing}
    aria-current=${page.pick.job === job.id ? "true" : nothing}>${begun > from ? html`<i class="hatched"></i>` : nothing}${to - begun > LABEL_MIN && !isDense ? html`<span class="one-line">${taskOf(model, job)}</span>` : nothing}${bar.tries.map((at) => html`<i class="try" .style=${`--at:${(at - from) / (to - from)}`}></i>`)}</a>`;
}

function nameOf(model, job) {
  const subjects = subjectsOf(model, job);
  const took = ranFor(model, job);
  const tries = job.errors?.length ?? 0;
  return `${taskOf(model, job)}${subjects.length ? ` on seat ${subjects.join(" and ")}` : ""}: ${describeStatus(job.status).word}${took === null ? "" : ` in ${duration(took)}`}${tries ? `, ${plural(tries, "failed attempt")}` : ""}`;
}

// -- the same as a table --------------------------------------------------------------------------

function table(model, ui, page, { scale, lanes, path }) {
  const all = lanes.flatMap((lane) => lane.bars.map((bar) => bar.job)).filter((job) => !path || path.includes(job)).sort((a, b) => (a.started_at ?? "~") < (b.started_at ?? "~") ? -1 : 1);
  const limit = ui.limit ?? TABLE_MAX;
  return html`<div class="table-frame"><table class="times"><thead><tr><th scope="col">Call</th><th scope="col">Seat</th><th scope="col">On</th><th scope="col" class="right">Started</th><th scope="col" class="right">Waited</th><th scope="col" class="right">Ran</th><th scope="col">State</th></tr></thead>
    <tbody>${repeat(all.slice(0, limit), (job) => job.id, (job) => timeRow(model, page, job, scale))}</tbody></table></div>
    ${all.length > limit ? html`<div><button class="button" type="button" @click=${() => { ui.limit = limit + TABLE_MAX; draw(); }}>Show ${count(Math.min(TABLE_MAX, all.length - limit))} more</button></div>` : nothing}`;
}

function timeRow(model, page, job, scale) {
  const { glyph: shape, word } = describeStatus(job.status);
  const { start, ready } = listTimes(model).get(job.id);
  const waited = start === null ? null : (start - ready) / 1000;
  const tries = job.errors?.length ?? 0;
  return html`<tr><th scope="row"><a href=${page.hrefOf({ job: job.id, doc: null, stage: null })} data-item data-job=${job.id} aria-current=${page.pick.job === job.id ? "true" : nothing}>${taskOf(model, job)}</a></th>
    <td>${job.seat ? seat(job.seat, { small: true }) : nothing}</td><td>${subjectsOf(model, job).map((index) => seat(index, { small: true }))}</td>
    <td class="right" data-label="Started">${start === null ? "" : duration(Math.max(0, start - scale.from) / 1000)}</td>
    <td class="right" data-label="Waited">${waited !== null && waited >= 0.05 ? duration(waited) : ""}</td>
    <td class="right" data-label="Ran">${duration(ranFor(model, job))}</td>
    <td><span class="row">${glyph(shape)}<span>${word}</span>${tries ? chip(plural(tries, "failed attempt"), "you") : nothing}</span></td></tr>`;
}

// -- keys -----------------------------------------------------------------------------------------

export const keys = (model, ui) => [
  { keys: "c", label: "Critical path", run: () => turn(ui, "isCritical") },
  { keys: "v", label: "Timeline as a table", run: () => turn(ui, "isTable") },
];
