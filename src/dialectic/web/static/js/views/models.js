// Models and processes: what can be asked, what it costs, and whether it answers.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { live } from "../../vendor/lit/directives/live.js";
import { get, press } from "../api.js";
import { ago, clock, compact, count, duration, money, plural, titled } from "../format.js";
import { announce } from "../overlay.js";
import { address as move } from "../router.js";
import { may } from "../store.js";
import { action, blank as blocks, glyph, written } from "./parts.js";

const KINDS = [["", "All"], ["usable", "Usable"], ["yours", "Used by you"]];

export const title = () => "Models";
export const crumbs = () => [{ label: "Models and processes" }];
export const blank = () => html`<h1>Models and processes</h1>${blocks(12, 36)}`;

/** @param {{query: URLSearchParams, signal: AbortSignal}} params */
export async function load({ query, signal }) {
  const [models, processes] = await Promise.all([get("/models", { signal }), get("/processes", { signal })]);
  return { models: models.items, processes: processes.items, tests: new Map(), ...readAddress(query) };
}

const readAddress = (query) => ({ text: query.get("q") ?? "", kind: query.get("kind") ?? "" });
export const address = (page, { query }) => Object.assign(page, readAddress(query));
// A pause of a provider ends while one looks.
export const ticks = (page) => page.models.some((model) => model.health.until);

const isWanted = (model, { text, kind }) => model.name.toLowerCase().includes(text.trim().toLowerCase())
  && (kind !== "usable" || model.is_usable) && (kind !== "yours" || model.used_by_you);

/** Models by provider, providers with something usable first. @returns {[string, object[]][]} */
export function byProvider(models) {
  const groups = new Map();
  for (const model of models) groups.set(model.provider, [...(groups.get(model.provider) ?? []), model]);
  const usable = ([, own]) => own.some((model) => model.is_usable);
  return [...groups].sort((a, b) => usable(b) - usable(a));
}

export function view(page) {
  const shown = page.models.filter((model) => isWanted(model, page));
  return html`<div class="page models"><div class="page-head"><div><h1>Models and processes</h1>
      <p class="soft">${plural(page.models.filter((model) => model.is_usable).length, "model")} of ${count(page.models.length)} can be asked here. Prices are for a million tokens; window and longest answer are in tokens.</p></div></div>
    <section><div class="section-head wrap"><h2 class="grow">Models</h2>
        <div class="segmented" role="group" aria-label="Which models">${KINDS.map(([kind, label]) => html`<button type="button" aria-pressed=${page.kind === kind} @click=${() => move({ kind })}>${label}</button>`)}</div>
        <input type="search" data-filter aria-label="Filter models" placeholder="Filter" .value=${live(page.text)} @input=${(event) => move({ q: event.target.value }, "", { replace: true })}></div>
      ${shown.length === 0 ? html`<p class="empty">No model matches. <button class="link" @click=${() => move({ q: null, kind: null })}>Show all</button></p>`
        : byProvider(shown).map(([name, own]) => provider(page, name, own))}</section>
    <section><h2>Processes</h2><ul class="process-list">${page.processes.map(process)}</ul></section></div>`;
}

function provider(page, name, models) {
  const missing = models.every((model) => !model.is_usable) ? models.find((model) => model.missing)?.missing : null;
  return html`<div class="provider"><h3>${written(name)}</h3>
    ${missing ? html`<p class="meta">Set <code>${missing}</code> where the server runs, then restart it, to use these models.</p>` : nothing}
    <div class="frame" role="region" aria-label="Models of ${name}" tabindex="0"><table>
    <thead><tr><th>Model</th><th>State</th><th class="right">Window</th><th class="right">Answer</th><th class="right">Input</th><th class="right">Output</th><th>Facts and tokenizer</th><th><span class="sr">Test</span></th></tr></thead>
    <tbody>${repeat(models, (model) => model.name, (model) => row(page, model))}</tbody></table></div></div>`;
}

