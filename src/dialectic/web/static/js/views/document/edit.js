// Editing a document: source and preview side by side, kept until it is saved, never lost.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { guard } from "../../../vendor/lit/directives/guard.js";
import { keyed } from "../../../vendor/lit/directives/keyed.js";
import { post, press, read } from "../../api.js";
import { ago, count, plural } from "../../format.js";
import { sanitised } from "../../html.js";
import { announce, confirm, toast } from "../../overlay.js";
import { address, go } from "../../router.js";
import { draw, isLeaving, keep, kept } from "../../store.js";
import { action, attempt, glyph, written } from "../parts.js";
import { wrap } from "./format_text.js";
import { follow, mirror } from "./sync.js";
import { findSource } from "./text.js";

const PREVIEW_MS = 350;
const KEEP_MS = 400;
// Above this a preview is made only when someone asks for it.
const LARGE_CHARS = 200_000;

const place = (page) => `edit:${page.one.original_id}`;

/** Begin to edit, with the text that was kept, if there is one. */
export function begin(page) {
  const found = readKept(page);
  const isLarge = page.one.content.length > LARGE_CHARS;
  page.edit = {
    text: found?.text ?? page.one.content, base: { id: page.one.id, version: found?.version ?? page.one.version, etag: page.etag }, round: 0, tab: "write",
    isDirty: found !== null, wasFound: found !== null, isLarge, hasPreview: !isLarge, preview: page.rendered, previewOf: page.one.content, words: countWords(found?.text ?? page.one.content),
    clash: null, problem: null, keeping: 0, rendering: 0,
  };
  addEventListener("beforeunload", ask);
  addEventListener("pagehide", keepNow);
  editing = page;
  const newest = page.versions.at(-1);
  if (found && newest.version > found.version) meet(page, newest);
  else if (found) showPreview(page);
}

/** @type {object|null} the page that is edited, for what the browser asks when it leaves */
let editing = null;

function ask(event) {
  if (!editing?.edit?.isDirty || isLeaving()) return;
  keepNow();
  event.preventDefault();
}

function readKept(page) {
  try {
    const found = JSON.parse(kept(place(page)) || "null");
    return found && typeof found.text === "string" && found.text !== page.one.content ? found : null;
  } catch {
    return null;
  }
}

function keepNow() {
  const page = editing;
  if (!page?.edit) return;
  clearTimeout(page.edit.keeping);
  keep(place(page), page.edit.isDirty ? JSON.stringify({ version: page.edit.base.version, text: page.edit.text }) : "");
}

function stop() {
  keepNow();
  removeEventListener("beforeunload", ask);
  removeEventListener("pagehide", keepNow);
  editing = null;
}

/** Another page is opened: what is not saved is kept, and there is a way back. */
export function leave(page) {
  const { isDirty } = page.edit;
  const back = `/documents/${page.edit.base.id}?mode=edit`;
  stop();
  if (isDirty) toast("Your text is kept in this browser. It is not saved yet.", { undo: () => go(back), label: "Back to it" });
}

const countWords = (text) => (text.match(/\S+/g) ?? []).length;

// -- typing ---------------------------------------------------------------------------------------

function typed(page, text) {
  const { edit } = page;
  edit.text = text;
  edit.problem = null;
  const wasDirty = edit.isDirty;
  edit.isDirty = text !== page.one.content;
  clearTimeout(edit.keeping);
  edit.keeping = setTimeout(() => { if (page.edit === edit) keepNow(); edit.words = countWords(edit.text); draw(); }, KEEP_MS);
  if (!edit.isLarge) keepNow();
  if (wasDirty !== edit.isDirty) draw();
  if (edit.hasPreview) {
    clearTimeout(edit.rendering);
    edit.rendering = setTimeout(() => showPreview(page), PREVIEW_MS);
  }
}

async function showPreview(page) {
  const { edit } = page;
  // The editor may have been left while the preview was due.
  if (!edit || edit.text === edit.previewOf) return;
  const { text } = edit;
  try {
    const rendered = text.trim() ? await post("/render", { text }) : { html: "", toc: [], blocks: [] };
    if (page.edit !== edit || edit.text !== text) return;
    Object.assign(edit, { preview: rendered, previewOf: text, problem: null });
  } catch (problem) {
    if (problem.name !== "Problem") throw problem;
    // Too many previews: the next keystroke or the next second brings one.
    if (problem.status === 429) edit.rendering = setTimeout(() => showPreview(page), (problem.retryAfterS ?? 1) * 1000);
    else edit.problem = problem;
  }
  draw();
}

