// The frame around every page: top bar, bell, account, and what a page shows before it has data.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { get, patch, post } from "../api.js";
import { ago, money } from "../format.js";
import { overlays, toast } from "../overlay.js";
import { page, reload } from "../router.js";
import { dress, draw, seenTheme, state } from "../store.js";
import { tellTabs } from "../stream.js";
import { action, blank, errorBar, icon, written } from "./parts.js";

/** @type {"bell"|"account"|null} */
let opened = null;
let messages = null;

/** Close what the top bar opened; by a key, its button gets the focus back. @returns {boolean} whether it was open */
export function closePanel({ byKey = false } = {}) {
  const was = opened;
  opened = null;
  if (was && byKey) document.getElementById(`open-${was}`)?.focus();
  if (was) draw();
  return was !== null;
}

function toggle(name) {
  opened = opened === name ? null : name;
  if (opened === "bell") loadMessages();
  draw();
}

async function loadMessages() {
  messages = (await get("/notifications?limit=30")).items;
  draw();
}

let counting = 0;

/** A message to the person came: count what is unread, once for several; a hidden tab counts when it is seen. */
export function takeMessage() {
  if (opened === "bell") loadMessages();
  if (document.hidden) document.addEventListener("visibilitychange", takeMessage, { once: true });
  else counting ||= setTimeout(countUnread, 400);
}

async function countUnread() {
  counting = 0;
  state.unread = (await get("/notifications?limit=1").catch(() => ({ unread_count: state.unread }))).unread_count;
  draw();
}

