// What is picked, in detail: a document, a call, or a stage.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { get } from "../../api.js";
import { ago, count, describeStatus, duration, money, moment, plural } from "../../format.js";
import { draw, may } from "../../store.js";
import { action, chip, glyph, icon, seat, seatClass, stars, written } from "../parts.js";
import { cancelOne, pauseOne, rate, replaceModel, retryOne, sayFeedback, skipOne } from "./acts.js";
import { facts, FAILED, findStage, isPast, stateOf, subjectsOf } from "./facts.js";
import { amount, describeReason, elapsed, figuresOf, marksOf, phaseOf, taskOf } from "./words.js";

/** Draw what is picked; nothing if it is unknown. `claims` is the module that knows claims, if it is loaded. */
export function inspector(page, model, now, claims = null) {
  const body = page.pick.claim ? claims?.claimParts?.(page, model, page.pick.claim) : content(page, model, now);
  if (!body) return nothing;
  return html`<aside class="inspector" aria-label="Details" @pointerdown=${drag}>
    <div class="grip" aria-hidden="true"></div>
    <div class="inspector-head">${body.head}<button class="icon" type="button" aria-label="Close details" data-close @click=${() => page.unpick()}>${icon("close")}</button></div>
    <div class="inspector-body stack">${body.parts}</div></aside>`;
}

function content(page, model, now) {
  const { doc, job, stage } = page.pick;
  if (doc) {
    const found = facts(model).find(doc);
    return found && !found.isDraft ? documentParts(page, model, found, now) : null;
  }
  if (job) {
    const found = model.jobs.get(job);
    return found ? jobParts(page, model, found, now) : null;
  }
  const found = stage ? findStage(model, stage) : null;
  return found ? stageParts(page, model, found) : null;
}

/** A sheet of a phone is pulled down to close it. */
function drag(event) {
  const sheet = event.currentTarget;
  if (!matchMedia("(max-width: 760px)").matches || !event.target.closest(".grip, .inspector-head") || event.target.closest("button")) return;
  const from = event.clientY;
  sheet.setPointerCapture(event.pointerId);
  const move = (at) => { sheet.style.translate = `0 ${Math.max(0, at.clientY - from)}px`; };
  const end = (at) => {
    sheet.removeEventListener("pointermove", move);
    sheet.style.translate = "";
    if (at.clientY - from > 90) sheet.querySelector("[data-close]").click();
  };
  sheet.addEventListener("pointermove", move);
  sheet.addEventListener("pointerup", end, { once: true });
  sheet.addEventListener("pointercancel", end, { once: true });
}

const head = (model, index, kind) => html`${index ? seat(index) : nothing}<strong class="one-line">${written(model.session.seats.find((each) => each.index === index)?.label ?? "")}</strong><span class="meta grow one-line">${kind}</span>`;
const part = (label, body) => html`<section class="part"><h3 class="label">${label}</h3>${body}</section>`;

function chips(model, documents) {
  return html`<ul class="source-chips">${documents.map((one) => html`<li><a class="chip ${seatClass(one.seat ?? 1)}" href="/documents/${one.id}">${one.seat ? seat(one.seat, { small: true }) : nothing}${findStage(model, one.stage)?.title ?? one.stage}</a></li>`)}</ul>`;
}

const sources = (model, ids) => [...new Set(ids.map((id) => facts(model).find(id)).filter(Boolean))];

// -- a document -----------------------------------------------------------------------------------

