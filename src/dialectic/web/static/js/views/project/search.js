// A question over all documents of a project: the passages that answer it best.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { get } from "../../api.js";
import { plural, titled } from "../../format.js";
import { address } from "../../router.js";
import { draw, isBusy, kept, keep } from "../../store.js";
import { blank, chip, seat, seatClass, written } from "../parts.js";

/** Ask; the newest question wins. */
export async function ask(page, question) {
  Object.assign(page, { asked: question, found: null, problem: null });
  draw();
  try {
    const found = await get(`/projects/${page.project.id}/search?limit=20&q=${encodeURIComponent(question)}`);
    if (page.asked === question) page.found = found;
  } catch (problem) {
    if (problem.name !== "Problem") throw problem;
    page.problem = problem;
  }
  draw();
}

/** Draw the question and what was found. */
export function search(page) {
  const place = `search:${page.project.id}`;
  const send = (event) => {
    event.preventDefault();
    const question = String(new FormData(event.target).get("q")).trim();
    keep(place, "");
    if (question) address({ q: question }, "search");
  };
  return html`<h2 class="sr">Search</h2><form class="row search-form" role="search" aria-label="Search the project" @submit=${send}>
      <input type="search" name="q" data-filter maxlength="500" aria-label="A question or words" placeholder="Who keeps the keys?" .defaultValue=${kept(place) || page.query.get("q") || ""} @input=${(event) => keep(place, event.target.value)}>
      <button class="button main" type="submit">Search</button></form>
    <div aria-live="polite">${page.problem ? html`<p class="notice bad" role="alert">${page.problem.detail}</p>` : page.asked && !page.found ? (isBusy("ask") ? blank(4, 90) : nothing) : page.found ? results(page) : html`<p class="empty">Ask something about what the models wrote. Passages from all documents answer.</p>`}</div>`;
}

function results(page) {
  const { items, documents } = page.found;
  if (!items.length) return html`<p class="empty">Nothing in ${plural(documents, "document")} answers this.</p>`;
  return html`<p class="meta found-count">${plural(items.length, "passage")} from ${plural(documents, "document")}, best first</p>
    <ol class="stack">${items.map((hit) => passage(page, hit))}</ol>`;
}

function passage(page, hit) {
  const { stage, name, seat: found } = describe(page, hit);
  return html`<li class="card passage ${found ? `of-seat ${seatClass(found.index)}` : ""}"><p class="row wrap meta">${found ? seat(found.index, { label: found.label, small: true }) : nothing}${stage ? chip(stage) : nothing}<a href="/documents/${hit.document_id}${hit.block ? `#${hit.block}` : ""}">${written(name)}</a></p>
    ${hit.heading_path.length ? html`<p class="soft heading-path">${written(hit.heading_path.join(" › "))}</p>` : nothing}<p class="serif lines-5">${written(plain(hit.text))}</p></li>`;
}

/** A passage without the marks of Markdown that only clutter an excerpt. */
const plain = (text) => text.replace(/^[\s|:-]+$/gm, "").replace(/^\s*\|\s*|\s*\|\s*$/gm, "").replace(/\s+\|\s+/g, " · ").replace(/\*\*|^#+\s+/gm, "").replace(/\n{2,}/g, "\n");

/** Stage, name and seat of a hit, by the path of its document. */
function describe(page, { path, session_id: id }) {
  const parts = path.split("/");
  const file = parts.at(-1).replace(/\.[a-z]+$/, "");
  const stage = /^\d+_(.+)$/.exec(parts.find((part) => /^\d+_/.test(part)) ?? "")?.[1];
  const slug = file.split("_")[0];
  const seats = (page.sessions.find((one) => one.id === id)?.seats ?? []).filter((one) => one.model.toLowerCase().replace(/[^a-z0-9]+/g, "-") === slug);
  return { stage: stage ? titled(stage) : "", name: file.replaceAll("_", " "), seat: seats.length === 1 ? seats[0] : null };
}
