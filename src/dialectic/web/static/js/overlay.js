// What floats over a page: dialogs, toasts, and sentences for screen readers.
import { html, nothing } from "../vendor/lit/lit-html.js";
import { repeat } from "../vendor/lit/directives/repeat.js";
import { draw } from "./store.js";

const TOAST_MS = 6_000;
const POLITE_MS = 10_000;

let dialogs = [];
let toasts = [];
let numbered = 0;

/**
 * Open a dialog over the page. It traps the focus and gives it back; Esc and a click outside close it.
 * @param {(close: (result?: unknown) => void) => unknown} view draws what is in it, with each frame
 * @param {{label: string, className?: string, isBlocking?: boolean}} options `isBlocking`: only `close` closes it
 * @returns {Promise<any>} what it was closed with
 */
export function openDialog(view, { label, className = "", isBlocking = false }) {
  return new Promise((done) => {
    numbered += 1;
    const one = { id: numbered, view, label, className, isBlocking, result: undefined, done };
    one.close = (result) => {
      one.result = result;
      find(one)?.close();
    };
    dialogs = [...dialogs, one];
    draw();
  });
}

/** Ask whether to do something. @returns {Promise<boolean>} */
export async function confirm({ title, text, yes, isDangerous = false }) {
  const answer = await openDialog((close) => html`
    <div class="dialog-body">
      <h2>${title}</h2>
      <p class="soft">${text}</p>
      <div class="dialog-foot">
        <button class="button" @click=${() => close(false)}>Leave it</button>
        <button class="button ${isDangerous ? "bad" : "main"}" autofocus @click=${() => close(true)}>${yes}</button>
      </div>
    </div>`, { label: title });
  return answer === true;
}

/** Tell whether a dialog is open. */
export const hasDialog = () => dialogs.length > 0;

const find = (one) => /** @type {HTMLDialogElement|null} */ (document.getElementById(`dialog-${one.id}`));

function closed(one) {
  if (!dialogs.includes(one)) return;
  dialogs = dialogs.filter((other) => other !== one);
  one.done(one.result);
  draw();
}

/** Show new dialogs, after they were drawn. */
export function showDialogs() {
  for (const one of dialogs) {
    const element = find(one);
    if (element && !element.open) element.showModal();
  }
}

/**
 * Say what was done, for six seconds, with a way back where there is one.
 * @param {string} text @param {{undo?: () => unknown, label?: string}} [options]
 */
export function toast(text, { undo, label = "Undo" } = {}) {
  numbered += 1;
  const one = { id: numbered, text, undo, label, timer: 0 };
  toasts = [...toasts.slice(-2), one];
  restart(one);
  draw();
}

function restart(one) {
  clearTimeout(one.timer);
  one.timer = setTimeout(() => drop(one), TOAST_MS);
}

function drop(one) {
  toasts = toasts.filter((other) => other !== one);
  draw();
}

// -- screen readers -------------------------------------------------------------------------------

let polite = "";
let urgent = "";
let waiting = "";
let saidAt = -POLITE_MS;
let timer = 0;
const alarmed = new Set();

/** Say a sentence politely: at most one in ten seconds, and the newest wins. */
export function announce(sentence) {
  if (sentence === polite) return;
  waiting = sentence;
  clearTimeout(timer);
  const say = () => {
    [polite, saidAt] = [waiting, performance.now()];
    draw();
  };
  const wait = saidAt + POLITE_MS - performance.now();
  if (wait <= 0) say();
  else timer = setTimeout(say, wait);
}

/** Say at once what needs a person or failed; each cause once. */
export function alarm(cause, sentence) {
  if (alarmed.has(cause)) return;
  alarmed.add(cause);
  urgent = sentence;
  draw();
}

/** Draw all that floats. */
export function overlays() {
  return html`
    ${repeat(dialogs, (one) => one.id, (one) => html`
      <dialog id="dialog-${one.id}" class=${one.className} aria-label=${one.label}
        @close=${() => closed(one)}
        @cancel=${(event) => { if (one.isBlocking) event.preventDefault(); }}
        @mousedown=${(event) => { if (event.target === event.currentTarget && !one.isBlocking) one.close(); }}>
        ${one.view(one.close)}
      </dialog>`)}
    <div class="toasts" role="status">
      ${repeat(toasts, (one) => one.id, (one) => html`
        <div class="toast" @pointerenter=${() => clearTimeout(one.timer)} @focusin=${() => clearTimeout(one.timer)} @pointerleave=${() => restart(one)}>
          <span>${one.text}</span>
          ${one.undo ? html`<button class="link" @click=${() => { drop(one); one.undo(); }}>${one.label}</button>` : nothing}
        </div>`)}
    </div>
    <div class="sr" aria-live="polite" id="polite">${polite}</div>
    <div class="sr" aria-live="assertive" id="urgent">${urgent}</div>`;
}
