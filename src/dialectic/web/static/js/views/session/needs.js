// What stands on top of the board when a session needs a person: what, why, and the way on with its price.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { ago, list, money, plural } from "../../format.js";
import { loadStyle } from "../../router.js";
import { draw, keep, kept, may } from "../../store.js";
import { action, chip, glyph, price as shown, written } from "../parts.js";
import { approveOne, approveStage, changeBudget, continueCut, dropSeat, gatePlace, needPrice, refresh, replaceModel, resume, retryAll, submit, submitLabel } from "./acts.js";
import { bySeat, facts, findStage, isPast, stateOf } from "./facts.js";
import { amount, describeFailure, describeReason, taskOf } from "./words.js";

/** Draw every need of the session, the most urgent first. */
export function needs(page, model, now) {
  if (isPast(model) || model.isGone) return nothing;
  const cards = model.needs.map((need) => CARDS[need.code]?.(page, model, need, now)).filter(Boolean);
  return cards.length ? html`<div class="needs stack">${cards}</div>` : nothing;
}

/** Tell which price a page must still ask for: stale and cut-off documents are not priced by the board. */
export function unpriced(model) {
  return model.needs.filter((need) => ["stale", "incomplete"].includes(need.code) && need.actions.every((way) => way.price === null || way.price === undefined)).map((need) => need.code);
}

const CARDS = {
  feedback: gate, funds: funding, budget: funding, approval, key: keyMissing, endpoint, failure, stale, incomplete,
};

/** @param {{kind?: string, title: unknown, text?: unknown, meta?: unknown, body?: unknown, buttons?: unknown, below?: unknown}} card */
function frame({ kind = "you", title, text, meta = "", body = nothing, buttons = nothing, below = nothing }) {
  return html`<article class="need-card ${kind}"><div class="need-head">${glyph(kind === "bad" ? "failed" : kind === "hold" ? "paused" : "you")}
    <div class="grow"><h2>${title}</h2>${text ? html`<p class="soft">${text}</p>` : nothing}${meta ? html`<p class="meta">${meta}</p>` : nothing}</div></div>
    ${body}<div class="need-acts row wrap">${buttons}</div>${below}</article>`;
}

const since = (need, now) => (need.since ? ago(need.since, now) : "");

// -- the gate -------------------------------------------------------------------------------------

/** What is contested is a module of its own: most sessions run on autopilot. */
let contested = null;

function bringContested() {
  contested ??= Promise.all([import("./gate.js"), loadStyle("session_map")]).then(([module]) => { contested = module; draw(); }, () => { contested = {}; });
  return contested;
}

/** The keys of the gate: rulings on the claim that has the focus. */
export const keys = (page) => contested?.keys?.(page) ?? [];

function gate(page, model, need, now) {
  const stage = findStage(model, need.stage);
  const place = gatePlace(page);
  const said = [...model.feedback.values()].filter((each) => each.stage === need.stage && each.text && each.kind !== "ruling");
  return frame({
    title: `${stage?.title ?? "The stage"} is complete and waits for you`,
    text: "Read the documents, rate them, and say what the next stage must know.",
    meta: since(need, now),
    body: may("spend") ? html`<div class="field"><label for="gate-text">What must the next stage know?</label>
      <textarea id="gate-text" class="serif" rows="3" placeholder="Optional" .value=${kept(place)} @input=${(event) => keep(place, event.target.value)}></textarea>
      <p class="help">Your text, your stars and your rulings go into every later prompt.</p></div>
      ${said.length ? html`<ul class="said">${said.map((each) => html`<li class="serif">${written(each.text)} <span class="meta">${each.by?.name ?? ""}</span></li>`)}</ul>` : nothing}` : nothing,
    buttons: may("spend") ? action({ name: "submit", label: submitLabel(model), price: needPrice(model, "feedback", "start_next"), kind: "main", run: () => submit(page) }) : nothing,
    // It comes later, so it stands where it moves nothing.
    below: may("spend") ? bringContested().contested?.(page, model) ?? html`<p class="meta need-more">Comparing what the models say.</p>` : nothing,
  });
}

// -- money ----------------------------------------------------------------------------------------

