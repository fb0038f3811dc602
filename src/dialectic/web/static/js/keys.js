// Keys: single ones, sequences ("g p") and "mod+k". They act outside of fields only.
import { state } from "./store.js";

const SEQUENCE_MS = 1200;
const IS_APPLE = /Mac|iPhone|iPad/.test(navigator.platform);

/**
 * @typedef {object} Key
 * @property {string} keys "p", "g p", "mod+k", "?", "Escape"
 * @property {string} label what it does, in words
 * @property {(event: KeyboardEvent) => void|boolean} run false lets the browser go on
 * @property {boolean} [inFields] also while a field has the focus
 * @property {boolean} [inDialogs] also while a dialog is open
 */

/** @type {() => Key[]} */
let list = () => [];
let begun = "";
let begunAt = 0;

/** Listen; `all` lists the keys of now, the page's before those of everywhere. */
export function listenToKeys(all) {
  list = all;
  addEventListener("keydown", press);
}

/**
 * Hold what is typed until a field that is about to open can take it, so that no key acts on the page.
 * @returns {() => {text: string, isEntered: boolean}} ends it and returns what was typed
 */
export function holdKeys() {
  const held = { text: "", isEntered: false };
  const take = (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.key === "Enter") held.isEntered = true;
    else if (event.key === "Backspace") held.text = held.text.slice(0, -1);
    else if (event.key.length === 1) held.text += event.key;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  addEventListener("keydown", take, { capture: true });
  return () => {
    removeEventListener("keydown", take, { capture: true });
    return held;
  };
}

/** How a key is shown to a person. */
export function showKeys(keys) {
  return keys.split(" ").map((key) => key.replace("mod+", IS_APPLE ? "⌘" : "Ctrl ").replace("shift+", "⇧").replace("Escape", "Esc")
    .replace("ArrowLeft", "←").replace("ArrowRight", "→").replace(/(^|[ ⌘])([a-z])$/, (_, before, letter) => before + letter.toUpperCase()));
}

function press(event) {
  if (event.defaultPrevented || event.isComposing || event.altKey) return;
  const isMod = event.metaKey || event.ctrlKey;
  const name = isMod ? `mod+${event.key.toLowerCase()}` : event.shiftKey && event.key.length === 1 && /[A-Z]/.test(event.key) ? `shift+${event.key.toLowerCase()}` : event.key;
  const isField = isTyping(event.target);
  if (!isMod && name !== "Escape" && state.me?.preferences?.keys === false) return;
  // A dialog has its own keys.
  const inDialog = document.querySelector("dialog[open]") !== null;
  const sequence = event.timeStamp - begunAt < SEQUENCE_MS ? `${begun} ${name}` : name;
  const usable = list().filter((key) => (key.inFields || !isField) && (!inDialog || key.inDialogs));
  const found = usable.find((key) => key.keys === sequence) ?? usable.find((key) => key.keys === name);
  begun = "";
  if (found) {
    if (found.run(event) !== false) event.preventDefault();
  } else if (!isMod && !isField && usable.some((key) => key.keys.startsWith(`${name} `))) {
    [begun, begunAt] = [name, event.timeStamp];
  }
}

/** Tell whether an element takes text. */
export function isTyping(target) {
  return target instanceof HTMLElement
    && (target.isContentEditable || target.matches("textarea, select, input:not([type=checkbox], [type=radio], [type=button], [type=range])"));
}