/** Draw the whole app. @param {{search: () => void, signOut: () => void, stay: () => void}} acts */
export function shell(acts) {
  const isBare = page.view === "sign_in";
  return html`
    <a class="skip" href="#main" @click=${skip}>Skip to the page</a>
    ${isBare ? nothing : topBar(acts)}
    ${state.isExpiring ? html`<div class="notice you" role="alert"><p class="grow">You will be signed out in a few minutes.</p>${action({ name: "stay", label: "Stay", run: acts.stay })}</div>` : nothing}
    <main id="main" tabindex="-1">${content()}</main>
    ${isBare ? nothing : html`<footer class="footer"><a href="/docs">API</a><a href="/models">Models</a><a href="/processes/standard">Process</a></footer>`}
    ${overlays()}`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function topBar({ search, signOut }) {
  return html`<header class="top" @keydown=${(event) => { if (event.key === "Escape" && closePanel({ byKey: true })) event.preventDefault(); }}>
    <a class="brand" href="/" aria-label="Dialectic">${mark}<span>Dialectic</span></a>
    <nav class="grow" aria-label="Where you are"><ol class="crumbs">${(page.data && page.module?.crumbs?.(page.data) || []).map((crumb) => html`<li class="one-line">${crumb.href ? html`<a class="one-line" href=${crumb.href}>${written(crumb.label)}</a>` : html`<span class="one-line">${written(crumb.label)}</span>`}</li>`)}</ol></nav>
    <button class="search" type="button" aria-label="Search or act" aria-keyshortcuts="Meta+K Control+K" @click=${search}>${icon("search")}<span>Search or act</span><kbd aria-hidden="true">${acmeKey}</kbd></button>
    ${connection()}
    ${state.wallet ? html`<a class="balance" href="/wallet" title="Your wallet">${balance(state.wallet)}</a>` : nothing}
    <button class="icon" id="open-bell" type="button" aria-expanded=${opened === "bell"} aria-label=${state.unread ? `Messages, ${state.unread} unread` : "Messages"} @click=${() => toggle("bell")}>${icon("bell")}${state.unread ? html`<span class="count" aria-hidden="true">${Math.min(99, state.unread)}</span>` : nothing}</button>
    <a class="icon wide-only" href="/chat" aria-label="Chat">${icon("chat")}</a>
    <button class="icon wide-only" type="button" aria-label=${seenTheme() === "dark" ? "Light theme" : "Dark theme"} @click=${switchTheme}>${icon(seenTheme() === "dark" ? "sun" : "moon")}</button>
    <button class="icon" id="open-account" type="button" aria-expanded=${opened === "account"} aria-label="Account" @click=${() => toggle("account")}>${icon("user")}</button>
    ${opened === "bell" ? bell() : opened === "account" ? account(signOut) : nothing}
  </header>`;
}

/** The mark of the app. */
export const mark = html`<svg viewBox="0 0 32 32" aria-hidden="true"><circle cx="12" cy="16" r="9.5" fill="#3545b5"/><circle cx="20" cy="16" r="9.5" fill="#c4512d" fill-opacity=".82"/></svg>`;
const acmeKey = /Mac|iPhone|iPad/.test(navigator.platform) ? "⌘K" : "Ctrl K";

function balance(wallet) {
  const { money: real, play_money: play } = wallet;
  return Number(real.balance) === 0 && Number(play.balance) !== 0 ? money(play.balance, { play: true, places: 2 }) : money(real.balance, { places: 2 });
}

function connection() {
  const { state: now, retryAt } = state.connection;
  const seconds = retryAt ? Math.max(0, Math.round((retryAt - Date.now()) / 1000)) : 0;
  const told = {
    live: "live", reconnecting: seconds > 0 ? `reconnecting, again in ${seconds} s` : "reconnecting",
    offline: "offline, your text is kept", signed_out: "signed out",
  }[now];
  return html`<span class="connection ${now}" role="status" aria-label="Connection: ${told}"><span>${told}</span></span>`;
}

/** Switch between light and dark, and remember it for this person. */
export function switchTheme() {
  const theme = seenTheme() === "dark" ? "light" : "dark";
  savePreferences({ theme });
}

/** Change preferences at once, and keep them on the server. */
export function savePreferences(changes) {
  if (state.me) state.me.preferences = { ...state.me.preferences, ...changes };
  dress(state.me?.preferences ?? changes);
  draw();
  if (state.me?.scopes.includes("write")) patch("/me/preferences", changes).catch((problem) => toast(problem.detail));
}

function bell() {
  return html`<div class="panel" role="dialog" aria-label="Messages">
    <div class="row"><span class="label grow">Messages</span>${state.unread ? action({ name: "read-all", label: "Mark all read", kind: "plain", run: readAll }) : nothing}</div>
    ${messages === null ? blank(3, 40) : messages.length === 0 ? html`<p class="empty">Nothing waits for you.</p>` : html`<ul>${repeat(messages, (one) => one.id, (one) => html`
      <li><a class="item" href=${one.link_path ?? "/"} @click=${() => { opened = null; }}><p class=${one.read_at ? "soft" : ""}>${written(one.title ?? one.message ?? "")}</p><p class="meta">${ago(one.created_at, Date.now())}</p></a></li>`)}</ul>`}</div>`;
}

async function readAll() {
  await post("/notifications/read", {});
  state.unread = 0;
  await loadMessages();
}

function account(signOut) {
  const { me } = state;
  return html`<div class="panel" role="dialog" aria-label="Account">
    <p class="item"><strong>${written(me?.display_name || me?.name || "")}</strong></p>
    ${(me?.tenants ?? []).length > 1 ? html`<ul>${me.tenants.map((tenant) => html`<li><button class="item" type="button" aria-current=${tenant.id === me.tenant_id ? "true" : nothing} @click=${() => switchTo(tenant.id)}>${written(tenant.name)}</button></li>`)}</ul>` : nothing}
    <ul><li><a class="item" href="/settings/appearance" @click=${() => { opened = null; }}>Settings</a></li>
    <li><button class="item" type="button" @click=${switchTheme}>Switch theme</button></li>
    ${me?.csrf_token ? html`<li><button class="item" type="button" @click=${signOut}>Sign out</button></li>` : nothing}</ul></div>`;
}

async function switchTo(tenant) {
  if (tenant === state.me.tenant_id) return;
  await post("/browser-session/switch", { tenant_id: tenant });
  tellTabs("account");
  location.assign("/");
}

// -- the page -------------------------------------------------------------------------------------

function content() {
  const { module, data, problem, params, isSlow } = page;
  if (!data && problem) return failed(problem);
  if (!data || !module) {
    return html`<div class="page">${module?.blank?.(params) ?? html`<h1 class="sr">Loading</h1>${blank()}`}
      ${isSlow ? html`<p class="meta" role="status">Still waiting for the server.</p>` : nothing}</div>`;
  }
  return html`${problem ? errorBar(problem, reload) : nothing}${module.view(data)}`;
}

function failed(problem) {
  if (problem.status === 404) return notFound();
  return html`<div class="page narrow stack loose"><h1>This page could not be loaded</h1>${errorBar(problem, reload)}</div>`;
}

/** What is not there, and what is not yours, look the same. */
export const notFound = () => html`<div class="page narrow empty stack loose"><h1>Not found</h1>
  <p>There is nothing at this address, or it belongs to someone else.</p><p><a class="button" href="/">To all projects</a></p></div>`;
