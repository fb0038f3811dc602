// Parts that every page uses. Each is a function from data to a template; none keeps a state.
import { html, nothing, svg } from "../../vendor/lit/lit-html.js";
import { count, money, plural, visible } from "../format.js";
import { busily, isBusy } from "../store.js";
import { toast } from "../overlay.js";

// -- seats and glyphs -----------------------------------------------------------------------------

/** The class that gives a seat's colours to what is inside: `--seat` and `--tint`. */
export const seatClass = (index) => `seat-${((index - 1) % 8) + 1}`;

/** A seat: its number in its colour. `label` names the model for those who do not see it. */
export function seat(index, { label = "", small = false } = {}) {
  const name = label ? `Seat ${index}: ${label}` : `Seat ${index}`;
  return html`<span class="seat ${seatClass(index)} ${small ? "small" : ""}" role="img" aria-label=${name} title=${label || nothing}>${index}</span>`;
}

const SHAPES = {
  wait: svg`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="1.6 2.2"/>`,
  run: svg`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-opacity=".25" stroke-width="2"/><path class="turning" d="M8 2a6 6 0 0 1 6 6" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>`,
  retry: svg`<path d="M13.5 8A5.5 5.5 0 1 1 11 3.4" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round"/><path d="M11.2.8v3.4H7.8z" fill="currentColor"/>`,
  done: svg`<circle cx="8" cy="8" r="7" fill="currentColor"/><path d="m5 8.2 2.1 2.1L11.2 6" fill="none" stroke="var(--bg)" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/>`,
  paused: svg`<circle cx="8" cy="8" r="7" fill="currentColor"/><path d="M6.2 5.2v5.6M9.8 5.2v5.6" stroke="var(--bg)" stroke-width="1.8" stroke-linecap="round"/>`,
  failed: svg`<path d="M8 .8 15.2 8 8 15.2.8 8z" fill="currentColor"/><path d="m5.8 5.8 4.4 4.4m0-4.4-4.4 4.4" stroke="var(--bg)" stroke-width="1.7" stroke-linecap="round"/>`,
  cancelled: svg`<circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.7"/><path d="m4 12 8-8" stroke="currentColor" stroke-width="1.7"/>`,
  you: svg`<path d="M8 1.2 15.4 14H.6z" fill="currentColor" stroke="currentColor" stroke-linejoin="round"/><path d="M8 5.8v3.6" stroke="var(--bg)" stroke-width="1.7" stroke-linecap="round"/><circle cx="8" cy="11.8" r="1" fill="var(--bg)"/>`,
  kept: svg`<circle cx="8" cy="8" r="5.5" fill="currentColor"/>`,
  changed: svg`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="1.6"/><path d="M8 3a5 5 0 0 1 0 10z" fill="currentColor"/>`,
  dropped: svg`<path d="m4 4 8 8m0-8-8 8" stroke="currentColor" stroke-width="2" stroke-linecap="round"/>`,
};

/** A glyph: shape first, colour second. Give `name` where no word says it. */
export function glyph(kind, name = "") {
  return html`<svg class="glyph ${kind}" viewBox="0 0 16 16" role=${name ? "img" : nothing} aria-label=${name || nothing} aria-hidden=${name ? nothing : "true"}>${SHAPES[kind] ?? SHAPES.wait}</svg>`;
}

const ICONS = {
  search: svg`<circle cx="7" cy="7" r="4.6"/><path d="m10.6 10.6 3.6 3.6"/>`,
  bell: svg`<path d="M8 1.8a4.3 4.3 0 0 0-4.3 4.3c0 4.3-1.5 5.4-1.5 5.4h11.6s-1.5-1.1-1.5-5.4A4.3 4.3 0 0 0 8 1.8zM6.6 13.6a1.6 1.6 0 0 0 2.8 0"/>`,
  moon: svg`<path d="M13.6 9.6A6 6 0 0 1 6.4 2.4a6 6 0 1 0 7.2 7.2z"/>`,
  sun: svg`<circle cx="8" cy="8" r="3"/><path d="M8 1v1.6M8 13.4V15M1 8h1.6M13.4 8H15M3 3l1.2 1.2M11.8 11.8 13 13M13 3l-1.2 1.2M4.2 11.8 3 13"/>`,
  chat: svg`<path d="M2 3.2h12v8H7.4L4.2 14v-2.8H2z"/>`,
  user: svg`<circle cx="8" cy="5.4" r="2.9"/><path d="M2.4 14c.6-3 2.8-4.4 5.6-4.4s5 1.400 5.600 4.400"/>`,
  close: svg`<path d="m4 4 8 8m0-8-8 8"/>`,
  more: svg`<circle cx="3" cy="8" r=".8"/><circle cx="8" cy="8" r=".8"/><circle cx="13" cy="8" r=".8"/>`,
};

