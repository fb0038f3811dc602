// A process: a box per stage, its steps with their calls for a number of seats, and its prompts.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { get } from "../api.js";
import { plural, titled, words } from "../format.js";
import { openDialog } from "../overlay.js";
import { address as move } from "../router.js";
import { draw } from "../store.js";
import { blank as blocks, seat, written } from "./parts.js";

const SEATS = { min: 1, max: 8, usual: 3 };
const STRATEGIES = {
  per_source_document: "one call for each seat and document", pairwise_by_origin: "one call for each seat and pair of a document and what answers it",
  per_source_group: "one call for each seat and group of documents with one origin", all_to_one: "one call for each seat, with all documents",
};

export const title = (page) => page.process.title;
export const crumbs = (page) => [{ label: "Models and processes", href: "/models" }, { label: page.process.title }];
export const blank = () => html`<h1 class="sr">Process</h1>${blocks(5, 120)}`;

/** @param {{name: string, query: URLSearchParams, signal: AbortSignal}} params */
export async function load({ name, query, signal }) {
  const seats = readSeats(query);
  const path = `/processes/${encodeURIComponent(name)}`;
  const [process, outline] = await Promise.all([get(path, { signal }), get(`${path}/outline?seats=${seats}`, { signal })]);
  return { name, process, outlines: new Map([[seats, outline]]), outline, seats };
}

const readSeats = (query) => Math.min(SEATS.max, Math.max(SEATS.min, Number(query.get("seats")) || SEATS.usual));

/** The number of seats changed: an outline that was read once is kept. */
export async function address(page, { query }) {
  page.seats = readSeats(query);
  if (!page.outlines.has(page.seats)) {
    const { seats } = page;
    page.outlines.set(seats, await get(`/processes/${encodeURIComponent(page.name)}/outline?seats=${seats}`));
    if (page.seats !== seats) return;
  }
  page.outline = page.outlines.get(page.seats);
  draw();
}

export function view(page) {
  const { process, outline, seats } = page;
  return html`<div class="page processes stack loose"><div><h1>${written(process.title)}</h1><p class="lead soft">${written(process.description)}</p>
      ${process.problem ? html`<p class="notice bad">${written(process.problem)}</p>` : nothing}</div>
    <div class="field seats-field"><label for="seats">Seats</label><div class="row wide"><input id="seats" type="range" min=${SEATS.min} max=${SEATS.max} .value=${String(seats)} aria-valuetext=${plural(seats, "seat")}
        @input=${(event) => move({ seats: event.target.value }, "", { replace: true })}>
      <span class="row">${Array.from({ length: seats }, (_, index) => seat(index + 1, { small: true }))}</span>
      <strong role="status">${plural(outline.calls, "call")} with ${plural(outline.seats, "seat")}</strong></div></div>
    <ol class="stages">${outline.stages.map((stage) => stageBox(page, stage))}</ol>
    <p><a class="button main" href="/new?process=${encodeURIComponent(page.name)}">Begin with this process</a></p></div>`;
}

const stageBox = (page, stage) => html`<li class="stage-box card"><div class="row"><h2 class="grow">${written(stage.title)}</h2><span class="chip">${plural(stage.calls, "call")}</span></div>
  <p class="soft">${written(stage.description)}</p>
  <ol class="steps">${stage.steps.map((step) => html`<li class=${step.is_intermediate ? "between" : ""}>
    <div class="row"><h3 class="grow">${written(step.title)}</h3><span class="meta">${plural(step.calls, "call")}, ${step.calls_per_seat} a seat</span></div>
    ${step.description && step.description !== stage.description ? html`<p class="soft">${written(step.description)}</p>` : nothing}
    <p class="meta">${step.strategy ? STRATEGIES[step.strategy] ?? words(step.strategy) : "one call for each seat"} → ${words(step.output_type)}${step.is_intermediate ? ", an intermediate result" : ""}</p>
    ${promptLink(page, step.prompt, "Read its prompt")}</li>`)}</ol>
  ${promptLink(page, stage.system_prompt, "Read the role of this stage")}</li>`;

function promptLink(page, name, label) {
  const text = findPrompt(page.process.definition, name);
  return text ? html`<button type="button" class="link" @click=${() => showPrompt(name, text)}>${label}</button>` : nothing;
}

/** Find the text of a prompt in a definition, or null. */
export function findPrompt(definition, name) {
  const found = definition?.prompts?.[name];
  return typeof found === "string" ? found : found?.text ?? null;
}

const showPrompt = (name, text) => openDialog((close) => html`<div class="dialog-body"><h2>${titled(name)}</h2>
  <pre class="prompt" tabindex="0" role="region" aria-label="Text of the prompt">${written(text)}</pre>
  <div class="dialog-foot"><button class="button" type="button" @click=${() => navigator.clipboard.writeText(text)}>Copy</button><button class="button main" type="button" autofocus @click=${() => close()}>Close</button></div></div>`, { label: titled(name), className: "wide" });
