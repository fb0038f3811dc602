// The text of a document: contents, blocks with marks, names of other documents, drafts, source.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { guard } from "../../../vendor/lit/directives/guard.js";
import { get } from "../../api.js";
import { clock, between, plural } from "../../format.js";
import { flashBlock, sanitised } from "../../html.js";
import { loadStyle } from "../../router.js";
import { draw } from "../../store.js";
import { glyph, seat, seatClass, written } from "../parts.js";
import { facts, findStage } from "../session/facts.js";

const SOURCE_LINES = 120;
const CARD_DELAY_MS = 220;
const CARD_WIDTH = 340;
// Above the text stand the top bar and the bar of the document.
const READING_LINE_PX = 150;

// -- what the text refers to ----------------------------------------------------------------------

/** The names of other documents in this text, and where they lead. */
export function labelsOf(page) {
  const found = page.one && page.model ? facts(page.model).find(page.one.original_id) : null;
  return new Map(Object.entries(found?.labels ?? {}).map(([label, id]) => [label, `/documents/${facts(page.model).find(id)?.id ?? id}`]));
}

/** The documents that were written from this one, directly or through others. */
export function findSource(page) {
  const { readers } = facts(page.model);
  const found = new Map();
  const waiting = [page.one.original_id];
  while (waiting.length) {
    for (const one of readers(waiting.pop())) {
      if (!found.has(one.original_id)) waiting.push(one.original_id);
      found.set(one.original_id, one);
    }
  }
  return { readers: [...found.values()] };
}

/** Find the block at a place of the text. */
export function isAt(page, offset) {
  const { blocks } = page.rendered;
  let [low, high] = [0, blocks.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (blocks[middle].start <= offset) low = middle;
    else high = middle - 1;
  }
  return blocks[low]?.id ?? null;
}

/** Mark each block of which others said the same, in the colour of who said it first; what is new in a text with sources is dotted. */
export function marksOf(page) {
  const marks = new Map();
  page.passages = new Map();
  const isTraced = page.trace.passages.some((passage) => passage.sources.length);
  for (const passage of page.trace.passages) {
    if (!isTraced || (!passage.sources.length && passage.relation !== "new")) continue;
    const block = isAt(page, passage.start);
    page.passages.set(block, [...(page.passages.get(block) ?? []), passage]);
  }
  for (const [block, passages] of page.passages) {
    const first = passages.find((passage) => passage.sources.length)?.sources[0];
    const isChanged = passages.some((passage) => passage.relation === "changed" || passage.sources[0]?.relation === "changed");
    marks.set(block, `mark ${first ? (first.seat ? seatClass(first.seat) : "of-request") : "is-new"}${isChanged ? " is-changed" : ""}`);
  }
  return marks;
}

/** Scroll to a block once it is drawn, and let it flash. */
export function showBlock(id) {
  requestAnimationFrame(() => requestAnimationFrame(() => flashBlock(id)));
}

/** Give the focus to the next or previous block with a source. */
export function stepMark(page, by) {
  const all = [...(page.marks?.keys() ?? [])].filter((id) => page.passages.get(id).some((passage) => passage.sources.length));
  if (page.mode !== "read" || !all.length) return false;
  const here = all.indexOf(page.picked);
  const next = all[here < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, here + by))];
  const block = document.getElementById(next);
  block?.focus({ preventScroll: true });
  // On a phone the source comes up from below.
  block?.scrollIntoView({ block: matchMedia("(max-width: 760px)").matches ? "start" : "center" });
  pick(page, next);
  followBack(page);
  return true;
}

function pick(page, id) {
  if (page.picked === id) return;
  page.picked = id;
  draw();
}

/** Follow the passage that was chosen back to where it was said first: by a click or a key, not by pointing. */
async function followBack(page) {
  page.chain ??= (await Promise.all([import("./chain.js"), loadStyle("session_map")]))[0];
  for (const passage of page.passages?.get(page.picked) ?? []) page.chain.follow(page, passage);
  draw();
}

