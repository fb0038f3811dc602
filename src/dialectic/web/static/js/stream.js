// One event stream for all tabs. The tab that holds the lock reads it and hands every item to the
// others through a BroadcastChannel; when it closes, the next takes over after the last id.
import { readProblem } from "./api.js";

const LOCK = "dialectic-stream";
const CHANNEL = "dialectic-stream";
const FIRST_WAIT_S = 0.5;
const WAIT_MAX_S = 15;
// The server sends a line every 15 s.
const SILENCE_MAX_MS = 40_000;
// A short break is not worth a sign.
const SIGN_AFTER_MS = 3_000;
const ROLL_CALL_MS = 60_000;

const tab = crypto.randomUUID();
const listeners = new Set();
/** @type {Map<string, string[]>} which sessions' drafts each tab looks at */
const wanted = new Map();
const channel = new BroadcastChannel(CHANNEL);
channel.onmessage = ({ data }) => receive(data);
let cursor = null;
let isLeader = false;
let isStopped = true;
let isCompeting = false;
let reading = null;
let own = [];
let signTimer = 0;
let shown = { state: "live", retryAt: null };

/**
 * Hear what the stream says: `{kind: "event", event}`, `{kind: "draft", draft}`, `{kind: "reset"}`
 * (load again), `{kind: "connection", connection}`, `{kind: "signed_out"}`, `{kind: "account"}`,
 * `{kind: "asked", sessions}` (another tab wants to know the drafts so far: `tellDraft`).
 * @returns {() => void} ends it
 */
export function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function tell(message) {
  for (const listener of listeners) listener(message);
}

function tellAll(message) {
  tell(message);
  channel.postMessage({ ...message, from: tab });
}

/** Join the stream that all tabs share, from the cursor of the first snapshot on. */
export function begin(from = null) {
  if (!isStopped) return;
  isStopped = false;
  cursor ??= from;
  channel.postMessage({ kind: "hello", from: tab });
  addEventListener("online", hurry);
  addEventListener("offline", sayOffline);
  addEventListener("pagehide", leave);
  addEventListener("pageshow", comeBack);
  compete();
}

function compete() {
  if (isCompeting) return;
  isCompeting = true;
  navigator.locks.request(LOCK, async () => {
    isCompeting = false;
    if (isStopped) return;
    isLeader = true;
    channel.postMessage({ kind: "roll_call", from: tab });
    const calling = setInterval(() => {
      wanted.clear();
      wanted.set(tab, own);
      channel.postMessage({ kind: "roll_call", from: tab });
    }, ROLL_CALL_MS);
    try {
      await lead();
    } finally {
      clearInterval(calling);
      isLeader = false;
    }
  });
}

/** Leave the stream: on signing out. `begin` joins it again. */
export function stop() {
  isStopped = true;
  cursor = null;
  hurry();
}

/** Tell the other tabs that the account changed ("account") or ended ("signed_out"). */
export function tellTabs(kind) {
  channel.postMessage({ kind, from: tab });
}

/** Look at the drafts of these sessions (at most 4) from this tab, and no longer at others. */
export function watchDrafts(sessions) {
  const next = sessions.slice(0, 4);
  if (next.join() === own.join()) return;
  own = next;
  want(tab, own);
  channel.postMessage({ kind: "drafts", from: tab, sessions: own, isNew: true });
}

/** Tell the other tabs what is known of a draft: the stream does not repeat it for them. */
export function tellDraft(draft) {
  channel.postMessage({ kind: "draft", draft, from: tab });
}

function want(from, sessions) {
  const before = listWanted().join();
  if (sessions.length) wanted.set(from, sessions);
  else wanted.delete(from);
  if (isLeader && listWanted().join() !== before) hurry();
}

function listWanted() {
  return [...new Set([...wanted.values()].flat())].sort().slice(0, 4);
}

function receive(message) {
  switch (message.kind) {
    case "hello":
      if (isLeader) channel.postMessage({ kind: "connection", connection: shown, from: tab });
      break;
    case "roll_call":
      channel.postMessage({ kind: "drafts", from: tab, sessions: own });
      break;
    case "drafts":
      want(message.from, message.sessions);
      if (message.isNew) tell({ kind: "asked", sessions: message.sessions });
      break;
    case "event":
    case "reset":
      cursor = message.id ?? cursor;
      tell(message);
      break;
    case "signed_out":
      stop();
      tell(message);
      break;
    default:
      if (message.kind === "connection") shown = message.connection;
      tell(message);
  }
}

