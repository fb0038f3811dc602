// Source and preview scroll together, block by block. A hidden copy of the source tells how high each block is.
import { html } from "../../../vendor/lit/lit-html.js";

let leading = null;
let freed = 0;

/** Draw the copy: the same text in the same width, a span for each block. */
export function mirror(text, blocks) {
  const all = Array.from(text);
  const starts = blocks.map((block) => block.start);
  const pieces = starts.map((start, n) => html`<span data-block=${blocks[n].id}>${all.slice(start, starts[n + 1] ?? all.length).join("")}</span>`);
  return html`<div class="mirror" aria-hidden="true">${all.slice(0, starts[0] ?? 0).join("")}${pieces}</div>`;
}

/** One of both was scrolled: bring the other to the same block. */
export function follow(event, side) {
  if (leading && leading !== side) return;
  leading = side;
  clearTimeout(freed);
  freed = setTimeout(() => { leading = null; }, 120);
  const write = document.getElementById("edit-text");
  const preview = document.querySelector(".pane-preview");
  const copies = /** @type {HTMLElement[]} */ ([...document.querySelectorAll(".mirror [data-block]")]);
  if (!write || !preview || !copies.length) return;
  const pairs = copies.map((copy) => ({ top: copy.offsetTop, block: preview.querySelector(`#${copy.dataset.block}`) })).filter(({ block }) => block)
    .map(({ top, block }) => [top, block.getBoundingClientRect().top - preview.getBoundingClientRect().top + preview.scrollTop]);
  const [writeEnd, previewEnd] = [write.scrollHeight - write.clientHeight, preview.scrollHeight - preview.clientHeight];
  const points = [[0, 0], ...pairs.filter(([a, b]) => a < writeEnd && b < previewEnd), [writeEnd, previewEnd]];
  if (side === "write") preview.scrollTop = between(points, write.scrollTop);
  else write.scrollTop = between(points.map(([a, b]) => [b, a]), preview.scrollTop);
}

/** Find the place on the other side, in proportion between two blocks. */
export function between(points, value) {
  const next = points.findIndex(([from]) => from > value);
  if (next <= 0) return next === 0 ? points[0][1] : points.at(-1)[1];
  const [[a, x], [b, y]] = [points[next - 1], points[next]];
  return x + ((value - a) / Math.max(1, b - a)) * (y - x);
}
