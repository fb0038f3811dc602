// One claim in detail: its words, what critics say about it, what became of it, and a person's ruling.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { ago, moment } from "../../format.js";
import { draw, keep, kept, may } from "../../store.js";
import { action, chip, glyph, seat, seatClass, written } from "../parts.js";
import { facts, findStage, findStep, isPast } from "./facts.js";
import { fateChip, FATES, passageHref, placeHref, plain, seatName, WANTS, wordings } from "./claim_words.js";
import { betterWords, reportOf, ruleOnClaim, rulingOf, VERDICTS, withdraw, wordsPlace } from "./claims.js";
import { focusLater } from "./keys.js";

const part = (label, body) => html`<section class="part"><h3 class="label">${label}</h3>${body}</section>`;

/** The claim that is picked, as the inspector shows it; null if it is unknown. */
export function claimParts(page, model, id) {
  const report = reportOf(page, "claims");
  const claim = report.data?.claims.find((one) => one.id === id);
  if (!claim) {
    const text = report.state === "ready" ? "This claim is gone: the document that made it has a newer version." : "The documents are being compared.";
    return { head: html`<strong class="grow">Claim</strong>`, parts: html`<p class="soft">${text}</p>` };
  }
  return {
    head: html`${claim.seat ? seat(claim.seat) : nothing}<strong class="one-line">${written(seatName(model, claim.seat))}</strong><span class="meta grow one-line">claims</span>`,
    parts: html`<blockquote class="serif claim-quote">“${plain(claim.text)}”</blockquote>
      <p class="row wrap">${fateChip(claim.final)}${claim.is_contested ? chip("contested", "you") : nothing}${claim.is_lone ? chip("said by one alone") : chip("said by several")}
        <a href=${placeHref(model, claim.document_id, claim.block_id)}>Open in its proposal</a></p>
      ${part("Your ruling", ruling(page, model, claim))}
      ${part("What was said about it", critics(model, claim))}
      ${claim.fates.length ? part("What became of it", html`<ol class="fates">${claim.fates.map((fate, index) => fateItem(model, claim, fate, index))}</ol>${exactly(page, model, claim)}`) : nothing}
      <p class="meta">Found by comparing texts. It does not say that anything is true.</p>`,
  };
}

// -- critics --------------------------------------------------------------------------------------

function critics(model, claim) {
  if (!claim.critics.length) return html`<p class="soft">No critic takes it up.</p>`;
  return html`<ul class="critic-cards">${claim.critics.map((critic) => html`<li class="card of-seat ${critic.seat ? seatClass(critic.seat) : ""}">
    <p class="row">${critic.seat ? seat(critic.seat, { small: true }) : nothing}<strong class="one-line grow">${written(seatName(model, critic.seat))}</strong><span class="chip ${WANTS[critic.verdict].kind}">${WANTS[critic.verdict].sign} ${WANTS[critic.verdict].word}</span></p>
    <p class="serif">${plain(critic.note)}</p>
    ${critic.better ? html`<p class="serif better"><span class="label">Better</span> ${plain(critic.better)}</p>` : nothing}
    <a data-open href=${placeHref(model, critic.document_id, critic.block_id)}>Open at this passage</a></li>`)}</ul>`;
}

// -- what became of it ----------------------------------------------------------------------------

function fateItem(model, claim, fate, index) {
  const title = findStage(model, fate.stage)?.title ?? fate.stage;
  const { word, glyph: shape } = FATES[fate.fate];
  const documents = fate.document_ids.map((id) => facts(model).find(id)).filter(Boolean);
  return html`<li class="fate-${fate.fate}"><p class="row">${glyph(shape)}<strong>${title}</strong><span class="meta grow">${word}</span>
      ${documents.map((one) => html`<a class="fate-doc ${seatClass(one.seat ?? 1)}" href=${placeHref(model, one.id, one === documents[0] ? fate.block_id : null)} title="${title} by seat ${one.seat ?? "?"} says it" aria-label="${title} by seat ${one.seat ?? "?"}: open at this passage">${seat(one.seat ?? 1, { small: true })}</a>`)}</p>
    ${fate.fate === "changed" ? bothWordings(before(claim, index), fate.text) : nothing}
    ${fate.fate === "refused" ? html`<p class="serif">${plain(fate.text)}</p>` : nothing}
    ${fate.fate === "kept" && plain(fate.text) !== plain(claim.text) ? html`<p class="serif soft">${plain(fate.text)}</p>` : nothing}</li>`;
}

