// What is contested, on the card of the gate: claims and dissents that a person can rule on before the next stage.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, plural } from "../../format.js";
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

export function contested(page, model) {
  const { claims, dissents, left } = chooseContested(page);
  page.sendRulings = () => sendTyped(page, [...claims.map((subject) => ({ kind: "claims", subject })), ...dissents.map((subject) => ({ kind: "dissents", subject }))]);
  if (!claims.length && !dissents.length) return nothing;
  const made = [...claims, ...dissents].filter((one) => rulingOf(model, one)).length;
  page.ui.dissent ??= {};
  return html`<section class="gate-claims" aria-labelledby="gate-contested"><h3 class="label" id="gate-contested">${claims.length ? "Contested" : "The proposals do not agree"}</h3>
    ${claims.length ? html`<ul class="gate-list">${repeat(claims, (one) => one.id, (claim) => html`<li class="gate-claim ${claim.seat ? seatClass(claim.seat) : ""}" data-gate-claim data-claim=${claim.id} tabindex="0" aria-label="Contested claim: ${plain(claim.text)}">
      <p class="row">${claim.seat ? seat(claim.seat, { small: true }) : nothing}<a class="serif grow gate-words" href=${page.hrefOf({ claim: claim.id })}>${plain(claim.text)}</a><span class="critics">${claim.critics.map((critic) => criticMark(model, critic))}</span></p>
      ${rulingButtons(page, model, claim)}</li>`)}</ul>` : nothing}
    ${dissents.length ? html`<ol class="dissents">${repeat(dissents, (one) => one.id, (one) => card(model, page.ui.dissent, page, one, { isShort: true }))}</ol>` : nothing}
    <p class="row wrap meta">${made ? html`<strong>◆ ${plural(made, "ruling")} will bind the next stage.</strong>` : "Rule on what you care about, and leave the others to the models."}
      <a href=${page.hrefOf(claims.length ? {} : { view: "dissent" }, "map")}>${left ? `See ${count(left)} more` : "See all of it"}</a></p></section>`;
}

export const keys = (page) => claimKeys(page, reportOf(page, "claims").data?.claims ?? []);
