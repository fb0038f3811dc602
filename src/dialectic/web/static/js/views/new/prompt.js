// The prompt of the New page, files that are dropped on it, and texts that are given along.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { post } from "../../api.js";
import { count, plural } from "../../format.js";
import { announce, toast } from "../../overlay.js";
import { busily, draw, isBusy } from "../../store.js";
import { change, focusField } from "../new.js";
import { FILES, KINDS } from "../kinds.js";
import { written } from "../parts.js";
import { countWords, guessTokens } from "./form.js";

/** The field for the prompt; for a further session, what it is about beyond the project's prompt. */
export function prompt(page) {
  if (page.project) return further(page);
  const { form, wrong } = page;
  return html`<section class="field prompt-field ${page.isOver ? "is-over" : ""}" @dragenter=${(event) => over(page, event, true)} @dragover=${(event) => over(page, event, true)}
      @dragleave=${(event) => { if (!event.currentTarget.contains(event.relatedTarget)) over(page, event, false); }} @drop=${(event) => drop(page, event)}>
    <label for="new-prompt">What should they argue about?</label>
    <textarea id="new-prompt" class="serif" rows="7" autocomplete="off" placeholder="Describe what you want to build, decide or understand. What is given, what is open, what would be a good result?"
      .value=${live(form.prompt)} aria-describedby="prompt-facts" aria-invalid=${wrong?.field === "prompt" ? "true" : nothing} @input=${(event) => change(page, { prompt: event.target.value })} @paste=${(event) => paste(page, event)}></textarea>
    ${complaint(page, "prompt")}
    <div class="row wrap prompt-foot"><p class="meta grow" id="prompt-facts">${form.prompt.trim() ? `${plural(countWords(form.prompt), "word")}, about ${plural(guessTokens(form.prompt), "token")}` : "Drop or paste a file: Markdown, text, PDF, DOCX"}</p>
      ${picker(page, "prompt-file", "Take a file", (files) => take(page, files))}</div>
    ${page.isOver ? html`<p class="drop-here" aria-hidden="true">Drop it here</p>` : nothing}</section>`;
}

function further(page) {
  return html`<section class="stack"><div class="card given-prompt"><p class="label">The project’s prompt</p><p class="serif lines-3">${written(page.project.prompt)}</p></div>
    <div class="field"><label for="new-description">What is different this time? <span class="faint">optional</span></label>
    <textarea id="new-description" class="serif" rows="3" placeholder="This time for the winter months only." .value=${live(page.form.description)} aria-invalid=${page.wrong?.field === "description" ? "true" : nothing}
      @input=${(event) => change(page, { description: event.target.value })}></textarea>${complaint(page, "description")}
    <p class="help">Every model reads it after the project’s prompt.</p></div></section>`;
}

/** What is wrong with a field. */
export function complaint(page, field) {
  return page.wrong?.field === field ? html`<p class="wrong" role="alert">${page.wrong.message}</p>` : nothing;
}

function over(page, event, isOver) {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  if (page.isOver === isOver) return;
  page.isOver = isOver;
  draw();
}

function drop(page, event) {
  const files = [...event.dataTransfer.files];
  page.isOver = false;
  if (!files.length) return;
  event.preventDefault();
  take(page, files);
}

function paste(page, event) {
  const files = [...event.clipboardData.files];
  if (!files.length) return;
  event.preventDefault();
  take(page, files);
}

function picker(page, id, label, takes) {
  return html`<label class="button small ${isBusy("read-file") ? "is-busy" : ""}" for=${id}>${isBusy("read-file") ? "Reading…" : label}</label>
    <input class="sr" id=${id} type="file" accept=${FILES} multiple @change=${(event) => { takes([...event.target.files]); event.target.value = ""; }}>`;
}

