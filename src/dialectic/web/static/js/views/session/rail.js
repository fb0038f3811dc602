// The rail of a session page: stages in order, iterations, seats, and facts of the run.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { between, count, describeStatus, duration, plural } from "../../format.js";
import { glyph, seat, seatClass, written } from "../parts.js";
import { failuresOf, findNeed, isPast, runStages, workingStages } from "./facts.js";
import { amount } from "./words.js";

/** Draw the rail. */
export function rail(page, model) {
  return html`<nav class="rail" aria-label="Stages">
    <section><h2 class="label">Stages</h2><ol class="rail-stages">${model.stages.map((stage, index) => item(page, model, stage, index))}</ol></section>
    ${iterations(page, model)}
    <section><h2 class="label">Seats</h2><ul class="rail-seats">${model.session.seats.map((each) => seatLine(model, each))}</ul></section>
    <section><h2 class="label">Run</h2>${runFacts(model)}</section>
  </nav>`;
}

function item(page, model, stage, index) {
  const { glyph: shape, word } = describe(model, stage);
  const share = stage.planned ? `${Math.min(100, (100 * stage.finished) / stage.planned)}%` : "0%";
  const took = between(stage.started_at, stage.completed_at);
  const isNow = workingStages(model).includes(stage);
  const told = [stage.running ? `${count(stage.running)} writing` : "", stage.failed ? `${count(stage.failed)} failed` : "", took !== null ? duration(took) : ""].filter(Boolean);
  const isBeyond = !runStages(model).includes(stage);
  return html`<li class="rail-stage ${stage.status} ${isBeyond ? "beyond-run" : ""}" aria-current=${isNow ? "step" : nothing}>
    <a href="#stage-${stage.slug}" @click=${(event) => page.showStage(event, stage.slug)}>
      <span class="rail-head">${glyph(shape, word)}<strong class="serif">${stage.title}</strong><span class="meta">${isBeyond ? "not in this run" : html`${count(stage.finished)}/${count(stage.planned)}`}</span></span>
      <span class="track"><i .style=${`--share:${share}`} class=${stage.status}></i></span>
      ${told.length ? html`<span class="meta">${told.join(" · ")}</span>` : nothing}</a>
    ${isNow && stage.steps.length > 1 ? html`<ul class="rail-steps">${stage.steps.map((step) => html`<li class="meta ${step.finished >= step.planned && step.planned ? "is-done" : ""}"><span>${step.title}</span><span>${count(step.finished)}/${count(step.planned)}</span></li>`)}</ul>` : nothing}
    ${index < model.stages.length - 1 ? between_(model, stage) : nothing}</li>`;
}

/** What stands between two stages: a line, or a diamond where a person is asked. */
function between_(model, stage) {
  if (!stage.waits_for_person_after) return html`<span class="rail-line" aria-hidden="true"></span>`;
  const isNow = findNeed(model, "feedback")?.stage === stage.slug && !isPast(model);
  return html`<span class="rail-gate ${isNow ? "now" : ""}"><i aria-hidden="true"></i>${isNow ? "waits for you" : "stops for you"}</span>`;
}

function describe(model, stage) {
  if (findNeed(model, "feedback")?.stage === stage.slug && !isPast(model)) return describeStatus("complete");
  if ((model.session.status === "paused" || model.session.blocked_by) && stage.status === "generating") return describeStatus("paused");
  return describeStatus(stage.status);
}

function iterations(page, model) {
  const { iteration, iterations: all } = model.session;
  if (all < 2) return nothing;
  return html`<section><h2 class="label">Iteration</h2><div class="segmented" role="group" aria-label="Iteration">
    ${Array.from({ length: all }, (_, index) => index + 1).map((n) => html`<a href=${page.hrefOf({ i: n === all ? null : n, doc: null, job: null })} aria-current=${n === iteration ? "true" : nothing}>${n}</a>`)}</div></section>`;
}

function seatLine(model, each) {
  const spent = model.money.by_seat.find((one) => one.seat === each.index)?.spent;
  const failed = failuresOf(model, each.index);
  return html`<li class="row ${seatClass(each.index)} ${each.has_left ? "has-left" : ""}">${seat(each.index, { label: each.label })}
    <span class="grow"><span class="one-line" title=${each.model}>${written(each.label)}</span>${each.angle ? html`<span class="meta one-line">${written(each.angle)}</span>` : nothing}</span>
    <span class="meta right">${each.has_left ? "left" : each.is_lead ? "lead" : ""}${failed ? html` <span class="is-bad">${plural(failed, "failure")}</span>` : nothing}
      ${Number(spent) ? html`<span class="block">${amount(model, spent, { play: each.is_play })}</span>` : nothing}</span></li>`;
}

function runFacts({ session, stages }) {
  const until = stages.find((stage) => stage.slug === session.until);
  return html`<dl class="facts">
    <dt>Process</dt><dd><a href="/processes/${session.process.name}">${session.process.title || session.process.name}</a></dd>
    <dt>Full answers</dt><dd>${session.continue_until_complete ? "on" : "off"}</dd>
    <dt>Between stages</dt><dd>${session.is_autopilot ? "goes on" : "stops for you"}</dd>
    ${until && until !== stages.at(-1) ? html`<dt>Until</dt><dd>${until.title}</dd>` : nothing}
    ${session.max_output_tokens ? html`<dt>Longest answer</dt><dd>${plural(session.max_output_tokens, "token")}</dd>` : nothing}</dl>`;
}
