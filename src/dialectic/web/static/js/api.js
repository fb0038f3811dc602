// Requests to the API: CSRF, idempotency keys, problems, sign-in that ended. Draws nothing.
import { state } from "./store.js";

const ROOT = "/api/v1";
const TRIES_MAX = 5;
const NETWORK = "The server did not answer. Check that it runs and that this device is online.";

/** What went wrong, in the server's words. */
export class Problem extends Error {
  constructor({ status = 0, code = "network", detail = NETWORK, request_id: id = "", ...rest }, retryAfterS = null) {
    super(detail);
    this.name = "Problem";
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.requestId = id;
    /** @type {{path: string, message: string, code: string}[]} fields that do not fit (422) */
    this.errors = rest.errors ?? [];
    this.remedy = rest.remedy ?? null;
    this.reason = rest.reason ?? null;
    /** @type {object|null} the newest version of a document (412) */
    this.current = rest.current ?? null;
    this.retryAfterS = retryAfterS;
  }
}

/** @type {() => Promise<void>} Set by the app: asks for a token and returns when signed in. */
let signInAgain = () => Promise.reject(new Problem({ status: 401, code: "token_missing" }));

/** Say how to sign in when a request is refused. */
export function signInWith(ask) {
  signInAgain = ask;
}

let csrf = null;

/** Remember the CSRF token of this browser session; null where none is needed. */
export function rememberCsrf(token) {
  csrf = token;
}

/**
 * @typedef {object} Options of a request
 * @property {any} [body] sent as JSON, or a form with files as it is
 * @property {Record<string, string>} [headers]
 * @property {AbortSignal} [signal]
 * @property {string} [key] the Idempotency-Key of all tries
 * @property {string} [etag] for If-Match
 */

/** @param {string} method @param {string} path @param {Options} [options] */
async function send(method, path, { body, headers = {}, signal } = {}) {
  const sent = { Accept: "application/json", ...(method === "GET" ? {} : csrfHeaders()), ...headers };
  let payload = body;
  if (body !== undefined && !(body instanceof FormData)) {
    sent["Content-Type"] = "application/json";
    payload = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(ROOT + path, { method, headers: sent, body: payload, signal, credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({});
  }
  if (response.ok) return response;
  throw await readProblem(response);
}

/** Read the problem of a response that is not a success. */
export async function readProblem(response) {
  const retry = Number(response.headers.get("Retry-After"));
  const found = await response.json().catch(() => ({}));
  return new Problem({ detail: response.statusText || NETWORK, code: "internal", ...found, status: response.status }, retry || null);
}

/** The header that a change needs where a cookie signed the browser in. @returns {Record<string, string>} */
export const csrfHeaders = () => (csrf ? { "X-CSRF-Token": csrf } : {});

/** One request, repeated once after a new CSRF token or a new sign-in. */
async function request(method, path, options) {
  try {
    return await send(method, path, options);
  } catch (problem) {
    if (problem.status === 401 && state.me) await signInAgain();
    else if (problem.status === 403 && problem.code === "csrf_invalid") await renewCsrf();
    else throw problem;
    return send(method, path, options);
  }
}

/** Ask for the CSRF token again. */
export async function renewCsrf() {
  const response = await send("GET", "/browser-session");
  csrf = (await response.json()).csrf_token;
}

async function parse(response) {
  return response.status === 204 ? null : response.json();
}

/**
 * Read: the parsed answer. The browser's cache revalidates it by its ETag.
 * @param {string} path @param {Options} [options] @returns {Promise<any>}
 */
export async function get(path, { signal } = {}) {
  return parse(await request("GET", path, { signal }));
}

/** Read what is not JSON: the text of a file. @param {string} path @param {Options} [options] */
export async function getText(path, { signal } = {}) {
  return (await request("GET", path, { signal })).text();
}

/** Read, with the ETag that a later `If-Match` needs. @param {string} path @param {Options} [options] */
export async function read(path, { signal } = {}) {
  const response = await request("GET", path, { signal });
  return { data: await parse(response), etag: response.headers.get("ETag") };
}

/**
 * One press of a button: all tries of it have one Idempotency-Key, so it happens once.
 * @example const made = await press().post("/runs", { prompt });
 */
export function press() {
  const key = crypto.randomUUID();
  /** @returns {(path: string, body?: any, options?: Options) => Promise<any>} */
  const act = (method) => (path, body, options = {}) => tryOften(method, path, body, { ...options, key });
  return { post: act("POST"), put: act("PUT"), patch: act("PATCH"), del: act("DELETE") };
}

/** Change something once: `post("/sessions/…/pause")`. Where several follow, use one `press()`. */
export const post = (path, body, options) => press().post(path, body, options);
export const put = (path, body, options) => press().put(path, body, options);
export const patch = (path, body, options) => press().patch(path, body, options);
export const del = (path, options) => press().del(path, undefined, options);

/** @param {string} method @param {string} path @param {any} body @param {Options} options */
async function tryOften(method, path, body, { key, etag, signal, headers = {} }) {
  const sent = { "Idempotency-Key": key, ...(etag ? { "If-Match": etag } : {}), ...headers };
  for (let tried = 1; ; tried += 1) {
    try {
      return await parse(await request(method, path, { body, headers: sent, signal }));
    } catch (problem) {
      const isLost = problem.code === "network" || problem.status === 503 || problem.code === "in_progress";
      if (!isLost || tried === TRIES_MAX || signal?.aborted) throw problem;
      await wait(problem.retryAfterS ?? 0.3 * 2 ** tried);
    }
  }
}

/**
 * Open a stream of events that ends by itself, such as an answer; the caller reads its body.
 * With a body it is a POST, which all tries with one `key` share.
 * @param {string} path @param {Options} [options] @returns {Promise<Response>}
 */
export function openStream(path, { body, key, signal } = {}) {
  const headers = { Accept: "text/event-stream", ...(key ? { "Idempotency-Key": key } : {}) };
  return request(body === undefined ? "GET" : "POST", path, { body, headers, signal });
}

function wait(seconds) {
  return new Promise((done) => { setTimeout(done, seconds * 1000); });
}

// -- the account ----------------------------------------------------------------------------------

/** Load who is signed in; a `Problem` of status 401 if not signed in. */
export async function loadMe() {
  const me = await parse(await send("GET", "/me"));
  csrf = me.csrf_token ?? null;
  return me;
}

/** Sign this browser in. The token is sent once and kept nowhere. */
export async function signIn(token) {
  // A header holds printable characters alone; others make the token a wrong one, as it is.
  const shown = token.trim().replace(/[^\x21-\x7e]/g, "?");
  const login = await parse(await send("POST", "/browser-session", { headers: { Authorization: `Bearer ${shown}` } }));
  csrf = login.csrf_token;
}

/** Sign this browser out, or all browsers of the person. */
export async function signOut({ everywhere = false } = {}) {
  await request("DELETE", `/browser-session${everywhere ? "?everywhere=true" : ""}`, {});
  csrf = null;
}
