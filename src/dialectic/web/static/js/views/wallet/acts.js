// What can be done with a wallet: add money, limit it, take the journal along.
import { html } from "../../../vendor/lit/lit-html.js";
import { get } from "../../api.js";
import { money } from "../../format.js";
import { toast } from "../../overlay.js";
import { draw, state } from "../../store.js";
import { askWith, choiceField, switchField, textField } from "../forms.js";

const PAGES_MAX = 50;

/** Add money. */
export async function topUp() {
  const form = { amount: "10", isPlay: false, note: "" };
  const found = await askWith({
    title: "Top up", form,
    body: () => html`${textField(form, "amount", { label: "Amount in dollars", mode: "decimal", isFirst: true, help: "Real money is added by the owner of this installation." })}
      ${switchField(form, "isPlay", "Play money, for offline models")}${textField(form, "note", { label: "Note", max: 500 })}`,
    send: (once) => once.post("/wallet/topups", { amount: plain(form.amount), is_play: form.isPlay, note: form.note }),
  });
  take(found, `${money(plain(form.amount), { play: form.isPlay, places: 2 })} was added.`);
}

/** Let the wallet only count, or spend an amount from now on. */
export async function changeLimit() {
  const form = { kind: state.wallet.is_count_only ? "count" : "limit", amount: state.wallet.money.available };
  const found = await askWith({
    title: "Limit the wallet", yes: "Set the limit", form,
    body: () => html`${choiceField(form, "kind", "What limits it", [["limit", "An amount"], ["count", "Nothing, only count"]])}
      ${form.kind === "limit" ? textField(form, "amount", { label: "Spend at most, in dollars", mode: "decimal", help: "From now on. Calls that would cost more wait, and their session pauses." })
        : html`<p class="soft">This wallet stops no call; what calls cost is still counted.</p>`}`,
    send: (once) => once.patch("/wallet", form.kind === "count" ? { is_count_only: true } : { is_count_only: false, limit: plain(form.amount) }),
  });
  take(found, form.kind === "count" ? "The wallet only counts." : `The wallet spends at most ${money(plain(form.amount))} from now on.`);
}

function take(wallet, sentence) {
  if (!wallet) return;
  state.wallet = { ...state.wallet, ...wallet };
  toast(sentence);
  draw();
}

const plain = (text) => String(text).trim().replace(/^\$/, "").replace(",", ".");

/** Save all transactions as a file. */
export async function downloadCsv(page) {
  const rows = [...page.rows];
  let next = page.next;
  for (let pages = 0; next && pages < PAGES_MAX; pages += 1) {
    const found = await get(`/wallet/transactions?limit=200&cursor=${encodeURIComponent(next)}`);
    rows.push(...found.items);
    next = found.next_cursor;
  }
  const columns = ["created_at", "type", "is_play", "change", "balance_after", "model", "session_id", "stage", "purpose", "notes"];
  const text = [columns, ...rows.map((row) => columns.map((name) => row[name] ?? ""))].map((cells) => cells.map(cell).join(",")).join("\r\n");
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: "wallet.csv" });
  link.click();
  URL.revokeObjectURL(link.href);
}

// A cell that begins like a formula is text: a spreadsheet would run it.
function cell(value) {
  const text = String(value);
  const safe = /^[=+@\t\r]/.test(text) || /^-(?!\d)/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
