// What survived of each seat's claims, and what each seat brought: for the outcome of an iteration.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { count, duration, money, plural } from "../../format.js";
import { blank, errorBar, seat, seatClass, written } from "../parts.js";
import { FATES, passageHref, plain, seatName } from "./claim_words.js";
import { askAgain, reportOf } from "./claims.js";
import { STATUSES } from "./facts.js";

const LOST_SHOWN = 5;
const CELLS_MAX = 80;

export function survived(page, model) {
  const report = reportOf(page, "claims");
  const head = html`<div class="row"><p class="label grow">What survived</p><a class="see-how" href=${page.hrefOf({}, "map")}>See how</a></div>`;
  if (report.state === "failed") return html`${head}${errorBar(report.problem, () => askAgain(page, "claims"))}`;
  if (!report.data?.claims.length) return report.state === "none" ? nothing : html`${head}${blank(model.session.seats.length, 34)}`;
  return html`${head}<ul class="survived">${report.data.coverage.map((each) => html`<li class=${seatClass(each.seat)}>${seat(each.seat, { label: seatName(model, each.seat) })}
      <span class="claim-cells" aria-hidden="true">${cellsOf(report.data.claims, each.seat).map((status) => html`<i class="is-${status}"></i>`)}</span>
      <span class="meta">${STATUSES.filter((name) => each[name]).map((name) => `${count(each[name])} ${FATES[name].word}`).join(", ")}</span></li>`)}</ul>`;
}

/** A cell for each claim of a seat: what is there first. */
function cellsOf(claims, index) {
  const own = claims.filter((claim) => claim.seat === index).map((claim) => claim.final).sort((a, b) => STATUSES.indexOf(a) - STATUSES.indexOf(b));
  const every = Math.ceil(own.length / CELLS_MAX);
  return own.filter((_, n) => n % every === 0);
}

/** Who earned their keep: what the work of each seat came to. It advises, and decides nothing. */
export function worth(page, model) {
  const report = reportOf(page, "worth");
  if (report.state === "failed") return errorBar(report.problem, () => askAgain(page, "worth"));
  if (!report.data?.seats.length || report.state !== "ready") return nothing;
  const paid = (one) => [Number(one.charged) ? money(one.charged) : "", Number(one.charged_play) ? money(one.charged_play, { play: true }) : ""].filter(Boolean).join(" + ");
  return html`<section class="worth" aria-labelledby="worth-title"><div class="stage-head"><h2 id="worth-title" class="grow">Who earned their keep</h2><p class="meta">Counted from what is in ${report.data.of ? html`<a href=${passageHref(report.data.of)}>the final document</a>` : "the final document"}; it does not say who is right.</p></div>
    <div class="table-frame"><table><thead><tr><th scope="col">Seat</th><th scope="col" class="right">Own points kept</th><th scope="col" class="right">Objections taken</th><th scope="col" class="right">Overruled by you</th><th scope="col" class="right">Left out as editor</th><th scope="col" class="right">Cost</th><th scope="col" class="right">Time</th><th scope="col">Without it, the plan would lack</th></tr></thead>
      <tbody>${report.data.seats.map((each) => html`<tr class=${seatClass(each.seat)}><th scope="row"><span class="row">${seat(each.seat)}<span class="one-line">${written(seatName(model, each.seat) || each.model)}</span></span></th>
        <td class="right" data-label="Own points kept">${count(each.kept)} of ${count(each.points)}</td><td class="right" data-label="Objections taken">${count(each.objections_taken)} of ${count(each.objections)}</td>
        <td class="right" data-label="Overruled by you">${count(each.overruled)}</td><td class="right" data-label="Left out as editor">${count(each.omissions)}</td><td class="right" data-label="Cost">${paid(each)}</td><td class="right" data-label="Time">${duration(each.minutes * 60)}</td>
        <td data-label="Without it">${each.lost_without.length ? html`<details><summary>${plural(each.lost_without.length, "point")}</summary><ul class="lost">${each.lost_without.slice(0, LOST_SHOWN).map((place) => html`<li class="serif"><a href=${passageHref(place)}>${plain(place.text)}</a></li>`)}</ul></details>` : html`<span class="faint">nothing</span>`}</td></tr>`)}</tbody></table></div></section>`;
}
