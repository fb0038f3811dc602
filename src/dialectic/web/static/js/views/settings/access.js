// Who may come in: tokens, members of this account, organisations.
import { html, nothing } from "../../../vendor/lit/lit-html.js";
import { repeat } from "../../../vendor/lit/directives/repeat.js";
import { del, get, post, put } from "../../api.js";
import { ago, moment, titled } from "../../format.js";
import { confirm, openDialog, toast } from "../../overlay.js";
import { draw, may, state } from "../../store.js";
import { tellTabs } from "../../stream.js";
import { askWith, choiceField, textField } from "../forms.js";
import { action, chip, written } from "../parts.js";

const SCOPES = [["read", "read"], ["write", "change"], ["spend", "spend"], ["admin", "administer"]];
const LIVES = [["7", "A week"], ["90", "90 days"], ["365", "A year"]];
const ROLES = [["member", "Member"], ["admin", "Admin"], ["owner", "Owner"]];

// -- tokens ---------------------------------------------------------------------------------------

/** Load what the tab of tokens shows. */
export const loadTokens = async (signal) => ({ tokens: (await get("/tokens", { signal })).items });

/** Draw the tokens that the person may manage. */
export function tokens(page) {
  return html`<div class="stack loose"><div class="row"><p class="soft grow">A token lets a program, or a browser, act for you.</p>${action({ name: "new-token", label: "Make a token", kind: "main", run: () => makeToken(page) })}</div>
    ${page.tokens.length === 0 ? html`<p class="empty">No token yet. On your own machine you need none until one exists.</p>` : html`<ul class="rows">${repeat(page.tokens, (one) => one.id, (one) => html`<li class="row">
      <div class="grow"><p><strong>${written(one.name)}</strong> <span class="faint">${written(one.user_name)}</span> ${one.scopes.map((scope) => chip(scope))}</p>
        <p class="meta">made ${ago(one.created_at, Date.now())} · ends <time datetime=${one.expires_at}>${moment(one.expires_at)}</time> · ${one.last_used_at ? `used ${ago(one.last_used_at, Date.now())}` : "never used"}</p></div>
      ${action({ name: `revoke-${one.id}`, label: "Revoke", kind: "bad", run: () => revoke(page, one) })}</li>`)}</ul>`}</div>`;
}

async function makeToken(page) {
  const own = SCOPES.filter(([scope]) => may(scope));
  const form = { name: "", days: "90", scopes: new Set(own.map(([scope]) => scope)) };
  const pick = (scope) => (event) => { if (event.target.checked) form.scopes.add(scope); else form.scopes.delete(scope); };
  const made = await askWith({
    title: "Make a token", form,
    body: () => html`${textField(form, "name", { label: "Name", isFirst: true, help: "Where it is used, such as laptop." })}
      <fieldset class="scopes"><legend>It may</legend>${own.map(([scope, word]) => html`<label class="row"><input type="checkbox" .checked=${form.scopes.has(scope)} @change=${pick(scope)}> ${word}</label>`)}</fieldset>
      ${choiceField(form, "days", "It works for", LIVES)}`,
    send: () => post("/tokens", { name: form.name, scopes: [...form.scopes], life_days: Number(form.days) }),
  });
  if (!made) return;
  page.tokens = (await get("/tokens")).items;
  await openDialog((close) => html`<div class="dialog-body"><h2>Copy the token now</h2><p class="soft">It is shown only once and stored nowhere.</p>
    <div class="row"><input class="mono" readonly aria-label="Token" autofocus .value=${made.token} @focus=${(event) => event.target.select()}>${action({ name: "copy-token", label: "Copy", run: async () => { await navigator.clipboard.writeText(made.token); toast("Copied."); } })}</div>
    <div class="dialog-foot"><button class="button main" type="button" @click=${() => close()}>Done</button></div></div>`, { label: "Copy the token now", isBlocking: true });
}

async function revoke(page, token) {
  if (!await confirm({ title: `Revoke ${token.name}?`, text: "Programs that use it, and browsers that signed in with it, are refused at once.", yes: "Revoke", isDangerous: true })) return;
  await del(`/tokens/${token.id}`);
  page.tokens = page.tokens.filter((one) => one.id !== token.id);
  toast(`${token.name} was revoked.`);
}

