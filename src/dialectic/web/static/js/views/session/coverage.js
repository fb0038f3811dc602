// What became of every point: a row for each, a column for each step; objections, requirements, limits, figures.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, list, plural } from "../../format.js";
import { draw } from "../../store.js";
import { chip, errorBar, glyph, seat, seatClass, written } from "../parts.js";
import { stepName } from "./claim.js";
import { FATES, fateChip, passageHref, plain, seatName } from "./claim_words.js";
import { askAgain, reportOf } from "./claims.js";
import { waitingFor } from "./map.js";
import { STATUSES } from "./facts.js";
import { keyOf, listCells, listSteps } from "./map_layout.js";

const ROWS_MAX = 40;
const CELLS = {
  full: { glyph: "kept", word: "says it" }, changed: { glyph: "changed", word: "says it changed" }, refused: { glyph: "cancelled", word: "refuses it" },
  named: { glyph: "named", word: "names it" }, dropped: { glyph: "dropped", word: "does not say it any more" }, empty: { glyph: null, word: "does not say it" }, pending: { glyph: "wait", word: "is still to come" },
};

export function view(model, ui, page) {
  const report = reportOf(page, "coverage");
  const waiting = waitingFor(page, report, { none: "Nothing yet: points appear with the first proposal." });
  if (waiting) return waiting;
  const { data } = report;
  if (!data.points.length && !data.objections.length) return html`<p class="notice">${glyph("wait")}<span class="grow">Nothing yet: points appear with the first proposal.</span></p>`;
  return html`${report.problem ? errorBar(report.problem, () => askAgain(page, "coverage")) : nothing}
    ${sums(model, data)}${matrix(model, ui, data)}${objections(model, ui, data)}${requirements(model, data)}${figures(model, ui, data)}
    <p class="meta">Found by comparing texts (${data.method}). That two texts say the same does not say that they are true.${data.unread ? ` ${plural(data.unread, "passage")} more were not compared.` : ""}</p>`;
}

/** @param {string} id @param {string} title @param {unknown} body @param {unknown} [note] */
const part = (id, title, body, note = "") => html`<section class="cover-part" aria-labelledby="cover-${id}"><div class="stage-head"><h3 id="cover-${id}" class="grow">${title}</h3>${note ? html`<p class="meta">${note}</p>` : nothing}</div>${body}</section>`;
const open = (place, label = "Open") => { const href = passageHref(place); return href ? html`<a data-open href=${href}>${label}</a>` : nothing; };

// -- sums -----------------------------------------------------------------------------------------

function sums(model, data) {
  const judged = data.of ? html`Judged by ${open(data.of, `${stepName(model, data.of.stage)} by seat ${data.of.seat ?? "?"}`)}.` : "No step that merges has run yet.";
  return part("sums", "Points that only one proposal has", html`<div class="table-frame"><table class="sums"><thead><tr><th scope="col">Proposal</th><th scope="col" class="right">Points</th>${STATUSES.map((name) => html`<th scope="col" class="right">${FATES[name].word}</th>`)}<th scope="col" class="share-head"><span class="sr">Shares</span></th></tr></thead>
    <tbody>${[...data.theses].sort((a, b) => (a.thesis.seat ?? 99) - (b.thesis.seat ?? 99)).map((each) => html`<tr><th scope="row"><span class="row">${each.thesis.seat ? seat(each.thesis.seat, { small: true }) : nothing}${written(seatName(model, each.thesis.seat) || each.thesis.model)}</span></th><td class="right">${count(each.points)}</td>
      ${STATUSES.map((name) => html`<td class="right ${each[name] ? "" : "faint"}">${count(each[name])}</td>`)}
      <td><span class="cells ${seatClass(each.thesis.seat ?? 1)}" aria-hidden="true">${STATUSES.map((name) => (each[name] ? html`<i class="is-${name}" .style=${`--n:${each[name]}`}></i>` : nothing))}</span></td></tr>`)}</tbody></table></div>`, judged);
}

// -- the matrix -----------------------------------------------------------------------------------

