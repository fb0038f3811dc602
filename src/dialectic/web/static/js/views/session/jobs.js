// Every call of a session: a row for each step, a column for each seat, a dot for each call.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, describeStatus, duration, money, plural } from "../../format.js";
import { ranFor } from "../../model.js";
import { draw, may } from "../../store.js";
import { toast } from "../../overlay.js";
import { action, seat, seatClass, written } from "../parts.js";
import { cancelCalls, pauseOne, resumeOne, retryOne } from "./acts.js";
import { ENDED, facts, FAILED, isPast, runStages, subjectsOf } from "./facts.js";
import { taskOf } from "./words.js";

const PRICED_MAX = 5;
const UNDER_WAY = new Set(["processing", "retrying", "pending_continuation"]);
const FILTERS = [["all", "All"], ["failed", "Failed"], ["waiting", "Waiting"], ["running", "Running"]];

/** What a call counts as: "failed", "running", "waiting" or "ended". */
export function kindOf({ status }) {
  if (FAILED.has(status)) return "failed";
  if (UNDER_WAY.has(status)) return "running";
  return ENDED.has(status) ? "ended" : "waiting";
}

const WEIGHT = { failed: 0, running: 1, ended: 2, waiting: 3 };
const inCell = (a, b) => WEIGHT[kindOf(a)] - WEIGHT[kindOf(b)] || (a.rank ?? 0) - (b.rank ?? 0) || (a.created_at < b.created_at ? -1 : a.created_at > b.created_at ? 1 : 0);

/**
 * The table of a model: its rows in the order of stages and steps.
 * @returns {{seats: (number|null)[], rows: {stage: object, step: object, jobs: object[], shown: object[], cells: object[][]}[], counts: Record<string, number>}}
 */
export function listRows(model, filter = "all") {
  const calls = [...model.jobs.values()].filter((job) => job.kind !== "plan");
  const counts = { all: calls.length, failed: 0, waiting: 0, running: 0 };
  for (const job of calls) if (kindOf(job) in counts) counts[kindOf(job)] += 1;
  const seats = model.session.seats.map((each) => each.index);
  if (calls.some((job) => !seats.includes(job.seat))) seats.push(null);
  const rows = runStages(model).flatMap((stage) => stage.steps.map((step) => {
    const jobs = facts(model).jobs(stage.slug, step.key).filter((job) => job.kind !== "plan");
    const shown = filter === "all" ? jobs : jobs.filter((job) => kindOf(job) === filter);
    const cells = seats.map((index) => shown.filter((job) => (index === null ? !seats.includes(job.seat) : job.seat === index)).sort(inCell));
    return { stage, step, jobs, shown, cells };
  }));
  return { seats, counts, rows: filter === "all" ? rows : rows.filter((row) => row.shown.length) };
}

/** The middle of the seconds that calls took; null if none has ended. */
export function medianSeconds(model, jobs) {
  const all = jobs.map((job) => ranFor(model, job)).filter((each) => each !== null).sort((a, b) => a - b);
  return all.length ? all[Math.floor(all.length / 2)] : null;
}

/** What calls have cost: dollars, play money, or both. */
export function costOf(model, jobs) {
  const isPlay = new Map(model.session.seats.map((each) => [each.index, each.is_play]));
  const sums = { real: 0, play: 0 };
  for (const job of jobs) sums[isPlay.get(job.seat) ?? model.money.is_play ? "play" : "real"] += Number(job.charged ?? 0);
  return [sums.real ? money(sums.real) : "", sums.play ? money(sums.play, { play: true }) : ""].filter(Boolean).join(" + ");
}

// -- drawing --------------------------------------------------------------------------------------

