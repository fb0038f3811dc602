"""Measures the web app in a real browser and prints a table with the budget of each figure.

`make bench-web` starts a server of its own in a temporary home, with models that answer at the pace
of quick ones. Times depend on the machine: run it where nothing else runs. Where that cannot be,
compare the seconds of a processor, which other programs hardly change.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from tools.browser import HOW, find_browser
from tools.web_server import Site, paced, serving
from tools.web_viewers import Seen, viewers

# Line → kilobits a second and milliseconds of latency; None is the machine itself.
LINES: dict[str, tuple[int, int] | None] = {"local": None, "4G": (1600, 150), "slow": (400, 400)}
# Budget of docs/web.md in seconds: first paint, usable the first time, usable again.
BUDGETS = {"local": (0.5, 1.0, 0.5), "4G": (1.1, 2.5, 0.9), "slow": (2.2, 5.5, 1.8)}
# Seats → calls of the standard process.
SEATS = {3: 57, 6: 312}
FRAME_MS = {3: 3.0, 6: 9.0}
# Answers at a time, and tokens a second of each: about ten documents a second.
CALLS_MAX, PACE = 24, 1500
VIEWERS = 200
PATIENCE_MS = 300_000
REPLAY_S = 8
USABLE = ".session .hero-state"
DONE, FAILED = '.session[data-state="done"]', '.session[data-state="failed"]'

NOTE_DOTS = """
() => {
  window.seen = {};
  const note = () => document.querySelectorAll("[data-item][data-job].done, [data-key].written")
    .forEach((one) => { window.seen[one.dataset.job ?? one.dataset.key] ??= Date.now(); });
  new MutationObserver(note).observe(document.querySelector("main"),
    { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
}
"""
COUNT_FRAMES = """
(seconds) => new Promise((done) => {
  const begin = performance.now();
  const gaps = [];
  let last = begin;
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    if (now - begin < seconds * 1000) requestAnimationFrame(frame);
    else done([gaps.length / ((now - begin) / 1000), Math.max(...gaps.slice(1))]);
  };
  requestAnimationFrame(frame);
})
"""
# Note how long each frame is worked on.
TIME_FRAMES = """
  window.drawn = [];
  const ask = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (work) => ask((now) => {
    const begin = performance.now();
    work(now);
    window.drawn.push(performance.now() - begin);
  });
"""
PAINT = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"


@dataclass(frozen=True, slots=True)
class Run:
    """What one page told of one run."""

    session: str
    # Milliseconds from each commit to the page, and of each frame.
    late_ms: Sequence[float]
    drawn_ms: Sequence[float]
    # API requests apart from the stream, after the page was usable.
    requests: Sequence[str]
    heap_mb: float
    wall_s: float
    # Seconds of a processor that the server, its database and the page used.
    server_s: float
    database_s: float
    page_s: float


def say(what: str, measured: Sequence[float], budget: Sequence[float], unit: str) -> None:
    """Print a row: what was measured, its budget, and their ratio."""
    ratios = " / ".join(f"{m / b:.2f}" for m, b in zip(measured, budget, strict=True))
    told = " / ".join(f"{value:.3g}" for value in measured)
    wanted = " / ".join(f"{value:g}" for value in budget)
    print(f"{what:<46}{f'{told} {unit}':>20}{f'{wanted} {unit}':>16}{ratios:>14}", flush=True)


def tell(what: str, said: str) -> None:
    """Print a row without a budget."""
    print(f"{what:<46}{said:>20}", flush=True)


# -- a page ---------------------------------------------------------------------------------------


def open_page(browser: Browser) -> Page:
    """Open an empty page of a desk."""
    return browser.new_page(viewport={"width": 1440, "height": 900})


def read_metrics(cdp: CDPSession) -> Mapping[str, float]:
    """Read what a page says of itself."""
    return {each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]}


def slow_down(page: Page, line: tuple[int, int] | None) -> None:
    """Give a page a slower line."""
    if line is None:
        return
    kilobits, latency_ms = line
    rate = kilobits * 1000 / 8
    page.context.new_cdp_session(page).send(
        "Network.emulateNetworkConditions",
        {
            "offline": False,
            "latency": latency_ms,
            "downloadThroughput": rate,
            "uploadThroughput": rate,
        },
    )


def measure_opening(browser: Browser, address: str, line: str) -> tuple[float, float, float]:
    """Open a session with an empty cache, then again; return seconds."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    slow_down(page, LINES[line])
    found: list[float] = []
    for _ in range(2):
        page.goto(address, wait_until="commit", timeout=PATIENCE_MS)
        page.wait_for_selector(USABLE, timeout=PATIENCE_MS)
        found.append(page.evaluate("performance.now()") / 1000)
        if len(found) == 1:
            found.insert(0, page.evaluate(PAINT) / 1000)
    context.close()
    return found[0], found[1], found[2]


def measure_run(browser: Browser, site: Site, seats: int) -> Run:
    """Follow a run from its start to its end, on one page."""
    session = site.make_session(paced(seats), start=False)
    page = open_page(browser)
    page.add_init_script(TIME_FRAMES)
    page.goto(f"{site.url}/sessions/{session}")
    page.wait_for_selector(USABLE)
    page.evaluate(NOTE_DOTS)
    page.evaluate("window.drawn.length = 0")
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    # Thread time: what other programs take of the processor is not in it.
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    used, worked, begun_s = site.processor_s(), read_metrics(cdp), time.monotonic()
    site.ask(f"/sessions/{session}/generate", {})
    page.wait_for_selector(f"{DONE}, {FAILED}", timeout=PATIENCE_MS)
    if page.locator(FAILED).count():
        raise SystemExit(f"The run failed: {page.locator(USABLE).inner_text()}")
    wall_s, now_used, now_worked = time.monotonic() - begun_s, site.processor_s(), read_metrics(cdp)
    cdp.send("HeapProfiler.collectGarbage")
    board = site.ask(f"/sessions/{session}/board")
    ended = {job["id"]: parse_ms(job["completed_at"]) for job in board["jobs"]}
    seen: dict[str, float] = page.evaluate("window.seen")
    found = Run(
        session=session,
        late_ms=[when - ended[job] for job, when in seen.items() if job in ended],
        drawn_ms=page.evaluate("window.drawn"),
        requests=[url for url in requests if "/api/" in url and "/events" not in url],
        heap_mb=read_metrics(cdp)["JSHeapUsedSize"] / 1e6,
        wall_s=wall_s,
        server_s=now_used[0] - used[0],
        database_s=now_used[1] - used[1],
        page_s=now_worked["TaskDuration"] - worked["TaskDuration"],
    )
    page.close()
    return found


def parse_ms(text: str) -> float:
    """Read a time of the API."""
    return datetime.fromisoformat(text).timestamp() * 1000


def measure_replay(browser: Browser, address: str) -> tuple[float, float, float]:
    """Play a film; return frames a second, the longest gap, and thread time a frame in ms."""
    page = open_page(browser)
    page.goto(address)
    page.wait_for_selector(USABLE)
    cdp = page.context.new_cdp_session(page)
    cdp.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.keyboard.press("r")
    page.wait_for_selector(".film")
    before = read_metrics(cdp)["TaskDuration"]
    rate, worst = page.evaluate(COUNT_FRAMES, REPLAY_S)
    spent_s = read_metrics(cdp)["TaskDuration"] - before
    page.close()
    return float(rate), float(worst), spent_s * 1000 / (rate * REPLAY_S)


# -- the table ------------------------------------------------------------------------------------


def report_session(browser: Browser, site: Site, seats: int, calls: int) -> None:
    """Measure one run and its page, and print the rows."""
    run = measure_run(browser, site, seats)
    address = f"{site.url}/sessions/{run.session}"
    late = statistics.median(run.late_ms), statistics.quantiles(run.late_ms, n=20)[-1]
    say(f"{calls} calls: commit to page, p50 / p95", late, (80, 200), "ms")
    frames = statistics.mean(run.drawn_ms), max(run.drawn_ms)
    say(f"{calls} calls: a frame, mean / worst", frames, (FRAME_MS[seats], 50), "ms")
    say(f"{calls} calls: requests apart from the stream", (len(run.requests),), (5,), "")
    say(f"{calls} calls: heap of the page", (run.heap_mb,), (40,), "MB")
    used = f"{run.server_s:.1f} / {run.database_s:.1f} / {run.page_s:.1f} s"
    tell(f"  processor: server / database / page of {run.wall_s:.0f} s", used)
    for line, (paint_max, cold_max, warm_max) in BUDGETS.items():
        paint, cold, warm = measure_opening(browser, address, line)
        say(f"{calls} calls: first paint, {line}", (paint,), (paint_max,), "s")
        say(f"{calls} calls: usable, again, {line}", (cold, warm), (cold_max, warm_max), "s")
    for view in ("", "#jobs", "#time"):
        rate, gap, frame_ms = measure_replay(browser, address + view)
        # A budget from below: the ratio is that of the milliseconds between two frames.
        say(f"{calls} calls: replay, {view[1:] or 'board'}", (1000 / rate,), (1000 / 50,), "ms")
        tell("  longest gap, thread time a frame", f"{gap:.0f} / {frame_ms:.1f} ms")


def measure_viewers(site: Site, seats: int, count: int) -> tuple[float, float, Seen]:
    """Let a run be followed by many; return the server's cores, the seconds, and what was seen."""
    session = site.make_session(paced(seats), start=False)
    with viewers(site.url, session, count) as seen:
        before, begun_s = site.processor_s(), time.monotonic()
        site.ask(f"/sessions/{session}/generate", {})
        while site.ask(f"/sessions/{session}")["status"] != "iteration_complete":
            time.sleep(1)
        wall_s, after = time.monotonic() - begun_s, site.processor_s()
        found = replace(seen)
    return (after[0] - before[0]) / wall_s, wall_s, found


def report_viewers(site: Site, seats: int) -> None:
    """Let one run go on unseen, and another one with many viewers; print what it costs."""
    alone, _, _ = measure_viewers(site, seats, 0)
    cores, wall_s, seen = measure_viewers(site, seats, VIEWERS)
    say(f"{VIEWERS} viewers: the server, with its worker", (cores,), (1,), "cores")
    tell("  the same without a viewer", f"{alone:.2f} cores")
    rate = seen.frames / VIEWERS / wall_s, seen.size_bytes / VIEWERS / wall_s / 1000
    tell(
        "  frames to each viewer; streams lost", f"{rate[0]:.1f}/s, {rate[1]:.1f} kB/s; {seen.lost}"
    )


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="make bench-web", description=__doc__)
    parser.add_argument("--seats", type=int, action="append", choices=SEATS, help="default: all")
    parser.add_argument("--no-viewers", action="store_true", help="measure pages alone")
    options = parser.parse_args(arguments)
    chromium = find_browser()
    if chromium is None:
        print(f"No browser was found. {HOW}", file=sys.stderr)
        return 1
    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    print(f"load of the machine before: {os.getloadavg()[0]:.1f}, cores: {os.cpu_count()}")
    print(f"{'':<46}{'measured':>20}{'budget':>16}{'ratio':>14}")
    with serving(pace=PACE, calls_max=CALLS_MAX) as site:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=flags)
            for seats in options.seats or SEATS:
                report_session(browser, site, seats, SEATS[seats])
            browser.close()
        if not options.no_viewers:
            report_viewers(site, max(options.seats or SEATS))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
