// Who wrote about whom: a row for each document, a column for each seat.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, describeStatus } from "../../format.js";
import { glyph, seat, seatClass, written } from "../parts.js";
import { linkOf } from "./board.js";
import { FAILED, findStage, listCross } from "./facts.js";
import { describeReason, elapsed, figuresOf, marksOf, phaseOf } from "./words.js";

/** Draw a step whose documents are each about another one. */
export function cross(page, model, stage, step, now) {
  const { rows, seats } = listCross(model, stage, step);
  if (!rows.length) return nothing;
  const labelOf = (index) => model.session.seats.find((each) => each.index === index)?.label ?? "";
  return html`<div class="frame"><table class="cross" role="table" aria-label="${stage.title}: who wrote about whom">
    <thead role="rowgroup"><tr role="row"><th role="columnheader" scope="col" class="corner"><span>about</span> ↓ <span>by</span> →</th>
      ${seats.map((index) => html`<th role="columnheader" scope="col"><span class="row">${seat(index, { label: labelOf(index) })}<span class="one-line">${written(labelOf(index))}</span></span></th>`)}</tr></thead>
    <tbody role="rowgroup">${repeat(rows, (row) => row.key, (row) => html`<tr role="row"><th role="rowheader" scope="row">
      <span class="row">${row.seat ? seat(row.seat, { label: labelOf(row.seat) }) : nothing}<span class="one-line">${written(labelOf(row.seat))}</span></span>${row.subject ? html`<span class="meta">${findStage(model, row.subject.stage)?.title}</span>` : nothing}</th>
      ${repeat(row.cells, (place) => place.seat, (place) => cell(page, model, place, row, now))}</tr>`)}</tbody></table></div>`;
}

function cell(page, model, place, row, now) {
  const { document, job } = place;
  const isOwn = place.seat === row.seat;
  const state = document ? "written" : job ? (FAILED.has(job.status) ? "failed" : "open") : "not-yet";
  const isPicked = document ? page.isPicked(document) : job && page.pick.job === job.id;
  return html`<td role="cell" class="${seatClass(place.seat)} ${state} ${isOwn ? "own" : ""} ${page.landed.has(place.key) ? "lands" : ""}" data-key=${place.key}>
    <a class="cell" href=${linkOf(page, place)} data-item data-doc=${document?.original_id ?? nothing} data-job=${job?.id ?? nothing} aria-current=${isPicked ? "true" : nothing}>
      <span class="cell-seat">${seat(place.seat)}</span>${document ? filled(model, document, isOwn) : job ? open(model, job, now) : html`<span class="sr">not yet</span>`}</a></td>`;
}

function filled(model, document, isOwn) {
  const { points } = document;
  const marks = marksOf(model, document).filter(([word]) => word !== "own");
  return html`<span class="cell-head">${points ? html`<span class="is-ok" title="points that hold">✓ ${count(points.keep)}<span class="sr"> hold</span></span><span class="is-you" title="points that must change">✎ ${count(points.change)}<span class="sr"> must change</span></span>` : html`<span class="meta">${figuresOf(model, document)[0]}</span>`}
    ${marks.map(([word, kind]) => html`<span class="chip ${kind}">${word}</span>`)}${isOwn ? html`<span class="meta own-mark">own</span>` : nothing}</span>
    <span class="serif cell-text lines-3">${document.title ? html`<strong>${written(document.title)}</strong> ` : nothing}${written(document.excerpt)}</span>`;
}

function open(model, job, now) {
  const { glyph: shape } = describeStatus(job.status);
  if (FAILED.has(job.status)) return html`<span class="cell-head">${glyph(shape)}<strong class="is-bad">failed</strong></span><span class="meta lines-3">${job.errors?.length ? describeReason(job.errors.at(-1)) : ""}</span>`;
  return html`<span class="cell-head">${glyph(shape)}<span>${phaseOf(job, now, model.drafts.has(job.id))}</span><span class="clock">${job.status === "processing" ? elapsed(job, now) : ""}</span></span>`;
}
