// A form in a dialog: one press however often it is tried, and what the server refuses is said in it.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { press } from "../api.js";
import { openDialog } from "../overlay.js";
import { busily, draw, isBusy } from "../store.js";

/**
 * Ask for something and send it.
 * @param {{title: string, yes?: string, form: any, body: () => unknown, send: (once: ReturnType<typeof press>) => Promise<unknown>}} options
 *   `body` draws the fields, which keep their values in `form`; `send` gets one press for all tries.
 * @returns {Promise<any>} what `send` returned; undefined if it was left
 */
export function askWith({ title, yes = title, form, body, send }) {
  const once = press();
  const name = `form:${title}`;
  const submit = (close) => busily(name, async () => {
    try {
      close((await send(once)) ?? true);
    } catch (problem) {
      if (problem.name !== "Problem") throw problem;
      form.problem = problem;
      draw();
    }
  });
  return openDialog((close) => html`<form class="dialog-body" novalidate @submit=${(event) => { event.preventDefault(); submit(close); }}
      @input=${() => { form.problem = null; draw(); }}>
    <h2>${title}</h2>${body()}
    ${form.problem ? html`<p class="notice bad" role="alert">${form.problem.errors?.[0]?.message ?? form.problem.detail}</p>` : nothing}
    <div class="dialog-foot"><button class="button" type="button" @click=${() => close()}>Cancel</button>
      <button class="button main" aria-busy=${isBusy(name) ? "true" : nothing} aria-disabled=${isBusy(name) ? "true" : nothing}>${yes}</button></div></form>`, { label: title });
}

/**
 * A text field of a form.
 * @param {any} form @param {string} name
 * @param {{label: string, help?: unknown, type?: string, isFirst?: boolean, mode?: unknown, max?: unknown}} options
 */
export function textField(form, name, { label, help = "", type = "text", isFirst = false, mode = nothing, max = nothing }) {
  return html`<div class="field"><label for="form-${name}">${label}</label>
    <input id="form-${name}" type=${type} inputmode=${mode} maxlength=${max} autocomplete="off" ?autofocus=${isFirst} .value=${form[name] ?? ""}
      aria-describedby=${help ? `help-${name}` : nothing} @input=${(event) => { form[name] = event.target.value; }}>
    ${help ? html`<p class="help" id="help-${name}">${help}</p>` : nothing}</div>`;
}

/** A switch of a form. */
export const switchField = (form, name, label) => html`<label class="switch"><input type="checkbox" role="switch" .checked=${form[name]} @change=${(event) => { form[name] = event.target.checked; draw(); }}> ${label}</label>`;

/** A choice of a form. @param {any} form @param {string} name @param {string} label @param {string[][]} options value and word */
export const choiceField = (form, name, label, options) => html`<div class="field" role="radiogroup" aria-label=${label}><span class="label-text">${label}</span><div class="segmented">${options.map(([value, word]) => html`
  <label><input class="sr" type="radio" name=${name} value=${value} .checked=${form[name] === value} @change=${() => { form[name] = value; draw(); }}>${word}</label>`)}</div></div>`;