// -- reading --------------------------------------------------------------------------------------

async function lead() {
  let waitS = FIRST_WAIT_S;
  while (!isStopped) {
    reading = new AbortController();
    const until = await readOnce(() => { waitS = FIRST_WAIT_S; });
    if (isStopped) return;
    if (until === "again") continue;
    if (until === "signed_out") {
      stop();
      sign("signed_out");
      tellAll({ kind: "signed_out" });
      return;
    }
    const pauseS = typeof until === "number" ? until : waitS * (0.7 + Math.random() * 0.6);
    waitS = Math.min(waitS * 2, WAIT_MAX_S);
    sign(navigator.onLine ? "reconnecting" : "offline", Date.now() + pauseS * 1000);
    await pause(pauseS);
  }
}

/** Read until the stream ends. @returns {Promise<"again"|"signed_out"|"ended"|number>} what next */
async function readOnce(opened) {
  const query = new URLSearchParams(listWanted().map((id) => ["drafts", id]));
  const headers = { Accept: "text/event-stream", ...(cursor ? { "Last-Event-ID": cursor } : {}) };
  const { signal } = reading;
  let silence = 0;
  const awake = () => {
    clearTimeout(silence);
    silence = setTimeout(() => reading.abort("silence"), SILENCE_MAX_MS);
  };
  try {
    const response = await fetch(`/api/v1/events${query.size ? `?${query}` : ""}`, { headers, signal, credentials: "same-origin" });
    if (response.status === 401) return "signed_out";
    // A session whose drafts were wanted is gone: the stream goes on without drafts.
    if (response.status === 404 && query.size) {
      wanted.clear();
      return "again";
    }
    if (!response.ok) return (await readProblem(response)).retryAfterS ?? "ended";
    awake();
    opened();
    sign("live");
    const parser = new Frames();
    for (let reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { value, done } = await reader.read();
      if (done) return "ended";
      awake();
      parser.feed(value).forEach(take);
      if (parser.lastId) cursor = parser.lastId;
    }
  } catch {
    return signal.aborted && signal.reason !== "silence" ? "again" : "ended";
  } finally {
    clearTimeout(silence);
  }
}

function take(frame) {
  if (frame.id) cursor = frame.id;
  const data = JSON.parse(frame.data);
  if (frame.name === "draft") tellAll({ kind: "draft", draft: data });
  else if (frame.name === "state") tellAll({ kind: "reset", id: cursor });
  else tellAll({ kind: "event", event: { type: frame.name, ...data }, id: cursor });
}

/** Splits the text of a stream into frames; a piece may end anywhere. */
export class Frames {
  constructor() {
    this.rest = "";
    this.lastId = null;
    this.frame = { name: "message", data: [], id: null };
  }

  /** @returns {{name: string, data: string, id: string|null}[]} the frames that are complete */
  feed(text) {
    const lines = (this.rest + text).split(/\r\n|\n|\r(?!$)/);
    this.rest = lines.pop();
    const found = [];
    for (const line of lines) {
      if (line) this.#read(line);
      else this.#end(found);
    }
    return found;
  }

  #read(line) {
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") this.frame.name = value;
    else if (name === "data") this.frame.data.push(value);
    else if (name === "id") this.frame.id = value;
  }

  #end(found) {
    const { name, data, id } = this.frame;
    if (id !== null) this.lastId = id;
    if (data.length) found.push({ name, data: data.join("\n"), id });
    this.frame = { name: "message", data: [], id: null };
  }
}

// -- the sign -------------------------------------------------------------------------------------

function sign(next, retryAt = null) {
  clearTimeout(signTimer);
  const say = () => {
    shown = { state: next, retryAt };
    tellAll({ kind: "connection", connection: shown });
  };
  if (next === "reconnecting" && shown.state === "live") signTimer = setTimeout(say, SIGN_AFTER_MS);
  else if (next !== shown.state || next !== "live") say();
}

let resume = null;

function pause(seconds) {
  return new Promise((done) => {
    resume = done;
    setTimeout(done, seconds * 1000);
  });
}

function hurry() {
  resume?.();
  reading?.abort("again");
}

function sayOffline() {
  if (isLeader) sign("offline");
}

function leave() {
  channel.postMessage({ kind: "drafts", from: tab, sessions: [] });
}

function comeBack(event) {
  // A page out of the back-forward cache has missed what came meanwhile.
  if (event.persisted && !isStopped) tell({ kind: "reset" });
}
