// The margin of a text: where its passages come from, notes of people, versions, facts.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { keyed } from "../../../vendor/lit/directives/keyed.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { ago, count, list, moment, plural } from "../../format.js";
import { draw, keep, kept, may, state } from "../../store.js";
import { action, attempt, icon, seat, seatClass, stars, written } from "../parts.js";
import { facts, findStage, listRulingsOn } from "../session/facts.js";
import { changeNote, notePlace, rate, removeNote, sendNote } from "./acts.js";

const SOURCES_SHOWN = 3;
/** What a link says; never that something is true. */
const RELATIONS = {
  verbatim: "says the same, word for word", reworded: "says the same in other words", rounded: "says the same with rounded figures",
  merged: "says a part of it", changed: "says it differently: compare figures and “not”",
};
const KINDS = { request: "Your request", resource: "A resource", feedback: "Feedback", person: "A person" };

export function margin(page) {
  if (page.job) return html`<aside class="doc-margin" aria-label="About this document"></aside>`;
  return html`<aside class="doc-margin" aria-label="About this document">
    ${page.one ? html`${origins(page)}${rulings(page)}${notes(page)}${versions(page)}` : nothing}${about(page)}</aside>`;
}

// -- where passages come from ---------------------------------------------------------------------

function origins(page) {
  const picked = page.picked && page.passages?.get(page.picked);
  return html`<section class="origins ${picked ? "has-pick" : ""}" aria-labelledby="origins-title" aria-live="off">
    <div class="row"><h2 class="label grow" id="origins-title">Where this comes from</h2>${picked ? html`<button class="icon" type="button" aria-label="Close the source" @click=${() => { const id = page.picked; page.picked = null; draw(); document.getElementById(id)?.focus({ preventScroll: true }); }}>${icon("close")}</button>` : nothing}</div>
    ${picked ? picked.map((passage) => passageCards(page, passage)) : overview(page)}</section>`;
}

function overview(page) {
  const { trace } = page;
  if (!trace || trace.state === "loading") return html`<p class="meta">Comparing with what its author read.</p>`;
  if (trace.state === "failed") return html`<p class="meta">It could not be compared: ${trace.problem.detail}</p>`;
  const all = trace.passages.length;
  const traced = trace.passages.filter((passage) => passage.sources.length).length;
  if (!traced) return html`<p class="meta">${(page.one.source_ids ?? []).length ? "No passage says the same as something that its author read." : "It was written from your request alone, so its passages begin here."}</p>`;
  const asked = trace.passages.filter((passage) => passage.sources.length && !passage.sources[0].seat).length;
  const most = Math.max(1, asked, ...trace.by_seat.map((each) => each.passages));
  const share = (n) => html`<i .style=${`--share:${(100 * n) / most}%`}></i><span class="meta">${count(n)}</span>`;
  return html`<p class="soft">${count(traced)} of ${plural(all, "passage")} ${traced === 1 ? "says" : "say"} the same as an earlier one. It was said first by</p>
    <ul class="shares">${trace.by_seat.map((each) => html`<li class=${seatClass(each.seat)}>${seat(each.seat, { label: labelOf(page, each.seat), small: true })}<span class="one-line share-name">${written(labelOf(page, each.seat))}</span>${share(each.passages)}</li>`)}
      ${asked ? html`<li><span class="seat small" aria-hidden="true">?</span><span class="one-line share-name">your request</span>${share(asked)}</li>` : nothing}</ul>
    ${trace.unread ? html`<p class="meta">${plural(trace.unread, "passage")} more ${trace.unread === 1 ? "was" : "were"} not compared.</p>` : nothing}
    <p class="meta">Point at a marked passage to see it; press it, or J, to follow it back. What is dotted is new here.</p>`;
}

const labelOf = (page, index) => page.model.session.seats.find((each) => each.index === index)?.label ?? "";

function passageCards(page, passage) {
  const own = textOf(page, passage);
  const [shown, left] = [passage.sources.slice(0, SOURCES_SHOWN), passage.sources.length - SOURCES_SHOWN];
  if (!passage.sources.length) return html`<p class="soft">${passage.new_by === "person" ? "A person added this." : "New here: nothing that its author read says the same, as far as the words tell."}</p>${addedIn(page, passage)}`;
  return html`${page.chain?.chain(page, passage, own) ?? nothing}
    ${repeat(shown, (source, n) => `${passage.n}/${n}`, (source) => sourceCard(page, source, own))}
    ${left > 0 ? html`<p class="meta">and ${plural(left, "passage")} more</p>` : nothing}`;
}