function funding(page, model, need, now) {
  const { needed, left, is_play: play = false } = need.figures ?? {};
  const isBudget = need.code === "budget";
  const raise = need.actions.find((way) => way.do === "raise_budget");
  const top = need.actions.find((way) => way.do === "top_up");
  const own = model.money;
  const toEnd = own.forecast ? ` To the end, ${amount(model, Math.max(0, Number(own.forecast) - Number(own.spent)))} more is expected.` : "";
  return frame({
    kind: "hold",
    title: `${plural(need.jobs.length || 1, "call")} ${need.jobs.length === 1 ? "waits" : "wait"} for money`,
    text: needed ? html`The next call may cost <strong>${money(needed, { play })}</strong>; ${isBudget ? "the budget" : "the wallet"} has <strong>${money(left, { play })}</strong> left.${toEnd}` : `${need.reason ? describeReason(need.reason) : ""}${toEnd}`,
    meta: since(need, now),
    buttons: html`
      ${raise?.amount && may("spend") ? action({ name: "raise", label: `Raise the budget to ${amount(model, raise.amount, { places: 2 })}`, kind: "main", run: () => resume(page, { budget: raise.amount }) }) : nothing}
      ${isBudget && may("spend") ? html`<button class="button" type="button" @click=${() => changeBudget(page, raise?.amount ?? null)}>Another amount</button>` : nothing}
      ${top ? html`<a class="button ${isBudget ? "" : "main"}" href="/wallet">Top up${top.amount ? html`<span class="price">${money(top.amount, { play })}</span>` : nothing}</a>` : nothing}
      ${top && may("spend") ? action({ name: "try-now", label: "Try again", run: () => resume(page) }) : nothing}
      ${!model.session.full_answers_only || !may("spend") ? nothing : action({ name: "shorter", label: "Allow shorter answers", run: () => resume(page, { full_answers_only: false }) })}`,
  });
}

function approval(page, model, need, now) {
  const { needed, is_play: play = false } = need.figures ?? {};
  const job = model.jobs.get(need.jobs[0]);
  return frame({
    kind: "hold",
    title: needed ? `One call may cost ${money(needed, { play })}` : "A call waits for your approval",
    text: html`${job ? html`Seat ${job.seat}, ${findStage(model, job.stage)?.title}: ${taskOf(model, job)}. ` : nothing}That is more than a run spends without asking.`,
    meta: since(need, now),
    buttons: may("spend") ? html`
      ${action({ name: "approve-one", label: "Approve this call", price: shown(needed, play), kind: "main", run: () => approveOne(page, need.jobs[0]) })}
      ${action({ name: "approve-stage", label: need.jobs.length > 1 ? `Approve all ${need.jobs.length} of this stage` : "Approve all of this stage", run: () => approveStage(page, need.stage) })}
      ${otherModel(page, job?.seat)}` : nothing,
  });
}

const otherModel = (page, index) => (index ? action({ name: `other-model-${index}`, label: "Other model", run: () => replaceModel(page, index) }) : nothing);

// -- keys and endpoints ---------------------------------------------------------------------------

function keyMissing(page, model, need, now) {
  const setting = need.actions.find((way) => way.setting)?.setting;
  const seats = seatsOf(model, need);
  return frame({
    kind: "hold",
    title: `${seats} ${need.jobs.length > 1 ? "need" : "needs"} a key`,
    text: setting ? html`Set <code>${setting}</code> where the server runs, then try again.` : need.reason && describeReason(need.reason),
    meta: since(need, now),
    buttons: may("spend") ? html`${action({ name: "try-now", label: "Try now", kind: "main", run: () => resume(page) })}${otherModel(page, model.jobs.get(need.jobs[0])?.seat)}` : nothing,
  });
}

function endpoint(page, model, need, now) {
  return frame({
    kind: "hold",
    title: `${seatsOf(model, need)} ${need.jobs.length > 1 ? "wait" : "waits"} for an endpoint`,
    text: need.reason && html`${describeReason(need.reason)}${need.reason.message && describeReason(need.reason) !== need.reason.message ? html` <span class="meta">${written(need.reason.message)}</span>` : nothing}`,
    meta: since(need, now),
    buttons: may("spend") ? html`${action({ name: "try-now", label: "Try now", kind: "main", run: () => resume(page) })}${otherModel(page, model.jobs.get(need.jobs[0])?.seat)}` : nothing,
  });
}

