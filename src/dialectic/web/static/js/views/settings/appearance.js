// How the app looks for this person.
import { html } from "../../../vendor/lit/lit-html.js";
import { live } from "../../../vendor/lit/directives/live.js";
import { moment, money, speak } from "../../format.js";
import { draw, state } from "../../store.js";
import { savePreferences } from "../shell.js";

/** @type {[string, string, string[][]][]} */
const CHOICES = [
  ["theme", "Theme", [["system", "As the system"], ["light", "Light"], ["dark", "Dark"]]],
  ["text_size", "Text size", [["small", "Small"], ["normal", "Normal"], ["large", "Large"], ["larger", "Larger"]]],
  ["motion", "Motion", [["system", "As the system"], ["less", "Less"]]],
];
const LANGUAGES = [["", "As the browser"], ["en-GB", "English, British"], ["en-US", "English, American"], ["de-DE", "Deutsch"], ["fr-FR", "Français"], ["es-ES", "Español"], ["it-IT", "Italiano"], ["pt-BR", "Português"], ["nl-NL", "Nederlands"], ["pl-PL", "Polski"], ["sv-SE", "Svenska"], ["ja-JP", "日本語"], ["zh-CN", "中文"], ["ar-EG", "العربية"]];

function chooseLanguage(language) {
  speak(language);
  savePreferences({ language: language || null });
  draw();
}

/** Draw the choices. */
export function appearance() {
  const chosen = { theme: "system", text_size: "normal", motion: "system", ...state.me?.preferences };
  return html`<div class="stack loose">${CHOICES.map(([name, label, values]) => html`
    <div class="field" role="radiogroup" aria-label=${label}><span class="label-text">${label}</span><div class="segmented">${values.map(([value, word]) => html`
      <label><input class="sr" type="radio" name=${name} value=${value} .checked=${chosen[name] === value} @change=${() => savePreferences({ [name]: value })}>${word}</label>`)}</div></div>`)}
    <div class="field"><label for="language">Dates and numbers</label><select id="language" .value=${live(chosen.language ?? "")} @change=${(event) => chooseLanguage(event.target.value)}>${LANGUAGES.map(([value, word]) => html`<option value=${value} ?selected=${(chosen.language ?? "") === value}>${word}</option>`)}</select>
      <p class="help">${moment("2026-03-12T16:05:00Z")} · ${money("1234.5")}</p></div>
    <label class="switch"><input type="checkbox" role="switch" .checked=${state.me?.preferences?.keys !== false} @change=${(event) => savePreferences({ keys: event.target.checked })}> Single keys act, such as <kbd>N</kbd> for new</label></div>`;
}
