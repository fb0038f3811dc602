// The argument map: each claim of each thesis as a thread through the stages, with its critics and its end.
import { html, nothing, svg } from "../../../vendor/lit/lit-html.js";
import { guard } from "../../../vendor/lit/directives/guard.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, plural } from "../../format.js";
import { address as change } from "../../router.js";
import { draw, may } from "../../store.js";
import { blank, errorBar, glyph, seat, seatClass, written } from "../parts.js";
import { claimKeys } from "./claim.js";
import { criticMark, describeClaim, FATES, plain, pointMark, seatName } from "./claim_words.js";
import { askAgain, reportOf, rulingOf } from "./claims.js";
import { STATUSES } from "./facts.js";
import { choose, claimsAt, countClaims, group, GROUP_PX, HEAD_PX, layOut, listColumns, ROW_PX } from "./map_layout.js";
import { table } from "./map_table.js";

const VIEWS = [["", "Map"], ["table", "Table"], ["coverage", "Coverage"], ["dissent", "Dissent"]];
const ONLY = [["contested", "Contested"], ["lone", "Said by one alone"], ["ruled", "Ruled on"]];
const STEP_PX = 112;
const STEP_WIDE_PX = 150;
const phone = matchMedia("(max-width: 760px)");
const wide = matchMedia("(min-width: 1180px)");
/** Views that few open are loaded when one does. */
const loaded = {};

async function bring(name) {
  loaded[name] ??= import(`./${name}.js`).then((module) => { loaded[name] = module; draw(); }, () => { loaded[name] = { problem: { detail: "This part of the page could not be loaded. Reload the page." } }; draw(); });
}

export function view(model, ui, page) {
  const shown = VIEWS.some(([id]) => id === page.view) ? page.view : "";
  return html`<div class="tab-head"><h2 class="sr">Argument map</h2>
      <nav class="segmented" aria-label="Ways to see what was argued">${VIEWS.map(([id, label]) => (id === "table" && phone.matches ? nothing : html`<a href=${page.hrefOf({ view: id || null }, "map")} aria-current=${id === shown || (phone.matches && id === "" && shown === "table") ? "page" : nothing}>${label}</a>`))}</nav>
      <span class="grow"></span>${shown === "" && !phone.matches ? html`<p class="meta">A thread is a claim. Point at it to follow it, press it to read it and to rule on it.</p>` : nothing}</div>
    ${shown === "coverage" || shown === "dissent" ? other(shown, model, ui, page) : claimsView(model, ui, page, shown === "table" || phone.matches)}`;
}

function other(name, model, ui, page) {
  bring(name);
  const module = loaded[name];
  if (module?.problem) return errorBar(module.problem);
  return module.view ? module.view(model, ui[name] ??= {}, page) : blank(5, 40);
}

/** What is shown while a report is not there; null if it is. */
export function waitingFor(page, report, { none }) {
  if (report.state === "failed") return errorBar(report.problem, () => askAgain(page, report.name));
  if (report.state === "loading") return blank(6, 28);
  if (report.state === "computing") return html`<p class="notice" role="status">${glyph("run")}<span class="grow">The documents are being compared. This takes a few seconds, and no model is asked.</span></p>${blank(6, 28)}`;
  if (report.state === "none") return html`<p class="notice">${glyph("wait")}<span class="grow">${none}</span></p>`;
  return null;
}

function claimsView(model, ui, page, isTable) {
  const report = reportOf(page, "claims");
  const waiting = waitingFor(page, report, { none: "Nothing yet: claims appear with the first proposal." });
  if (waiting) return waiting;
  ui.filter ??= { statuses: new Set(), seats: new Set(), only: new Set() };
  const claims = claimsOf(model, report, page);
  const isRuled = (claim) => rulingOf(model, claim) !== null;
  const chosen = choose(claims, ui.filter, isRuled);
  const groups = group(chosen, isRuled, { isOpen: ui.isOpen, picked: page.pick.claim });
  ui.shown = groups.flatMap((each) => each.claims);
  const left = chosen.length - ui.shown.length;
  return html`${filters(model, ui, claims, isRuled)}
    ${report.problem ? errorBar(report.problem, () => askAgain(page, "claims")) : nothing}
    ${may("write") ? nothing : html`<p class="notice">Your token may read only, so you cannot rule here.</p>`}
    ${chosen.length ? isTable ? table(model, page, groups, listColumns(model, claims)) : drawing(model, ui, page, claims, groups) : html`<p class="soft">No claim is like that.</p>`}
    ${left > 0 || ui.isOpen ? html`<div class="row"><button class="button" type="button" @click=${() => { ui.isOpen = !ui.isOpen; draw(); }}>${ui.isOpen ? "Show the most contested" : `Show all ${count(chosen.length)}`}</button>${left > 0 ? html`<span class="meta">The most contested of each seat are shown; ${count(left)} more.</span>` : nothing}</div>` : nothing}
    <p class="meta">Found by comparing texts (${report.data.method}). That a document says the same does not say that it is true.${report.isBehind ? " Newer documents are being compared." : ""}</p>`;
}

/** The claims as they stood at the moment that is shown. */
function claimsOf(model, report, page) {
  return model === page.model ? report.data.claims : claimsAt(model, report.data.claims);
}

// -- filters --------------------------------------------------------------------------------------