function row(page, model) {
  const isKnown = model.context_window_tokens !== undefined;
  const price = (usd) => (usd === undefined ? "" : money(usd, { play: model.is_play, places: 2 }));
  const test = page.tests.get(model.name);
  return html`<tr class=${model.is_usable ? "" : "off"} data-model=${model.name}>
    <td><strong>${written(model.label)}</strong>${model.is_reasoning ? html` <span class="chip">reasons</span>` : nothing}${model.used_by_you ? html` <span class="chip">used by you</span>` : nothing}</td>
    <td>${health(model)}${test ? html`<div class="meta ${test.is_usable ? "is-ok" : "is-bad"}" role="status">${describeTest(test)}</div>` : nothing}</td>
    <td class="right" data-label="Window">${isKnown ? compact(model.context_window_tokens) : ""}</td>
    <td class="right" data-label="Longest answer">${isKnown ? compact(model.max_output_tokens) : ""}</td>
    <td class="right" data-label="Input">${price(model.input_usd_per_million)}</td>
    <td class="right" data-label="Output">${price(model.output_usd_per_million)}</td>
    <td class="meta">${origin(model)}</td>
    <td class="right">${model.is_usable && may("spend") ? action({ name: `test-${model.name}`, label: "Test", run: () => tryModel(page, model) }) : nothing}</td></tr>`;
}

const HEALTH = {
  ok: ["done", "open"], busy: ["retry", "slow: its provider asked for a pause"], failing: ["failed", "closed: calls failed"],
  key_refused: ["failed", "closed: its provider rejects the key"], unknown: ["wait", "not called yet"],
};

function health(model) {
  if (!model.is_usable) return html`<span class="row">${glyph("cancelled")}<span>${model.missing ? html`<span title="Set ${model.missing}">has no key</span>` : written(model.note || "not usable")}</span></span>`;
  const { state, until, p50_ms: p50 } = model.health;
  const [shape, word] = HEALTH[state] ?? ["wait", state];
  const left = until ? (Date.parse(until) - Date.now()) / 1000 : 0;
  return html`<span class="row">${glyph(shape)}<span>${word}${left > 0 ? `, again in ${clock(left)}` : ""}${p50 ? html` <span class="meta">answers in ${p50 < 1000 ? `${count(p50)} ms` : duration(p50 / 1000)}</span>` : nothing}</span></span>`;
}

function origin(model) {
  if (model.config) return html`<details><summary>Not configured</summary><p>Add this to config.toml:</p><pre>${model.config}</pre></details>`;
  return html`<span title=${titled(model.origin)}>${model.facts_of ? `of ${ago(model.facts_of, Date.now())}` : titled(model.origin)}</span><div class="mono one-line" title=${model.tokenizer}>${model.tokenizer}</div>`;
}

async function tryModel(page, model) {
  const path = model.name.split("/").map(encodeURIComponent).join("/");
  const test = await press().post(`/models/${path}/test`);
  page.tests.set(model.name, test);
  announce(`${model.label}: ${describeTest(test)}`);
  page.models = (await get("/models")).items;
}

/** What a test showed, in a sentence. */
export function describeTest(test) {
  if (test.error) return test.error.message;
  const cost = Number(test.cost_max) ? `; its provider may charge up to ${money(test.cost_max)}` : "";
  return test.was_asked ? `answered in ${duration(test.elapsed_ms / 1000)}${cost}` : "answers; nothing was asked now";
}

const process = (one) => html`<li><a class="card" href="/processes/${one.name}"><h3>${written(one.title)}</h3><p class="soft">${written(one.description)}</p>
  <p class="meta">${one.stages.map(titled).join(" → ")}${one.is_shipped ? "" : " · added on this server"}</p>
  ${one.problem ? html`<p class="is-bad">${written(one.problem)}</p>` : nothing}</a></li>`;
