// Dialogs of a session page: feedback, budget, another model, another iteration. Loaded when one is opened.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { get, patch, post } from "../../api.js";
import { money } from "../../format.js";
import { openDialog, toast } from "../../overlay.js";
import { address } from "../../router.js";
import { draw, keep, kept } from "../../store.js";
import { attempt } from "../parts.js";
import { at, resume, retryOne } from "./acts.js";
import { amount } from "./words.js";

/** Say something about a stage or a document. */
export async function sayFeedback(page, { stage, document = null }) {
  const place = `feedback:${page.model.session.id}:${stage}:${document?.original_id ?? ""}`;
  const send = async (close) => {
    const text = kept(place).trim();
    if (!text) return;
    await post(at(page, "/feedback"), { stage, text, ...(document ? { contribution_id: document.id } : {}) });
    keep(place, "");
    close(true);
    toast("Your feedback is in every later prompt.");
  };
  await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); attempt("say-feedback", () => send(close)); }}>
    <h2>Feedback on ${document ? html`“${document.title}”` : page.model.stages.find((each) => each.slug === stage)?.title}</h2>
    <div class="field"><label for="feedback-text">What must later stages know?</label>
      <textarea id="feedback-text" class="serif" autofocus .value=${kept(place)} @input=${(event) => keep(place, event.target.value)}></textarea>
      <p class="help">Every later prompt of this session includes it.</p></div>
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button><button class="button main" type="submit">Save feedback</button></div></form>`, { label: "Feedback" });
}

/** Raise, set or remove the budget; a session that waits for it goes on. */
export async function changeBudget(page, proposed = null) {
  const { money: own, session } = page.model;
  let value = proposed ?? own.budget ?? "";
  const send = async (close) => {
    const budget = String(value).trim() === "" ? null : String(value).trim();
    if (budget !== null && ["budget", "funds"].includes(session.blocked_by)) await resume(page, { budget });
    else await patch(at(page), { budget });
    close(true);
  };
  await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); attempt("change-budget", () => send(close)); }}>
    <h2>Budget</h2>
    <div class="field"><label for="budget">The most that this session may spend in all, in ${own.is_play ? "play money" : "dollars"}</label>
      <input id="budget" inputmode="decimal" autocomplete="off" autofocus .value=${value} @input=${(event) => { value = event.target.value; }}>
      <p class="help">${amount(page.model, own.spent)} is spent${own.forecast ? html`, about ${amount(page.model, own.forecast)} is expected in the end` : nothing}. Empty: only the wallet limits it.</p></div>
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button><button class="button main" type="submit">Set the budget</button></div></form>`, { label: "Budget" });
}

/** Give a seat another model, for the work that it has not completed; `running` is a call to begin again with it. */
export async function replaceModel(page, index, running = null) {
  const seat = page.model.session.seats.find((each) => each.index === index);
  const choice = { models: null, name: "", problem: null };
  get("/models").then((found) => { choice.models = found.items ?? found; draw(); }, (problem) => { choice.problem = problem; draw(); });
  const send = async (close) => {
    if (!choice.name) return;
    await patch(at(page, `/seats/${index}`), { model: choice.name });
    if (running && page.model.jobs.get(running)?.status === "processing") await retryOne(page, running);
    close(true);
  };
  await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); attempt("replace-model", () => send(close)); }}>
    <h2>Another model for seat ${index}</h2>
    <p class="soft">${seat?.model} has it now. The new model does what is not done yet; finished documents are kept.</p>
    ${choice.problem ? html`<p class="notice bad">${choice.problem.detail}</p>` : nothing}
    <div class="field"><label for="other-model">Model</label>
      <select id="other-model" autofocus @change=${(event) => { choice.name = event.target.value; draw(); }}><option value="">${choice.models ? "Choose a model" : "Loading the models"}</option>
        ${(choice.models ?? []).filter(isUsable).map((model) => html`<option value=${model.name ?? model.id} ?selected=${choice.name === (model.name ?? model.id)}>${model.name ?? model.id}</option>`)}</select></div>
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button><button class="button main" type="submit" aria-disabled=${choice.name ? nothing : "true"}>Use this model</button></div></form>`, { label: "Another model" });
}

const isUsable = (model) => model.state === undefined || ["ready", "usable", "ok"].includes(model.state) || model.is_usable === true;

/** Another iteration: the last documents and all feedback are its input. */
export async function iterate(page) {
  const quote = { price: null };
  get(`${at(page, "/iterate")}?price=true`).then((found) => { quote.price = found; draw(); }, () => {});
  const place = `iterate:${page.model.session.id}`;
  const last = page.model.stages.filter((stage) => stage.status === "complete").at(-1);
  const send = async (close) => {
    const text = kept(place).trim();
    if (text && last) await post(at(page, "/feedback"), { stage: last.slug, text });
    keep(place, "");
    await post(at(page, "/iterate"));
    close(true);
    address({ i: null, doc: null, job: null, stage: null });
  };
  await openDialog((close) => html`<form class="dialog-body" @submit=${(event) => { event.preventDefault(); attempt("iterate-now", () => send(close)); }}>
    <h2>Another iteration</h2>
    <p class="soft">All stages run again. They read the documents of this iteration and all feedback. This iteration stays as it is.</p>
    <div class="field"><label for="iterate-text">What should be better? (optional)</label>
      <textarea id="iterate-text" class="serif" autofocus .value=${kept(place)} @input=${(event) => keep(place, event.target.value)}></textarea></div>
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Leave it</button>
      <button class="button main" type="submit">Iterate${quote.price ? html`<span class="price">about ${money(quote.price.expected, { play: quote.price.is_play })}</span>` : nothing}</button></div></form>`, { label: "Another iteration" });
}