/** The document that a passage without a source begins in, if it is another one. */
function addedIn(page, { new_at: id }) {
  const one = id && id !== page.one.id ? facts(page.model).find(id) : null;
  if (!one || one.original_id === page.one.original_id) return nothing;
  return html`<p class="meta">It begins in <a href="/documents/${one.id}">${findStage(page.model, one.stage)?.title ?? one.stage}${one.seat ? ` by seat ${one.seat}` : ""}</a>.</p>`;
}

/** The words of a passage; offsets count characters, not units of UTF-16. */
function textOf(page, { start, end }) {
  if (page.chars?.of !== page.one.id) page.chars = { of: page.one.id, all: Array.from(page.one.content) };
  return page.chars.all.slice(start, end).join("");
}

function sourceCard(page, source, own) {
  const id = source.version_id ?? source.id;
  const stage = findStage(page.model, source.stage)?.title ?? "";
  const via = (source.via ?? []).map((each) => facts(page.model).find(each)).filter(Boolean);
  return html`<article class="card source-card ${source.seat ? `of-seat ${seatClass(source.seat)}` : ""}">
    <p class="row">${source.seat ? seat(source.seat, { small: true }) : nothing}<strong class="one-line">${source.seat ? written(labelOf(page, source.seat)) : KINDS[source.kind] ?? source.label}</strong><span class="meta">${stage}</span></p>
    <p class="meta">${source.is_sure ? "" : "likely "}${RELATIONS[source.relation] ?? source.relation}</p>
    <p class="serif quote">${shared(source.text, own)}</p>
    ${via.length ? html`<p class="meta">through ${list([...new Set(via.map((one) => `${findStage(page.model, one.stage)?.title ?? one.stage}${one.seat ? ` by seat ${one.seat}` : ""}`))].slice(0, 3))}</p>` : nothing}
    ${id && source.kind !== "request" ? html`<a data-open href="/documents/${id}?at=${source.start}">Open at this passage</a>` : nothing}</article>`;
}

/** A quote with the words marked that the passage has too. */
function shared(quote, own) {
  const has = new Set((own.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? []).filter((word) => word.length > 3 || /\d/.test(word)));
  return quote.replace(/^\s*(?:>\s*)*(?:[-*+]|\d+[.)]|>)?\s+|^>\s*/, "").replace(/\*\*|__/g, "").split(/([\p{L}\p{N}]+)/u).map((part, n) => (n % 2 && has.has(part.toLowerCase()) ? html`<mark>${part}</mark>` : written(part)));
}

// -- rulings --------------------------------------------------------------------------------------

const RULED = { keep: "Keep it", change: "As criticised", drop: "Drop it", own: "In a person's words" };

/** What people had decided before it was written: its prompt has it. */
function rulings(page) {
  const begun = page.model.jobs.get(facts(page.model).find(page.one.original_id)?.job_id)?.started_at ?? page.one.created_at;
  const made = page.one.is_by_user ? [] : listRulingsOn(page.model, page.one.stage, begun);
  if (!made.length) return nothing;
  return html`<section class="bound" aria-labelledby="bound-title"><h2 class="label" id="bound-title">Bound by your ruling</h2>
    <ul class="said">${made.map((one) => html`<li><p class="serif">${written(one.subject ?? "")}</p><p class="meta">◆ ${one.position_id ? "This holds" : RULED[one.verdict]}${one.text ? html`: ${written(one.text)}` : nothing}</p></li>`)}</ul></section>`;
}

// -- notes ----------------------------------------------------------------------------------------

function notes(page) {
  const said = [...page.model.feedback.values()].filter((each) => each.document_id === page.one.original_id && each.kind === "response").sort((a, b) => (a.created_at < b.created_at ? -1 : 1));
  if (!said.length && !may("write")) return nothing;
  const place = notePlace(page);
  const text = () => page.note ?? kept(place);
  const send = (event) => { event.preventDefault(); attempt("note", () => sendNote(page, text())); };
  return html`<section aria-labelledby="notes-title"><h2 class="label" id="notes-title">Feedback</h2>
    <ul class="notes">${repeat(said, (each) => each.id, (each) => note(page, each))}</ul>
    ${may("write") ? html`<form class="field" @submit=${send}><label class="sr" for="note">Your feedback on this document</label>
      ${keyed(page.noteRound ?? 0, html`<textarea id="note" rows="2" placeholder="What must later stages know?" .value=${kept(place)} @input=${(event) => { page.note = event.target.value; keep(place, page.note); draw(); }}></textarea>`)}
      ${text().trim() ? html`<div>${action({ name: "note", label: "Save feedback", run: () => sendNote(page, text()) })}</div>` : nothing}</form>` : nothing}</section>`;
}

