// What changed between two versions or two documents: by section, words marked, unchanged sections folded.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { guard } from "../../../vendor/lit/directives/guard.js";
import { get } from "../../api.js";
import { ago, plural } from "../../format.js";
import { address } from "../../router.js";
import { draw } from "../../store.js";
import { blank, errorBar, written } from "../parts.js";
import { bySeat, facts, findStage } from "../session/facts.js";

/** Load the comparison that the address asks for; by default with the version before. */
export async function begin(page) {
  const before = page.versions[page.versions.findIndex((each) => each.id === page.one.id) - 1] ?? page.versions.find((each) => each.id !== page.one.id);
  const other = page.other ?? before?.id ?? null;
  if (!other || (page.diff?.with === other && page.diff.of === page.one.id)) return;
  page.diff = { with: other, of: page.one.id, found: null, problem: null };
  const mine = page.diff;
  try {
    mine.found = await get(`/contributions/${page.one.id}/diff?with=${other}`);
  } catch (problem) {
    if (problem.name !== "Problem") throw problem;
    mine.problem = problem;
  }
  draw();
}

function options(page) {
  const { model, one } = page;
  const versions = page.versions.filter((each) => each.id !== one.id).map((each) => [each.id, `Version ${each.version} by ${each.is_by_user ? each.by?.name ?? "a former member" : each.model}, ${ago(each.created_at, Date.now())}`]);
  const here = facts(model).find(one.original_id);
  const near = [...model.documents.values()].filter((each) => each.original_id !== one.original_id && each.stage === one.stage && each.step === here?.step).sort(bySeat)
    .map((each) => [each.id, `Seat ${each.seat}: ${model.session.seats.find((own) => own.index === each.seat)?.label ?? each.model}, ${findStage(model, each.stage)?.title}`]);
  const known = [...versions, ...near].some(([id]) => id === page.diff?.with);
  return [...versions, ...near, ...(known || !page.diff ? [] : [[page.diff.with, "Another document"]])];
}

export function changes(page) {
  const { diff } = page;
  const chosen = options(page);
  return html`<section class="changes" aria-label="What changed">
    <div class="row wrap changes-bar"><label for="with">What changed from</label>
      <select id="with" @change=${(event) => address({ mode: "diff", with: event.target.value }, "")}>${chosen.map(([id, label]) => html`<option value=${id} ?selected=${id === diff?.with}>${label}</option>`)}</select>
      <span>to version ${page.one.version}</span>
      ${diff?.found ? html`<span class="meta"><span class="is-ok">+${plural(diff.found.words.added, "word")}</span>, <span class="is-bad">−${plural(diff.found.words.removed, "word")}</span></span>` : nothing}</div>
    ${diff?.problem ? errorBar(diff.problem) : !diff ? html`<p class="soft">There is nothing to compare it with yet.</p>` : !diff.found ? blank(6, 60) : guard([diff.found], () => sections(diff.found))}</section>`;
}

export function sections(found) {
  if (!found.words.added && !found.words.removed) return html`<p class="notice">Both have the same words.</p>${found.sections.map(section)}`;
  return found.sections.map(section);
}

const STATES = { added: "new section", removed: "removed", changed: "changed", same: "unchanged" };

function section(one) {
  const heading = one.heading === null ? "Before the first heading" : written(one.heading);
  const head = html`<span class="change-title">${heading}</span> <span class="chip ${{ added: "ok", removed: "bad", changed: "you" }[one.state] ?? ""}">${STATES[one.state]}</span>`;
  const text = html`<div class="prose diff-text">${one.spans.map(span)}</div>`;
  if (one.state === "same") return html`<details class="change"><summary>${head}</summary>${text}</details>`;
  return html`<section class="change is-${one.state}"><h2>${head}</h2>${one.is_coarse ? html`<p class="meta">Too much changed here to compare single words: whole passages are marked.</p>` : nothing}${text}</section>`;
}

function span({ op, text }) {
  if (op === "add") return html`<ins>${written(text)}</ins>`;
  if (op === "remove") return html`<del>${written(text)}</del>`;
  return written(text);
}
