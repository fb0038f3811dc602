// What the whole app knows, when it is drawn, and what is kept of what a person types.

/**
 * @typedef {object} Connection
 * @property {"live"|"reconnecting"|"offline"|"signed_out"} state
 * @property {number|null} retryAt when the stream is tried again, in ms
 */

/** The state that all pages share. Pages keep their own in what `load` returned. */
export const state = {
  /** @type {import("../api.d.ts").Me|null} `GET /me` */ me: null,
  /** @type {import("../api.d.ts").Wallet|null} `GET /wallet` */ wallet: null,
  unread: 0,
  /** @type {Connection} */ connection: { state: "live", retryAt: null },
};

let isWanted = false;
/** @type {{frame: () => void, hidden: () => void}} */
let drawer = { frame() {}, hidden() {} };

/** Say how the app is drawn: `frame` for a visible tab, `hidden` (the title alone) for another. */
export function drawWith(frame, hidden) {
  drawer = { frame, hidden };
}

/** Ask for the next frame to be drawn. Cheap: call it after every change. */
export function draw() {
  if (document.hidden) queueMicrotask(drawer.hidden);
  if (isWanted) return;
  isWanted = true;
  // A hidden tab gets no frames: it is drawn when it is seen again.
  requestAnimationFrame(() => {
    isWanted = false;
    drawer.frame();
  });
}

/** Tell whether the token may do this: "write", "spend" or "admin". */
export function may(scope) {
  return state.me?.scopes.includes(scope) ?? false;
}

// -- buttons at work ------------------------------------------------------------------------------

const busy = new Set();

/** Tell whether the action of this name is under way. */
export function isBusy(name) {
  return busy.has(name);
}

/** Run an action once at a time; its button is busy meanwhile. */
export async function busily(name, work) {
  if (busy.has(name)) return undefined;
  busy.add(name);
  draw();
  try {
    return await work();
  } finally {
    busy.delete(name);
    draw();
  }
}

// -- what a person types --------------------------------------------------------------------------

const PREFIX = "dialectic:";
// Kept too, but it is not text that a person would miss.
const NOT_TYPED = /^(chat:choice|chat:pending|search:)/;
let hasForgotten = false;

function place(name) {
  return `${PREFIX}${state.me?.user_id}:${state.me?.tenant_id}:${name}`;
}

/** Keep unsent text of this user in this place of the app; an empty one is forgotten. */
export function keep(name, text) {
  // A page that closes after signing out must not write its text again.
  if (hasForgotten) return;
  try {
    if (text) localStorage.setItem(place(name), text);
    else localStorage.removeItem(place(name));
  } catch { /* storage is full or off: the field still has the text */ }
}

/** Find the text that was kept, or "". */
export function kept(name) {
  try {
    return localStorage.getItem(place(name)) ?? "";
  } catch {
    return "";
  }
}

/** Give what one user typed to another: the owner of this machine had no sign-in, and has one now. */
export function inherit(from, to) {
  const [old, own] = [from, to].map((one) => `${PREFIX}${one.user_id}:${one.tenant_id}:`);
  try {
    for (const key of Object.keys(localStorage).filter((each) => each.startsWith(old))) {
      localStorage.setItem(own + key.slice(old.length), localStorage.getItem(key) ?? "");
      localStorage.removeItem(key);
    }
  } catch { /* storage is full or off */ }
}

/** Tell whether this user has unsent text in this browser. */
export function hasUnsent() {
  const own = `${PREFIX}${state.me?.user_id}:`;
  try {
    return Object.keys(localStorage).some((key) => key.startsWith(own) && !NOT_TYPED.test(key.slice(own.length).replace(/^[^:]*:/, "")));
  } catch {
    return false;
  }
}

/** Tell whether the user has signed out: the page is about to close. */
export const isLeaving = () => hasForgotten;

/** Remove everything that was kept in this browser: on signing out. */
export function forgetAll() {
  hasForgotten = true;
  try {
    for (const key of Object.keys(localStorage)) {
      if (key.startsWith(PREFIX)) localStorage.removeItem(key);
    }
  } catch { /* storage is off */ }
}

// -- appearance -----------------------------------------------------------------------------------

/** Show a theme ("light", "dark" or "system"), text size and motion; remember the theme. */
export function dress({ theme = "system", text_size: size = "normal", motion = "system" } = {}) {
  const root = document.documentElement;
  root.dataset.size = size;
  root.dataset.motion = motion;
  if (theme === "system") delete root.dataset.theme;
  else root.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem(`${PREFIX}theme`);
    else localStorage.setItem(`${PREFIX}theme`, theme);
  } catch { /* storage is off */ }
}

/** Tell which theme is seen. */
export function seenTheme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}