export function view(model, ui, page) {
  ui.filter ??= "all";
  ui.selected ??= new Set();
  const { seats, rows, counts } = listRows(model, ui.filter);
  const selected = [...ui.selected].map((id) => model.jobs.get(id)).filter(Boolean);
  return html`<div class="tab-head"><h2 class="sr">Jobs</h2>
      <div class="segmented" role="group" aria-label="Which calls">${FILTERS.map(([id, label]) => html`<button type="button" aria-pressed=${ui.filter === id} @click=${() => { ui.filter = id; draw(); }}>${label} <span class="faint">${count(counts[id])}</span></button>`)}</div>
      <span class="grow"></span>
      ${canAct(model, page) && (ui.isSelecting || counts.failed + counts.waiting + counts.running) ? html`<button class="button" type="button" aria-pressed=${Boolean(ui.isSelecting)} @click=${() => turnSelecting(ui)}>Select</button>` : nothing}
      ${ui.isSelecting && rows.some((row) => row.shown.length) ? html`<button class="button plain" type="button" @click=${() => selectAll(ui, rows)}>Select all shown</button>` : nothing}</div>
    ${rows.length ? table(model, ui, page, seats, rows) : html`<p class="soft">${{ failed: "No call has failed.", waiting: "No call is waiting.", running: "No call is running." }[ui.filter] ?? "No call is planned yet."}</p>`}
    ${selected.length || ui.isSelecting ? bar(model, ui, page, selected) : nothing}`;
}

const canAct = (model, page) => may("write") && !isPast(model) && !model.isGone && page.moment === null;

function table(model, ui, page, seats, rows) {
  const own = new Map(model.session.seats.map((each) => [each.index, each]));
  return html`<div class="table-frame"><table class="jobs">
    <thead><tr><th scope="col" class="step">Step</th>${seats.map((index) => html`<th scope="col">${index === null ? "Others" : html`<span class="row">${seat(index)}<span class="one-line">${written(own.get(index).label)}</span></span>`}</th>`)}
      <th scope="col" class="right figure">Done</th><th scope="col" class="right figure">Median</th><th scope="col" class="right figure">Cost</th></tr></thead>
    <tbody>${repeat(rows, (row) => `${row.stage.slug}/${row.step.key}`, (row, index) => tableRow(model, ui, page, seats, row, rows[index - 1]))}</tbody></table></div>`;
}

function tableRow(model, ui, page, seats, row, before) {
  const { stage, step, jobs, cells } = row;
  const isFirst = before?.stage !== stage;
  const took = medianSeconds(model, jobs);
  return html`<tr class=${isFirst ? "first" : ""}>
    <th scope="row">${stage.steps.length === 1 ? html`<span class="serif stage-name">${stage.title}</span>` : html`${isFirst ? html`<span class="serif stage-name">${stage.title}</span>` : nothing}<span class="step-name">${step.title}</span>`}</th>
    ${cells.map((own, index) => html`<td class=${own.length ? "" : "empty"}>${own.length ? html`<span class="cell-of">${seats[index] === null ? nothing : seat(seats[index], { small: true })}</span><span class="dots">${repeat(own, (job) => job.id, (job) => dot(model, ui, page, job))}</span>` : html`<span class="faint" aria-label="none">${jobs.length ? "" : "·"}</span>`}</td>`)}
    <td class="right figure" data-label="Done">${count(step.finished)} of ${count(step.planned)}</td>
    <td class="right figure" data-label="Median">${took === null ? "" : duration(took)}</td>
    <td class="right figure" data-label="Cost">${costOf(model, jobs)}</td></tr>`;
}

const SHAPES = new Set(["done", "run", "failed", "paused", "retry", "cancelled"]);

function dot(model, ui, page, job) {
  const { glyph: shape, word } = describeStatus(job.status);
  const subjects = subjectsOf(model, job);
  const took = ranFor(model, job);
  const name = `${job.seat ? `Seat ${job.seat}: ` : ""}${taskOf(model, job)}${subjects.length ? ` on ${subjects.join(" and ")}` : ""}, ${word}${took === null ? "" : ` in ${duration(took)}`}`;
  const isChosen = ui.selected.has(job.id);
  return html`<a class="dot ${seatClass(job.seat ?? 1)} ${SHAPES.has(shape) ? shape : "wait"} ${isChosen ? "chosen" : ""}" href=${page.hrefOf({ job: job.id, doc: null, stage: null })}
    data-item data-job=${job.id} data-key=${job.id} title=${name} aria-label=${name} aria-current=${page.pick.job === job.id ? "true" : nothing}
    role=${ui.isSelecting ? "checkbox" : nothing} aria-checked=${ui.isSelecting ? String(isChosen) : nothing} @click=${(event) => press(event, ui, model, page, job)}></a>`;
}

// -- selecting ------------------------------------------------------------------------------------

