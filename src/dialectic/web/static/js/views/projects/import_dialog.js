// A project out of a file: choose it, see it leave, and go to what came of it.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { bytes, percent } from "../../format.js";
import { openDialog, toast } from "../../overlay.js";
import { go } from "../../router.js";
import { draw } from "../../store.js";
import { upload } from "../../upload.js";
import { written } from "../parts.js";

const WRONG = "This is not an exported project. Choose the .zip file that an export has made.";
// How every zip file begins: with its first entry, or with its end if it is empty.
const BEGINNINGS = ["PK\u0003\u0004", "PK\u0005\u0006"];

/** Ask for a file, import it, and open the project. */
export async function openImport() {
  const form = { file: null, key: "", sent: 0, problem: null, stopper: null };
  const made = await openDialog((close) => body(form, close), { label: "Import a project" });
  form.stopper?.abort();
  if (!made) return;
  await go(`/projects/${made.project_id}`);
  toast(made.is_copy ? `${made.name} was imported as a copy: the project itself is here already.` : `${made.name} was imported.`);
}

function body(form, close) {
  return html`<form class="dialog-body import" novalidate @submit=${(event) => { event.preventDefault(); send(form, close); }} @dragover=${(event) => event.preventDefault()} @drop=${(event) => drop(form, event)}>
    <h2>Import a project</h2>
    <p class="soft">From a file that <em>Download all</em> of a project or <code>dialectic export</code> has made. Its sessions, documents and feedback come along; nothing is called and nothing is paid.</p>
    <div class="field"><label for="import-file">File</label>
      <input id="import-file" type="file" accept=".zip,application/zip" autofocus ?disabled=${form.stopper !== null} aria-describedby="import-help" @change=${(event) => choose(form, event.target.files[0])}>
      <p class="help" id="import-help">${form.file ? html`<span class="sr">${written(form.file.name)}, </span>${bytes(form.file.size)} to send` : "Choose it, or drop it here."}</p></div>
    ${form.stopper ? progress(form) : nothing}
    ${form.problem ? html`<p class="notice bad" role="alert">${form.problem}</p>` : nothing}
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Cancel</button>
      <button class="button main" aria-busy=${form.stopper ? "true" : nothing} aria-disabled=${form.stopper || !form.file ? "true" : nothing}>Import</button></div></form>`;
}

/** How much has left; then the server reads and checks it. */
function progress({ file, sent }) {
  const share = file.size ? Math.min(1, sent / file.size) : 1;
  const told = share < 1 ? `${percent(share)} sent` : "The server checks and stores it";
  return html`<div class="import-progress" role="status"><progress aria-label="Upload" max="1" .value=${share}></progress><span class="meta">${told}</span></div>`;
}

function choose(form, file) {
  Object.assign(form, { file: file ?? null, key: crypto.randomUUID(), sent: 0, problem: null });
  draw();
}

function drop(form, event) {
  event.preventDefault();
  if (!form.stopper && event.dataTransfer.files.length) choose(form, event.dataTransfer.files[0]);
}

async function send(form, close) {
  if (form.stopper || !form.file) return;
  form.stopper = new AbortController();
  form.problem = null;
  draw();
  try {
    if (!await isZip(form.file)) throw Object.assign(new Error(WRONG), { name: "Problem", detail: WRONG });
    const { key, stopper: { signal } } = form;
    close(await upload("/projects/import", form.file, { key, signal, onProgress: (sent) => { form.sent = sent; draw(); } }));
  } catch (problem) {
    if (!["Problem", "AbortError", "NotReadableError", "NotFoundError"].includes(problem.name)) throw problem;
    form.problem = problem.detail ?? "The file could not be read. Choose it again.";
  } finally {
    form.stopper = null;
    draw();
  }
}

/** Tell whether a file begins like a zip file: a wrong one need not be sent. */
async function isZip(file) {
  const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
  return BEGINNINGS.includes(String.fromCharCode(...head));
}
