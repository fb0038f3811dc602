// The app: who is signed in, which page is shown, and one frame at a time.
import { html, render } from "../vendor/lit/lit-html.js";
import * as api from "./api.js";
import { speak } from "./format.js";
import { holdKeys, listenToKeys, showKeys } from "./keys.js";
import { hasDialog, openDialog, showDialogs } from "./overlay.js";
import { deliver, focusHeading, follow, go, listenToAddresses, page, reload, settle } from "./router.js";
import { leave, signOut } from "./sign_out.js";
import { draw, drawWith, dress, inherit, state } from "./store.js";
import * as stream from "./stream.js";
import { closePanel, shell, switchTheme, takeMessage } from "./views/shell.js";

const root = document.getElementById("app");
const EXPIRES_SOON_MS = 5 * 60_000;
let ticking = 0;
let expiring = 0;

// -- drawing --------------------------------------------------------------------------------------

function frame() {
  const hadFocus = document.activeElement !== document.body;
  render(shell(acts), root);
  showDialogs();
  settle();
  showTitle();
  // What had the focus may be gone: the heading of the page takes it.
  if (hadFocus && document.activeElement === document.body && !hasDialog()) focusHeading();
  tick();
}

function showTitle() {
  const own = page.data && page.module?.title ? page.module.title(page.data) : "";
  document.title = [own, "Dialectic"].filter(Boolean).join(" · ");
}

/** Clocks tick once a second, and only while something runs. */
function tick() {
  const runs = (page.data && page.module?.ticks?.(page.data)) || state.connection.state === "reconnecting";
  if (Boolean(ticking) === Boolean(runs)) return;
  clearInterval(ticking);
  ticking = runs ? setInterval(draw, 1000) : 0;
}

const acts = { search, signOut: () => signOut(), stay };

// -- keys and actions -----------------------------------------------------------------------------

const EVERYWHERE = [
  { keys: "mod+k", label: "Search or act", inFields: true, run: () => { search(); } },
  { keys: "g p", label: "Projects", run: () => { go("/"); } },
  { keys: "g c", label: "Chat", run: () => { go("/chat"); } },
  { keys: "g w", label: "Wallet", run: () => { go("/wallet"); } },
  { keys: "n", label: "New project", run: () => { go("/new"); } },
  { keys: "/", label: "Filter of the page", run: () => focusFilter() },
  { keys: "t", label: "Light or dark", run: switchTheme },
  { keys: "?", label: "Keys", run: showHelp },
  { keys: "Escape", label: "Close what was opened last", run: () => closePanel({ byKey: true }) },
];
const PLACES = [["Models and processes", "/models"], ["Settings", "/settings/appearance"], ["Notifications", "/settings/notifications"], ["Tokens", "/settings/tokens"]].map(([label, href]) => ({ label, run: () => { go(href); } }));

function listKeys() {
  if (page.view === "sign_in") return [];
  const { keys } = page.module ?? {};
  const own = page.data && keys ? (typeof keys === "function" ? keys(page.data) : keys) : [];
  return [...own.map((key) => ({ ...key, run: (event) => key.run(page.data, event) })), ...EVERYWHERE];
}

function focusFilter() {
  const field = document.querySelector("main [data-filter]");
  field?.focus();
  return field !== null;
}

async function search() {
  const release = holdKeys();
  const { openPalette } = await import("./views/palette.js").catch((error) => { release(); throw error; });
  const own = (page.data && page.module?.actions?.(page.data)) || [];
  const keyed = listKeys().filter((key) => !["mod+k", "Escape", "/"].includes(key.keys));
  openPalette([...own, ...keyed.map(({ label, keys, run }) => ({ label, keys, run })), ...PLACES], release);
}

function showHelp() {
  const own = listKeys().filter((key) => !EVERYWHERE.includes(key));
  const rows = (title, keys) => html`<h3>${title}</h3><dl class="facts keys">${keys.map((key) => html`<dt>${showKeys(key.keys).map((one) => html`<kbd>${one}</kbd> `)}</dt><dd>${key.label}</dd>`)}</dl>`;
  openDialog((close) => html`<div class="dialog-body"><h2>Keys</h2>
    ${own.length ? rows("On this page", own) : ""}${rows("Everywhere", EVERYWHERE)}
    <div class="dialog-foot"><button class="button" autofocus @click=${() => close()}>Close</button></div></div>`, { label: "Keys" });
}

