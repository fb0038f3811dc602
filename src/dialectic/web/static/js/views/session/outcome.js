// What came out of a session: the agreed plan, the last documents, and what they cost.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { count, duration, plural } from "../../format.js";
import { loadStyle } from "../../router.js";
import { draw } from "../../store.js";
import { blank, seat, written } from "../parts.js";
import { outcomeOf } from "./facts.js";
import { amount, runTime } from "./words.js";

const MILESTONES_SHOWN = 8;
/** What survived is compared on the server: its part comes when the outcome is on the screen. */
let more = null;

function bring() {
  more ??= Promise.all([import("./survived.js"), loadStyle("session_outcome")]).then(([module]) => { more = module; draw(); }, () => { more = {}; });
  return more;
}

/** Draw the outcome of an iteration that is done. */
export function outcome(page, model) {
  const { last, finals, main } = outcomeOf(model);
  if (!last) return nothing;
  return html`<section class="outcome" aria-labelledby="outcome-title">
    <div class="outcome-main">
      <p class="label">Outcome</p>
      <h2 id="outcome-title">${title(model, last)}</h2>
      ${model.plan.length ? milestones(model) : main ? html`<p class="serif outcome-lead">${written(main.title)}. ${written(main.excerpt)}</p>` : nothing}
      <div class="row wrap outcome-acts">
        ${main ? html`<a class="button main" href="/documents/${main.id}">${model.plan.length ? "Read the plan" : `Read ${last.title}`}</a>` : nothing}
        <a class="button" href="/api/v1/projects/${model.session.project.id}/export" download>Download</a>
        ${model.plan.length ? html`<a class="button plain" href="/projects/${model.session.project.id}">Open the plan board</a>` : nothing}</div></div>
    <div class="outcome-side">
      <p class="label">${last.title}</p>
      <ul class="outcome-docs">${finals.map((one) => html`<li><a class="outcome-doc" href="/documents/${one.id}">${seat(one.seat, { label: one.model })}<span class="serif lines-2">${written(one.title)}</span></a></li>`)}</ul>
      ${bring().survived?.(page, model) ?? blank(model.session.seats.length, 34)}
      <dl class="facts">${figures(model)}</dl></div>
  </section>${bring().worth?.(page, model) ?? nothing}`;
}

function title(model, last) {
  if (!model.plan.length) return `${last.title} is done`;
  const steps = model.plan.reduce((sum, file) => sum + file.steps, 0);
  return `The agreed plan: ${plural(model.plan.length, "milestone")}${steps ? `, ${plural(steps, "step")}` : ""}`;
}

function milestones(model) {
  const shown = model.plan.slice(0, MILESTONES_SHOWN);
  const left = model.plan.length - shown.length;
  return html`<ol class="milestones">${shown.map((file) => html`<li><span class="serif">${written(file.title)}</span>${file.steps ? html`<span class="meta">${plural(file.steps, "step")}</span>` : nothing}</li>`)}
    ${left > 0 ? html`<li class="meta">and ${count(left)} more</li>` : nothing}</ol>`;
}

function figures(model) {
  const { spent, quoted } = model.money;
  const took = runTime(model);
  const all = [...model.documents.values()];
  const [short, cut] = [all.filter((one) => one.shortened).length, all.filter((one) => one.is_incomplete).length];
  return html`<dt>Cost</dt><dd>${amount(model, spent)}${quoted ? html` <span class="faint">of ${amount(model, quoted)} expected</span>` : nothing}</dd>
    ${took ? html`<dt>Time</dt><dd>${duration(took)}</dd>` : nothing}
    <dt>Documents</dt><dd>${count(model.stages.reduce((sum, stage) => sum + stage.finished, 0))}</dd>
    ${short ? html`<dt>Read shortened</dt><dd>${plural(short, "document")}</dd>` : nothing}
    ${cut ? html`<dt>Cut off</dt><dd class="is-bad">${plural(cut, "document")}</dd>` : nothing}`;
}