// -- saving ---------------------------------------------------------------------------------------

async function save(page) {
  const { edit } = page;
  const field = /** @type {HTMLTextAreaElement|null} */ (document.getElementById("edit-text"));
  if (field) edit.text = field.value;
  edit.isDirty = edit.text !== page.one.content;
  if (!edit.isDirty) {
    toast("Nothing has changed.");
    return;
  }
  const before = findSource(page).readers.filter((one) => !one.is_stale).length;
  try {
    const saved = await press().put(`/contributions/${edit.base.id}`, { content: edit.text }, { etag: edit.base.etag });
    finish(page);
    announce(`Version ${saved.version} is saved.`);
    toast(`Version ${saved.version} is saved.${before ? ` ${plural(before, "document")} ${before === 1 ? "rests" : "rest"} on the older one.` : ""}`);
    await go(`/documents/${saved.id}`, { replace: true });
  } catch (problem) {
    if (problem.status === 412 && problem.current) await meet(page, problem.current);
    else if (problem.name === "Problem") edit.problem = problem;
    else throw problem;
    draw();
  }
}

/** Nothing is left to keep. */
function finish(page) {
  page.edit.isDirty = false;
  stop();
  page.edit = null;
}

/** Someone else saved meanwhile: show both texts. */
async function meet(page, current) {
  keepNow();
  const theirs = await read(`/contributions/${current.id}`);
  page.edit.clash = { current, text: theirs.data.content, etag: theirs.etag };
  draw();
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("clash-title")?.focus()));
}

/** Go on from the newest version with one's own text; saving then makes the next one. */
function rebase(page) {
  const { clash } = page.edit;
  Object.assign(page.edit, { base: { id: clash.current.id, version: clash.current.version, etag: clash.etag }, clash: null, round: page.edit.round + 1 });
  keepNow();
  draw();
}

async function saveMine(page) {
  rebase(page);
  await save(page);
}

async function takeTheirs(page) {
  const { current } = page.edit.clash;
  const sure = await confirm({ title: "Discard your text?", text: `Version ${current.version} stays as it is. Your text is removed from this browser.`, yes: "Discard mine", isDangerous: true });
  if (!sure) return;
  finish(page);
  keep(place(page), "");
  await go(`/documents/${current.id}`, { replace: true });
}

async function discard(page) {
  const sure = await confirm({ title: "Discard your changes?", text: `Version ${page.one.version} stays as it is.`, yes: "Discard them", isDangerous: true });
  if (!sure) return;
  finish(page);
  keep(place(page), "");
  address({ mode: null }, "");
}

/** Leave the editor; what is not saved stays kept. */
function close(page) {
  if (!page.edit.isDirty) finish(page);
  else stop();
  page.edit = null;
  address({ mode: null }, "");
}

export function keys(page) {
  return [
    { keys: "mod+s", label: "Save", inFields: true, run: () => { attempt("save", () => save(page)); } },
    { keys: "mod+b", label: "Bold", inFields: true, run: (event) => tool(page, event, "bold") },
    { keys: "mod+i", label: "Italic", inFields: true, run: (event) => tool(page, event, "italic") },
    { keys: "Escape", label: "Leave the editor", inFields: true, run: () => { close(page); } },
  ];
}

// -- what is drawn --------------------------------------------------------------------------------

const TOOLS = [["heading", "Heading", "H"], ["bold", "Bold", "B"], ["italic", "Italic", "I"], ["list", "List", "•"], ["numbers", "Numbered list", "1."], ["link", "Link", "↗"], ["table", "Table", "▦"]];

function tool(page, event, name) {
  const field = /** @type {HTMLTextAreaElement|null} */ (document.getElementById("edit-text"));
  if (!field || (event?.target?.closest && event.type === "keydown" && event.target !== field)) return false;
  wrap(field, name);
  typed(page, field.value);
  return true;
}