/** The last wording before a stage. */
const before = (claim, index) => claim.fates.slice(0, index).reverse().find((fate) => ["kept", "changed"].includes(fate.fate) && fate.text)?.text ?? claim.text;

function bothWordings(from, to) {
  const shown = wordings(from, to);
  return html`<dl class="wordings"><dt>before</dt><dd class="serif">${shown.before}</dd><dt>after</dt><dd class="serif">${shown.after}</dd></dl>`;
}

/** The step that changed, refused or lost it, as the report on coverage has it. */
function exactly(page, model, claim) {
  if (!["changed", "refused", "dropped"].includes(claim.final)) return nothing;
  const found = reportOf(page, "coverage").data?.points.find((one) => one.point.id === claim.document_id && one.point.start === claim.start);
  if (!found) return nothing;
  if (found.changed) {
    const { before: from, after } = found.changed;
    return html`<p class="meta">Changed by ${nameOf(model, after)}, which read ${nameOf(model, from)}.</p>${bothWordings(from.text, after.text)}
      <p class="row wrap"><a data-open href=${passageHref(from)}>Open before</a><a data-open href=${passageHref(after)}>Open after</a></p>`;
  }
  if (found.refused) return html`<p class="meta">Refused by ${nameOf(model, found.refused.place)}: “${plain(found.refused.reason)}” <a data-open href=${passageHref(found.refused.place)}>Open at this passage</a></p>`;
  return found.lost_at ? html`<p class="meta">Last said in ${stepName(model, found.last_seen)}, and not by ${stepName(model, found.lost_at)}${found.lost_by.length ? html`: ${found.lost_by.slice(0, 6).map((id) => { const one = facts(model).find(id); return html`<a href="/documents/${one?.id ?? id}">${one?.seat ? seat(one.seat, { small: true }) : "a draft"}</a> `; })}` : "."}</p>` : nothing;
}

const nameOf = (model, place) => html`${stepName(model, place.step ? `${place.stage}/${place.step}` : place.stage)} by seat ${place.seat ?? "?"}`;

/** "synthesis/final" in words. */
export function stepName(model, name) {
  const [stage, step] = name.split("/");
  const title = findStage(model, stage)?.title ?? stage;
  const own = step ? findStep(model, stage, step)?.title ?? step : "";
  return own ? `${title} (${own})` : title;
}

// -- the ruling -----------------------------------------------------------------------------------

const canRule = (page, model) => may("write") && !isPast(model) && page.moment === null && !model.isGone && model.session.status !== "cancelled";

function ruling(page, model, claim) {
  const own = rulingOf(model, claim);
  const told = own && VERDICTS.find((each) => each.verdict === own.verdict);
  const shown = own ? html`<div class="ruling-made"><p class="row"><span class="chip you">◆ ${told.told}</span><span class="meta grow" title=${moment(own.created_at)}>${written(own.by?.name ?? "")} ${ago(own.created_at, Date.now())}</span>
      ${canRule(page, model) ? action({ name: `unrule-${claim.id}`, label: "Take back", kind: "small plain", key: "U", run: () => withdraw(page, "claims", claim) }) : nothing}</p>
    ${own.text ? html`<p class="serif">${plain(own.text)}</p>` : nothing}</div>` : nothing;
  if (!canRule(page, model)) return own ? shown : html`<p class="soft">No one has ruled on it.</p>`;
  return html`${shown}${rulingButtons(page, model, claim)}<p class="meta">A ruling binds every later prompt of this session, until you take it back.</p>`;
}

