// A question and its answer: sends it once, reads the words as they come, joins one that is under way.
import { get, openStream, post, Problem } from "../../api.js";
import { announce } from "../../overlay.js";
import { go } from "../../router.js";
import { draw, keep, kept } from "../../store.js";
import { Frames } from "../../stream.js";
import { splitFinished } from "./blocks.js";

const TRIES_MAX = 6;
const RENDER_EVERY_MS = 700;
// Where a first question is remembered: its chat exists when it is answered.
const PENDING = "chat:pending";

/** Load a chat with its branches and its answers as HTML. */
export const loadChat = (id, signal) => get(`/chats/${id}?with_branches=true&html=true`, { signal });

/**
 * Ask a question: one Idempotency-Key for all tries, so a broken line costs nothing.
 * @param {object} page the state of the chat page
 * @param {object} body a `ChatRequest`
 */
export async function ask(page, body) {
  if (page.answer) return;
  const key = crypto.randomUUID();
  const isNew = !body.chat_id;
  begin(page, body.message, body.model, { replaces: body.rewind_from_message_id ?? null, hadNone: isNew });
  page.answer.chatId = body.chat_id ?? null;
  requestAnimationFrame(() => requestAnimationFrame(() => [...document.querySelectorAll(".message.asked")].at(-1)?.scrollIntoView()));
  const open = async (signal) => {
    const response = await openStream("/chat", { body: { ...body, stream: true }, key, signal });
    const id = response.headers.get("X-Chat-ID");
    if (page.answer && id) page.answer.chatId = id;
    if (isNew && id) keep(PENDING, JSON.stringify({ id, question: body.message, model: body.model }));
    return response;
  };
  await follow(page, open, body);
}

/** Join the answer that is being written in a chat. */
export function join(page, id, { question, model, since }) {
  begin(page, question, model, { since: Date.parse(since) || Date.now(), hadNone: !page.chat });
  page.answer.chatId = id;
  return follow(page, (signal) => openStream(`/chats/${id}/stream`, { signal }), null);
}

/** Find a first question whose answer was being written when the page was left. */
export async function findPending(page) {
  const found = parse(kept(PENDING));
  if (!found || page.answer) return;
  try {
    await loadChat(found.id);
    keep(PENDING, "");
    go(`/chat/${found.id}`, { replace: true });
  } catch (problem) {
    if (problem.status === 404) await join(page, found.id, found);
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function begin(page, question, model, { since = Date.now(), replaces = null, hadNone }) {
  page.problem = null;
  page.answer = { question, model, since, replaces, hadNone, text: "", parts: [], rendered: 0, renderedAt: 0, isRendering: false, chatId: null, isStopped: false, reading: new AbortController() };
  draw();
}

/** Stop the answer itself: the text so far stays. */
export async function stopAnswer(answer) {
  answer.isStopped = true;
  await post(`/chats/${answer.chatId}/stop`);
}

/** Stop reading; the server goes on. */
export const leaveAnswer = (page) => page.answer?.reading.abort();

async function follow(page, open, body) {
  const { answer } = page;
  try {
    const reply = await readAnswer(page, open);
    keep(PENDING, "");
    await land(page, reply);
  } catch (problem) {
    if (answer.reading.signal.aborted) return;
    await fail(page, problem, body);
  }
  draw();
}

async function readAnswer(page, open) {
  const { signal } = page.answer.reading;
  for (let tried = 1; ; tried += 1) {
    try {
      const response = await open(signal);
      page.answer.text = "";
      return await readFrames(page, response);
    } catch (error) {
      const isBroken = !(error instanceof Problem) || error.code === "network" || error.code === "in_progress";
      if (signal.aborted || !isBroken || tried === TRIES_MAX) throw error instanceof Problem ? error : new Problem({});
      await new Promise((done) => { setTimeout(done, 250 * 2 ** tried); });
    }
  }
}

async function readFrames(page, response) {
  const frames = new Frames();
  for (let reader = response.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
    const { value, done } = await reader.read();
    if (done) throw new Problem({});
    for (const { name, data } of frames.feed(value)) {
      const told = JSON.parse(data);
      if (name === "reply") return told;
      if (name === "problem") throw new Problem(told);
      if (name === "delta") grow(page, told.text);
    }
  }
}

// -- words as they come ---------------------------------------------------------------------------

function grow(page, piece) {
  const { answer } = page;
  answer.text += piece;
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
  draw();
  if (isAtEnd) requestAnimationFrame(() => requestAnimationFrame(() => scrollTo(0, document.documentElement.scrollHeight)));
  renderFinished(answer);
}

/** Turn finished blocks into HTML, each once; what is not finished stays text. */
async function renderFinished(answer) {
  const { finished } = splitFinished(answer.text);
  const text = finished.slice(answer.rendered);
  if (!text.trim() || answer.isRendering || performance.now() - answer.renderedAt < RENDER_EVERY_MS) return;
  answer.isRendering = true;
  try {
    const { html } = await post("/render", { text });
    answer.parts = [...answer.parts, html];
    answer.rendered += text.length;
    draw();
  } catch { /* it stays text until the answer has ended */ } finally {
    answer.isRendering = false;
    answer.renderedAt = performance.now();
  }
}

// -- the end --------------------------------------------------------------------------------------

async function land(page, reply) {
  if (page.answer.hadNone) {
    const hadFocus = document.activeElement?.id === "question";
    await go(`/chat/${reply.chat_id}`, { replace: true });
    if (hadFocus) requestAnimationFrame(() => document.getElementById("question")?.focus({ preventScroll: true }));
  } else {
    page.chat = await loadChat(reply.chat_id);
    page.answer = null;
  }
  announce(reply.incomplete ? "The answer was cut off." : "The answer is complete.");
}

async function fail(page, problem, body) {
  const { answer } = page;
  keep(PENDING, "");
  page.answer = null;
  if (problem.code === "conflict" && answer.chatId) {
    // Another process writes it, or it has ended meanwhile: the chat tells.
    page.chat = await loadChat(answer.chatId).catch(() => page.chat);
    return;
  }
  // Stopped before its first word: the question goes back into the field, and nothing is wrong.
  page.problem = answer.isStopped ? null : problem;
  page.returned = answer.isStopped ? answer.question : null;
  page.failed = body ?? { message: answer.question, model: answer.model };
}