function flip(ui, set, value) {
  if (!set.delete(value)) set.add(value);
  draw();
}

function filters(model, ui, claims, isRuled) {
  const counts = countClaims(claims, isRuled);
  const { statuses, seats, only } = ui.filter;
  const own = [...new Set(claims.map((claim) => claim.seat))].filter(Boolean).sort((a, b) => a - b);
  return html`<div class="map-filters" role="group" aria-label="Which claims">
    ${STATUSES.filter((name) => counts[name]).map((name) => html`<button type="button" class="chip fate ${FATES[name].kind}" data-status=${name} aria-pressed=${statuses.has(name)} @click=${() => flip(ui, statuses, name)}>${glyph(FATES[name].glyph)}${count(counts[name])} ${FATES[name].word}</button>`)}
    <span class="divider" aria-hidden="true"></span>
    ${ONLY.filter(([id]) => counts[id]).map(([id, label]) => html`<button type="button" class="chip" data-only=${id} aria-pressed=${only.has(id)} @click=${() => flip(ui, only, id)}>${label} ${count(counts[id])}</button>`)}
    ${own.length > 1 ? html`<span class="divider" aria-hidden="true"></span>${own.map((index) => html`<button type="button" class="chip seat-filter" aria-pressed=${seats.has(index)} @click=${() => flip(ui, seats, index)}>${seat(index, { small: true, label: seatName(model, index) })}</button>`)}` : nothing}</div>`;
}

// -- the drawing ----------------------------------------------------------------------------------

function drawing(model, ui, page, claims, groups) {
  const columns = listColumns(model, claims);
  const seats = model.session.seats.map((each) => each.index);
  const step = wide.matches && !page.pick.claim ? STEP_WIDE_PX : STEP_PX;
  const names = groups.map((each) => each.claims.map((claim) => claim.id).join()).join("/");
  const rulings = ui.shown.map((claim) => rulingOf(model, claim)?.verdict ?? "").join();
  return guard([claims, names, rulings, step, page.pick.claim, columns.map((column) => column.isOpen).join(), page.iteration, page.moment], () => {
    const plan = layOut(groups, { columns, seats, step });
    const threads = new Map(plan.threads.map((thread) => [thread.claim.id, thread]));
    return html`<div class="map-frame" tabindex="0" role="group" aria-label="Argument map: a row for each claim"><div class="map ${page.pick.claim ? "has-picked" : ""}" .style=${`--graph:${plan.width}px;--height:${plan.height}px;--head:${HEAD_PX}px;--group:${GROUP_PX}px;--row:${ROW_PX}px`}>
      <div class="map-head" aria-hidden="true">${columns.map((column, index) => html`<span class=${column.isOpen ? "faint" : ""} .style=${`--x:${plan.places[index]}px`}>${column.title}</span>`)}</div>
      <svg class="map-grid" aria-hidden="true" width=${plan.width} height=${plan.height}>${columns.map((column, index) => svg`<path class=${column.isOpen ? "open" : ""} d="M${plan.places[index]} ${HEAD_PX}V${plan.height}"/>`)}</svg>
      ${repeat(groups, (each) => each.seat, (each) => html`<section class=${each.seat ? seatClass(each.seat) : ""} aria-label=${each.seat ? `Claims of seat ${each.seat}` : "Other claims"}>
        <h3 class="map-seat">${each.seat ? seat(each.seat, { small: true }) : nothing}<span>${written(seatName(model, each.seat) || "Others")}</span><span class="meta">${each.all > each.claims.length ? `${count(each.claims.length)} of ${plural(each.all, "claim")}` : plural(each.all, "claim")}</span></h3>
        <ul>${repeat(each.claims, (claim) => claim.id, (claim) => threadRow(model, page, threads.get(claim.id), plan))}</ul></section>`)}
    </div></div>`;
  });
}

function threadRow(model, page, thread, plan) {
  const { claim, lines, points, ends } = thread;
  const ruling = rulingOf(model, claim);
  return html`<li class="thread is-${claim.final}" data-claim=${claim.id}>
    <a class="claim-line" href=${page.hrefOf({ claim: claim.id, doc: null, job: null, stage: null }, "map")} data-item data-claim=${claim.id} aria-current=${page.pick.claim === claim.id ? "true" : nothing} aria-label=${describeClaim(model, claim, ruling)}>
      ${ruling ? html`<span class="ruled" title="Ruled: ${ruling.verdict}">◆</span>` : nothing}<span class="claim-words serif">${plain(claim.text)}</span>
      <svg aria-hidden="true" width=${plan.width} height=${plan.height}>${lines.map(({ d, kind }) => svg`<path class="hit" d=${d}/><path class="line ${kind}" d=${d}/>`)}
        ${points.map((point) => pointMark(point))}${ends.map((end) => pointMark(end))}</svg></a>
    ${repeat(thread.critics, ({ critic }) => critic.seat, ({ critic, x, y }) => criticMark(model, critic, { isHidden: true, style: `--x:${x}px;--y:${y}px` }))}</li>`;
}

// -- keys -----------------------------------------------------------------------------------------

export const keys = (model, ui, page) => [
  { keys: "v", label: "Map as a table", run: () => { change({ view: page.view === "table" ? null : "table" }, "map"); } },
  ...claimKeys(page, ui.shown ?? []),
];