/** Four buttons, and a field for words of one's own. */
export function rulingButtons(page, model, claim, { withKeys = true } = {}) {
  const own = rulingOf(model, claim);
  const isOpen = page.ui.words?.has(claim.id) || Boolean(kept(wordsPlace(page, claim.id)));
  return html`<div class="rulings" role="group" aria-label="Rule on this claim">${VERDICTS.map(({ verdict, key, sign, label }) => html`<button class="button small ${own?.verdict === verdict ? "is-on" : ""}" type="button" data-verdict=${verdict} aria-pressed=${own?.verdict === verdict}
      @click=${() => press(page, claim, verdict)}><span aria-hidden="true">${sign}</span> ${label}${withKeys ? html`<kbd aria-hidden="true">${key.toUpperCase()}</kbd>` : nothing}</button>`)}</div>
    ${isOpen ? ownWords(page, claim) : nothing}`;
}

function ownWords(page, claim) {
  const place = wordsPlace(page, claim.id);
  const send = () => ruleOwn(page, claim);
  return html`<form class="field own-words" @submit=${(event) => { event.preventDefault(); send(); }}><label for="own-${claim.id}">What holds instead?</label>
    <textarea id="own-${claim.id}" class="serif" rows="2" maxlength="10000" .value=${kept(place)} @input=${(event) => { keep(place, event.target.value); }} @keydown=${(event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); send(); } else if (event.key === "Escape") { event.stopPropagation(); close(page, claim); } }}></textarea>
    <div class="row">${action({ name: `own-${claim.id}`, label: "Rule so", kind: "small main", run: send })}<button class="button small plain" type="button" @click=${() => close(page, claim)}>Leave it</button></div></form>`;
}

async function ruleOwn(page, claim) {
  const text = kept(wordsPlace(page, claim.id)).trim();
  if (!text) return focusLater(`#own-${claim.id}`);
  page.ui.words?.delete(claim.id);
  return ruleOnClaim(page, claim, "own", text);
}

function close(page, claim) {
  keep(wordsPlace(page, claim.id), "");
  page.ui.words?.delete(claim.id);
  draw();
  focusLater(`[data-verdict="own"]`);
}

/** Press a verdict: “own words”, and a change without better words, open the field. */
export function press(page, claim, verdict) {
  if (verdict === "own" || (verdict === "change" && !betterWords(claim))) {
    (page.ui.words ??= new Set()).add(claim.id);
    draw();
    focusLater(`#own-${claim.id}`);
    return undefined;
  }
  return ruleOnClaim(page, claim, verdict);
}

/** The keys of a claim: they act on the one that has the focus, else on the one that is picked. */
export function claimKeys(page, claims) {
  const find = () => {
    const id = document.activeElement?.closest?.("[data-claim]")?.dataset.claim ?? page.pick.claim;
    return claims.find((one) => one.id === id) ?? page.reports?.claims?.data?.claims.find((one) => one.id === id) ?? null;
  };
  const act = (run) => () => {
    const claim = find();
    if (!claim || !canRule(page, page.model)) return false;
    run(claim);
    return true;
  };
  const own = (claim) => {
    // The field is in the panel, unless the claim stands on the gate.
    if (page.pick.claim !== claim.id && !document.activeElement?.closest?.("[data-gate-claim]")) page.pickClaim(claim.id);
    return press(page, claim, "own");
  };
  return [
    ...VERDICTS.map(({ verdict, key, label }) => ({ keys: key, label, run: act((claim) => (verdict === "own" ? own(claim) : press(page, claim, verdict))) })),
    { keys: "u", label: "Take the ruling back", run: act((claim) => withdraw(page, "claims", claim)) },
  ];
}
