// Sign in with a token: as a page, and as a dialog over a page whose sign-in has ended.
import { html, nothing } from "../../vendor/lit/lit-html.js";
import { live } from "../../vendor/lit/directives/live.js";
import { signIn } from "../api.js";
import { busily, draw, isBusy } from "../store.js";
import { mark } from "./shell.js";

export const title = () => "Sign in";

export function load({ query }) {
  return { token: "", problem: null, then: safePath(query.get("then")) };
}

/** Only an address of this app: never that of another site. */
export function safePath(then) {
  try {
    const url = new URL(then ?? "/", location.origin);
    return url.origin === location.origin && !url.pathname.startsWith("/sign-in") ? url.pathname + url.search + url.hash : "/";
  } catch {
    return "/";
  }
}

export function view(state) {
  return html`<div class="page sign-in stack loose">
    <div class="stack"><span class="brand">${mark}</span><h1>Sign in to Dialectic</h1><p class="soft">Several language models argue until a plan holds.</p></div>
    ${signInForm(state, () => location.assign(state.then))}</div>`;
}

/** The form: a field for the token and how to get one. `done` is called when signed in. */
export function signInForm(form, done) {
  const send = async (event) => {
    event.preventDefault();
    await busily("sign-in", async () => {
      try {
        await signIn(form.token);
        Object.assign(form, { token: "", problem: null });
        done();
      } catch (problem) {
        form.problem = problem;
      }
    });
    if (form.problem) document.getElementById("token")?.focus();
  };
  return html`<form class="stack" @submit=${send} novalidate>
    <div class="field"><label for="token">Token</label>
      <input id="token" name="token" type="password" autocomplete="off" spellcheck="false" autofocus required
        aria-describedby="token-help ${form.problem ? "token-wrong" : ""}" aria-invalid=${form.problem ? "true" : nothing}
        .value=${live(form.token)} @input=${(event) => { form.token = event.target.value; form.problem = null; draw(); }}>
      ${form.problem ? html`<p class="wrong" id="token-wrong" role="alert">${tell(form.problem)}</p>` : nothing}
      <p class="help" id="token-help">Get one with <code>dialectic user add NAME --token</code>, or from the operator of this server.</p></div>
    <div><button class="button main" aria-busy=${isBusy("sign-in") ? "true" : nothing} aria-disabled=${isBusy("sign-in") ? "true" : nothing}>Sign in</button></div></form>`;
}

function tell(problem) {
  // Wrong, ended and revoked in the same words: a stranger learns nothing of a token.
  if (problem.status === 401) return "This token is not valid: it is wrong, has ended or was revoked. Ask for a new one.";
  return problem.status === 429 && problem.retryAfterS ? `Too many tries. Try again in ${problem.retryAfterS} s.` : problem.detail;
}