/** A line icon, for buttons whose name is said elsewhere. */
export const icon = (name) => html`<svg viewBox="0 0 16 16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">${ICONS[name]}</svg>`;

// -- buttons --------------------------------------------------------------------------------------

/**
 * A button that does something: busy while it works, one press at a time; a failure is a toast.
 * @param {{name: string, label: unknown, run: () => unknown, price?: string|null, kind?: string, key?: string, disabled?: boolean}} options
 *   `name` is unique on the page; `price` stands lighter after the verb; `kind` is "main", "plain" or "bad".
 */
export function action({ name, label, run, price = null, kind = "", key = "", disabled = false }) {
  const isRunning = isBusy(name);
  return html`<button class="button ${kind}" type="button" data-action=${name}
    aria-disabled=${isRunning || disabled ? "true" : nothing} aria-busy=${isRunning ? "true" : nothing}
    @click=${() => { if (!disabled) attempt(name, run); }}>${label}${price ? html`<span class="price">about ${price}</span>` : nothing}${key ? html`<kbd aria-hidden="true">${key}</kbd>` : nothing}</button>`;
}

/** Run an action under its name; what fails is told. Also for keys. */
export async function attempt(name, run) {
  try {
    return await busily(name, run);
  } catch (problem) {
    if (problem.name !== "Problem") throw problem;
    toast(problem.detail);
    return undefined;
  }
}

/** A price for a price button: from a quote's `expected`, real or play. */
export const price = (amount, isPlay = false) => (amount === null || amount === undefined ? null : money(amount, { play: isPlay }));

// -- states of a page -----------------------------------------------------------------------------

/** Plain blocks in place of what is being loaded. */
export const blank = (rows = 8, height = 62) => html`<div class="stack" aria-hidden="true">${Array.from({ length: rows }, () => html`<div class="blank" .style=${`--height:${height}px`}></div>`)}</div>`;

/** A bar that says what failed, over what is still shown. */
export function errorBar(problem, retry) {
  return html`<div class="notice bad" role="alert">${glyph("failed")}<div class="grow">
    <p>${problem.detail}</p>${problem.requestId ? html`<p class="meta mono">${problem.requestId}</p>` : nothing}
    </div>${retry ? action({ name: "retry-load", label: "Try again", run: retry }) : nothing}</div>`;
}

/** A line for a token that may only read. */
export const readOnly = () => html`<p class="notice">Your token may read only, so nothing here can be changed.</p>`;

// -- needs, bars, meters --------------------------------------------------------------------------

/**
 * A card for something that waits for a person.
 * @param {{title: unknown, text?: unknown, meta?: unknown, isFailure?: boolean}} need
 * @param {unknown} buttons one main button first
 */
export const needCard = ({ title, text = "", meta = "", isFailure = false }, buttons = nothing) => html`
  <article class="need ${isFailure ? "failure" : ""}">${glyph(isFailure ? "failed" : "you", isFailure ? "Failed" : "Waits for you")}
    <div class="grow"><h3>${title}</h3>${text ? html`<p class="soft">${text}</p>` : nothing}${meta ? html`<p class="meta">${meta}</p>` : nothing}</div>
    <div class="row wrap">${buttons}</div></article>`;

