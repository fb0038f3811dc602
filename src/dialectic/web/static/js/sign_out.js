// Leaves: ends the sign-in, forgets what was kept here, and shows the first page to strangers.
import * as api from "./api.js";
import { confirm } from "./overlay.js";
import { forgetAll, hasUnsent } from "./store.js";
import { stop, tellTabs } from "./stream.js";

const DISCARD = { title: "Sign out and discard your text?", text: "Something that you typed is not saved or sent yet. Signing out removes it from this browser.", yes: "Sign out", isDangerous: true };

/** Sign this browser out, or all browsers of the person; asks before text is lost. */
export async function signOut({ everywhere = false } = {}) {
  if (hasUnsent() && !(await confirm(DISCARD))) return;
  tellTabs("left");
  await api.signOut({ everywhere });
  leave();
}

/** The sign-in has ended: keep nothing of it. */
export function leave() {
  stop();
  forgetAll();
  location.assign("/sign-in");
}
