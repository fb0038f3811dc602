// What a person can do with a document: the requests, and what stands under ⋯.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { del, get, patch, post } from "../../api.js";
import { money, plural } from "../../format.js";
import { openDialog, toast } from "../../overlay.js";
import { go } from "../../router.js";
import { draw, keep, may } from "../../store.js";
import { seat, seatClass, written } from "../parts.js";
import { bySeat, facts, findStage, isPast } from "../session/facts.js";

const COMPARED_MAX = 4;

/** Ask for a price once; null until it is known, or if it is refused. */
export function priceOnce(page, name, path) {
  if (page.prices[name] === undefined) {
    page.prices[name] = null;
    get(path).then((found) => { page.prices[name] = money(found.expected, { play: found.is_play }); draw(); }, () => {});
  }
  return page.prices[name];
}

/** Rate a document: shown at once, taken back if the server refuses. */
export async function rateOne(page, one, rating) {
  const before = facts(page.model).find(one.original_id)?.my_rating ?? one.my_rating ?? null;
  const show = (value) => {
    const now = facts(page.model).find(one.original_id);
    one.my_rating = value;
    if (now && !now.isDraft) page.model = { ...page.model, documents: new Map(page.model.documents).set(now.id, { ...now, my_rating: value }) };
    draw();
  };
  show(rating);
  try {
    await post(`/contributions/${one.id}/rating`, { rating });
  } catch (problem) {
    show(before);
    toast(problem.detail ?? String(problem));
  }
}

export const rate = (page, rating) => rateOne(page, page.one, rating);

/** Where a note on a document is kept until it is sent. */
export const notePlace = (page) => `note:${page.one.original_id}`;

export async function sendNote(page, text) {
  if (!text.trim()) return;
  await post(`/sessions/${page.one.session_id}/feedback`, { stage: page.one.stage, text: text.trim(), contribution_id: page.one.original_id });
  keep(notePlace(page), "");
  page.note = "";
  page.noteRound = (page.noteRound ?? 0) + 1;
  toast("Every later prompt of this session includes your note.");
}

export const changeNote = (id, text) => patch(`/feedback/${id}`, { text });
export const removeNote = (id) => del(`/feedback/${id}`);

/** Let models go on with an answer that is cut off. */
export async function continueIt(page) {
  await post(`/sessions/${page.one.session_id}/continue`, { document_ids: [page.one.id] });
  toast("The model goes on. The longer version will appear here.");
}

/** Let models write again what rests on an older version. */
export async function refreshReaders(page, ids) {
  await post(`/sessions/${page.one.session_id}/refresh`, { document_ids: ids });
  toast(`${plural(ids.length, "document")} ${ids.length === 1 ? "is" : "are"} written again.`);
}

async function regenerate(page) {
  await post(`/contributions/${page.one.id}/regenerate`);
  toast("It is written again. The new version will appear here.");
}

async function copy(page) {
  await navigator.clipboard.writeText((page.one ?? page.extract).content);
  toast("The Markdown text is copied.");
}

/**
 * What stands under ⋯: links, and what runs.
 * @returns {{name: string, label: string, href?: string, download?: string, target?: string, className?: string, price?: unknown, run?: () => unknown}[]}
 */
export function listMenu(page) {
  const { one, extract } = page;
  const base = one ? `/api/v1/contributions/${one.id}` : `/api/v1/documents/${extract.id}`;
  /** @type {ReturnType<typeof listMenu>} */
  const items = [{ name: "copy", label: "Copy as Markdown", run: () => copy(page) }];
  if (one) items.push({ name: "download", label: "Download as Markdown", href: `${base}/content`, download: `${one.path.split("/").at(-1)}` });
  items.push({ name: "print", label: "Print", run: () => { setTimeout(() => print(), 50); } });
  if (!one) return items;
  items.push({ name: "compare", label: "Compare with…", className: "narrow-only", run: () => chooseCompared(page) });
  items.push({ name: "record", label: "Record of the call (JSON)", href: `${base}/record`, target: "_blank" });
  if (one.job_id) items.push({ name: "call", label: "Open the call", href: `/sessions/${one.session_id}?job=${one.job_id}` });
  if (may("spend") && one.is_latest && !isPast(page.model)) items.push({ name: "regenerate-it", label: "Regenerate", price: priceOnce(page, "regenerate", `/contributions/${one.id}/regenerate`), run: () => regenerate(page) });
  return items;
}

// -- compare --------------------------------------------------------------------------------------

/** Choose what to compare with: those of the same step first, which are chosen already. */
export async function chooseCompared(page) {
  const { model, one } = page;
  const here = facts(model).find(one.original_id);
  const all = [...model.documents.values()].filter((each) => each.original_id !== one.original_id);
  const near = all.filter((each) => each.stage === one.stage && each.step === here?.step && (each.about_id ?? null) === (here?.about_id ?? null)).sort(bySeat);
  const others = all.filter((each) => !near.includes(each)).sort((a, b) => (findStage(model, a.stage)?.position ?? 0) - (findStage(model, b.stage)?.position ?? 0) || bySeat(a, b));
  const chosen = new Set(near.slice(0, COMPARED_MAX - 1).map((each) => each.id));
  const toggle = (id) => {
    if (chosen.has(id)) chosen.delete(id);
    else if (chosen.size < COMPARED_MAX - 1) chosen.add(id);
    else toast("Four documents can be compared at a time.");
    draw();
  };
  const rows = (label, list) => (list.length ? html`<h3 class="label">${label}</h3><ul class="choice">${list.map((each) => html`<li><label class="choice-row ${seatClass(each.seat ?? 1)}"><input type="checkbox" .checked=${chosen.has(each.id)} @change=${() => toggle(each.id)}>${each.seat ? seat(each.seat, { small: true }) : nothing}<span class="grow one-line">${findStage(model, each.stage)?.title}: ${written(each.title)}</span></label></li>`)}</ul>` : nothing);
  await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); if (chosen.size) { close(); go(`/compare?ids=${[one.id, ...chosen].join(",")}`); } }}>
    <h2>Compare with</h2>
    ${all.length ? html`${rows("Of the same step", near)}${rows("Others of this session", others)}` : html`<p class="soft">This session has no other document yet.</p>`}
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button>
      <button class="button main" type="submit" aria-disabled=${chosen.size ? nothing : "true"}>Compare ${chosen.size + 1}</button></div></form>`, { label: "Compare with" });
}
