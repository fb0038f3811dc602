// The head of a session page: what it is, how it stands, what it has cost, and what can be done.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { money, plural } from "../../format.js";
import { countCalls } from "../../model.js";
import { may } from "../../store.js";
import { action, attempt, glyph, icon, meter, progressBar, readOnly, written } from "../parts.js";
import { changeBudget, listActs, listMore } from "./acts.js";
import { isPast, runStages } from "./facts.js";
import { amount, sentence } from "./words.js";

/** Draw the head. */
export function hero(page, model, now) {
  const { session } = model;
  return html`<header class="hero">
    <div class="hero-name"><h1>${written(session.project.name)}</h1><p class="serif soft one-line" title=${session.project.prompt_excerpt}>${written(session.project.prompt_excerpt)}</p></div>
    <div class="hero-acts row">${model === page.model ? buttons(page) : nothing}${more(page)}</div>
    <div class="hero-state">${state(model, now, page.heard)}${progressBar(runStages(model))}</div>
    <div class="hero-money">${cost(page, model)}</div>
  </header>
  ${may("spend") || may("write") ? nothing : html`<div class="hero-note">${readOnly()}</div>`}`;
}

function state(model, now, heard) {
  const { glyph: shape, lead, parts } = sentence(model, now, heard);
  return html`<p class="sentence">${glyph(shape)}<strong>${lead}</strong>${parts.map((part) => html`<span>${part}</span>`)}
    ${isPast(model) ? html`<span>iteration ${model.session.iteration} of ${model.session.iterations}</span>` : nothing}</p>`;
}

/** The buttons of the state, the main one first. */
export const buttons = (page) => listActs(page).filter((act) => !act.isOnBoard || page.tab !== "board").map((act) => action(act));

/** The same for a phone, within reach of a thumb. */
export function bottomBar(page) {
  const acts = listActs(page);
  return acts.length ? html`<div class="bar-bottom">${acts.slice(0, 2).map((act) => action({ ...act, key: "" }))}</div>` : nothing;
}

function more(page) {
  const toggle = () => { page.menu = !page.menu; page.draw(); };
  const items = page.menu ? listMore(page) : [];
  return html`<div class="menu"><button class="icon" type="button" id="open-more" aria-expanded=${Boolean(page.menu)} aria-label="More actions" @click=${toggle}>${icon("more")}</button>
    ${page.menu ? html`<ul class="panel menu-panel" aria-label="More actions">${items.map((item) => html`<li>${item.href
      ? html`<a class="item" href=${item.href} ?download=${item.download} @click=${toggle}>${item.label}</a>`
      : html`<button class="item ${item.kind === "bad" ? "is-bad" : ""}" type="button" data-action=${item.name} @click=${() => { toggle(); document.getElementById("open-more").focus(); attempt(item.name, item.run); }}>${item.label}</button>`}</li>`)}</ul>` : nothing}</div>`;
}

// -- money ----------------------------------------------------------------------------------------

function cost(page, model) {
  const { money: own } = model;
  const isOver = own.budget !== null && Number(own.forecast ?? 0) > Number(own.budget);
  return html`<p class="sentence"><strong>${amount(model, own.spent)}</strong><span class="glue"> spent</span>
    ${own.forecast && Number(own.forecast) > Number(own.spent) ? html`<span class=${isOver ? "is-bad" : ""}>about ${amount(model, own.forecast)} in the end</span>` : nothing}
    ${!own.is_play && Number(own.play_spent) ? html`<span>${money(own.play_spent, { play: true })}</span>` : nothing}
    ${own.budget ? html`<span class="last">of ${amount(model, own.budget, { places: 2 })}</span>` : nothing}</p>
    <button class="meter-button" type="button" id="open-costs" aria-expanded=${Boolean(page.costs)} aria-label="Costs by stage and seat" @click=${() => { page.costs = !page.costs; page.draw(); }}>${meter(own)}</button>
    ${isOver ? beyond(page, model) : nothing}
    ${page.costs ? costs(model) : nothing}`;
}

/** The first stage that the budget does not reach the end of. */
export function endsIn(model) {
  let sum = 0;
  return model.stages.find((stage) => {
    sum += Number(model.money.by_stage.find((each) => each.stage === stage.slug)?.expected ?? 0);
    return sum > Number(model.money.budget);
  }) ?? null;
}

/** A budget that reaches to the end: the forecast with a fifth more, in round numbers. */
export function enough(forecast) {
  const wanted = Number(forecast) * 1.2;
  const unit = 10 ** Math.max(-2, Math.floor(Math.log10(wanted || 0.01)) - 1);
  return String(Number((Math.ceil(wanted / unit) * unit).toFixed(4)));
}

function beyond(page, model) {
  const stage = endsIn(model);
  const raised = enough(model.money.forecast);
  return html`<p class="beyond meta">${stage ? `The budget will end in ${stage.title}.` : "The budget will not be enough."}
    ${may("write") && !isPast(model) && !model.needs.length && model.session.allowed.includes("change_budget") ? html`<button class="link" type="button" @click=${() => changeBudget(page, raised)}>Raise it to ${amount(model, raised, { places: 2 })}</button>` : nothing}</p>`;
}

function costs(model) {
  const { money: own, stages, session } = model;
  const stageOf = (slug) => stages.find((stage) => stage.slug === slug)?.title ?? slug;
  const seatOf = (index) => session.seats.find((seat) => seat.index === index)?.label ?? "";
  return html`<div class="panel costs" role="group" aria-label="Costs">
    <table><thead><tr><th>Stage</th><th class="right">Spent</th><th class="right">Expected</th></tr></thead><tbody>
      ${own.by_stage.map((each) => html`<tr><td>${stageOf(each.stage)}</td><td class="right">${amount(model, each.spent)}</td><td class="right">${each.expected === null ? "" : amount(model, each.expected)}</td></tr>`)}</tbody></table>
    <table><thead><tr><th>Seat</th><th class="right">Spent</th></tr></thead><tbody>
      ${own.by_seat.map((each) => html`<tr><td>${each.seat} ${seatOf(each.seat)}</td><td class="right">${amount(model, each.spent)}</td></tr>`)}</tbody></table>
    <dl class="facts">
      <dt>Reserved for calls in flight</dt><dd>${amount(model, own.held)}</dd>
      ${own.worst ? html`<dt>At the very most</dt><dd>${amount(model, own.worst)}</dd>` : nothing}
      ${own.available ? html`<dt>Left in the wallet</dt><dd>${amount(model, own.available)}</dd>` : nothing}
      <dt>Calls</dt><dd>${plural(countCalls(runStages(model)).planned, "call")}</dd></dl></div>`;
}