function note(page, one) {
  const isMine = one.by.user_id === state.me?.user_id && may("write");
  const isOpen = page.changing?.id === one.id;
  const close = () => { page.changing = null; draw(); };
  if (isOpen) {
    const save = async () => { await changeNote(one.id, page.changing.text.trim()); close(); };
    return html`<li><form class="field" @submit=${(event) => { event.preventDefault(); attempt(`note-${one.id}`, save); }}><label class="sr" for="note-${one.id}">Your feedback</label>
      <textarea id="note-${one.id}" rows="3" .value=${one.text} @input=${(event) => { page.changing.text = event.target.value; }}></textarea>
      <div class="row">${action({ name: `note-${one.id}`, label: "Save", kind: "small", run: save })}<button class="button small plain" type="button" @click=${close}>Leave it</button></div></form></li>`;
  }
  return html`<li><p class="serif">${written(one.text)}</p><p class="meta row">${written(one.by.name ?? "A former member")} · <span title=${moment(one.created_at)}>${ago(one.created_at, Date.now())}</span>
    ${isMine ? html`<button class="link" type="button" @click=${() => { page.changing = { id: one.id, text: one.text }; draw(); requestAnimationFrame(() => document.getElementById(`note-${one.id}`)?.focus()); }}>Change</button>
      <button class="link" type="button" @click=${() => attempt(`drop-${one.id}`, async () => { await removeNote(one.id); document.getElementById("note")?.focus({ preventScroll: true }); })}>Remove</button>` : nothing}</p></li>`;
}

// -- versions and facts ---------------------------------------------------------------------------

function versions(page) {
  if (page.versions.length < 2) return nothing;
  return html`<section id="versions" aria-labelledby="versions-title"><h2 class="label" id="versions-title">Versions</h2>
    <ol class="versions">${[...page.versions].reverse().map((each) => html`<li><a href="/documents/${each.id}" aria-current=${each.id === page.one.id ? "true" : nothing}><strong>${each.version}</strong> <span class="one-line">${written(each.is_by_user ? each.by?.name ?? "A former member" : each.model)}</span> <span class="meta" title=${moment(each.created_at)}>${ago(each.created_at, Date.now())}</span></a>
      ${each.id === page.one.id ? nothing : html`<a class="meta" href="/documents/${page.one.id}?mode=diff&with=${each.id}" aria-label="Changes between version ${each.version} and this one">changes</a>`}</li>`)}</ol></section>`;
}

function about(page) {
  const { one, extract, model } = page;
  if (extract) return html`<section><dl class="facts"><dt>File</dt><dd>${written(extract.path.split("/").at(-1))}</dd><dt>Size</dt><dd>${plural(extract.content.split(/\s+/).length, "word")}</dd></dl></section>`;
  const known = facts(model).find(one.original_id);
  const sources = [...new Set((one.source_ids ?? []).map((id) => facts(model).find(id)).filter(Boolean))];
  return html`<section aria-label="Facts">${may("write") ? html`<p class="row narrow-only">${stars(known?.my_rating ?? one.my_rating ?? null, (n) => rate(page, n))}</p>` : nothing}<dl class="facts">
    <dt>Model</dt><dd>${written(one.model)}</dd>
    <dt>Version</dt><dd>${one.version}${one.is_by_user ? ", by a person" : ""}</dd>
    <dt>Written</dt><dd title=${moment(one.created_at)}>${ago(one.created_at, Date.now())}</dd>
    ${known?.words ? html`<dt>Length</dt><dd>${plural(known.words, "word")}</dd>` : nothing}
    ${one.input_tokens ? html`<dt>Tokens</dt><dd>${count(one.input_tokens)} read, ${count(one.output_tokens ?? 0)} written</dd>` : nothing}
    ${known?.shortened ? html`<dt>Shortened</dt><dd>${plural(known.shortened.items, "input")}</dd>` : nothing}
    ${one.missing?.length ? html`<dt>Missing</dt><dd class="is-bad">${list(one.missing)}</dd>` : nothing}</dl>
    ${sources.length ? html`<details class="reads"><summary>Read ${plural(one.source_ids.length, "document")}</summary><ul class="source-chips">${sources.map((each) => html`<li><a class="chip ${seatClass(each.seat ?? 1)}" href="/documents/${each.id}">${each.seat ? seat(each.seat, { small: true }) : nothing}${findStage(model, each.stage)?.title ?? each.stage}</a></li>`)}</ul></details>` : nothing}</section>`;
}
