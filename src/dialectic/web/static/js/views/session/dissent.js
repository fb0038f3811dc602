// What documents of one stage do not agree on: positions side by side, and a person's ruling.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { ago, count, moment, plural } from "../../format.js";
import { draw, keep, kept, may } from "../../store.js";
import { action, chip, errorBar, glyph, seat, written } from "../parts.js";
import { passageHref, plain, seatName } from "./claim_words.js";
import { askAgain, reportOf, ruleOnDissent, rulingOf, withdraw, wordsPlace } from "./claims.js";
import { findStage, isPast } from "./facts.js";
import { focusLater } from "./keys.js";
import { waitingFor } from "./map.js";

const KINDS = { figure: "another figure", polarity: "one says not", choice: "another choice", split: "taken by one, refused by another", declared: "named by an editor" };
const OBEYED = {
  kept: ["kept", "ok", "The newest document says what you ruled."], broken: ["broken", "bad", "The newest document says what you ruled against."],
  unclear: ["unclear", "hold", "The newest document does not say clearly whether it follows."],
};
const SHOWN_MAX = 12;
const canRule = (page, model) => may("write") && !isPast(model) && page.moment === null && !model.isGone && model.session.status !== "cancelled";

export function view(model, ui, page) {
  const report = reportOf(page, "dissents");
  const waiting = waitingFor(page, report, { none: "Nothing yet: models can differ as soon as two proposals are there." });
  if (waiting) return waiting;
  const all = report.data.dissents.filter((one) => one.iteration === model.session.iteration);
  const byStatus = { open: all.filter((one) => statusOf(model, one) === "open"), ruled: all.filter((one) => statusOf(model, one) === "ruled"), settled: all.filter((one) => statusOf(model, one) === "settled") };
  ui.status ??= byStatus.open.length || !all.length ? "open" : byStatus.ruled.length ? "ruled" : "settled";
  const chosen = byStatus[ui.status];
  const shown = ui.isOpen ? chosen : chosen.slice(0, SHOWN_MAX);
  return html`${report.problem ? errorBar(report.problem, () => askAgain(page, "dissents")) : nothing}
    <div class="map-filters"><div class="segmented" role="group" aria-label="Which dissents">${[["open", "Open"], ["ruled", "Ruled"], ["settled", "Settled by the models"]].map(([id, label]) => html`<button type="button" aria-pressed=${ui.status === id} @click=${() => { ui.status = id; draw(); }}>${label} <span class="faint">${count(byStatus[id].length)}</span></button>`)}</div>
      <label class="switch"><input type="checkbox" role="switch" .checked=${Boolean(ui.hasNames)} @change=${(event) => { ui.hasNames = event.target.checked; draw(); }}><span>Show who says it</span></label></div>
    ${shown.length ? html`<ol class="dissents">${repeat(shown, (one) => one.id, (one) => card(model, ui, page, one))}</ol>` : html`<p class="soft">${all.length ? "None is like that." : "The documents of each stage agree, as far as their words tell."}</p>`}
    ${chosen.length > shown.length ? html`<div><button class="button" type="button" @click=${() => { ui.isOpen = true; draw(); }}>Show all ${count(chosen.length)}</button></div>` : nothing}
    <p class="meta">Found by comparing texts (${report.data.method}); no model is asked, and nothing is decided for you.${report.data.left_out ? ` ${plural(report.data.left_out, "lighter one")} left out.` : ""}</p>`;
}

const statusOf = (model, one) => (rulingOf(model, one) ? "ruled" : one.status === "ruled" ? "open" : one.status);

/** One dissent: also on the card of the gate. */
export function card(model, ui, page, one, { isShort = false } = {}) {
  const own = rulingOf(model, one);
  const chosen = own?.position_id ?? one.ruling?.position_id ?? null;
  // Who says it is shown once someone has chosen: a name must not decide.
  const hasNames = ui.hasNames || Boolean(own);
  return html`<li class="dissent ${own ? "is-ruled" : ""}" data-dissent=${one.id}>
    <div class="row wrap"><h3 class="serif grow">${plain(one.subject)}</h3>${chip(KINDS[one.kind] ?? one.kind)}${isShort ? nothing : html`<span class="meta">${findStage(model, one.stage)?.title ?? one.stage}</span>`}</div>
    <div class="positions" .style=${`--cols:${Math.min(3, one.positions.length)}`}>${one.positions.map((position, n) => html`<div class="position ${own && chosen === position.id ? "is-upheld" : own && chosen ? "is-rejected" : ""}">
      <p class="row meta"><strong>${letter(n)}</strong>${hasNames ? position.seats.map((index) => seat(index, { small: true, label: seatName(model, index) })) : html`<span>${plural(position.places.length, "document")}</span>`}<span class="grow"></span>
        ${hasNames && position.places[0] ? html`<a data-open href=${passageHref(position.places[0]) ?? nothing}>Open</a>` : nothing}</p>
      <p class="serif">${plain(position.says)}</p>
      ${canRule(page, model) ? html`<div><button class="button small ${chosen === position.id && own ? "is-on" : ""}" type="button" data-position=${position.id} aria-pressed=${Boolean(own) && chosen === position.id} @click=${() => ruleOnDissent(page, one, { position: position.id })}>${own && chosen === position.id ? "◆ This holds" : "This holds"}</button></div>` : nothing}</div>`)}</div>
    ${made(model, page, one, own)}
    ${canRule(page, model) ? ownWords(page, one) : nothing}</li>`;
}

const letter = (n) => String.fromCharCode(65 + n);

function made(model, page, one, own) {
  if (!own) return nothing;
  const [word, kind, told] = OBEYED[one.obeyed] ?? [];
  return html`<div class="ruling-made"><p class="row wrap"><span class="chip you">◆ ruled</span><span class="meta grow" title=${moment(own.created_at)}>${written(own.by?.name ?? "")} ${ago(own.created_at, Date.now())}${told ? `. ${told}` : ". Every later prompt has it."}</span>
    ${word ? html`<span class="chip ${kind}" data-obeyed=${one.obeyed}>${one.obeyed === "kept" ? glyph("done") : one.obeyed === "broken" ? glyph("failed") : nothing}${word}</span>` : nothing}
    ${canRule(page, model) ? action({ name: `unrule-${one.id}`, label: "Take back", kind: "small plain", run: () => withdraw(page, "dissents", one) }) : nothing}</p>
    ${own.text ? html`<p class="serif">${plain(own.text)}</p>` : nothing}</div>`;
}

function ownWords(page, one) {
  const place = wordsPlace(page, one.id);
  const send = async () => {
    const text = kept(place).trim();
    if (!text) return focusLater(`#own-${one.id}`);
    return ruleOnDissent(page, one, { text });
  };
  return html`<form class="own-line" @submit=${(event) => { event.preventDefault(); send(); }}><label class="sr" for="own-${one.id}">Your own words on ${plain(one.subject)}</label>
    <input id="own-${one.id}" maxlength="10000" placeholder="Or in your own words" .value=${kept(place)} @input=${(event) => { keep(place, event.target.value); draw(); }}>
    ${kept(place) ? action({ name: `own-${one.id}`, label: "Rule so", kind: "small main", run: send }) : nothing}</form>`;
}

