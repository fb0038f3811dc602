// The models of the New page: the seats in their order, saved councils, and a table to choose from.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, duration, money, plural } from "../../format.js";
import { announce, confirm, openDialog, toast } from "../../overlay.js";
import { draw, state } from "../../store.js";
import { change } from "../new.js";
import { chip, glyph, icon, seat, seatClass, written } from "../parts.js";
import { savePreferences } from "../shell.js";
import { moveTo, SEATS_MAX } from "./form.js";
import { complaint } from "./prompt.js";

const ROWS = 10;

/** Who argues. */
export function models(page) {
  return html`<section class="models" aria-labelledby="models-title"><div class="section-head"><h2 id="models-title">Who argues</h2><p class="meta grow">${plural(page.form.seats.length, "seat")}; the first leads, its last documents are the result</p></div>
    ${seats(page)}${complaint(page, "models")}${councils(page)}${table(page)}</section>`;
}

// -- seats ----------------------------------------------------------------------------------------

function find(page, name) {
  return page.models.find((one) => one.name === name);
}

function seats(page) {
  const { seats: all } = page.form;
  if (!all.length) return html`<p class="card not-yet meta" id="new-models" tabindex="-1">No model yet. Add seats below.</p>`;
  return html`<ol class="seat-chips" id="new-models" tabindex="-1" aria-label="Seats, in order">${all.map((name, index) => seatChip(page, name, index))}</ol>
    ${page.picked !== null && all[page.picked] ? tools(page) : nothing}`;
}

function seatChip(page, name, index) {
  const model = find(page, name);
  const [label, number] = [model?.label ?? name, index + 1];
  return html`<li class="seat-chip ${seatClass(number)}" draggable="true" @dragstart=${(event) => lift(page, event, index)} @dragover=${(event) => { if (page.lifted !== undefined) event.preventDefault(); }} @drop=${(event) => put(page, event, index)} @dragend=${() => { page.lifted = undefined; }}>
    <button type="button" class="pick" id="seat-${index}" aria-pressed=${page.picked === index} aria-keyshortcuts="Alt+ArrowLeft Alt+ArrowRight" @keydown=${(event) => moveByKey(page, event, index)} @click=${() => { page.picked = page.picked === index ? null : index; draw(); }}>
      ${seat(number)}<span class="one-line">${written(label)}</span>${index === 0 ? html`<span class="crown" role="img" aria-label="Lead" title="Lead">♛</span>` : nothing}</button>
    <button type="button" class="icon remove" aria-label="Remove seat ${number}: ${label}" @click=${() => remove(page, index)}>${icon("close")}</button></li>`;
}

function tools(page) {
  const { picked, form } = page;
  const label = find(page, form.seats[picked])?.label ?? form.seats[picked];
  const button = (text, to, isOff) => html`<button class="button small" type="button" aria-disabled=${isOff ? "true" : nothing} @click=${() => { if (!isOff) move(page, picked, to); }}>${text}</button>`;
  return html`<div class="row wrap seat-tools" role="toolbar" aria-label="Seat ${picked + 1}: ${label}">
    ${button("Make it the lead", 0, picked === 0)}${button("← Earlier", picked - 1, picked === 0)}${button("Later →", picked + 1, picked === form.seats.length - 1)}</div>`;
}

function lift(page, event, index) {
  page.lifted = index;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", page.form.seats[index]);
}

function put(page, event, index) {
  if (page.lifted === undefined) return;
  event.preventDefault();
  move(page, page.lifted, index);
  page.lifted = undefined;
}

function moveByKey(page, event, index) {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!event.altKey || !step) return;
  event.preventDefault();
  move(page, index, index + step);
}

function move(page, from, to) {
  const place = Math.max(0, Math.min(page.form.seats.length - 1, to));
  if (place === from) return;
  const wasPicked = page.picked !== null;
  change(page, { seats: moveTo(page.form.seats, from, place) });
  page.picked = wasPicked ? place : null;
  announce(`Seat ${place + 1} of ${page.form.seats.length}`);
  if (!wasPicked) requestAnimationFrame(() => document.getElementById(`seat-${place}`)?.focus());
}

function remove(page, index) {
  const { seats: all } = page.form;
  change(page, { seats: all.filter((_, place) => place !== index) });
  page.picked = null;
  const next = Math.min(index, all.length - 2);
  requestAnimationFrame(() => document.getElementById(next < 0 ? "new-models" : `seat-${next}`)?.focus());
}

// -- councils -------------------------------------------------------------------------------------

const listCouncils = () => state.me?.preferences?.councils ?? [];

function councils(page) {
  const saved = listCouncils();
  const current = page.form.seats.join();
  return html`<div class="row wrap councils">${saved.length ? html`<span class="meta">Councils</span>` : nothing}
    ${saved.map((one) => html`<span class="council"><button class="chip" type="button" aria-pressed=${one.models.join() === current} title=${one.models.join(", ")} @click=${() => use(page, one)}>${written(one.name)}</button>
      <button class="icon remove" type="button" aria-label="Remove the council ${one.name}" @click=${() => forget(one)}>${icon("close")}</button></span>`)}
    ${page.form.seats.length && !saved.some((one) => one.models.join() === current) ? html`<button class="link" type="button" @click=${() => saveCouncil(page)}>Save these seats as a council</button>` : nothing}</div>`;
}

function use(page, council) {
  const usable = council.models.filter((name) => find(page, name)?.is_usable);
  const lost = council.models.length - usable.length;
  page.picked = null;
  change(page, { seats: usable });
  if (lost) toast(`${plural(lost, "seat")} of ${council.name} cannot be used now.`);
}