function matrix(model, ui, data) {
  ui.statuses ??= new Set();
  ui.seats ??= new Set();
  const steps = listSteps(model, data.theses[0]?.thesis.stage ?? data.points[0]?.point.stage);
  const all = data.points.filter((one) => !ui.isLone || one.is_lone).sort((a, b) => (a.point.seat ?? 99) - (b.point.seat ?? 99) || a.point.start - b.point.start);
  const counts = Object.fromEntries(STATUSES.map((name) => [name, all.filter((one) => one.status === name).length]));
  const chosen = all.filter((one) => (!ui.statuses.size || ui.statuses.has(one.status)) && (!ui.seats.size || ui.seats.has(one.point.seat)));
  const shown = ui.isOpen ? chosen : chosen.slice(0, ROWS_MAX);
  const seats = [...new Set(data.points.map((one) => one.point.seat))].filter(Boolean).sort((a, b) => a - b);
  const flip = (set, value) => { if (!set.delete(value)) set.add(value); draw(); };
  return part("matrix", "Every point, step by step", html`<div class="map-filters" role="group" aria-label="Which points">
      ${STATUSES.filter((name) => counts[name]).map((name) => html`<button type="button" class="chip fate ${FATES[name].kind}" data-status=${name} aria-pressed=${ui.statuses.has(name)} @click=${() => flip(ui.statuses, name)}>${glyph(FATES[name].glyph)}${count(counts[name])} ${FATES[name].word}</button>`)}
      <span class="divider" aria-hidden="true"></span><button type="button" class="chip" aria-pressed=${Boolean(ui.isLone)} @click=${() => { ui.isLone = !ui.isLone; draw(); }}>Said by one alone ${count(data.points.filter((one) => one.is_lone).length)}</button>
      ${seats.length > 1 ? seats.map((index) => html`<button type="button" class="chip" aria-pressed=${ui.seats.has(index)} @click=${() => flip(ui.seats, index)}>${seat(index, { small: true, label: seatName(model, index) })}</button>`) : nothing}</div>
    ${shown.length ? html`<div class="table-frame"><table class="matrix"><thead><tr><th scope="col">Seat</th><th scope="col" class="words">Point</th>${steps.map((step) => html`<th scope="col" class="step" title=${stepName(model, step.key)}>${step.title}</th>`)}<th scope="col">In the end</th></tr></thead>
      <tbody>${repeat(shown, (one) => `${one.point.version_id}/${one.point.start}`, (one) => matrixRow(model, one, steps))}</tbody></table></div>` : html`<p class="soft">No point is like that.</p>`}
    ${chosen.length > ROWS_MAX ? html`<div><button class="button" type="button" @click=${() => { ui.isOpen = !ui.isOpen; draw(); }}>${ui.isOpen ? "Show fewer" : `Show all ${count(chosen.length)}`}</button></div>` : nothing}`);
}

function matrixRow(model, one, steps) {
  const cells = listCells(one, steps);
  return html`<tr class=${one.point.seat ? seatClass(one.point.seat) : ""} data-status=${one.status}><td class="of">${one.point.seat ? seat(one.point.seat, { small: true }) : nothing}</td>
    <th scope="row" class="serif words"><a href=${passageHref(one.point)}>${plain(one.point.text)}</a>${one.changed ? html`<span class="meta block">became “${plain(one.changed.after.text)}”</span>` : nothing}</th>
    ${cells.map((cell, n) => html`<td class="cell-of-step is-${cell}" data-label=${steps[n].title}>${matrixCell(model, one, cell, steps[n])}</td>`)}
    <td data-label="In the end">${fateChip(one.status)}</td></tr>`;
}

function matrixCell(model, one, cell, step) {
  const { glyph: shape, word } = CELLS[cell];
  const name = `${step.title} ${word}`;
  if (cell === "refused") {
    const { place, reason } = one.refused;
    return html`<a class="step-cell has-reason" href=${passageHref(place)} aria-label="${name}: ${plain(reason)}">${glyph(shape)}<span class="reason card" role="tooltip">${place.seat ? seat(place.seat, { small: true }) : nothing} ${plain(reason) || "No reason is given."}</span></a>`;
  }
  if (cell === "changed" && one.changed && step.key === keyOf(one.changed.after)) return html`<a class="step-cell" href=${passageHref(one.changed.after)} aria-label=${name}>${glyph(shape)}</a>`;
  if (cell === "full" && one.found && step.key === keyOf(one.found)) return html`<a class="step-cell" href=${passageHref(one.found)} aria-label=${name}>${glyph(shape)}</a>`;
  if (cell === "named") return html`<span class="step-cell" role="img" aria-label=${name}>·</span>`;
  return html`<span class="step-cell">${shape ? glyph(shape, name) : html`<span class="sr">${name}</span>`}</span>`;
}

// -- objections -----------------------------------------------------------------------------------

const ANSWERS = { unanswered: ["unanswered", "bad"], refused_emptily: ["refused without a reason", "bad"], refused: ["refused", "hold"], taken: ["taken", "ok"], kept: ["said, without saying that it was taken", "ok"], pending: ["still open", ""] };