function press(event, ui, model, page, job) {
  if (!canAct(model, page) || !(ui.isSelecting || event.shiftKey)) return;
  event.preventDefault();
  if (event.shiftKey && ui.last && ui.last !== job.id) selectRange(event.currentTarget, ui, job.id);
  else toggle(ui, job.id);
  draw();
}

function toggle(ui, id) {
  if (!ui.selected.delete(id)) ui.selected.add(id);
  ui.isSelecting = true;
  ui.last = id;
}

/** Select from the last one to this one, in the order of the table. */
function selectRange(dot, ui, id) {
  const all = [...dot.closest("table").querySelectorAll("[data-job]")].map((each) => each.dataset.job);
  const [from, to] = [all.indexOf(ui.last), all.indexOf(id)].sort((a, b) => a - b);
  for (const each of all.slice(Math.max(0, from), to + 1)) ui.selected.add(each);
  Object.assign(ui, { last: id, isSelecting: true });
}

function turnSelecting(ui) {
  ui.isSelecting = !ui.isSelecting;
  if (!ui.isSelecting) ui.selected.clear();
  draw();
}

function selectAll(ui, rows) {
  for (const row of rows) for (const job of row.shown) ui.selected.add(job.id);
  draw();
}

/** What can be done with the selected calls. */
export function listEligible(selected) {
  const open = selected.filter((job) => !ENDED.has(job.status));
  return {
    retry: selected.filter((job) => FAILED.has(job.status)),
    resume: open.filter((job) => job.status === "paused"),
    pause: open.filter((job) => job.status !== "paused"),
    cancel: open,
  };
}

function bar(model, ui, page, selected) {
  const can = listEligible(selected);
  const button = (name, label, run, more = {}) => (can[name].length ? action({ name: `${name}-selected`, label: `${label} ${count(can[name].length)}`, run, ...more }) : nothing);
  const act = (name, each) => () => actOnAll(ui, can[name], (job) => each(page, job.id));
  return html`<div class="collect selection" role="region" aria-label="Selected calls"><span class="grow">${selected.length ? `${plural(selected.length, "call")} selected` : "Select calls to act on them"}</span>
    ${may("spend") ? button("retry", "Retry", act("retry", retryOne), { kind: "main", price: priceOf(page, can.retry) }) : nothing}
    ${may("spend") ? button("resume", "Resume", act("resume", resumeOne)) : nothing}
    ${button("pause", "Pause", act("pause", pauseOne))}
    ${button("cancel", "Cancel", async () => { if (await cancelCalls(page, can.cancel.map((job) => job.id))) stopSelecting(ui); }, { kind: "bad" })}
    <button class="button plain" type="button" @click=${() => stopSelecting(ui)}>Clear</button></div>`;
}

function stopSelecting(ui) {
  Object.assign(ui, { isSelecting: false, last: null });
  ui.selected.clear();
  draw();
}

/** The price of trying these again; null until all are known, and for many. */
function priceOf(page, jobs) {
  if (!jobs.length || jobs.length > PRICED_MAX) return null;
  const prices = jobs.map((job) => page.priceOf(`retry-${job.id}`, `/jobs/${job.id}/retry`));
  if (prices.some((each) => each === null)) return null;
  return money(prices.reduce((sum, each) => sum + Number(each.expected), 0), { play: prices[0].is_play });
}

/** Act on each in turn; what the server refuses is told, and the others go on. */
async function actOnAll(ui, jobs, act) {
  const refused = [];
  for (const job of jobs) {
    try {
      await act(job);
      ui.selected.delete(job.id);
    } catch (problem) {
      if (problem.name !== "Problem") throw problem;
      refused.push(problem);
    }
  }
  if (refused.length) toast(`${plural(refused.length, "call")} of ${count(jobs.length)} could not be changed. ${refused[0].detail}`);
  else if (!ui.selected.size) stopSelecting(ui);
}

// -- keys -----------------------------------------------------------------------------------------

export function keys(model, ui) {
  if (!ui.isSelecting) return [];
  return [
    { keys: " ", label: "Select the call", run: () => { const id = document.activeElement?.dataset?.job; if (!id) return false; toggle(ui, id); draw(); return true; } },
    { keys: "Escape", label: "End the selection", run: () => { stopSelecting(ui); return true; } },
  ];
}