function seatsOf(model, need) {
  const seats = [...new Set(need.jobs.map((id) => model.jobs.get(id)?.seat).filter(Boolean))].sort((a, b) => a - b);
  return seats.length ? `Seat ${list(seats.map(String))}` : plural(need.jobs.length || 1, "call");
}

// -- failures -------------------------------------------------------------------------------------

function failure(page, model, need) {
  const stage = findStage(model, need.stage);
  const jobs = need.jobs.map((id) => model.jobs.get(id)).filter(Boolean);
  const drop = need.actions.find((way) => way.do === "drop_seat");
  const seats = [...new Set(jobs.map((job) => job.seat).filter(Boolean))];
  const lost = model.stages.filter((each) => each.status === "not_begun" || each.status === "waiting").map((each) => each.title);
  return frame({
    kind: "bad",
    title: `${stage?.title ?? "A stage"} failed: ${plural(jobs.length || need.jobs.length, "call")} did not succeed`,
    text: html`Everything written is kept.${lost.length ? ` ${list(lost)} ${lost.length > 1 ? "wait" : "waits"} for it.` : ""}`,
    body: html`<ul class="failures">${(jobs.length ? jobs : facts(model).failed).map((job) => html`<li><a href=${page.hrefOf({ job: job.id, doc: null, stage: null })}>${describeFailure(model, job)}</a></li>`)}</ul>
      ${jobs.length ? nothing : need.reason ? html`<p class="soft">${describeReason(need.reason)}</p>` : nothing}`,
    buttons: may("spend") ? html`
      ${action({ name: "retry-all", label: `Retry ${jobs.length || need.jobs.length || ""}`.trim(), price: needPrice(model, "failure", "retry"), kind: "main", run: () => retryAll(page) })}
      ${seats.map((index) => action({ name: `other-model-${index}`, label: seats.length > 1 ? `Other model for seat ${index}` : "Other model", run: () => replaceModel(page, index) }))}
      ${drop?.seat ? action({ name: "drop-seat", label: `Go on without seat ${drop.seat}`, run: () => dropSeat(page, drop.seat) }) : nothing}` : nothing,
  });
}

// -- documents ------------------------------------------------------------------------------------

function named(page, model, need) {
  const { find } = facts(model);
  const known = need.documents.map(find).filter((one) => one && !one.isDraft).sort(bySeat);
  return html`<ul class="need-docs">${known.slice(0, 8).map((one) => html`<li><a class="chip" href="/documents/${one.id}">${one.seat ?? ""} ${findStage(model, one.stage)?.title}: ${written(one.title).slice(0, 60)}</a></li>`)}
    ${need.documents.length > Math.min(8, known.length) ? html`<li>${chip(`and ${need.documents.length - Math.min(8, known.length)} more`)}</li>` : nothing}</ul>`;
}

function askedPrice(page, model, need, code) {
  const told = need.actions.find((way) => way.price !== null && way.price !== undefined)?.price;
  if (told !== undefined) return amount(model, told);
  const asked = page.prices[code];
  return asked ? money(asked.expected, { play: asked.is_play }) : null;
}

function stale(page, model, need) {
  const many = need.documents.length;
  const isBusy = stateOf(model) === "live";
  return frame({
    title: `${plural(many, "document")} ${many === 1 ? "rests" : "rest"} on older versions`,
    text: "Something that they were made from has been edited since.",
    body: named(page, model, need),
    buttons: may("spend") && !isBusy ? action({ name: "refresh", label: `Regenerate ${plural(many, "document")}`, price: askedPrice(page, model, need, "stale"), kind: "main", run: () => refresh(page) }) : nothing,
  });
}

function incomplete(page, model, need) {
  const many = need.documents.length;
  return frame({
    title: `${plural(many, "document")} ${many === 1 ? "is" : "are"} cut off`,
    text: "The model stopped before the end.",
    body: named(page, model, need),
    buttons: may("spend") ? action({ name: "continue", label: many === 1 ? "Continue it" : `Continue ${plural(many, "document")}`, price: askedPrice(page, model, need, "incomplete"), run: () => continueCut(page) }) : nothing,
  });
}
