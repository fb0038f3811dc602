// Assertions about timescale.js; `check(name, found, wanted)` comes from the test.
const round = (value) => Math.round(value * 1000) / 1000;
const time = (seconds) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const job = (id, from, to, changes = {}) => ({ id, kind: "call", created_at: time(0), started_at: time(from), completed_at: time(to), document_id: `d-${id}`, reads: [], waits_for: [], ...changes });

export default async (base, check) => {
  const t = await import(`${base}/js/views/session/timescale.js`);

  const even = t.buildScale([[1000, 2000], [1500, 3000], [3100, 5000]]);
  check("time is even where something runs", [1000, 3000, 5000].map(even.share), [0, 0.5, 1]);
  check("a short pause keeps its length", even.pauses.length, 0);
  check("before and after", [even.share(0), even.share(9000), even.time(-1), even.time(2)], [0, 1, 1000, 5000]);

  const night = t.buildScale([[0, 60_000], [36_060_000, 36_120_000]]);
  check("a night is short", [night.pauses.length, round(night.share(60_000)), round(night.share(36_060_000))], [1, 0.481, 0.519]);
  const back = [0, 30_000, 60_000, 9_000_000, 36_100_000].map((each) => Math.round(night.time(night.share(each))));
  check("a share leads back to its time", back, [0, 30_000, 60_000, 9_000_000, 36_100_000]);
  const { ticks, step } = t.listTicks(night);
  check("marks are round and none is in the pause", [step, ticks.every((tick) => tick.seconds % 15 === 0), ticks.some((tick) => tick.at > 0.482 && tick.at < 0.518)], [15, true, false]);
  check("nothing has run", [t.buildScale([]).share(5), t.listTicks(t.buildScale([])).ticks], [0, []]);
  check("a single moment", [t.buildScale([[5, 5]]).share(5), t.buildScale([[5, 5]]).time(0.5)], [0, 5]);

  const bars = [{ from: 0, to: 0.5 }, { from: 0.1, to: 0.2 }, { from: 0.3, to: 0.4 }, { from: 0.6, to: 1 }];
  check("calls that overlap have rows of their own", [t.packRows(bars, 0.004), bars.map((bar) => bar.row)], [2, [0, 1, 1, 0]]);

  const jobs = [job("a", 0, 5), job("b", 0, 9), job("c", 9, 12, { reads: ["d-a", "d-b"] }), job("d", 5, 11, { reads: ["d-a"] })];
  const path = t.findCriticalPath({ jobs: new Map(jobs.map((each) => [each.id, each])) });
  check("the critical path", path.map((each) => each.id), ["b", "c"]);
};