// -- contents -------------------------------------------------------------------------------------

export function contents(page) {
  const toc = page.rendered?.toc ?? [];
  if (!toc.length || page.job) return html`<div class="doc-contents"></div>`;
  const top = Math.min(...toc.map((entry) => entry.level));
  const toggle = () => { page.contentsOpen = !page.contentsOpen; draw(); };
  return html`<nav class="doc-contents ${page.contentsOpen ? "is-open" : ""}" aria-label="Contents">
    <button class="button contents-toggle" type="button" aria-expanded=${page.contentsOpen} @click=${toggle}>Contents</button>
    ${guard([page.rendered, page.heading], () => html`<ol>${toc.map((entry) => html`<li class="level-${Math.min(3, entry.level - top)}"><a href="#${entry.id}" aria-current=${entry.id === page.heading ? "location" : nothing}>${written(entry.text)}</a></li>`)}</ol>`)}</nav>`;
}

/** Follow which heading is read. @returns {() => void} stops it */
export function watchScroll(page) {
  let isDue = false;
  const look = () => {
    isDue = false;
    const heading = findHeading(page.rendered?.toc ?? []);
    if (heading === page.heading) return;
    page.heading = heading;
    draw();
  };
  const scrolled = () => {
    page.card &&= null;
    if (!isDue) requestAnimationFrame(look);
    isDue = true;
  };
  addEventListener("scroll", scrolled, { passive: true });
  scrolled();
  return () => removeEventListener("scroll", scrolled);
}

function findHeading(toc) {
  let [low, high] = [-1, toc.length - 1];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const box = document.getElementById(toc[middle].id)?.getBoundingClientRect();
    if (box && box.top <= READING_LINE_PX) low = middle;
    else high = middle - 1;
  }
  return toc[low]?.id ?? toc[0]?.id ?? null;
}

// -- the text -------------------------------------------------------------------------------------

function article(page) {
  const over = (event) => {
    const [ref, mark] = [event.target.closest(".ref"), event.target.closest(".mark")];
    if (mark && event.pointerType !== "touch") pick(page, mark.id);
    if (ref && event.pointerType !== "touch") openCard(page, ref);
    else leaveCard(page);
  };
  const focus = (event) => {
    if (event.target.matches(".mark")) pick(page, event.target.id);
    if (event.target.matches(".ref")) openCard(page, event.target);
  };
  const click = (event) => {
    const ref = event.target.closest(".ref");
    const mark = event.target.closest(".mark");
    if (ref && matchMedia("(hover: none)").matches) {
      event.preventDefault();
      openCard(page, ref);
    } else if (mark && !event.target.closest("a")) {
      pick(page, mark.id);
      followBack(page);
    }
  };
  return html`<article class="prose doc-text" lang=${page.rendered.lang ?? nothing} aria-label="Text" @pointerover=${over} @pointerleave=${() => leaveCard(page)} @focusin=${focus} @focusout=${() => leaveCard(page)} @click=${click} @keydown=${(event) => arrows(page, event)}
    ${sanitised(page.rendered.html, { links: page.links, marks: page.marks ?? null, picked: page.picked })}></article>
    ${guard([page.rendered], () => footnotes(page))}`;
}

function arrows(page, event) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by && event.target.matches(".mark") && stepMark(page, by)) event.preventDefault();
}

/** On paper a link cannot be followed: its address stands at the end. */
function footnotes(page) {
  const found = [...page.rendered.html.matchAll(/ href="((?:https?|mailto):[^"]*)"/g)].map((match) => match[1].replaceAll("&amp;", "&"));
  return found.length ? html`<ol class="print-only footnotes">${found.map((address) => html`<li>${written(address)}</li>`)}</ol>` : nothing;
}

