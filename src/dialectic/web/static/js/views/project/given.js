// Texts that were given along with a project's prompt: read, add, remove.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { del, get, post } from "../../api.js";
import { ago, bytes, moment } from "../../format.js";
import { confirm, toast } from "../../overlay.js";
import { draw, keep, kept, may } from "../../store.js";
import { FILES, KINDS } from "../kinds.js";
import { action, attempt, blank, written } from "../parts.js";
import { readText } from "./reader.js";

const nameKind = (kind) => KINDS.find(([code]) => code === kind)?.[1] ?? kind;
const nameFile = (path) => path.split("/").at(-1).replace(/\.[a-z]+$/, "");

/** Load what was given. */
export async function loadGiven(page) {
  const known = new Set(KINDS.map(([kind]) => kind));
  const found = [];
  let cursor = null;
  do {
    const { items, next_cursor: next } = await get(`/projects/${page.project.id}/resources?limit=200${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
    found.push(...items.filter((one) => known.has(one.kind)));
    cursor = next;
  } while (cursor);
  page.given = found;
  draw();
}

/** Draw them. */
export function given(page) {
  if (!page.given) return blank(3, 52);
  return html`<div class="section-head"><h2 class="sr">Given</h2><p class="soft grow">Every model reads these texts after the prompt, in sessions and stages to come.</p>${may("write") && !page.adding ? action({ name: "add", label: "Add a text", run: () => begin(page) }) : nothing}</div>
    ${page.adding ? form(page) : nothing}
    ${page.given.length ? html`<ul class="rows">${repeat(page.given, (one) => one.id, (one) => row(page, one))}</ul>` : page.adding ? nothing : html`<p class="empty">Nothing was given along with the prompt.</p>`}`;
}

function row(page, one) {
  return html`<li class="given-row"><div class="grow"><button class="link title" type="button" @click=${() => readText(nameFile(one.path), async () => (await get(`/documents/${one.id}`)).content)}>${written(nameFile(one.path))}</button>
    <p class="meta">${nameKind(one.kind)}, ${bytes(one.size_bytes)}, <span title=${moment(one.created_at)}>${ago(one.created_at, Date.now())}</span></p></div>
    ${may("write") ? html`<button class="button small plain" type="button" @click=${() => attempt(`remove-${one.id}`, () => remove(page, one))}>Remove<span class="sr"> ${written(nameFile(one.path))}</span></button>` : nothing}</li>`;
}

const place = (page) => `given:${page.project.id}`;

function begin(page) {
  page.adding = { kind: "reference_documents", name: "", text: kept(place(page)) };
  draw();
  requestAnimationFrame(() => document.getElementById("given-text")?.focus());
}

function form(page) {
  const { adding } = page;
  const close = () => { page.adding = null; draw(); requestAnimationFrame(() => document.querySelector(`[data-action="add"]`)?.focus()); };
  const save = async () => {
    await post(`/projects/${page.project.id}/resources`, { kind: adding.kind, name: adding.name.trim() || nameKind(adding.kind), text: adding.text });
    keep(place(page), "");
    await loadGiven(page);
    close();
  };
  return html`<form class="card stack given-add" @submit=${(event) => event.preventDefault()}><div class="two">
    <div class="field"><label for="given-name">Name</label><input id="given-name" type="text" maxlength="200" placeholder=${nameKind(adding.kind)} .value=${live(adding.name)} @input=${(event) => { adding.name = event.target.value; }}></div>
    <div class="field"><label for="given-kind">Kind</label><select id="given-kind" @change=${(event) => { adding.kind = event.target.value; draw(); }}>${KINDS.map(([kind, label]) => html`<option value=${kind} ?selected=${kind === adding.kind}>${label}</option>`)}</select></div></div>
    <div class="field"><label for="given-text">Text</label><textarea id="given-text" class="serif" rows="5" .value=${live(adding.text)} @input=${(event) => { adding.text = event.target.value; keep(place(page), adding.text); draw(); }}></textarea>
      <p class="help">${KINDS.find(([kind]) => kind === adding.kind)[2]}</p></div>
    <div class="row wrap">${action({ name: "save-given", label: "Add", kind: "main", disabled: !adding.text.trim(), run: save })}<button class="button" type="button" @click=${close}>Leave it</button>
      <label class="button" for="given-file">Take a file</label><input class="sr" id="given-file" type="file" accept=${FILES} @change=${(event) => { const [file] = event.target.files; event.target.value = ""; if (file) attempt("read-file", () => take(page, file)); }}></div></form>`;
}

async function take(page, file) {
  const body = new FormData();
  body.set("file", file, file.name);
  const read = await post("/uploads", body);
  Object.assign(page.adding, { text: read.text, name: page.adding.name || file.name.replace(/\.[a-z]+$/i, "") });
  keep(place(page), read.text);
  if (read.notes.length) toast(read.notes.join(" "));
}

async function remove(page, one) {
  if (!await confirm({ title: `Remove ${nameFile(one.path)}?`, text: "Later prompts do not have it. Documents that were written with it stay.", yes: "Remove", isDangerous: true })) return;
  await del(`/projects/${page.project.id}/resources/${one.id}`);
  page.given = page.given.filter((other) => other.id !== one.id);
}
