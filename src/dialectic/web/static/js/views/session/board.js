// The board: a section for each stage, drawn by the steps of its process. It knows no stage by name.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { between, count, describeStatus, duration, plural } from "../../format.js";
import { may } from "../../store.js";
import { chip, glyph, icon, seat, seatClass, stars, written } from "../parts.js";
import { rate } from "./acts.js";
import { cross } from "./cross.js";
import { facts, FAILED, listPlaces, listRulingsOn, runStages, shapeOf, subjectsOf } from "./facts.js";
import { describeReason, elapsed, figuresOf, marksOf, phaseOf, taskOf } from "./words.js";

const COMPARE_MAX = 4;

/** Draw all stages. */
export function board(page, model, now) {
  return html`<div class="stages">${repeat(runStages(model), (stage) => stage.slug, (stage) => (page.isFolded(stage) ? folded(page, model, stage) : section(page, model, stage, now)))}</div>`;
}

function folded(page, model, stage) {
  const seats = [...new Set(finals(model, stage).map((one) => one.seat))].filter(Boolean).sort((a, b) => a - b);
  const took = between(stage.started_at, stage.completed_at);
  return html`<section class="stage" id="stage-${stage.slug}"><h2 class="fold-head"><button class="fold" type="button" aria-expanded="false" data-key="fold-${stage.slug}" @click=${() => page.unfold(stage.slug, true)}>
    ${glyph(describeStatus(stage.status).glyph, describeStatus(stage.status).word)}<span>${stage.title}</span><span class="meta">${plural(stage.finished, "document")}${took === null ? "" : `, ${duration(took)}`}</span>
    <span class="grow"></span>${seats.map((index) => seat(index))}<span class="chevron" aria-hidden="true"></span></button></h2></section>`;
}

function section(page, model, stage, now) {
  const own = finals(model, stage).slice(0, COMPARE_MAX);
  const isDone = stage.status === "complete";
  return html`<section class="stage" id="stage-${stage.slug}" aria-labelledby="title-${stage.slug}">
    <div class="stage-head"><h2 id="title-${stage.slug}">${isDone ? html`<button class="unfold" type="button" aria-expanded="true" data-key="fold-${stage.slug}" @click=${() => page.unfold(stage.slug, false)}>${stage.title}<span class="chevron" aria-hidden="true"></span></button>` : stage.title}</h2>
      <p class="soft grow">${stage.description}</p>${bound(page, model, stage)}
      <a class="button small plain" href=${page.hrefOf({ stage: stage.slug, doc: null, job: null })}>Details</a>
      ${own.length > 1 ? html`<a class="button small" href="/compare?ids=${own.map((one) => one.id).join(",")}">Compare ${own.length}</a>` : nothing}</div>
    ${stage.status === "cancelled" && !stage.finished ? html`<p class="meta">Nothing was written.</p>` : stage.steps.map((step) => drawStep(page, model, stage, step, now))}
  </section>`;
}

function bound(page, model, stage) {
  const n = listRulingsOn(model, stage.slug, stage.started_at).length;
  return n ? html`<a class="chip you" href=${page.hrefOf({}, "map")} data-bound=${n}>◆ bound by ${n === 1 ? "your ruling" : plural(n, "ruling")}</a>` : nothing;
}

const finals = (model, stage) => stage.steps.filter((step) => !step.is_intermediate && shapeOf(step) === "cards")
  .flatMap((step) => facts(model).documents(stage.slug, step.key)).sort((a, b) => (a.seat ?? 0) - (b.seat ?? 0));

function drawStep(page, model, stage, step, now) {
  const shape = shapeOf(step);
  if (shape === "dots") return dots(page, model, stage, step);
  if (shape === "cross") return cross(page, model, stage, step, now);
  const places = listPlaces(model, stage, step);
  if (!places.length) return nothing;
  return html`<ul class="cards" .style=${`--cols:${places.length <= 5 ? Math.max(2, places.length) : places.length % 4 ? 3 : 4}`}>${repeat(places, (place) => place.key, (place) => card(page, model, place, now))}</ul>`;
}

// -- cards ----------------------------------------------------------------------------------------

/** Where the link of a place leads: to the document, or to its call in the inspector. */
export const linkOf = (page, { document, job }) => (document ? `/documents/${document.id}` : job ? page.hrefOf({ job: job.id, doc: null, stage: null }) : nothing);

