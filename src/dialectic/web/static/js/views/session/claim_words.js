// How claims, critics and rulings are named and drawn in small, wherever they are shown.
import { html, nothing, svg } from "../../../vendor/lit/lit-html.js";
import { list, plural } from "../../format.js";
import { glyph, seat, seatClass, written } from "../parts.js";
import { facts, findStage } from "./facts.js";

/** What became of a claim: shape, word, kind of chip. Texts are compared: nothing here says that something is true. */
export const FATES = {
  kept: { glyph: "kept", word: "kept", kind: "ok" },
  changed: { glyph: "changed", word: "changed", kind: "you" },
  refused: { glyph: "cancelled", word: "refused", kind: "hold" },
  dropped: { glyph: "dropped", word: "dropped", kind: "bad" },
  pending: { glyph: "wait", word: "still open", kind: "" },
};

/** What a critic wants, as far as its words tell. */
export const WANTS = {
  keep: { sign: "✓", word: "holds", kind: "ok" },
  change: { sign: "✎", word: "must change", kind: "you" },
  drop: { sign: "✕", word: "should go", kind: "bad" },
  unclear: { sign: "·", word: "takes it up", kind: "" },
};

export const fateChip = (status, lead = "") => html`<span class="chip fate ${FATES[status].kind}">${glyph(FATES[status].glyph)}${lead}${FATES[status].word}</span>`;

/** The address of a document at a block; the block flashes. */
export const placeHref = (model, id, block) => `/documents/${facts(model).find(id)?.id ?? id}${block ? `#${block}` : ""}`;

/** The address of a passage of a report. */
export const passageHref = (place) => (place?.kind === "contribution" || place?.kind === "person" ? `/documents/${place.version_id ?? place.id}?at=${place.start}` : null);

/** Words without the marks of Markdown, on one line; the cells of a table row have dots between them. */
export const plain = (text) => written(String(text ?? "").replace(/^\s*\|\s*|\s*\|\s*$/g, "").replace(/\s+\|\s+/g, " · ").replace(/^\s*(?:>\s*)*(?:[-*+]\s+(?:\[[ x]\]\s*)?|\d+[.)]\s+|#+\s+)?/i, "").replace(/\*\*|__|`/g, "").replace(/\s+/g, " ").trim());

/** A critic's mark: it opens the passage that says so. @param {any} model @param {any} critic @param {{isHidden?: boolean, style?: unknown}} [options] */
export function criticMark(model, critic, { isHidden = false, style = nothing } = {}) {
  const { sign, word } = WANTS[critic.verdict];
  const name = `Seat ${critic.seat ?? "?"}: ${word}`;
  return html`<a class="critic ${critic.seat ? seatClass(critic.seat) : ""} ${critic.verdict}" href=${placeHref(model, critic.document_id, critic.block_id)} .style=${style}
    tabindex=${isHidden ? "-1" : nothing} aria-hidden=${isHidden ? "true" : nothing} aria-label=${isHidden ? nothing : `${name}. Open the passage`} title="${name}. ${plain(critic.note).slice(0, 160)}">${isHidden ? nothing : html`<span class="critic-seat">${critic.seat ?? "?"}</span>`}<span>${sign}</span></a>`;
}

/** A claim in a sentence, for those who do not see its thread. */
export function describeClaim(model, claim, ruling) {
  const wants = Object.entries(WANTS).map(([verdict, { word }]) => [claim.critics.filter((critic) => critic.verdict === verdict).length, word]).filter(([n]) => n);
  const told = wants.length ? `${list(wants.map(([n, word]) => `${plural(n, "critic")}: ${word}`))}. ` : "";
  const fates = claim.fates.filter((fate) => fate.fate !== "pending").map((fate) => `${findStage(model, fate.stage)?.title ?? fate.stage}: ${FATES[fate.fate].word}`);
  return `${claim.seat ? `Seat ${claim.seat} claims: ` : ""}${plain(claim.text)} ${told}${fates.length ? `${list(fates)}. ` : ""}In the end ${FATES[claim.final].word}.${ruling ? " You or a colleague ruled on it." : ""}`;
}

/** Two wordings, with the words marked that only one of them has. */
export function wordings(before, after) {
  const words = (text) => new Set(plain(text).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []);
  const [one, two] = [words(before), words(after)];
  const show = (text, other, tag) => plain(text).split(/([\p{L}\p{N}]+)/u).map((part, n) => (n % 2 && !other.has(part.toLowerCase()) ? (tag === "del" ? html`<del>${part}</del>` : html`<ins>${part}</ins>`) : part));
  return { before: show(before, two, "del"), after: show(after, one, "ins") };
}

export const seatName = (model, index) => model.session.seats.find((each) => each.index === index)?.label ?? "";
export const seatTag = (model, index) => (index ? seat(index, { small: true, label: seatName(model, index) }) : nothing);

/** ● kept, ◐ changed, ⊘ refused, ✕ dropped, a dotted ring for what is still open. */
export function pointMark({ x, y, kind }) {
  switch (kind) {
    case "birth": return svg`<circle class="mark" cx=${x} cy=${y} r="3.5"/>`;
    case "kept": return svg`<circle class="mark" cx=${x} cy=${y} r="4"/>`;
    case "changed": return svg`<circle class="mark hollow" cx=${x} cy=${y} r="4.4"/><path class="mark" d="M${x} ${y - 4.4}a4.4 4.4 0 0 1 0 8.8z"/>`;
    case "refused": return svg`<circle class="mark hollow refused" cx=${x} cy=${y} r="4.6"/><path class="stroke refused" d="M${x - 3.2} ${y + 3.2}l6.4-6.4"/>`;
    case "dropped": return svg`<path class="stroke dropped" d="M${x - 3.6} ${y - 3.6}l7.2 7.2m0-7.2l-7.2 7.2"/>`;
    case "pending": return svg`<circle class="mark hollow pending" cx=${x} cy=${y} r="4"/>`;
    default: return nothing;
  }
}

/** The thread of a claim in small: where it was said, and where it ended. */
export function smallThread(claim, stages) {
  const at = (n) => 6 + n * 22;
  const marks = [{ x: at(0), y: 8, kind: "birth" }];
  let last = at(0);
  stages.forEach((stage, n) => {
    const kind = claim.fates.find((fate) => fate.stage === stage.slug)?.fate ?? "pending";
    marks.push({ x: at(n + 1), y: 8, kind });
    if (kind === "kept" || kind === "changed") last = at(n + 1);
  });
  return html`<svg class="small-thread" width=${at(stages.length) + 8} height="16" aria-hidden="true"><path class="line" d="M${at(0)} 8H${last}"/>${marks.map(pointMark)}</svg>`;
}