async function forget(council) {
  const isSure = await confirm({ title: `Remove the council ${council.name}?`, text: "Sessions that used it stay as they are.", yes: "Remove", isDangerous: true });
  if (isSure) savePreferences({ councils: listCouncils().filter((one) => one.name !== council.name) });
}

async function saveCouncil(page) {
  let name = "";
  const answer = await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); if (name.trim()) close(name.trim()); }}>
    <h2>Save these seats</h2><div class="field"><label for="council-name">Name of the council</label><input id="council-name" type="text" maxlength="100" autofocus .value=${live(name)} @input=${(event) => { name = event.target.value; }}>
    <p class="help">${page.form.seats.join(", ")}</p></div>
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button><button class="button main" type="submit">Save</button></div></form>`, { label: "Save these seats" });
  if (!answer) return;
  savePreferences({ councils: [...listCouncils().filter((one) => one.name !== answer), { name: answer, models: page.form.seats }] });
  toast(`The council ${answer} is saved.`);
}

// -- the table ------------------------------------------------------------------------------------

function table(page) {
  const wanted = page.filter.trim().toLowerCase();
  const fits = page.models.filter((one) => !wanted || `${one.name} ${one.missing ?? ""}`.toLowerCase().includes(wanted));
  const rank = (one) => (one.is_usable ? (one.used_by_you ? 0 : 1) : 2);
  const sorted = fits.toSorted((a, b) => rank(a) - rank(b));
  const usable = sorted.filter((one) => one.is_usable).slice(0, ROWS);
  const shown = wanted || page.showsAll || !usable.length ? sorted : usable;
  const hidden = sorted.length - shown.length;
  return html`<div class="row model-filter"><input type="search" data-filter aria-label="Filter models" placeholder="Filter ${plural(page.models.length, "model")}" .value=${live(page.filter)} @input=${(event) => { page.filter = event.target.value; draw(); }}></div>
    ${shown.length ? html`<div class="frame"><table class="model-table"><thead><tr><th scope="col">Seats</th><th scope="col">Model</th><th scope="col" class="right">$ per M in</th><th scope="col" class="right">out</th><th scope="col" class="right">Window</th><th scope="col" class="right">Answer</th><th scope="col">State</th></tr></thead>
      <tbody>${repeat(shown, (one) => one.name, (one) => row(page, one))}</tbody></table></div>` : html`<p class="empty">No model fits this filter.</p>`}
    ${hidden ? html`<button class="link" type="button" @click=${() => { page.showsAll = true; draw(); }}>Show ${plural(hidden, "more model")}</button>` : nothing}`;
}

function row(page, model) {
  const seated = page.form.seats.filter((name) => name === model.name).length;
  const isFull = page.form.seats.length >= SEATS_MAX;
  const size = (tokens) => (tokens >= 1e6 ? `${count(tokens / 1e6)}M` : `${count(tokens / 1000)}k`);
  const isKnown = "context_window_tokens" in model;
  return html`<tr class=${model.is_usable ? "" : "is-off"} data-model=${model.name}>
    <td class="seat-count">${model.is_usable ? html`<button class="icon" type="button" aria-label="One seat less for ${model.label}" aria-disabled=${seated ? nothing : "true"} @click=${() => { if (seated) drop(page, model); }}>−</button><span class="number" aria-label="${plural(seated, "seat")}">${seated || html`<span class="faint">0</span>`}</span><button class="icon" type="button" aria-label="One seat more for ${model.label}" aria-disabled=${isFull ? "true" : nothing} @click=${() => { if (!isFull) add(page, model); }}>+</button>` : html`<span class="faint" aria-label="cannot be chosen">–</span>`}</td>
    <th scope="row" class="name"><span>${written(model.label)}</span> <span class="meta">${written(model.provider)}${model.is_reasoning ? ", thinks" : ""}</span></th>
    <td class="right price-in">${isKnown ? rate(model, model.input_usd_per_million) : "–"}</td><td class="right price-out">${isKnown ? rate(model, model.output_usd_per_million) : "–"}</td>
    <td class="right window">${isKnown ? size(model.context_window_tokens) : "–"}</td><td class="right answer">${isKnown ? size(model.max_output_tokens) : "–"}</td>
    <td class="state">${health(model)}</td></tr>`;
}

const rate = (model, amount) => html`<span class=${model.is_play ? "faint" : ""}>${model.is_play ? "play " : ""}${money(amount, { places: Number(amount) < 0.1 ? 3 : 2, play: model.is_play }).replace("play ", "")}</span>`;

function health(model) {
  if (model.missing) return chip(html`set <code>${model.missing}</code>`, "you");
  if (!model.is_usable) return html`<span class="meta">${written(model.note || "not configured")}</span>`;
  const { state: now, p50_ms: p50 } = model.health;
  if (now === "key_refused") return chip("key refused", "bad");
  if (now === "failing") return chip("failing now", "bad");
  if (now === "busy") return chip("busy", "you");
  return html`<span class="row meta">${now === "ok" ? glyph("done") : nothing}${p50 ? `answers in ${duration(p50 / 1000)}` : now === "ok" ? "answers" : "not asked yet"}</span>`;
}

function add(page, model) {
  change(page, { seats: [...page.form.seats, model.name] });
}

function drop(page, model) {
  const last = page.form.seats.lastIndexOf(model.name);
  page.picked = null;
  change(page, { seats: page.form.seats.filter((_, index) => index !== last) });
}