function objections(model, ui, data) {
  if (!data.objections.length) return nothing;
  const counts = Object.keys(ANSWERS).map((name) => [name, data.objections.filter((one) => one.answer === name).length]).filter(([, n]) => n);
  const wanted = ui.answer ?? (counts.some(([name]) => name === "unanswered") ? "unanswered" : counts[0][0]);
  const chosen = data.objections.filter((one) => one.answer === wanted);
  const shown = ui.allObjections ? chosen : chosen.slice(0, 8);
  return part("objections", "Objections, and whether an editor answered", html`<div class="map-filters" role="group" aria-label="Which objections">${counts.map(([name, n]) => html`<button type="button" class="chip ${ANSWERS[name][1]}" data-answer=${name} aria-pressed=${wanted === name} @click=${() => { ui.answer = name; ui.allObjections = false; draw(); }}>${count(n)} ${ANSWERS[name][0]}</button>`)}</div>
    <ul class="cover-list">${shown.map((one) => html`<li class=${one.objection.seat ? seatClass(one.objection.seat) : ""}>${one.objection.seat ? seat(one.objection.seat, { small: true }) : nothing}<div class="grow"><p class="serif">${one.number ? html`<strong>${one.number}</strong> ` : nothing}${plain(one.objection.text)}</p>
      ${one.refused.map((each) => html`<p class="meta">Seat ${each.place.seat ?? "?"}: “${plain(each.reason) || "no reason"}” ${open(each.place)}</p>`)}</div>${open(one.objection)}</li>`)}</ul>
    ${chosen.length > shown.length ? html`<div><button class="button" type="button" @click=${() => { ui.allObjections = true; draw(); }}>Show all ${count(chosen.length)}</button></div>` : nothing}`);
}

// -- requirements, steps, limits ------------------------------------------------------------------

const METS = { by_id: ["by its number", "ok"], by_words: ["by its words", "ok"], not: ["by no step", "bad"] };

function requirements(model, data) {
  const lost = data.steps.filter((one) => one.met === "not");
  return html`${data.requirements.length ? part("requirements", "Requirements, and the steps that cover them", html`<ul class="cover-list">${[...data.requirements].sort((a, b) => (a.met === "not" ? 0 : 1) - (b.met === "not" ? 0 : 1)).map((one) => html`<li data-met=${one.met}><strong class="number">${one.number}</strong><div class="grow"><p class="serif">${plain(one.requirement.text)}</p>${one.steps.length ? html`<p class="meta">${list(one.steps.slice(0, 4).map(plain))}${one.steps.length > 4 ? ` and ${one.steps.length - 4} more` : ""}</p>` : nothing}</div>${chip(`covered ${METS[one.met][0]}`, METS[one.met][1])}${open(one.requirement)}</li>`)}</ul>`,
    `${count(data.requirements.filter((one) => one.met === "not").length)} of ${count(data.requirements.length)} have no step`) : nothing}
    ${lost.length ? part("steps", "Steps that serve no requirement", html`<ul class="cover-list">${lost.map((one) => html`<li><div class="grow serif">${plain(one.step.text.split("\n")[0])}</div>${open(one.step)}</li>`)}</ul>`) : nothing}
    ${data.constraints.length ? part("constraints", "Limits that your request sets", html`<ul class="cover-list">${data.constraints.map((one) => html`<li><div class="grow serif">${plain(one.constraint.text)}</div>${one.requirements.length ? chip(`repeated by ${list(one.requirements)}`, "ok") : chip("no requirement repeats it", "bad")}</li>`)}</ul>`) : nothing}`;
}

// -- figures --------------------------------------------------------------------------------------

const KINDS = { request: "your request", resource: "a resource", feedback: "feedback", ruling: "a ruling", person: "a person" };
const whose = (model, place) => (place.kind === "contribution" ? html`${place.seat ? seat(place.seat, { small: true }) : nothing} ${stepName(model, keyOf(place))}` : KINDS[place.kind] ?? place.label);

function figures(model, ui, data) {
  if (!data.figures.length) return nothing;
  const made = data.figures.filter((one) => one.is_made_up).length;
  const sorted = [...data.figures].sort((a, b) => Number(b.is_made_up) - Number(a.is_made_up) || b.others.length - a.others.length);
  const shown = ui.allFigures ? sorted : sorted.slice(0, 12);
  return part("figures", "Figures, and who said them first", html`<div class="table-frame"><table class="figures-table"><thead><tr><th scope="col">Figure</th><th scope="col" class="words">Where</th><th scope="col">Said first by</th><th scope="col">Elsewhere</th></tr></thead>
    <tbody>${shown.map((one) => html`<tr><th scope="row">${plain(one.figure)}</th><td class="serif"><a href=${passageHref(one.place)}>${plain(one.place.text)}</a></td>
      <td data-label="Said first by">${one.is_made_up ? html`<span class="chip bad">${glyph("failed")}made up by ${whose(model, one.first)}</span>` : html`<span class="row">${whose(model, one.first)}</span>`} ${open(one.first)}</td>
      <td data-label="Elsewhere">${one.others.length ? one.others.slice(0, 3).map((other) => html`<a class="block" href=${passageHref(other) ?? nothing}>${plain(other.text).slice(0, 80)}</a>`) : nothing}</td></tr>`)}</tbody></table></div>
    ${sorted.length > shown.length ? html`<div><button class="button" type="button" @click=${() => { ui.allFigures = true; draw(); }}>Show all ${count(sorted.length)}</button></div>` : nothing}`,
  made ? `${count(made)} of ${count(data.figures.length)} were in nothing that was given or argued` : `all ${count(data.figures.length)} were in what was given or argued`);
}
