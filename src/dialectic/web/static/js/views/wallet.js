// The wallet: what is left, what was spent on what, and every transaction.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { repeat } from "../../vendor/lit/directives/repeat.js";
import { live } from "../../vendor/lit/directives/live.js";
import { get } from "../api.js";
import { ago, moment, money, percent, plural, titled, words } from "../format.js";
import { address as move } from "../router.js";
import { draw, may, state } from "../store.js";
import { action, blank as blocks, readOnly, written } from "./parts.js";
import { changeLimit, downloadCsv, topUp } from "./wallet/acts.js";

const DAYS = 30;
const DAY_MS = 86_400_000;
const AGAIN_MS = 1_500;
const KINDS = [["", "All"], ["spent", "Spent"], ["added", "Added"]];

export const title = () => "Wallet";
export const crumbs = () => [{ label: "Wallet" }];
export const blank = () => html`<h1>Wallet</h1>${blocks(6, 72)}`;

/** @param {{query: URLSearchParams, signal: AbortSignal}} params */
export async function load({ query, signal }) {
  const [wallet, spending, journal, sessions] = await Promise.all([
    get("/wallet", { signal }), get(`/wallet/spending?days=${DAYS}`, { signal }),
    get("/wallet/transactions?limit=50", { signal }), get("/sessions?limit=20", { signal }),
  ]);
  state.wallet = { ...state.wallet, ...wallet };
  return { spending: spending.items, rows: journal.items, next: journal.next_cursor, usual: findUsual(sessions.items), timer: 0, ...readAddress(query) };
}

const readAddress = (query) => ({ kind: query.get("kind") ?? "", text: query.get("q") ?? "", isPlay: query.get("money") === "play" });

export const address = (page, { query }) => Object.assign(page, readAddress(query));

export function leave(page) {
  clearTimeout(page?.timer);
}

/** The wallet moved: its journal and bars are read again, once for several transfers. */
export function event(page, { type, data }) {
  if (type !== "money_changed" || !data?.wallet || page.timer) return;
  page.timer = setTimeout(async () => {
    const [spending, journal] = await Promise.all([get(`/wallet/spending?days=${DAYS}`), get("/wallet/transactions?limit=50")]).catch(() => []);
    page.timer = 0;
    if (journal) merge(page, spending.items, journal);
    draw();
  }, AGAIN_MS);
}

function merge(page, spending, journal) {
  const known = new Set(page.rows.map((row) => row.id));
  const isJoined = journal.items.some((row) => known.has(row.id));
  page.spending = spending;
  page.rows = isJoined ? [...journal.items.filter((row) => !known.has(row.id)), ...page.rows] : journal.items;
  if (!isJoined) page.next = journal.next_cursor;
}

/** What a session of this person usually costs, in dollars; null if none was paid. */
export function findUsual(sessions) {
  const paid = sessions.filter((one) => !one.is_play && Number(one.spent) > 0).map((one) => Number(one.spent)).sort((a, b) => a - b);
  return paid.length ? paid[Math.floor(paid.length / 2)] : null;
}

export const actions = (page) => [
  ...(may("admin") ? [{ label: "Top up", run: () => topUp() }, { label: "Limit the wallet", run: () => changeLimit() }] : []),
  { label: "Download the journal as CSV", run: () => downloadCsv(page) },
];

// -- drawing --------------------------------------------------------------------------------------

export function view(page) {
  const { wallet } = state;
  return html`<div class="page wallet stack loose">
    <div class="page-head"><div><h1>Wallet</h1>${whose()}</div>
      ${may("admin") ? html`<div class="row">${action({ name: "limit", label: "Limit", run: () => changeLimit() })}${action({ name: "top-up", label: "Top up", kind: "main", run: () => topUp() })}</div>` : nothing}</div>
    ${may("write") ? nothing : readOnly()}
    ${balances(wallet)}${warning(wallet, page.usual)}
    ${spent(page)}${journal(page)}</div>`;
}

function whose() {
  const tenant = state.me?.tenants?.find((one) => one.id === state.me.tenant_id);
  return tenant?.kind === "organization" ? html`<p class="soft">Of the organisation ${written(tenant.name)}</p>` : nothing;
}

