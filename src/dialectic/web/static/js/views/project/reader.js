// A dialog that shows a text of a project as a page, and lets a person change a file of the plan.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { getText, post, put } from "../../api.js";
import { sanitised } from "../../html.js";
import { openDialog, toast } from "../../overlay.js";
import { draw, keep, kept, may } from "../../store.js";
import { attempt, blank, written } from "../parts.js";
import { loadPlan } from "./plan.js";

/** Show a text as HTML in a dialog. */
export async function readText(title, load) {
  const shown = { html: null, problem: null };
  load().then((text) => post("/render", { text })).then((answer) => { shown.html = answer.html; }, (problem) => { shown.problem = problem; }).then(draw);
  await openDialog((close) => html`<div class="dialog-body reader">
    ${page(shown)}<div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Close</button></div></div>`, { label: title, className: "reading" });
}

const page = ({ html: text, problem }) => (problem ? html`<p class="notice bad" role="alert">${problem.detail}</p>` : text === null ? blank(4, 24) : html`<article class="prose" tabindex="0" ${sanitised(text)}></article>`);

/** Show a file of the plan, and let a person change it; what is typed is kept until it is saved. */
export async function readPlanFile(project, path, title) {
  const place = `plan:${path}`;
  const shown = { html: null, problem: null, text: "", edited: null, etag: null };
  const url = `/projects/${project.project.id}`;
  const load = async () => {
    shown.etag = project.plan.find((one) => one.path === path)?.etag ?? null;
    shown.text = await getText(`${url}/file?path=${encodeURIComponent(path)}`);
    shown.html = (await post("/render", { text: shown.text || " " })).html;
    if (kept(place)) shown.edited = kept(place);
  };
  load().catch((problem) => { shown.problem = problem; }).then(draw);
  const save = async (close) => {
    try {
      await put(`${url}/plan/file?path=${encodeURIComponent(path)}`, { content: shown.edited }, { etag: shown.etag });
    } catch (problem) {
      if (problem.status !== 412) throw problem;
      toast("Someone changed this file meanwhile. Your text is kept here; copy it, then open the file again.");
      return;
    }
    keep(place, "");
    project.plan = await loadPlan(project.project.id);
    toast(`Saved: ${title}`);
    close();
  };
  const isPlan = project.plan.some((one) => one.path === path);
  await openDialog((close) => html`<div class="dialog-body reader"><h2 class="sr">${written(title)}</h2>
    ${shown.edited === null ? page(shown) : html`<textarea class="serif" rows="18" aria-label="Text of ${title}" autofocus .value=${live(shown.edited)} @input=${(event) => { shown.edited = event.target.value; keep(place, shown.edited); }}></textarea>`}
    <div class="dialog-foot">${shown.edited !== null ? html`<button class="button" type="button" @click=${() => { shown.edited = null; keep(place, ""); draw(); }}>Discard</button><button class="button main" type="button" @click=${() => attempt("save-plan-file", () => save(close))}>Save</button>`
    : html`${isPlan && may("write") && shown.html !== null ? html`<button class="button" type="button" @click=${() => { shown.edited = shown.text; draw(); }}>Edit</button>` : nothing}<button class="button main" type="button" @click=${() => close()}>Close</button>`}</div></div>`, { label: title, className: "reading" });
}