/** Draw a place: its document, its call, or who will write it. One template, so that the focus stays when a document lands. */
function card(page, model, place, now) {
  const { document, job, seat: index } = place;
  const own = model.session.seats.find((each) => each.index === index);
  const isPicked = document ? page.isPicked(document) : job && page.pick.job === job.id;
  const state = document ? "written" : job ? (FAILED.has(job.status) ? "failed" : "open") : "not-yet";
  const name = document ? document.model.split("/").pop() : own?.label ?? "";
  return html`<li class="place ${seatClass(index ?? 1)} ${state} ${page.landed.has(place.key) ? "lands" : ""}" data-key=${place.key}>
    <a class="place-link" href=${linkOf(page, place)} data-item data-doc=${document?.original_id ?? nothing} data-job=${job?.id ?? nothing} aria-current=${isPicked ? "true" : nothing}>
      <span class="place-head">${index ? seat(index, { label: name }) : nothing}<span class="place-model one-line">${written(name)}</span>${document ? marksOf(model, document).map(([word, kind]) => chip(word, kind)) : nothing}</span>
      ${document ? html`<span class="place-title serif">${written(document.title || taskOf(model, document))}</span><span class="place-text serif lines-3">${written(document.excerpt)}</span>`
        : html`<span class="place-text">${openText(model, job, now)}</span>`}</a>
    ${document ? foot(page, model, document) : nothing}</li>`;
}

function openText(model, job, now) {
  if (!job) return html`<span class="faint">not yet</span>`;
  const { glyph: shape } = describeStatus(job.status);
  if (FAILED.has(job.status)) return html`${glyph(shape)} <strong class="is-bad">failed</strong> ${job.errors?.length ? describeReason(job.errors.at(-1)) : ""}`;
  const time = job.status === "processing" ? elapsed(job, now) : "";
  return html`${glyph(shape)} ${phaseOf(job, now, model.drafts.has(job.id))} <span class="clock">${time}</span>`;
}

function foot(page, model, document) {
  const isRated = Boolean(document.my_rating);
  const value = document.my_rating ?? (document.ratings?.mean ? Math.round(document.ratings.mean) : null);
  return html`<div class="place-foot"><span class="meta grow">${figuresOf(model, document).join(" · ")}</span>
    ${may("write") ? html`<span class="place-stars ${isRated ? "rated" : ""}">${stars(value, (rating) => rate(page, document, rating))}</span>` : value ? stars(value) : nothing}
    ${page.collected.includes(document.id) ? chip("to compare", "run") : nothing}
    <a class="icon small" href=${page.hrefOf({ doc: document.original_id, job: null, stage: null })} aria-label="Details of ${document.title || "this document"}">${icon("more")}</a></div>`;
}

// -- dots -----------------------------------------------------------------------------------------

function dots(page, model, stage, step) {
  const jobs = facts(model).jobs(stage.slug, step.key).filter((job) => job.kind === "call");
  const sorted = [...jobs].sort((a, b) => (a.seat ?? 0) - (b.seat ?? 0) || (a.rank ?? 0) - (b.rank ?? 0) || (a.created_at < b.created_at ? -1 : 1));
  const missing = stage.status === "cancelled" ? 0 : Math.max(0, step.planned - sorted.length);
  if (!sorted.length && !missing) return nothing;
  return html`<div class="dots-row"><span class="dots-name"><span>${step.title}</span><span class="meta">${count(step.finished)} of ${count(step.planned)}</span></span>
    <span class="dots" role="group" aria-label=${step.title}>${repeat(sorted, (job) => job.id, (job) => dot(page, model, job))}${missing && missing <= 400 ? html`<i class="dots-left" aria-hidden="true" .style=${`--n:${missing}`}></i>` : nothing}</span></div>`;
}

const DOTS = { done: "done", run: "run", failed: "failed", paused: "paused", retry: "retry", cancelled: "cancelled" };

function dot(page, model, job) {
  const { glyph: shape, word } = describeStatus(job.status);
  const subjects = subjectsOf(model, job);
  const name = `Seat ${job.seat}${subjects.length ? ` on ${subjects.join(" and ")}` : ""}: ${word}`;
  return html`<a class="dot ${seatClass(job.seat ?? 1)} ${DOTS[shape] ?? "wait"}" href=${page.hrefOf({ job: job.id, doc: null, stage: null })} data-item data-job=${job.id} data-key=${job.id} aria-label=${name} title=${name} aria-current=${page.pick.job === job.id ? "true" : nothing}></a>`;
}
