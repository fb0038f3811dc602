// Assertions about format.js; `check(name, found, wanted)` comes from the test.
export default async (base, check) => {
  const f = await import(`${base}/js/format.js`);
  f.speak("en-US");
  check("money", [f.money("1.2649"), f.money("0.02"), f.money("0"), f.money("1234.5")], ["$1.26", "$0.0200", "$0.00", "$1,234.50"]);
  check("play money", f.money("0.058", { play: true }), "play 0.0580");
  check("durations", [0.04, 5.24, 14.4, 99, 190, 7500, 200_000].map(f.duration), ["0 s", "5.2 s", "14 s", "99 s", "3 min", "2 h 5 min", "2 days"]);
  check("clocks", [14, 62, 3723, -4].map(f.clock), ["0:14", "1:02", "1:02:03", "0:00"]);
  const now = Date.parse("2026-11-18T12:00:00Z");
  const before = (seconds) => f.ago(now - seconds * 1000, now);
  check("ago", [before(10), before(200), before(7200), before(86400 * 2)], ["just now", "3 min. ago", "2 hr. ago", "2 days ago"]);
  check("ago, long", f.ago("2025-03-12T12:00:00Z", now), "Mar 12, 2025");
  check("plurals", [f.plural(1, "call"), f.plural(13331, "call"), f.plural(2, "reply", "replies")], ["1 call", "13,331 calls", "2 replies"]);
  check("lists", f.list(["a", "b", "c"]), "a, b, and c");
  check("states", ["processing", "retry_loop_failed", "completed", "something_new"].map((one) => f.describeStatus(one).glyph), ["run", "failed", "done", "wait"]);
  check("sessions", [
    f.sessionGlyph("generating_thesis"), f.sessionGlyph("generating_thesis", { needs: 1 }), f.sessionGlyph("thesis_generation_failed", { needs: 1 }),
    f.sessionGlyph("iteration_complete"), f.sessionGlyph("paused"), f.sessionGlyph("cancelled"), f.sessionGlyph("pending_thesis"),
  ], ["run", "you", "failed", "done", "paused", "cancelled", "wait"]);
  check("hidden characters", f.visible("safe\u202egpj\u0000\u200b"), "safe⟨202E⟩gpj⟨0000⟩⟨200B⟩");
  check("line breaks stay", f.visible("a\n\tb"), "a\n\tb");
  check("tails", [f.tail("short"), f.tail(`${"word ".repeat(100)}end`, 12)], ["short", "…word end"]);
  f.speak("de-DE");
  check("German", [f.money("1234.5"), f.count(13331), f.duration(5.24)], ["1.234,50\u00a0$", "13.331", "5,2 s"]);
  f.speak(undefined);
};