function balances(wallet) {
  const { money: real, play_money: play } = wallet;
  return html`<dl class="balances"><div><dt class="label">Available</dt><dd class="amount" data-of="real">${money(real.available, { places: 2 })}</dd>
      <dd class="meta">${Number(real.held) ? `${money(real.held)} set aside for calls under way` : "Nothing is set aside"}</dd></div>
    <div><dt class="label">Play money</dt><dd class="amount small" data-of="play">${money(play.available, { play: true, places: 2 })}</dd>
      <dd class="meta">${Number(play.held) ? `${money(play.held, { play: true })} set aside` : "For offline models; never mixed with dollars"}</dd></div></dl>`;
}

function warning(wallet, usual) {
  if (wallet.is_count_only) return html`<p class="notice">This wallet only counts: it never stops a call, and its balance may fall below zero.</p>`;
  const left = Number(wallet.money.available);
  if (usual !== null && left < usual) return html`<p class="notice you" role="status">This is less than one of your sessions usually costs (${money(usual)}). A session that runs out of money pauses and keeps everything.</p>`;
  return nothing;
}

// -- spending -------------------------------------------------------------------------------------

function spent(page) {
  const kinds = new Set(page.spending.map((line) => line.is_play));
  const isPlay = kinds.size === 1 ? kinds.has(true) : page.isPlay;
  const lines = page.spending.filter((line) => line.is_play === isPlay);
  const total = sum(lines);
  return html`<section><div class="section-head"><h2 class="grow">Last ${DAYS} days</h2>
      ${kinds.size > 1 ? html`<div class="segmented" role="group" aria-label="Kind of money">
        <button type="button" aria-pressed=${!isPlay} @click=${() => move({ money: null })}>Dollars</button>
        <button type="button" aria-pressed=${isPlay} @click=${() => move({ money: "play" })}>Play money</button></div>` : nothing}</div>
    ${lines.length === 0 ? html`<p class="soft">Nothing was spent.</p>` : html`<div class="charts">
      <figure><figcaption class="meta">${money(total, { play: isPlay })} for ${plural(lines.reduce((n, line) => n + line.calls, 0), "call")}, by day</figcaption>${days(lines, isPlay)}</figure>
      <figure><figcaption class="meta">By model</figcaption>${models(lines, total, isPlay)}</figure></div>`}</section>`;
}

const sum = (lines) => lines.reduce((all, line) => all + Number(line.charged), 0);

/** The days of a chart, oldest first, each with what was spent on it. `now` in ms. */
export function byDay(lines, now) {
  return Array.from({ length: DAYS }, (_, index) => {
    const day = new Date(now - (DAYS - 1 - index) * DAY_MS).toISOString().slice(0, 10);
    return { day, amount: sum(lines.filter((line) => line.day === day)) };
  });
}

function days(lines, isPlay) {
  const all = byDay(lines, Date.now());
  const most = Math.max(...all.map((one) => one.amount), 1e-12);
  const told = all.filter((one) => one.amount > 0);
  const day = (text) => new Date(`${text}T12:00:00Z`).toLocaleDateString(state.me?.preferences?.language || undefined, { day: "numeric", month: "short" });
  return html`<div class="days" role="img" aria-label=${told.map((one) => `${day(one.day)}: ${money(one.amount, { play: isPlay })}`).join("; ")}>
      ${all.map((one) => html`<i class=${one.amount ? "" : "none"} .style=${`--share:${(100 * one.amount) / most}%`} title=${`${day(one.day)}: ${money(one.amount, { play: isPlay })}`}></i>`)}</div>
    <div class="row meta"><span class="grow">${day(all[0].day)}</span><span>today</span></div>`;
}

function models(lines, total, isPlay) {
  const byModel = Map.groupBy ? Map.groupBy(lines, (line) => line.model ?? "") : group(lines);
  const rows = [...byModel].map(([model, own]) => ({ model, amount: sum(own), calls: own.reduce((n, line) => n + line.calls, 0) })).sort((a, b) => b.amount - a.amount);
  return html`<ul class="by-model">${rows.map((row) => html`<li><span class="one-line mono">${written(row.model || "unknown model")}</span><span>${money(row.amount, { play: isPlay })}</span>
    <span class="meta">${plural(row.calls, "call")}, ${percent(total ? row.amount / total : 0)}</span><i .style=${`--share:${total ? (100 * row.amount) / total : 0}%`}></i></li>`)}</ul>`;
}