function documentParts(page, model, one, now) {
  const marks = marksOf(model, one);
  const [from, to] = [sources(model, one.source_ids ?? []), facts(model).readers(one.original_id)];
  const said = [...model.feedback.values()].filter((each) => each.document_id === one.original_id && each.text);
  const isCollected = page.collected.includes(one.id);
  return {
    head: head(model, one.seat, findStage(model, one.stage)?.title ?? ""),
    parts: html`<h2 class="serif inspector-title">${written(one.title)}</h2>
      ${marks.length ? html`<p class="row wrap">${marks.map(([word, kind]) => chip(word, kind))}</p>` : nothing}
      <p class="serif">${written(one.excerpt)}</p>
      <div class="row wrap"><a class="button main" href="/documents/${one.id}">Read</a>
        ${may("write") && !isPast(model) ? html`<a class="button" href="/documents/${one.id}?mode=edit">Edit</a>` : nothing}
        <button class="button" type="button" aria-pressed=${isCollected} @click=${() => page.collect(one.id)}>${isCollected ? "Leave out of compare" : "Compare with…"}</button>
        ${may("write") ? html`<button class="button plain" type="button" @click=${() => sayFeedback(page, { stage: one.stage, document: one })}>Feedback</button>` : nothing}</div>
      ${may("write") ? html`<p class="row">${stars(one.my_rating ?? null, (rating) => rate(page, one, rating))}${one.ratings?.count ? html`<span class="meta">${plural(one.ratings.count, "rating")}, ${one.ratings.mean} on average</span>` : nothing}</p>` : nothing}
      <dl class="facts"><dt>Model</dt><dd>${written(one.model)}</dd><dt>Written</dt><dd title=${moment(one.created_at)}>${ago(one.created_at, now)}</dd>
        <dt>Length</dt><dd>${figuresOf(model, one).join(" · ")}</dd>
        ${one.input_tokens ? html`<dt>Tokens</dt><dd>${count(one.input_tokens)} read, ${count(one.output_tokens ?? 0)} written</dd>` : nothing}
        ${one.versions > 1 ? html`<dt>Version</dt><dd>${one.version} of ${one.versions}${one.by ? html` by ${written(one.by.name ?? "a former member")}` : nothing}</dd>` : nothing}
        ${one.shortened ? html`<dt>Shortened</dt><dd>${plural(one.shortened.items, "input")}: ${count(one.shortened.before)} → ${plural(one.shortened.after, "token")}</dd>` : nothing}</dl>
      ${from.length ? part("Made from", chips(model, from)) : nothing}
      ${to.length ? part("Read by", chips(model, to)) : nothing}
      ${(one.parts ?? []).length ? part("Parts", html`<ul class="source-chips">${one.parts.map((each) => html`<li><a class="chip" href="/documents/${each.id}">${each.title}</a></li>`)}</ul>`) : nothing}
      ${said.length ? part("Feedback", html`<ul class="said">${said.map((each) => html`<li class="serif">${written(each.text)} <span class="meta">${each.by?.name ?? ""}</span></li>`)}</ul>`) : nothing}`,
  };
}

// -- a call ---------------------------------------------------------------------------------------

function jobParts(page, model, job, now) {
  const failed = FAILED.has(job.status);
  return { head: head(model, job.seat, taskOf(model, job)), parts: html`
    <p class="row">${glyph(describeStatus(job.status).glyph)}<strong>${failed ? "Failed" : job.status === "completed" ? "Done" : phaseOf(job, now, model.drafts.has(job.id))}</strong>${job.status === "processing" ? html`<span class="meta">${elapsed(job, now)}</span>` : nothing}</p>
    ${failed ? failure(page, model, job, now) : job.status === "completed" ? finished(page, model, job) : running(page, model, job)}
    ${callFacts(model, job, now)}` };
}

function callFacts(model, job, now) {
  const read = sources(model, [...(job.about_id ? [job.about_id] : []), ...(job.reads ?? [])]);
  const own = model.session.seats.find((each) => each.index === job.seat);
  const [unnamed, on] = [(job.reads ?? []).length - read.length, subjectsOf(model, job)];
  return html`<dl class="facts"><dt>Model</dt><dd>${written(own?.model ?? "")}</dd><dt>Stage</dt><dd>${findStage(model, job.stage)?.title}</dd>
    ${on.length ? html`<dt>On</dt><dd>${on.map((index) => seat(index, { small: true }))}</dd>` : nothing}
    ${job.started_at ? html`<dt>Started</dt><dd title=${moment(job.started_at)}>${ago(job.started_at, now)}</dd>` : nothing}
    ${job.turn ? html`<dt>Turns</dt><dd>${job.turn + 1}</dd>` : nothing}
    ${job.words ? html`<dt>Length</dt><dd>${plural(job.words, "word")}</dd>` : nothing}
    ${Number(job.charged) ? html`<dt>Cost</dt><dd>${money(job.charged, { play: own?.is_play ?? model.money.is_play })}</dd>` : nothing}</dl>
    ${read.length ? part("Reads", html`${chips(model, read)}${unnamed > 0 ? html`<p class="meta">and ${plural(unnamed, "draft")}</p>` : nothing}`) : nothing}`;
}

function running(page, model, job) {
  const draft = model.drafts.get(job.id);
  if (job.status === "processing" && (!draft || draft.from > 0)) page.catchUp(job.id);
  const isOpen = may("write") && !isPast(model);
  return html`${draft?.text ? html`<div class="whole-draft serif" tabindex="0" role="region" aria-label="What is written so far">${written(draft.text)}<i class="caret"></i></div>` : nothing}
    ${job.reason ? html`<p class="notice">${describeReason(job.reason)}</p>` : nothing}
    ${isOpen ? html`<div class="row wrap">${job.status === "paused" ? nothing : job.status === "processing" ? (may("spend") ? action({ name: `again-${job.id}`, label: "Begin again", run: () => retryOne(page, job.id) }) : nothing) : action({ name: `pause-${job.id}`, label: "Pause", run: () => pauseOne(page, job.id) })}
      ${action({ name: `cancel-${job.id}`, label: "Cancel", kind: "bad", run: () => cancelOne(page, job.id) })}
      ${may("spend") ? action({ name: `other-${job.id}`, label: "Other model", kind: "plain", run: () => { replaceModel(page, job.seat, job.id); } }) : nothing}</div>` : nothing}`;
}

