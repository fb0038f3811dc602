// How a person is told of what happens while they look elsewhere.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { askForNotices, chime, findTold } from "../../notices.js";
import { toast } from "../../overlay.js";
import { draw, state } from "../../store.js";
import { savePreferences } from "../shell.js";

const KINDS = [
  ["session_done", "A session is done"], ["session_waits_for_you", "A stage is complete and waits for you"], ["session_failed", "A session failed"],
  ["session_seat_lost", "A session goes on without one of its models"], ["session_needs_money", "A session needs money"], ["session_needs_approval", "A call needs your approval"],
  ["ruling_broken", "A document does not follow your ruling"],
  ["session_needs_key", "A model needs a key"], ["session_blocked", "A session is blocked"], ["session_stopped", "A session was cancelled"],
];

async function change(type, way, isOn) {
  if (isOn && way === "desktop" && !await askForNotices()) {
    toast("This browser does not allow notices from this page. Allow them in its settings.");
    draw();
    return;
  }
  if (isOn && way === "sound") chime();
  const before = state.me?.preferences?.notifications ?? {};
  savePreferences({ notifications: { ...before, [type]: { ...findTold(type), [way]: isOn } } });
}

/** Draw a row for each kind of message. */
export function notices() {
  const box = (type, label, way, word) => html`<td><label class="tick"><input type="checkbox" aria-label="${label}: ${word}" .checked=${live(findTold(type)[way])} @change=${(event) => change(type, way, event.target.checked)}></label></td>`;
  return html`<div class="stack"><p class="soft">Every message is listed under the bell. These also reach you when you look elsewhere; failures also while you look here.</p>
    <table class="notices"><thead><tr><th>When</th><th>Desktop</th><th>Sound</th></tr></thead><tbody>${KINDS.map(([type, label]) => html`<tr><th scope="row">${label}</th>${box(type, label, "desktop", "desktop notice")}${box(type, label, "sound", "sound")}</tr>`)}</tbody></table>
    ${globalThis.Notification?.permission === "denied" ? html`<p class="notice you">This browser blocks notices from this page. Allow them in its settings.</p>` : nothing}</div>`;
}
