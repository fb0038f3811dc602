// Calls that are being answered: a tile each, with the last lines of what is written.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { count, duration, plural } from "../../format.js";
import { may } from "../../store.js";
import { action, glyph, seat, seatClass, written } from "../parts.js";
import { changeBudget, replaceModel, resume, retryOne } from "./acts.js";
import { facts, isPast, stateOf, subjectsOf, waitingForMoney } from "./facts.js";
import { elapsed, isSilent, phaseOf, silence, tailOf, taskOf } from "./words.js";

/** Draw the calls that are under way; they keep their places while others come and go. */
export function writingNow(page, model, now) {
  const { running } = facts(model);
  const places = page.places;
  if (!places.length || isPast(model)) return nothing;
  const byId = new Map(running.map((job) => [job.id, job]));
  const left = running.length - places.filter((id) => byId.has(id)).length;
  const title = stateOf(model) === "paused" ? "Finishing" : "Writing now";
  return html`<section class="now" aria-labelledby="now-title">
    <div class="now-head"><h2 class="label" id="now-title">${title}</h2><span class="meta">${plural(running.length, "call")}</span></div>
    <ul class="tiles">${repeat(places.map((id, index) => [id, index]), ([id, index]) => id ?? `free-${index}`, ([id]) => {
      const job = byId.get(id);
      return job ? tile(page, model, job, now) : html`<li class="tile free" aria-hidden="true"></li>`;
    })}</ul>
    ${left > 0 ? html`<p class="meta"><a href=${page.hrefOf({}, "jobs")}>and ${count(left)} more</a></p>` : nothing}
    ${slowedByMoney(page, model)}
  </section>`;
}

function tile(page, model, job, now) {
  const own = model.session.seats.find((each) => each.index === job.seat);
  const draft = model.drafts.get(job.id);
  const words = Math.max(draft?.words ?? 0, job.words ?? 0);
  const isLate = isSilent(job, now, page.heard);
  const isAmber = isLate || job.status === "retrying";
  return html`<li class="tile ${seatClass(job.seat ?? 1)} ${isAmber ? "late" : ""}" data-job=${job.id}>
    <a class="tile-link" href=${page.hrefOf({ job: job.id, doc: null, stage: null })} aria-current=${page.pick.job === job.id ? "true" : nothing}>
      <span class="tile-head">${seat(job.seat, { label: own?.label ?? "" })}<strong class="one-line">${written(own?.label ?? "")}</strong>
        <span class="task"><span class="one-line">${taskOf(model, job)}</span>${subjects(model, job)}</span>
        <span class="meta tile-count">${words ? plural(words, "word") : html`<span class="clock">${elapsed(job, now)}</span>`}</span></span>
      <span class="draft serif" aria-hidden="true">${draft?.text ? html`<span class="draft-text">${written(tailOf(draft.text))}<i class="caret"></i></span>` : html`<span class="faint">${phaseOf(job, now)}…</span>`}</span></a>
    ${isAmber ? trouble(page, job, now, isLate) : nothing}</li>`;
}

/** Whose documents it reads, as seats. */
export function subjects(model, job) {
  const seats = subjectsOf(model, job);
  return seats.length ? html`<span>on</span>${seats.map((index) => seat(index, { small: true }))}` : nothing;
}

function trouble(page, job, now, isLate) {
  const told = isLate ? `No word for ${duration(silence(job, now, page.heard))}` : `Attempt ${job.retries + 1} failed; ${phaseOf(job, now)}`;
  return html`<p class="tile-trouble">${glyph("retry")}<span class="grow">${told}</span>
    ${may("spend") && isLate ? html`<button class="button small" type="button" @click=${() => page.wait(job)}>Wait</button>${action({ name: `again-${job.id}`, label: "Retry", kind: "small", run: () => retryOne(page, job.id) })}${action({ name: `replace-${job.id}`, label: "Other model", kind: "small", run: () => { replaceModel(page, job.seat, job.id); } })}` : nothing}</p>`;
}

/** Not a card: it goes on, only slower. */
function slowedByMoney(page, model) {
  const waiting = waitingForMoney(model).length;
  if (!waiting) return nothing;
  const raised = Math.max(Number(model.money.budget ?? 0), Number(model.money.spent) + Number(model.money.held)) * 2;
  return html`<p class="slowed meta row wrap"><span>${plural(waiting, "call")} ${waiting === 1 ? "waits" : "wait"} until others return the money that is reserved for them.</span>
    ${may("spend") && model.money.budget ? html`<button class="button small" type="button" @click=${() => { changeBudget(page, String(Math.ceil(raised * 100) / 100)); }}>Raise the budget</button>` : nothing}
    ${may("spend") && model.session.full_answers_only ? action({ name: "shorter", label: "Allow shorter answers", kind: "small", run: () => resume(page, { full_answers_only: false }) }) : nothing}</p>`;
}