/** The beginning of a draft that the board does not hold; asked for once. */
function finished(page, model, job) {
  const text = page.texts.get(job.document_id);
  if (job.document_id && text === undefined) {
    page.texts.set(job.document_id, null);
    get(`/contributions/${job.document_id}`).then((found) => { page.texts.set(job.document_id, found.content.slice(0, 4000)); draw(); }, () => {});
  }
  return html`${text ? html`<div class="whole-draft serif" tabindex="0" role="region" aria-label="The beginning of the text">${written(text)}</div>` : nothing}
    ${job.document_id ? html`<div class="row"><a class="button main" href="/documents/${job.document_id}">Read</a></div>` : nothing}`;
}

function failure(page, model, job, now) {
  const errors = job.errors?.length ? job.errors : [job.reason].filter(Boolean);
  const hangs = [...model.jobs.values()].filter((each) => (each.waits_for ?? []).includes(job.id)).length;
  const asked = page.priceOf(`retry-${job.id}`, `/jobs/${job.id}/retry`);
  return html`<ol class="tries">${errors.map((error, index) => html`<li><p><strong>${describeReason(error)}</strong></p>
      ${error.message && error.message !== describeReason(error) ? html`<p class="meta">${written(error.message)}</p>` : nothing}
      <p class="meta">${plural(error.attempt ?? index + 1, "attempt").replace(/^(\S+) attempts?$/, "attempt $1")}${error.at ? html`, <span title=${moment(error.at)}>${ago(error.at, now)}</span>` : nothing} · <code>${error.code}</code></p></li>`)}</ol>
    ${hangs ? html`<p class="soft">${plural(hangs, "call")} ${hangs === 1 ? "depends" : "depend"} on it.</p>` : nothing}
    ${may("spend") && !isPast(model) ? html`<div class="row wrap">
      ${action({ name: `retry-${job.id}`, label: "Retry", price: asked ? money(asked.expected, { play: asked.is_play }) : null, kind: "main", run: () => retryOne(page, job.id) })}
      ${action({ name: `other-${job.id}`, label: "Other model", run: () => replaceModel(page, job.seat) })}
      ${stateOf(model) === "failed" ? nothing : action({ name: `skip-${job.id}`, label: "Go on without it", kind: "plain", run: () => skipOne(page, job.id) })}</div>` : nothing}`;
}

// -- a stage --------------------------------------------------------------------------------------

function stageParts(page, model, stage) {
  const own = model.money.by_stage.find((each) => each.stage === stage.slug);
  const said = [...model.feedback.values()].filter((each) => each.stage === stage.slug && each.text && each.kind !== "ruling");
  const short = [...model.documents.values()].filter((one) => one.stage === stage.slug && one.shortened);
  const took = stage.started_at && stage.completed_at ? (Date.parse(stage.completed_at) - Date.parse(stage.started_at)) / 1000 : null;
  return { head: html`<strong>${stage.title}</strong><span class="meta grow">stage ${stage.position} of ${model.stages.length}</span>`, parts: html`
    <p>${stage.description}</p>
    <dl class="facts"><dt>Written</dt><dd>${count(stage.finished)} of ${count(stage.planned)}</dd>
      ${took === null ? nothing : html`<dt>Time</dt><dd>${duration(took)}</dd>`}
      ${own ? html`<dt>Cost</dt><dd>${amount(model, own.spent)}${own.expected && Number(own.expected) > Number(own.spent) ? html` <span class="faint">of about ${amount(model, own.expected)}</span>` : nothing}</dd>` : nothing}
      ${short.length ? html`<dt>Shortened</dt><dd>inputs of ${plural(short.length, "document")}</dd>` : nothing}
      ${stage.failed ? html`<dt>Failed</dt><dd class="is-bad">${plural(stage.failed, "call")}</dd>` : nothing}</dl>
    ${part("Steps", html`<ul class="steps">${stage.steps.map((step) => html`<li><span>${step.title}</span><span class="meta">${count(step.finished)} of ${count(step.planned)}${step.is_intermediate ? ", drafts" : ""}</span></li>`)}</ul>`)}
    ${said.length ? part("Feedback", html`<ul class="said">${said.map((each) => html`<li class="serif">${written(each.text)} <span class="meta">${each.by?.name ?? ""}</span></li>`)}</ul>`) : nothing}
    ${may("write") ? html`<div><button class="button" type="button" @click=${() => sayFeedback(page, { stage: stage.slug })}>Give feedback</button></div>` : nothing}` };
}
