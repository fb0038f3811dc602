// Name, domain and process of the New page; how it runs, how far, and for how much.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { count, money, plural, titled } from "../../format.js";
import { change } from "../new.js";
import { written } from "../parts.js";
import { roomyBudget, suggestName } from "./form.js";
import { complaint } from "./prompt.js";

/** What it is called, and which process it goes through. */
export function about(page) {
  const { form } = page;
  const process = findProcess(page);
  return html`<section class="about">
    ${page.project ? nothing : html`<div class="two">
      <div class="field"><label for="new-name">Name</label><input id="new-name" type="text" maxlength="200" autocomplete="off" placeholder=${suggestName(form.prompt) || "Taken from the prompt"} .value=${live(form.name)} aria-invalid=${page.wrong?.field === "name" ? "true" : nothing} @input=${(event) => change(page, { name: event.target.value })}>${complaint(page, "name")}</div>
      <div class="field"><label for="new-domain">Field</label><select id="new-domain" @change=${(event) => change(page, { domain: event.target.value })}>${(process?.domains ?? ["General"]).map((name) => html`<option value=${name} ?selected=${name === form.domain}>${name}</option>`)}</select></div></div>`}
    <fieldset class="processes"><legend>Process</legend>${page.processes.map((one) => html`<label class="process card"><input type="radio" name="process" value=${one.name} .checked=${live(one.name === form.process)} @change=${() => change(page, { process: one.name, until: "", shrink: 0 })}>
      <span class="grow"><strong>${written(one.title)}</strong><span class="meta lines-2">${written(one.description)}</span></span></label>`)}</fieldset>
    ${dots(page)}</section>`;
}

/** The process that is chosen. */
export const findProcess = (page) => page.processes.find((one) => one.name === page.form.process);

/** The stages of the chosen process for this number of seats; null while they are loaded. */
export const findOutline = (page) => page.outlines.get(`${page.form.process} ${page.form.seats.length}`) ?? null;

/** The title of a stage. */
export const titleStage = (page, slug) => findOutline(page)?.stages.find((one) => one.slug === slug)?.title ?? titled(slug);

/** The stages as connected dots, with their calls. */
function dots(page) {
  const outline = findOutline(page);
  const stages = outline?.stages ?? (findProcess(page)?.stages ?? []).map((slug) => ({ slug, title: titled(slug), calls: null, description: "" }));
  const last = stages.findIndex((one) => one.slug === page.form.until);
  const quoted = new Map((page.quote?.stages ?? []).map((one) => [one.stage, one.calls]));
  return html`<ol class="dots" aria-label="Stages">${stages.map((one, index) => html`<li class=${last >= 0 && index > last ? "is-out" : ""} title=${one.description || nothing}>
    <span class="dot" aria-hidden="true"></span><span class="dot-title">${written(one.title)}</span><span class="meta">${last >= 0 && index > last ? "left out" : one.calls === null ? "" : plural(quoted.get(one.slug) ?? one.calls, "call")}</span></li>`)}</ol>`;
}

/** How it runs, how far, and for how much. */
export function options(page) {
  const { form } = page;
  const flip = (name, label, help) => html`<label class="switch option"><input type="checkbox" role="switch" id="new-${name}" .checked=${live(form[name])} @change=${(event) => change(page, { [name]: event.target.checked })}><span><strong>${label}</strong><span class="meta">${help}</span></span></label>`;
  return html`<section class="stack"><h2>How it runs</h2>
    ${flip("continues", "Full Response Mode", "Answers that are cut off are continued until they are complete.")}
    ${flip("stops", "Stop after each stage", "You read, rate and reply before the next stage starts.")}
    ${budget(page)}
    <details class="more-options" ?open=${Boolean(form.until || form.tokens)}><summary>More</summary><div class="two">
      <div class="field"><label for="new-until">Last stage</label><select id="new-until" @change=${(event) => change(page, { until: event.target.value })}><option value="" ?selected=${!form.until}>All stages</option>${(findProcess(page)?.stages ?? []).slice(0, -1).map((slug) => html`<option value=${slug} ?selected=${slug === form.until}>${titleStage(page, slug)}</option>`)}</select>${complaint(page, "until")}</div>
      <div class="field"><label for="new-tokens">Longest answer, in tokens</label><input id="new-tokens" type="text" inputmode="numeric" placeholder=${longest(page)} .value=${live(form.tokens)} aria-invalid=${page.wrong?.field === "tokens" ? "true" : nothing} @input=${(event) => change(page, { tokens: event.target.value.trim() })}>${complaint(page, "tokens")}</div></div></details></section>`;
}

function longest(page) {
  const limits = page.form.seats.map((name) => page.models.find((one) => one.name === name)?.max_output_tokens).filter(Boolean);
  return limits.length ? `as each model allows, up to ${count(Math.max(...limits))}` : "as each model allows";
}

function budget(page) {
  const { form, quote } = page;
  const roomy = quote ? roomyBudget(quote.expected) : null;
  return html`<div class="field budget"><label for="new-budget">Budget, in dollars</label>
    <div class="row wrap"><input id="new-budget" type="text" inputmode="decimal" placeholder="no limit" .value=${live(form.budget)} aria-describedby="budget-help" aria-invalid=${page.wrong?.field === "budget" ? "true" : nothing} @input=${(event) => change(page, { budget: event.target.value.trim().replace(",", ".") })}>
      ${roomy && form.budget !== roomy ? html`<button class="chip" type="button" @click=${() => change(page, { budget: roomy })}>Set ${money(roomy, { play: quote.is_play, places: 2 })}, the expected price × 1.5</button>` : nothing}</div>
    ${complaint(page, "budget")}<p class="help" id="budget-help">Never exceeded. What does not fit is left out first; then the session waits for you.</p></div>`;
}