/** The bar of a session: a segment per stage, as wide as the square root of its calls. */
export function progressBar(stages, { thin = false } = {}) {
  const planned = stages.reduce((sum, stage) => sum + (stage.planned || 0), 0);
  const finished = stages.reduce((sum, stage) => sum + (stage.finished || 0), 0);
  return html`<div class="bar ${thin ? "thin" : ""}" role="progressbar" aria-label="Progress" aria-valuemin="0" aria-valuemax=${planned} aria-valuenow=${finished}
    aria-valuetext=${planned ? `${count(finished)} of ${plural(planned, "call")}` : "nothing planned yet"}>${stages.map(segment)}</div>`;
}

function segment(stage) {
  const planned = stage.planned || 0;
  const share = (n) => (planned ? `${Math.min(100, (100 * n) / planned)}%` : "0%");
  const done = stage.status === "complete" ? planned : stage.finished || 0;
  return html`<span .style=${`--size:${Math.sqrt(Math.max(1, planned))}`} title=${stage.title ?? stage.slug}>
    <i class="done" .style=${`--share:${share(done)}`}></i>
    ${stage.running ? html`<i class="writing" .style=${`--from:${share(done)};--share:${share(Math.min(stage.running, planned - done))}`}></i>` : nothing}
    ${stage.failed && stage.status !== "complete" ? html`<i class="failed" .style=${`--share:${share(stage.failed)}`}></i>` : nothing}</span>`;
}

/** Spent, forecast and budget in one bar; the numbers stand next to it as text. */
export function meter({ spent, forecast, budget, is_play: play = false }) {
  const [s, f, b] = [Number(spent ?? 0), Number(forecast ?? spent ?? 0), budget === null || budget === undefined ? null : Number(budget)];
  const whole = Math.max(b ?? 0, f, s, 1e-9);
  const share = (value) => `${(100 * value) / whole}%`;
  const told = `${money(s, { play })} spent, about ${money(f, { play })} in the end${b === null ? "" : `, budget ${money(b, { play })}`}`;
  return html`<div class="meter" role="img" aria-label=${told} .style=${`--spent:${share(s)};--forecast:${share(f)};--budget:calc(${share(b ?? whole)} - 1px)`}>
    <i class="forecast ${b !== null && f > b ? "beyond" : ""}"></i><i class="spent"></i>${b === null ? nothing : html`<i class="budget"></i>`}</div>`;
}

// -- tabs, chips, stars ---------------------------------------------------------------------------

/**
 * Tabs that are links, so that each has an address.
 * @param {{id: string, label: string, href: string, count?: number}[]} items
 */
export function tabs(items, current, label) {
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...event.currentTarget.querySelectorAll("[role=tab]")];
    const next = all[(all.indexOf(event.target) + step + all.length) % all.length];
    event.preventDefault();
    next.focus();
    next.click();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} @keydown=${move}>${items.map((item) => html`
    <a role="tab" id="tab-${item.id}" href=${item.href} aria-selected=${item.id === current} tabindex=${item.id === current ? 0 : -1} aria-controls="panel-${item.id}">${item.label}${item.count ? html` <span class="faint">${count(item.count)}</span>` : nothing}</a>`)}</div>`;
}

/** The panel of a tab. */
export const tabPanel = (id, content) => html`<div role="tabpanel" id="panel-${id}" aria-labelledby="tab-${id}">${content}</div>`;

/** A word in a pill; `kind` is "ok", "run", "you", "bad" or "hold". */
export const chip = (label, kind = "") => html`<span class="chip ${kind}">${label}</span>`;

/** Stars from 1 to 5; without `rate` they only show. */
export function stars(value, rate = null) {
  const told = value ? plural(value, "star") : "not rated";
  if (!rate) return html`<span class="stars" role="img" aria-label=${told}>${[1, 2, 3, 4, 5].map((n) => (n <= (value ?? 0) ? "★" : "☆"))}</span>`;
  return html`<span class="stars" role="group" aria-label="Rating: ${told}">${[1, 2, 3, 4, 5].map((n) => html`
    <button type="button" class=${n <= (value ?? 0) ? "on" : ""} aria-pressed=${n === value} aria-label=${plural(n, "star")} @click=${() => rate(n)}>★</button>`)}</span>`;
}

/** Text that people or models wrote, with hidden characters shown as marks. */
export const written = (text) => visible(text);
