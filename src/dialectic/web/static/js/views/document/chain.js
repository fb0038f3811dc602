// The whole way of a passage: from this document back to where it was said first, hop by hop.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { get, Problem } from "../../api.js";
import { draw } from "../../store.js";
import { glyph, seat, seatClass } from "../parts.js";
import { passageHref, plain, wordings } from "../session/claim_words.js";
import { findStage, findStep } from "../session/facts.js";

const KINDS = { request: "Your request", resource: "A resource", feedback: "Feedback", ruling: "A ruling", person: "A person" };
/** What a hop says; never that something is true. */
const HOPS = { verbatim: "word for word", reworded: "in other words", rounded: "with rounded figures", merged: "with a part of another", changed: "changed" };

/** What each passage of a document says the same as in what its author read; asked for once. */
function readDirect(page, id) {
  page.direct ??= new Map();
  if (!page.direct.has(id)) page.direct.set(id, get(`/contributions/${id}/provenance?depth=direct`));
  return page.direct.get(id);
}

/**
 * Find the hops from a passage to a source: each with the passage that was read and how it differs.
 * @param {{start: number, end: number}} passage @param {{id: string, via: string[]}} source
 */
async function walk(page, passage, source) {
  const hops = [];
  // All of the way is asked for at once: each answer takes the server a moment.
  for (const each of source.via) readDirect(page, each).catch(() => {});
  let [id, at] = [page.one.id, passage];
  for (const next of [...source.via, source.id]) {
    const { passages } = await readDirect(page, id);
    const own = passages.find((one) => one.start === at.start) ?? passages.find((one) => one.start <= at.start && at.start < one.end);
    const found = (own?.sources ?? []).filter((one) => one.id === next || one.version_id === next).sort((a, b) => b.score - a.score)[0];
    if (!found) return { hops, isCut: true };
    hops.push(found);
    if (found.kind !== "contribution") break;
    [id, at] = [found.version_id, found];
  }
  return { hops, isCut: false };
}

const nameOf = (passage) => `${passage.n}`;

/** Ask for the whole way of a passage, once. */
export async function follow(page, passage) {
  page.chains ??= new Map();
  const key = `${page.one.id}/${nameOf(passage)}`;
  if (page.chains.has(key) || !passage.sources.length) return;
  page.chains.set(key, { state: "loading" });
  try {
    page.chains.set(key, { state: "ready", ...await walk(page, passage, passage.sources[0]) });
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    page.chains.set(key, { state: "failed", problem });
  }
  draw();
}

/** Draw the way of a passage; nothing before it was asked for. */
export function chain(page, passage, own) {
  const known = page.chains?.get(`${page.one.id}/${nameOf(passage)}`);
  if (!known) return nothing;
  if (known.state === "loading") return html`<p class="meta">Following it back.</p>`;
  if (known.state === "failed") return html`<p class="meta">It could not be followed: ${known.problem.detail}</p>`;
  if (known.hops.length < 2 && !known.hops.some((hop) => hop.relation === "changed")) return nothing;
  return html`<section class="chain" aria-label="The whole way of this passage"><h3 class="label">The whole way</h3><ol>${known.hops.map((hop, n) => hopItem(page, hop, n ? known.hops[n - 1].text : own))}</ol>
    ${known.isCut ? html`<p class="meta">Further back no passage is near enough.</p>` : nothing}</section>`;
}

function hopItem(page, hop, after) {
  const { model } = page;
  const stage = findStage(model, hop.stage);
  const step = hop.step ? findStep(model, hop.stage, hop.step)?.title : "";
  const own = model.session.seats.find((each) => each.index === hop.seat);
  const href = passageHref(hop);
  const shown = hop.relation === "changed" ? wordings(hop.text, after) : null;
  return html`<li class="hop ${hop.seat ? seatClass(hop.seat) : ""} is-${hop.relation}" data-relation=${hop.relation}>
    <p class="row wrap"><span class="hop-sign">${hop.relation === "changed" ? glyph("changed") : hop.is_sure ? "●" : "○"}</span>${hop.seat ? seat(hop.seat, { small: true, label: own?.label }) : nothing}<strong>${stage?.title ?? KINDS[hop.kind] ?? hop.label}</strong><span class="meta grow">${step ? `${step}, ` : ""}${hop.is_sure ? "" : "likely "}${HOPS[hop.relation] ?? hop.relation}</span></p>
    ${shown ? html`<dl class="wordings"><dt>before</dt><dd class="serif">${shown.before}</dd><dt>after</dt><dd class="serif">${shown.after}</dd></dl>` : html`<p class="serif quote">${plain(hop.text)}</p>`}
    ${href ? html`<a data-open href=${href}>Open at this passage</a>` : nothing}</li>`;
}
