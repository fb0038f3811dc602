// Hand a session on: its report as a file, or a link to it that ends and can be revoked.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { live } from "../../vendor/lit/directives/live.js";
import { del, get, post } from "../api.js";
import { ago, moment } from "../format.js";
import { openDialog, toast } from "../overlay.js";
import { busily, draw, isBusy, may } from "../store.js";
import { choiceField, switchField, textField } from "./forms.js";
import { action, blank, chip, written } from "./parts.js";

const DAYS = [["7", "A week"], ["30", "30 days"], ["90", "90 days"], ["365", "A year"]];

/** Open the dialog of a session's report. */
export async function openShare(sessionId) {
  const form = { session: sessionId, days: "30", phrase: "", names: true, drafts: false, made: null, problem: null, links: null };
  loadLinks(form);
  await openDialog((close) => dialog(form, close), { label: "Share the report", className: "share" });
}

async function loadLinks(form) {
  try {
    form.links = (await get(`/sessions/${form.session}/shares`)).items;
  } catch (problem) {
    form.problem = problem;
  }
  draw();
}

function dialog(form, close) {
  const query = new URLSearchParams({ drafts: String(form.drafts), names: String(form.names) });
  return html`<form class="dialog-body" novalidate @submit=${(event) => { event.preventDefault(); makeLink(form); }} @input=${() => { form.problem = null; }}>
    <h2>Share the report</h2><p class="soft">Prompt, plan, documents with their sources, rulings and cost, as one page that needs nothing else.</p>
    <div class="stack">${switchField(form, "names", "Name the models")}${switchField(form, "drafts", "Include intermediate documents")}</div>
    <p><a class="button" href="/api/v1/sessions/${form.session}/report?${query}" download>Download as a file</a></p>
    ${may("write") ? html`<section class="stack"><h3>A link for people without an account</h3>
      ${choiceField(form, "days", "It works for", DAYS)}
      ${textField(form, "phrase", { label: "Pass phrase", max: 200, help: "Optional, at least 8 characters. Readers must enter it; tell it to them yourself." })}
      ${form.problem ? html`<p class="notice bad" role="alert">${form.problem.errors?.[0]?.message ?? form.problem.detail}</p>` : nothing}
      <p><button class="button main" aria-busy=${isBusy("share") ? "true" : nothing}>Make a link</button></p>
      ${form.made ? html`<div class="field made"><label for="made-link">Copy it now: it is shown only once</label><div class="row"><input id="made-link" readonly .value=${live(form.made)} @focus=${(event) => event.target.select()}>
        <button class="button" type="button" @click=${() => copy(form.made)}>Copy</button></div></div>` : nothing}</section>` : nothing}
    ${links(form)}
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Close</button></div></form>`;
}

function links(form) {
  if (form.links === null) return form.problem ? nothing : blank(1, 40);
  if (form.links.length === 0) return html`<p class="meta">No link works at present.</p>`;
  return html`<section class="stack"><h3>Links that work</h3><ul class="rows">${repeat(form.links, (one) => one.id, (one) => html`<li class="row"><div class="grow">
      <p>Made ${ago(one.created_at, Date.now())} by ${written(one.by.name)}</p>
      <p class="meta">until <time datetime=${one.expires_at}>${moment(one.expires_at)}</time> ${one.has_pass_phrase ? chip("pass phrase") : nothing}${one.has_names ? nothing : chip("without names")}${one.has_drafts ? chip("with intermediates") : nothing}</p></div>
      ${may("write") ? action({ name: `revoke-${one.id}`, label: "Revoke", kind: "bad", run: () => revoke(form, one) }) : nothing}</li>`)}</ul></section>`;
}

function makeLink(form) {
  return busily("share", async () => {
    try {
      const body = { days: Number(form.days), names: form.names, drafts: form.drafts, ...(form.phrase ? { pass_phrase: form.phrase } : {}) };
      const { path, ...share } = await post(`/sessions/${form.session}/shares`, body);
      form.made = new URL(path, location.origin).href;
      form.phrase = "";
      form.links = [share, ...(form.links ?? [])];
      draw();
      requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById("made-link")?.focus()));
    } catch (problem) {
      if (problem.name !== "Problem") throw problem;
      form.problem = problem;
    }
  });
}

async function revoke(form, share) {
  await del(`/shares/${share.id}`);
  form.links = form.links.filter((one) => one.id !== share.id);
  form.made = null;
  toast("The link leads nowhere from now on.");
  // The button is gone, so the dialog's first control takes the focus.
  document.querySelector("dialog.share .switch input")?.focus();
}

async function copy(text) {
  await navigator.clipboard.writeText(text);
  toast("Copied.");
}
