// Messages that reach a person who looks elsewhere: a desktop notice and a sound, if they asked for it.
import { state } from "./store.js";

const HELD_MS = 2_000;
// What is told also while the page is in front.
const URGENT = new Set(["session_failed", "session_seat_lost", "session_blocked"]);
/** How someone is told who has chosen nothing. */
export const USUAL = { page: true, desktop: false, sound: false };

/** Find how this person is told of a type of message. */
export const findTold = (type) => ({ ...USUAL, ...state.me?.preferences?.notifications?.[type] });

/**
 * Tell a message outside of the page. All tabs hear of it; the one that gets the lock tells it.
 * @param {{notification_id: number, type: string, title?: string, message?: string, link_path?: string}} message
 */
export function tellPerson(message) {
  const told = findTold(message.type);
  if (!told.desktop && !told.sound) return;
  if (!document.hidden && document.hasFocus() && !URGENT.has(message.type)) return;
  navigator.locks.request(`dialectic-notice-${message.notification_id}`, { ifAvailable: true }, async (lock) => {
    if (!lock) return;
    if (told.sound) chime();
    if (told.desktop) show(message);
    await new Promise((done) => { setTimeout(done, HELD_MS); });
  });
}

/** @param {{notification_id: number, title?: string, message?: string, link_path?: string}} message */
function show({ notification_id: id, title, message, link_path: path }) {
  if (globalThis.Notification?.permission !== "granted") return;
  const notice = new Notification(title ?? "Dialectic", { body: message ?? "", tag: `dialectic-${id}` });
  notice.onclick = () => {
    focus();
    if (path) location.assign(path);
  };
}

/** Ask the browser whether notices may be shown. @returns {Promise<boolean>} */
export async function askForNotices() {
  if (!globalThis.Notification) return false;
  return (await Notification.requestPermission()) === "granted";
}

/** Two soft tones; a browser that was not clicked in yet stays silent. */
export function chime() {
  const audio = new AudioContext();
  [[660, 0], [880, 0.16]].forEach(([pitch, after]) => {
    const [tone, volume] = [audio.createOscillator(), audio.createGain()];
    const start = audio.currentTime + after;
    tone.frequency.value = pitch;
    volume.gain.setValueAtTime(0.0001, start);
    volume.gain.exponentialRampToValueAtTime(0.12, start + 0.02);
    volume.gain.exponentialRampToValueAtTime(0.0001, start + 0.4);
    tone.connect(volume).connect(audio.destination);
    tone.start(start);
    tone.stop(start + 0.42);
  });
  setTimeout(() => audio.close(), HELD_MS);
}