function group(lines) {
  const found = new Map();
  for (const line of lines) found.set(line.model ?? "", [...(found.get(line.model ?? "") ?? []), line]);
  return found;
}

// -- the journal ----------------------------------------------------------------------------------

const WHAT = { top_up: "Top-up", grant: "Grant", withdrawal: "Withdrawal", usage: "Call", overrun: "Above the reservation", loss: "Lost answer" };

function isWanted(row, { kind, text }) {
  if (kind === "spent" && Number(row.change) >= 0) return false;
  if (kind === "added" && Number(row.change) <= 0) return false;
  const said = `${row.model ?? ""} ${row.stage ?? ""} ${row.notes ?? ""} ${row.purpose ?? ""} ${WHAT[row.type] ?? row.type}`.toLowerCase();
  return said.includes(text.trim().toLowerCase());
}

function journal(page) {
  const rows = page.rows.filter((row) => isWanted(row, page));
  return html`<section><div class="section-head wrap"><h2 class="grow">Journal</h2>
      <div class="segmented" role="group" aria-label="Kind of transaction">${KINDS.map(([kind, label]) => html`<button type="button" aria-pressed=${page.kind === kind} @click=${() => move({ kind })}>${label}</button>`)}</div>
      <input type="search" data-filter aria-label="Filter the journal" placeholder="Filter by model, stage or note" .value=${live(page.text)} @input=${(event) => move({ q: event.target.value }, "", { replace: true })}>
      ${action({ name: "csv", label: "CSV", run: () => downloadCsv(page) })}</div>
    ${page.rows.length === 0 ? html`<p class="empty">No transaction yet. ${may("admin") ? "Top up to use models that cost money; offline models need none." : ""}</p>`
      : rows.length === 0 ? html`<p class="empty">No loaded transaction matches.</p>` : table(rows)}
    ${page.next ? html`<p class="more">${action({ name: "more", label: "Show earlier transactions", run: () => more(page) })}</p>` : nothing}</section>`;
}

const table = (rows) => html`<div class="frame" role="region" aria-label="Transactions" tabindex="0"><table class="journal">
  <thead><tr><th>When</th><th>What</th><th>Session</th><th>Model</th><th class="right">Change</th><th class="right">Balance</th></tr></thead>
  <tbody>${repeat(rows, (row) => row.id, (row) => html`<tr>
    <td><time datetime=${row.created_at} title=${moment(row.created_at)}>${ago(row.created_at, Date.now())}</time></td>
    <td>${WHAT[row.type] ?? titled(row.type)}${row.purpose && !["call", "answer"].includes(row.purpose) ? html` <span class="faint">${words(row.purpose)}</span>` : nothing}${row.notes ? html`<div class="meta">${written(row.notes)}</div>` : nothing}</td>
    <td>${row.session_id ? html`<a href="/sessions/${row.session_id}">${titled(row.stage ?? "session")}</a>` : nothing}</td>
    <td class="mono">${written(row.model ?? "")}</td>
    <td class="right ${Number(row.change) > 0 ? "is-ok" : ""}">${change(row)}</td>
    <td class="right faint">${money(row.balance_after, { play: row.is_play, places: 4 })}</td></tr>`)}</tbody></table></div>`;

/** The change of the balance, with its sign; what no wallet pays is told as such. */
const change = (row) => (Number(row.change) > 0 ? `+ ${money(row.change, { play: row.is_play, places: 4 })}` : Number(row.change) < 0 ? `− ${money(-Number(row.change), { play: row.is_play, places: 4 })}` : "not charged");

async function more(page) {
  const found = await get(`/wallet/transactions?limit=200&cursor=${encodeURIComponent(page.next)}`);
  page.rows = [...page.rows, ...found.items];
  page.next = found.next_cursor;
}
