// Leaves: ends the sign-in, forgets what was kept here, and shows the first page to strangers.
import * as api from "./api.js";
import { forgetAll } from "./store.js";
import { stop, tellTabs } from "./stream.js";

/** Sign this browser out, or all browsers of the person. */
export async function signOut({ everywhere = false } = {}) {
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
