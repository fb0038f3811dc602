// Addresses and pages: finds the view of a path, loads it, keeps scroll and focus. Draws nothing.
import { Problem } from "./api.js";
import { draw } from "./store.js";

const { base, table } = document.documentElement.dataset;
const { pages, styled } = JSON.parse(table);
// "/sessions/{id}" → a pattern with named groups.
const routes = Object.entries(pages).map(([path, view]) => ({
  view, pattern: new RegExp(`^${path.replace(/\{(\w+)\}/g, "(?<$1>[^/]+)")}$`),
}));
const SLOW_MS = 3_000;

/**
 * The page that is shown. `module` is its view, `data` what its `load` returned, `problem` why it failed.
 * @type {{view: string, module: object|null, params: object, data: any, problem: Problem|null, isLoading: boolean, isSlow: boolean}}
 */
export let page = { view: "", module: null, params: {}, data: null, problem: null, isLoading: true, isSlow: false };

let loading = null;
let missed = [];
let afterDraw = [];

/** Read an address: `{view, path, id, …, query, hash}`. */
export function read(location) {
  const path = location.pathname.length > 1 ? location.pathname.replace(/\/$/, "") : location.pathname;
  const route = routes.find(({ pattern }) => pattern.test(path));
  const groups = route ? route.pattern.exec(path).groups ?? {} : {};
  const named = Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, decode(value)]));
  return { view: route?.view ?? "not_found", path, ...named, query: new URLSearchParams(location.search), hash: decode(location.hash.slice(1)) };
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Go to an address of the app: `go("/sessions/…")`. `replace` leaves no step for *Back*. */
export function go(href, { replace = false } = {}) {
  keepScroll();
  const url = new URL(href, location.href);
  history[replace ? "replaceState" : "pushState"]({ key: crypto.randomUUID() }, "", url);
  return show(read(url), { isNew: true });
}

/** Change the query or hash of this page: `address({ doc: id }, "board")`; null removes a parameter. */
export function address(changes = {}, hash = page.params.hash, { replace = false } = {}) {
  const query = new URLSearchParams(page.params.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") query.delete(name);
    else query.set(name, value);
  }
  return go(`${page.params.path}${query.size ? `?${query}` : ""}${hash ? `#${hash}` : ""}`, { replace });
}

/** Load the page of the present address: at the start, and after *Back*. */
export function follow() {
  return show(read(location), { isNew: false });
}

/** Load this page's data again, without blanking it. */
export function reload() {
  // Not even the account is known: everything begins again.
  if (!page.params.view) return location.reload();
  return load({ ...page.params, isAgain: true });
}

async function show(params, { isNew }) {
  const isSame = page.module && page.view === params.view && page.params.path === params.path;
  if (isSame && page.data && page.module.address) {
    page.params = params;
    page.module.address(page.data, params);
    draw();
    if (isNew && params.hash) afterDraw.push(() => document.getElementById(params.hash)?.scrollIntoView());
    return;
  }
  if (!isSame) {
    page.module?.leave?.(page.data);
    page = { view: params.view, module: null, params, data: null, problem: null, isLoading: true, isSlow: false };
    draw();
  }
  await load(params);
  afterDraw.push(() => arrive(isNew && !isSame));
  draw();
}

async function load(params) {
  const mine = new AbortController();
  loading?.abort();
  loading = mine;
  missed = [];
  page.isLoading = true;
  page.params = params;
  const slow = setTimeout(() => { page.isSlow = true; draw(); }, SLOW_MS);
  try {
    addStyle(params.view);
    page.module ??= await import(`./views/${params.view}.js`);
    draw();
    const data = await page.module.load?.({ ...params, signal: mine.signal }) ?? {};
    if (mine.signal.aborted) return;
    Object.assign(page, { data, problem: null });
    loading = null;
    missed.forEach(deliver);
  } catch (error) {
    if (mine.signal.aborted) return;
    if (!(error instanceof Problem)) console.error(error);
    page.problem = error instanceof Problem ? error : new Problem({ code: "page", detail: "This page could not be loaded. Reload it." });
  } finally {
    clearTimeout(slow);
    if (loading === mine || loading === null) {
      loading = null;
      Object.assign(page, { isLoading: false, isSlow: false });
      draw();
    }
  }
}

/** Hand an event or a draft to the page; while it loads they wait for its snapshot. */
export function deliver(message) {
  if (loading) missed.push(message);
  if (!page.data) return;
  if (message.kind === "event") page.module?.event?.(page.data, message.event);
  else page.module?.draft?.(page.data, message.draft);
}

function addStyle(view) {
  if (styled.includes(view)) loadStyle(view);
}

/** Load a stylesheet of the app once, for a part that few need; resolves when it applies. */
export function loadStyle(name) {
  const href = `${base}/css/${name}.css`;
  if (document.querySelector(`link[href="${href}"]`)) return Promise.resolve();
  const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
  const isThere = new Promise((resolve) => { link.onload = link.onerror = resolve; });
  document.head.append(link);
  return isThere;
}

// -- scroll and focus -----------------------------------------------------------------------------

const place = () => `dialectic:scroll:${history.state?.key ?? location.pathname}`;

function keepScroll() {
  try {
    sessionStorage.setItem(place(), String(scrollY));
  } catch { /* storage is off */ }
}

function arrive(isNew) {
  const target = page.params.hash && document.getElementById(page.params.hash);
  if (target) target.scrollIntoView();
  else if (isNew) scrollTo(0, 0);
  else restoreScroll();
  if (isNew) focusHeading();
}

function restoreScroll() {
  try {
    scrollTo(0, Number(sessionStorage.getItem(place()) ?? 0));
  } catch { /* storage is off */ }
}

/** Put the focus on the heading of the page, so that it is never lost. */
export function focusHeading() {
  const heading = document.querySelector("main h1") ?? document.querySelector("main");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
}

/** Do what had to wait for the frame. */
export function settle() {
  const due = afterDraw;
  afterDraw = [];
  for (const act of due) act();
}

/** Follow links and *Back* inside the app. */
export function listenToAddresses() {
  history.scrollRestoration = "manual";
  addEventListener("popstate", () => follow());
  addEventListener("pagehide", keepScroll);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? /** @type {HTMLAnchorElement|null} */ (event.target.closest("a[href]")) : null;
    if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (read(link).view === "not_found") return;
    event.preventDefault();
    go(link.href);
  });
}
