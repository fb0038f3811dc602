// The claims of an argument map as a table, with the same content; on a phone a list with a small thread.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { glyph, seat, seatClass } from "../parts.js";
import { criticMark, fateChip, FATES, placeHref, plain, seatName, smallThread } from "./claim_words.js";
import { rulingOf, VERDICTS } from "./claims.js";

/** @param {{seat: number|null, claims: object[], all: number}[]} groups */
export function table(model, page, groups, columns) {
  const stages = columns.filter((column) => column.kind === "fates");
  return html`<div class="table-frame"><table class="claims-table"><thead><tr><th scope="col">Seat</th><th scope="col" class="words">Claim</th><th scope="col">Critics</th>
      ${stages.map((stage) => html`<th scope="col">${stage.title}</th>`)}<th scope="col">In the end</th><th scope="col">Ruling</th></tr></thead>
    <tbody>${repeat(groups.flatMap((each) => each.claims), (claim) => claim.id, (claim) => row(model, page, claim, stages))}</tbody></table></div>`;
}

function row(model, page, claim, stages) {
  const ruling = rulingOf(model, claim);
  const told = ruling && VERDICTS.find((each) => each.verdict === ruling.verdict);
  return html`<tr class=${claim.seat ? seatClass(claim.seat) : ""} data-claim-row=${claim.id} data-final=${claim.final}>
    <td class="of">${claim.seat ? seat(claim.seat, { small: true, label: seatName(model, claim.seat) }) : nothing}</td>
    <th scope="row" class="serif words"><a href=${page.hrefOf({ claim: claim.id, doc: null, job: null, stage: null }, "map")} data-item data-claim=${claim.id} aria-current=${page.pick.claim === claim.id ? "true" : nothing}>${plain(claim.text)}</a>${smallThread(claim, stages)}</th>
    <td data-label="Critics"><span class="critics">${claim.critics.map((critic) => criticMark(model, critic))}${claim.critics.length ? nothing : html`<span class="faint">none</span>`}</span></td>
    ${stages.map((stage) => html`<td data-label=${stage.title}>${fateCell(model, claim.fates.find((fate) => fate.stage === stage.slug))}</td>`)}
    <td data-label="In the end">${fateChip(claim.final)}</td>
    <td data-label="Ruling">${told ? html`<span class="chip you">◆ ${told.told}</span>` : nothing}</td></tr>`;
}

function fateCell(model, fate) {
  if (!fate || fate.fate === "pending") return html`<span class="faint">·</span>`;
  const { word, glyph: shape } = FATES[fate.fate];
  const inside = html`${glyph(shape)}<span>${word}</span>`;
  return fate.document_ids.length ? html`<a class="fate-link" href=${placeHref(model, fate.document_ids[0], fate.block_id)} title=${fate.text ? plain(fate.text) : nothing}>${inside}</a>` : html`<span class="fate-link">${inside}</span>`;
}