export function editor(page) {
  const { edit } = page;
  if (edit.clash) return clash(page);
  const stale = findSource(page).readers.length;
  return html`<section class="editor ${edit.hasPreview ? "" : "is-plain"}" aria-label="Editor" data-tab=${edit.tab}>
    <div class="editor-bar">
      <div class="segmented editor-tabs" role="group" aria-label="Show">${["write", "preview"].map((tab) => html`<button type="button" aria-pressed=${edit.tab === tab} @click=${() => { edit.tab = tab; draw(); }}>${tab === "write" ? "Write" : "Preview"}</button>`)}</div>
      <div class="tools" role="toolbar" aria-label="Format">${TOOLS.map(([name, label, sign]) => html`<button class="icon" type="button" aria-label=${label} title=${label} @click=${(event) => tool(page, event, name)}>${sign}</button>`)}</div>
      <span class="meta grow">${plural(edit.words, "word")}${edit.isDirty ? html` · <span class="is-you">not saved</span>` : nothing}</span>
      ${edit.isLarge ? html`<button class="button" type="button" @click=${() => { edit.hasPreview = !edit.hasPreview; if (edit.hasPreview) showPreview(page); draw(); }}>${edit.hasPreview ? "Without preview" : "Show a preview"}</button>` : nothing}
      ${edit.isDirty ? html`<button class="button plain" type="button" @click=${() => attempt("discard", () => discard(page))}>Discard</button>` : nothing}
      <button class="button" type="button" @click=${() => close(page)}>Close</button>
      ${action({ name: "save", label: `Save as version ${nextVersion(page)}`, kind: "main", disabled: !edit.isDirty, run: () => save(page) })}
    </div>
    ${edit.wasFound ? html`<p class="notice you" role="status">${glyph("you")}<span class="grow">This is your text from before, which is not saved yet.</span></p>` : nothing}
    ${page.newer && page.newer.version > edit.base.version ? html`<p class="notice you" role="status">${glyph("you")}<span class="grow">${written(page.newer.by?.name ?? page.newer.model)} saved version ${page.newer.version} ${ago(page.newer.created_at, Date.now())}. Your text is kept.</span><button class="button" type="button" @click=${() => attempt("meet", () => meet(page, page.newer))}>See both</button></p>` : nothing}
    ${edit.problem ? html`<p class="notice bad" role="alert">${glyph("failed")}<span class="grow">${edit.problem.detail} Your text is kept.</span></p>` : nothing}
    ${stale ? html`<p class="meta">Saving leaves ${plural(stale, "document")} as written from an older version. You can have them written again.</p>` : nothing}
    <div class="editor-panes">
      <div class="pane-write">${keyed(edit.round, html`<label class="sr" for="edit-text">Text in Markdown</label>
        <textarea id="edit-text" spellcheck=${edit.isLarge ? "false" : "true"} .value=${edit.text} @input=${(event) => typed(page, event.target.value)} @scroll=${(event) => follow(event, "write")}></textarea>`)}
        ${edit.hasPreview && !edit.isLarge ? guard([edit.preview], () => mirror(edit.previewOf, edit.preview.blocks)) : nothing}</div>
      ${edit.hasPreview ? html`<div class="pane-preview" role="region" aria-label="Preview" tabindex="0" @scroll=${(event) => follow(event, "preview")}><div class="prose" lang=${edit.preview.lang ?? nothing} ${sanitised(edit.preview.html)}></div></div>` : nothing}
    </div></section>`;
}

const nextVersion = (page) => Math.max(page.edit.base.version, page.versions.at(-1)?.version ?? 0, page.newer?.version ?? 0) + 1;

function clash(page) {
  const { edit } = page;
  const { current, text } = edit.clash;
  const who = current.is_by_user === false ? current.model : current.by?.name ?? "Someone";
  const [mine, theirs] = [new Set(edit.text.split("\n")), new Set(text.split("\n"))];
  const lines = (from, others) => from.split("\n").map((line) => (others.has(line) || !line.trim() ? html`${written(line)}\n` : html`<mark>${written(line)}</mark>\n`));
  return html`<section class="clash" aria-labelledby="clash-title">
    <h2 id="clash-title" tabindex="-1">${written(who)} saved version ${current.version} ${ago(current.created_at, Date.now())}</h2>
    <p class="soft">You were editing version ${edit.base.version}. Both texts are kept; lines that differ are marked.</p>
    <div class="row wrap">
      ${action({ name: "save-mine", label: `Save mine as version ${current.version + 1}`, kind: "main", run: () => saveMine(page) })}
      <button class="button" type="button" @click=${() => rebase(page)}>Edit mine further</button>
      ${action({ name: "take-theirs", label: "Take theirs", run: () => takeTheirs(page) })}
      <a class="button plain" href="/documents/${current.id}?mode=diff&with=${edit.base.id}" target="_blank">What they changed</a></div>
    <div class="clash-panes">
      <div><h3>Yours <span class="meta">${count(countWords(edit.text))} words, not saved</span></h3><pre tabindex="0" role="region" aria-label="Your text">${lines(edit.text, theirs)}</pre></div>
      <div><h3>Version ${current.version} <span class="meta">${count(countWords(text))} words</span></h3><pre tabindex="0" role="region" aria-label="Their text">${lines(text, mine)}</pre></div>
    </div></section>`;
}