// -- members --------------------------------------------------------------------------------------

/** Load what the tab of members shows. */
export const loadMembers = async (signal) => ({ members: (await get("/members", { signal })).items });

const findTenant = () => state.me?.tenants.find((one) => one.id === state.me.tenant_id);

/** Draw the members of this account. */
export function members(page) {
  const tenant = findTenant();
  const isOrganisation = tenant?.kind === "organization";
  const canManage = isOrganisation && may("admin") && ["owner", "admin"].includes(tenant.role);
  return html`<div class="stack loose"><div class="row"><p class="soft grow">${isOrganisation ? html`Members of ${written(tenant.name)}` : "This is your own account. Make an organisation to work with others."}</p>
      ${canManage ? action({ name: "add-member", label: "Add a member", kind: "main", run: () => addMember(page) }) : nothing}</div>
    <ul class="rows">${repeat(page.members, (one) => one.user_id, (one) => html`<li class="row"><div class="grow"><p><strong>${written(one.name)}</strong> ${chip(one.role)}</p><p class="meta">since <time datetime=${one.created_at}>${moment(one.created_at)}</time></p></div>
      ${canManage && one.user_id !== state.me.user_id ? html`<select aria-label="Role of ${one.name}" @change=${(event) => setRole(page, one, event.target.value)}>${ROLES.map(([role, word]) => html`<option value=${role} ?selected=${role === one.role}>${word}</option>`)}</select>${action({ name: `remove-${one.user_id}`, label: "Remove", kind: "bad", run: () => removeMember(page, one) })}` : nothing}</li>`)}</ul></div>`;
}

async function reloadMembers(page) {
  page.members = (await get("/members")).items;
  draw();
}

async function addMember(page) {
  const form = { name: "", role: "member" };
  const done = await askWith({
    title: "Add a member", form,
    body: () => html`${textField(form, "name", { label: "Name of the user", isFirst: true, help: html`Someone with an account here: <code>dialectic user add NAME --token</code> makes one.` })}${choiceField(form, "role", "Role", ROLES)}`,
    send: () => put("/members", { name: form.name, role: form.role }),
  });
  if (done) await reloadMembers(page);
}

async function setRole(page, member, role) {
  try {
    await put("/members", { name: member.name, role });
  } catch (problem) {
    toast(problem.detail);
  }
  await reloadMembers(page);
}

async function removeMember(page, member) {
  if (!await confirm({ title: `Remove ${member.name}?`, text: "Their work stays. Their tokens for this organisation are revoked.", yes: "Remove", isDangerous: true })) return;
  await del(`/members/${member.user_id}`);
  await reloadMembers(page);
}

// -- organisations --------------------------------------------------------------------------------

/** Draw the accounts that the person belongs to. */
export function organisations() {
  const { tenants, tenant_id: current, csrf_token: csrf } = state.me;
  return html`<div class="stack loose"><div class="row"><p class="soft grow">Each account has its own projects, wallet and members.</p>${may("admin") ? action({ name: "new-organisation", label: "Make an organisation", kind: "main", run: makeOrganisation }) : nothing}</div>
    <ul class="rows">${tenants.map((one) => html`<li class="row"><div class="grow"><p><strong>${written(one.name)}</strong> ${chip(one.role)}</p><p class="meta">${one.kind === "organization" ? "organisation" : "your own account"}</p></div>
      ${one.id === current ? chip("open here", "ok") : csrf ? action({ name: `switch-${one.id}`, label: `Go over to ${one.name}`, run: () => switchTo(one.id) }) : nothing}</li>`)}</ul>
    ${csrf ? nothing : html`<p class="meta">Sign in with a token to go over to an organisation.</p>`}</div>`;
}

async function makeOrganisation() {
  const form = { name: "" };
  const made = await askWith({ title: "Make an organisation", form, body: () => textField(form, "name", { label: "Name", isFirst: true }), send: (once) => once.post("/organizations", { name: form.name }) });
  if (!made) return;
  state.me = { ...state.me, tenants: (await get("/me")).tenants };
  toast(`${titled(form.name)} was made.`);
  draw();
}

async function switchTo(tenant) {
  await post("/browser-session/switch", { tenant_id: tenant });
  tellTabs("account");
  location.assign("/");
}