function source(page) {
  const lines = (page.one ?? page.extract).content.split("\n");
  const pieces = Array.from({ length: Math.ceil(lines.length / SOURCE_LINES) }, (_, n) => lines.slice(n * SOURCE_LINES, (n + 1) * SOURCE_LINES).join("\n"));
  return html`<div class="doc-source" role="region" aria-label="Source" tabindex="0">${guard([page.one, page.extract], () => pieces.map((piece) => html`<pre>${written(piece)}</pre>`))}</div>`;
}

function writing(page) {
  const job = page.model.jobs.get(page.job);
  const draft = page.model.drafts.get(page.job);
  if (!job) return html`<p class="notice">This call is not under way any more. <a href="/sessions/${page.model.session.id}">Back to the session</a></p>`;
  const isOver = ["failed", "retry_loop_failed", "cancelled"].includes(job.status);
  if (isOver) return html`<p class="notice bad" role="status">${glyph(job.status === "cancelled" ? "cancelled" : "failed")}<span class="grow">${job.reason?.message ?? "This call ended without a document."}</span><a class="button" href="/sessions/${page.model.session.id}?job=${job.id}">Open the call</a></p>`;
  const took = between(job.started_at, Date.now());
  return html`<p class="row doc-writing">${glyph("run")}<span>Being written</span><span class="meta">${[job.words ? plural(job.words, "word") : "", took === null ? "" : clock(took)].filter(Boolean).join(" · ")}</span></p>
    <div class="prose draft" lang="">${written(draft?.text ?? "")}<i class="caret" aria-hidden="true"></i></div>`;
}

export const text = { article, source, writing };

// -- whose it is ----------------------------------------------------------------------------------

let closing = 0;

function openCard(page, ref) {
  clearTimeout(closing);
  if (page.card?.ref === ref) return;
  const box = ref.getBoundingClientRect();
  page.card = { ref, label: ref.textContent, href: ref.getAttribute("href"), left: Math.max(8, Math.min(box.left, innerWidth - CARD_WIDTH - 8)), below: box.bottom < innerHeight * 0.6, top: box.bottom + 6, bottom: innerHeight - box.top + 6 };
  readBeginning(page, page.card.href.split("/").at(-1));
  draw();
}

/** The board has no excerpt of drafts: their first lines are asked for once. */
function readBeginning(page, id) {
  page.beginnings ??= new Map();
  if (facts(page.model).find(id)?.excerpt || page.beginnings.has(id)) return;
  page.beginnings.set(id, "");
  get(`/contributions/${id}`).then((found) => { page.beginnings.set(id, found.content.replace(/^[>#\s]+.*$|[*_#>]/gm, "").trim().slice(0, 300)); draw(); }, () => {});
}

function leaveCard(page) {
  clearTimeout(closing);
  if (page.card) closing = setTimeout(() => { page.card = null; draw(); }, CARD_DELAY_MS);
}

/** Draw the card that says whose “Thesis B” is. */
export function handleText(page) {
  if (!page.card) return nothing;
  const { label, href, left, top, bottom, below } = page.card;
  const one = facts(page.model).find(href.split("/").at(-1));
  const own = page.model.session.seats.find((each) => each.index === one?.seat);
  return html`<div class="ref-card card of-seat ${one?.seat ? seatClass(one.seat) : ""}" role="tooltip" .style=${`left:${left}px;${below ? `top:${top}px` : `bottom:${bottom}px`}`}
    @pointerenter=${() => clearTimeout(closing)} @pointerleave=${() => leaveCard(page)}>
    <p class="row">${one?.seat ? seat(one.seat, { small: true }) : nothing}<strong class="one-line">${written(own?.label ?? one?.model ?? label)}</strong><span class="meta">${findStage(page.model, one?.stage)?.title ?? ""}</span></p>
    <p class="serif lines-3">${written(one?.excerpt ?? page.beginnings?.get(href.split("/").at(-1)) ?? "")}</p>
    <p class="meta">${label} <a href=${href}>Open</a></p></div>`;
}
