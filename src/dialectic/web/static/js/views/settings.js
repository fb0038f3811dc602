// Settings: how the app looks here, how you are told, and who may come in.
import { html } from "../../vendor/lit/lit-html.js";
import { confirm } from "../overlay.js";
import { signOut } from "../sign_out.js";
import { may, state } from "../store.js";
import * as access from "./settings/access.js";
import { appearance } from "./settings/appearance.js";
import { notices } from "./settings/notices.js";
import { action, blank as blocks, tabPanel, tabs, written } from "./parts.js";

// Each tab: what it loads, and how it is drawn.
const TABS = {
  appearance: { label: "Appearance", view: appearance },
  notifications: { label: "Notifications", view: notices },
  tokens: { label: "Tokens", load: access.loadTokens, view: access.tokens, isOff: () => !may("admin") },
  members: { label: "Members", load: access.loadMembers, view: access.members },
  organisations: { label: "Organisations", view: access.organisations },
};

export const title = (page) => `${TABS[page.tab].label} · Settings`;
export const crumbs = (page) => [{ label: "Settings", href: "/settings/appearance" }, { label: TABS[page.tab].label }];
export const blank = () => html`<h1>Settings</h1>${blocks(5, 44)}`;

/** @param {{tab?: string, signal: AbortSignal}} params */
export async function load({ tab = "appearance", signal }) {
  const name = TABS[tab] && !TABS[tab].isOff?.() ? tab : "appearance";
  return { tab: name, ...(await TABS[name].load?.(signal)) };
}

export function view(page) {
  const items = Object.entries(TABS).filter(([, tab]) => !tab.isOff?.()).map(([id, { label }]) => ({ id, label, href: `/settings/${id}` }));
  return html`<div class="page narrow settings stack loose"><h1>Settings</h1>${tabs(items, page.tab, "Settings")}${tabPanel(page.tab, TABS[page.tab].view(page))}
    ${state.me?.csrf_token ? signedIn() : ""}</div>`;
}

function signedIn() {
  return html`<section class="signed-in stack" aria-label="This sign-in"><p class="meta">Signed in as ${written(state.me.name)}. Revoking a token also ends every browser session that it opened.</p>
    <div class="row wrap">${action({ name: "leave", label: "Sign out here", run: () => signOut() })}${action({ name: "leave-everywhere", label: "Sign out everywhere", kind: "bad", run: leaveEverywhere })}</div></section>`;
}

async function leaveEverywhere() {
  const text = "Every browser in which you are signed in is signed out, in all your organisations, this one too. Tokens of programs keep working; what is unsent in other browsers stays there.";
  if (await confirm({ title: "Sign out everywhere?", text, yes: "Sign out everywhere", isDangerous: true })) await signOut({ everywhere: true });
}