// -- the account ----------------------------------------------------------------------------------

async function enter() {
  const me = await api.loadMe();
  const before = state.me;
  if (before && (before.user_id !== me.user_id || before.tenant_id !== me.tenant_id)) {
    if (before.csrf_token === null) {
      page.module?.leave?.(page.data);
      inherit(before, me);
    }
    location.reload();
    return;
  }
  Object.assign(state, { me, wallet: me.wallet ?? null, unread: me.unread ?? 0, isExpiring: false });
  dress(me.preferences);
  speak(me.preferences?.language);
  warnBeforeEnd(me.token_expires_at);
  stream.begin(me.cursor ?? null);
}

function warnBeforeEnd(when) {
  clearTimeout(expiring);
  const left = when ? Date.parse(when) - Date.now() - EXPIRES_SOON_MS : Infinity;
  // Longer than a timer can count: a page is loaded again before.
  if (left > 2 ** 31 - 1) return;
  expiring = setTimeout(() => { state.isExpiring = true; draw(); }, Math.max(0, left));
}

async function stay() {
  const { expires_at: until } = await api.post("/browser-session/renew");
  state.isExpiring = false;
  warnBeforeEnd(until);
}

/** @type {Promise<void>|null} one dialog for all requests that were refused */
let asking = null;

/** Ask for a token over the open page; the page goes on afterwards. */
function signInAgain() {
  asking ??= (async () => {
    const { signInForm } = await import("./views/sign_in.js");
    const form = { token: "", problem: null };
    await openDialog((close) => html`<div class="dialog-body"><h2>Sign in again</h2>
      <p class="soft">Your sign-in has ended. What you typed is still here.</p>${signInForm(form, close)}</div>`, { label: "Sign in again", isBlocking: true });
    await enter();
    stream.tellTabs("account");
    asking = null;
    reload();
  })();
  return asking;
}

// -- the stream -----------------------------------------------------------------------------------

function hear(message) {
  switch (message.kind) {
    case "event":
      hearEvent(message);
      break;
    case "draft":
      deliver(message);
      break;
    case "asked":
      (page.data && page.module?.drafts?.(page.data, message.sessions) || []).forEach(stream.tellDraft);
      return;
    case "reset":
      reload();
      break;
    case "connection":
      state.connection = message.connection;
      break;
    case "signed_out":
      if (state.me && page.view !== "sign_in") signInAgain();
      break;
    case "account":
      enter().then(() => /** @type {HTMLDialogElement|null} */ (document.querySelector("dialog[aria-label='Sign in again']"))?.close()).catch(() => {});
      break;
    case "left":
      leave();
      break;
    default:
  }
  draw();
}

function hearEvent(message) {
  const { event } = message;
  const wallet = event.data?.wallet;
  if (event.type === "money_changed" && wallet) state.wallet = { ...state.wallet, ...wallet };
  if (event.is_internal_event === false) {
    takeMessage();
    // Loaded when it is needed: most pages never tell anything.
    import("./notices.js").then(({ tellPerson }) => tellPerson(event), () => {});
  }
  deliver(message);
}

// -- the start ------------------------------------------------------------------------------------

async function start() {
  // Until now the bar of the shell was seen.
  root.replaceChildren();
  drawWith(frame, showTitle);
  api.signInWith(signInAgain);
  stream.listen(hear);
  listenToKeys(listKeys);
  listenToAddresses();
  document.addEventListener("click", (event) => { if (!(event.target instanceof Element && event.target.closest(".top"))) closePanel(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  const isSignIn = location.pathname === "/sign-in";
  if (!isSignIn) {
    try {
      await enter();
    } catch (problem) {
      const here = location.pathname + location.search + location.hash;
      if (problem.status === 401) return go(`/sign-in?then=${encodeURIComponent(here)}`, { replace: true });
      page.problem = problem;
      return draw();
    }
  }
  return follow();
}

start();