/** Read files; the first becomes the prompt, others are given along. One that cannot be read changes nothing. */
async function take(page, files) {
  const [first, ...others] = await readAll(files);
  if (!first) return;
  const before = { prompt: page.form.prompt, resources: page.form.resources };
  change(page, { prompt: first.text, resources: [...page.form.resources, ...others.map((one) => ({ kind: "reference_documents", name: one.name, text: one.text }))] });
  const told = others.length ? `${first.name} is the prompt, ${plural(others.length, "file")} given along.` : `${first.name} is the prompt now.`;
  toast([told, ...first.notes].join(" "), { undo: () => { change(page, before); focusField("prompt"); } });
  announce(told);
}

/** Read files as text on the server, which saves nothing. Those that fail are told. */
async function readAll(files) {
  const found = [];
  await busily("read-file", async () => {
    for (const file of files) {
      const body = new FormData();
      body.set("file", file, file.name);
      try {
        found.push(await post("/uploads", body));
      } catch (problem) {
        if (problem.name !== "Problem") throw problem;
        toast(problem.detail.includes(file.name) ? problem.detail : `${file.name}: ${problem.detail}`);
      }
    }
  });
  return found;
}

// -- texts that are given along -------------------------------------------------------------------

/** Chips for the seven kinds of texts; each opens its fields. */
export function given(page) {
  const { opened, form } = page;
  return html`<section class="given"><h2 class="label">Add context</h2>
    <div class="row wrap chips">${KINDS.map(([kind, label]) => {
    const texts = form.resources.filter((one) => one.kind === kind && one.text.trim()).length;
    return html`<button class="chip" type="button" aria-expanded=${opened === kind} aria-controls="given-${kind}" aria-pressed=${texts > 0} @click=${() => open(page, kind)}>${label}${texts ? html` <strong>${count(texts)}</strong>` : html` <span aria-hidden="true">+</span>`}</button>`;
  })}</div>
    ${opened ? fields(page, KINDS.find(([kind]) => kind === opened)) : nothing}</section>`;
}

function open(page, kind) {
  page.opened = page.opened === kind ? null : kind;
  // Empty fields that were opened and left are forgotten.
  const filled = page.form.resources.filter((one) => one.text.trim() || one.kind === page.opened);
  const resources = page.opened && !filled.some((one) => one.kind === kind) ? [...filled, { kind, name: "", text: "" }] : filled;
  page.form = { ...page.form, resources };
  if (page.opened) focusField(`given-${resources.findIndex((one) => one.kind === kind)}`);
  draw();
}

/** @param {any} page @param {string[]} kind its name, label and help */
function fields(page, [kind, label, help]) {
  const { resources } = page.form;
  const edit = (index, changes) => change(page, { resources: resources.map((one, place) => (place === index ? { ...one, ...changes } : one)) });
  return html`<div class="card given-fields stack" id="given-${kind}"><p class="meta">${help}</p>
    ${resources.map((one, index) => (one.kind === kind ? html`<div class="given-one">
      <input type="text" aria-label="Name of this text" placeholder=${label} maxlength="200" .value=${live(one.name)} @input=${(event) => edit(index, { name: event.target.value })}>
      <button class="button plain" type="button" @click=${() => { change(page, { resources: resources.filter((_, place) => place !== index) }); }}>Remove<span class="sr"> ${one.name || label}</span></button>
      <textarea id="new-given-${index}" class="serif" rows="3" aria-label="${label}: text" .value=${live(one.text)} @input=${(event) => edit(index, { text: event.target.value })}></textarea></div>` : nothing))}
    <div class="row wrap"><button class="button small" type="button" @click=${() => { change(page, { resources: [...resources, { kind, name: "", text: "" }] }); focusField(`given-${resources.length}`); }}>Add a text</button>
      ${picker(page, `file-${kind}`, "Take a file", async (files) => {
    const read = await readAll(files);
    change(page, { resources: [...page.form.resources.filter((one) => one.text.trim()), ...read.map((one) => ({ kind, name: one.name, text: one.text }))] });
  })}</div></div>`;
}
