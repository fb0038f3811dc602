// What is contested, on the card of the gate: claims and dissents that a person can rule on before the next stage.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, plural } from "../../format.js";
import { draw } from "../../store.js";
import { seat, seatClass } from "../parts.js";
import { claimKeys, rulingButtons } from "./claim.js";
import { criticMark, plain } from "./claim_words.js";
import { reportOf, rulingOf, sendTyped } from "./claims.js";
import { card } from "./dissent.js";
import { weigh } from "./map_layout.js";

const CLAIMS_SHOWN = 5;
const DISSENTS_SHOWN = 3;

/** Choose what the gate shows: the weightiest. What is ruled on stays where it was. */
function chooseContested(page) {
  const claims = (reportOf(page, "claims").data?.claims ?? []).filter((one) => one.is_contested);
  const dissents = (reportOf(page, "dissents").data?.dissents ?? []).filter((one) => one.iteration === page.model.session.iteration && one.status !== "settled");
  const weight = new Map(claims.map((one) => [one, weigh(one, false)]));
  return { claims: claims.sort((a, b) => weight.get(b) - weight.get(a)).slice(0, CLAIMS_SHOWN), dissents: dissents.slice(0, DISSENTS_SHOWN), left: Math.max(0, claims.length - CLAIMS_SHOWN) + Math.max(0, dissents.length - DISSENTS_SHOWN) };
}

// When someone last did something: what comes later must not move what they look at.
let touched = 0;
for (const name of ["pointerdown", "pointermove", "keydown", "wheel", "touchstart"]) addEventListener(name, () => { touched = performance.now(); }, { passive: true, capture: true });

/** Tell whether the list is open: it opens by itself, unless someone was at work before it came. */
function isOpened(page) {
  const place = `${page.model.session.iteration}/${page.model.session.current_stage}`;
  if (page.ui.gate?.place !== place) page.ui.gate = { place, shownAt: performance.now(), isOpen: null };
  const { gate } = page.ui;
  if (gate.isOpen === null && ["claims", "dissents"].every((name) => page.reports[name].data)) gate.isOpen = touched < gate.shownAt;
  return gate.isOpen === true;
}

function turn(page) {
  page.ui.gate.isOpen = !page.ui.gate.isOpen;
  draw();
}

export function contested(page, model) {
  const { claims, dissents, left } = chooseContested(page);
  const isOpen = isOpened(page);
  page.sendRulings = () => sendTyped(page, [...claims.map((subject) => ({ kind: "claims", subject })), ...dissents.map((subject) => ({ kind: "dissents", subject }))]);
  const all = claims.length + dissents.length + left;
  if (!all) return html`<p class="meta need-more">${["loading", "computing"].includes(reportOf(page, "dissents").state) ? "Comparing what the models say." : "Nothing is contested, as far as the words tell."}</p>`;
  const made = [...claims, ...dissents].filter((one) => rulingOf(model, one)).length;
  page.ui.dissent ??= {};
  const title = claims.length ? `Contested: ${count(all)}` : `The models do not agree: ${count(all)}`;
  const head = html`<h3 class="label" id="gate-contested"><button class="unfold" type="button" aria-expanded=${isOpen} @click=${() => turn(page)}>${title}<span class="chevron ${isOpen ? "" : "is-closed"}" aria-hidden="true"></span></button></h3>`;
  if (!isOpen) return html`<section class="gate-claims" aria-labelledby="gate-contested">${head}</section>`;
  return html`<section class="gate-claims" aria-labelledby="gate-contested">${head}
    ${claims.length ? html`<ul class="gate-list">${repeat(claims, (one) => one.id, (claim) => html`<li class="gate-claim ${claim.seat ? seatClass(claim.seat) : ""}" data-gate-claim data-claim=${claim.id} tabindex="0" aria-label="Contested claim: ${plain(claim.text)}">
      <p class="row">${claim.seat ? seat(claim.seat, { small: true }) : nothing}<a class="serif grow gate-words" href=${page.hrefOf({ claim: claim.id })}>${plain(claim.text)}</a><span class="critics">${claim.critics.map((critic) => criticMark(model, critic))}</span></p>
      ${rulingButtons(page, model, claim)}</li>`)}</ul>` : nothing}
    ${dissents.length ? html`<ol class="dissents">${repeat(dissents, (one) => one.id, (one) => card(model, page.ui.dissent, page, one, { isShort: true }))}</ol>` : nothing}
    <p class="row wrap meta">${made ? html`<strong>◆ ${plural(made, "ruling")} will bind the next stage.</strong>` : "Rule on what you care about, and leave the others to the models."}
      <a href=${page.hrefOf(claims.length ? {} : { view: "dissent" }, "map")}>${left ? `See ${count(left)} more` : "See all of it"}</a></p></section>`;
}

export const keys = (page) => claimKeys(page, reportOf(page, "claims").data?.claims ?? []);
