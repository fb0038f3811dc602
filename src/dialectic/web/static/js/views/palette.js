// Search or act: one field for what can be done here, and for everything that words find.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { get } from "../api.js";
import { showKeys } from "../keys.js";
import { openDialog } from "../overlay.js";
import { go } from "../router.js";
import { draw } from "../store.js";
import { written } from "./parts.js";

const WAIT_MS = 180;
const FOUND_MAX = 20;
let isOpen = false;

/**
 * Open it.
 * @param {{label: string, keys?: string, run: () => void}[]} acts what can be done now
 * @param {() => {text: string, isEntered: boolean}} release hands over what was typed meanwhile
 */
export async function openPalette(acts, release) {
  if (isOpen) {
    release();
    return;
  }
  isOpen = true;
  const box = { text: "", found: [], picked: 0, timer: 0, asked: null, isAsking: false };
  const closed = openDialog((close) => palette(box, acts, close), { label: "Search or act", className: "palette" });
  takeTyped(box, release);
  await closed;
  clearTimeout(box.timer);
  isOpen = false;
}

/** As soon as the field is there, what was typed before is in it. */
function takeTyped(box, release) {
  const field = /** @type {HTMLInputElement|null} */ (document.querySelector("dialog.palette[open] input"));
  if (!field) {
    requestAnimationFrame(() => takeTyped(box, release));
    return;
  }
  const { text, isEntered } = release();
  if (text) {
    field.value = text;
    field.dispatchEvent(new Event("input"));
  }
  if (isEntered) field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", cancelable: true }));
}

function list(box, acts) {
  const wanted = box.text.trim().toLowerCase();
  const local = acts.filter((act) => act.label.toLowerCase().includes(wanted));
  return [...local, ...box.found];
}

function palette(box, acts, close) {
  const options = list(box, acts);
  box.picked = Math.max(0, Math.min(box.picked, options.length - 1));
  const choose = (option) => {
    close();
    if (option) option.run();
  };
  const keys = (event) => {
    // Of now: the frame with the last letter may not be drawn yet.
    const current = list(box, acts);
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) box.picked = (box.picked + step + current.length) % Math.max(1, current.length);
    else if (event.key === "Enter") choose(current[box.picked]);
    else return;
    event.preventDefault();
    draw();
    requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector(".palette [aria-selected=true]")?.scrollIntoView({ block: "nearest" })));
  };
  return html`<input type="search" autofocus role="combobox" aria-expanded="true" aria-controls="palette-options" aria-label="Search or act"
      aria-activedescendant=${options.length ? `option-${box.picked}` : nothing} placeholder="Search or act" autocomplete="off" spellcheck="false"
      @input=${(event) => { box.text = event.target.value; box.picked = 0; search(box); draw(); }} @keydown=${keys}>
    <div class="options" role="listbox" id="palette-options" aria-label="Results">${options.map((option, index) => html`
      <div role="option" id="option-${index}" aria-selected=${index === box.picked} @click=${() => choose(option)}>
        <span class="grow"><span class="one-line">${written(option.label)}</span>${option.excerpt && option.excerpt !== option.label ? html`<span class="meta one-line">${written(option.excerpt)}</span>` : nothing}</span>
        ${option.kind ? html`<span class="meta">${option.kind}</span>` : nothing}
        ${option.keys ? showKeys(option.keys).map((key) => html`<kbd>${key}</kbd>`) : nothing}</div>`)}
      ${options.length ? nothing : html`<p class="empty">${box.isAsking ? "Searching" : "Nothing found."}</p>`}</div>`;
}

function search(box) {
  clearTimeout(box.timer);
  box.asked?.abort();
  const text = box.text.trim();
  if (text.length < 2) {
    box.found = [];
    box.isAsking = false;
    return;
  }
  box.isAsking = true;
  box.timer = setTimeout(async () => {
    box.asked = new AbortController();
    const mine = box.asked;
    const { items } = await get(`/search?q=${encodeURIComponent(text)}&limit=${FOUND_MAX}`, { signal: mine.signal }).catch(() => ({ items: [] }));
    // An older answer that comes late is never shown.
    if (mine.signal.aborted || box.asked !== mine) return;
    box.found = items.map((item) => ({ label: item.title, kind: item.kind, excerpt: item.excerpt, run: () => go(item.path) }));
    box.isAsking = false;
    draw();
  }, WAIT_MS);
}
