"""Measures the web app in a real browser: first paint, usable pages, events, frames, a replay.

`make bench-web` starts a server of its own in a temporary home, with the offline models, and prints
a table. Times depend on the machine: run it where nothing else runs. How many followers a server
bears is measured by `make bench BENCH="events"`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tools.browser import HOW, find_browser

OFFLINE = ("offline/architect", "offline/pragmatist", "offline/skeptic")
PROMPT = "A booking service for a village hall that volunteers can run in an hour a week."
# Line → kilobits a second and milliseconds of latency; None is the machine itself.
LINES: dict[str, tuple[int, int] | None] = {"local": None, "4G": (1600, 150), "slow": (400, 400)}
# Budget of docs/web.md in seconds: first paint, usable the first time, usable again.
BUDGETS = {"local": (0.5, 1.0, 0.5), "4G": (1.1, 2.5, 0.9), "slow": (2.2, 5.5, 1.8)}
# Seats → calls of the standard process.
SEATS = {3: 57, 6: 312}
PATIENCE_MS = 120_000
REPLAY_S = 8
USABLE = ".session .hero-state"

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


@contextmanager
def serving() -> Iterator[str]:
    """Serve a home of its own, with a worker; yield the address."""
    with tempfile.TemporaryDirectory(prefix="bench-web-") as home:
        command = [str(Path(sys.executable).with_name("dialectic")), "serve", "--port", "0"]
        environment = {**os.environ, "DIALECTIC_HOME": home}
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server:
            assert server.stdout is not None
            try:
                yield next(line.strip() for line in server.stdout if line.startswith("http://"))
            finally:
                server.terminate()
                server.wait(60)


def ask(url: str, path: str, body: object = None) -> Any:
    """Send a request to the API."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"{url}/api/v1{path}", data, {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def make_session(url: str, seats: int, *, start: bool) -> str:
    """Make a session of offline models; return its id."""
    models = [OFFLINE[n % len(OFFLINE)] for n in range(seats)]
    wish = {"prompt": PROMPT, "name": f"{seats} seats", "models": models, "start": start}
    made = ask(url, "/runs", {**wish, "is_autopilot": True})
    return str(made["session"]["id"])


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


def measure_run(browser: Browser, url: str, seats: int) -> tuple[str, list[float], list[float]]:
    """Follow a run; return its id, the ms from each commit to the page, and those of each frame."""
    session = make_session(url, seats, start=False)
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(TIME_FRAMES)
    page.goto(f"{url}/sessions/{session}")
    page.wait_for_selector(USABLE)
    page.evaluate(NOTE_DOTS)
    page.evaluate("window.drawn.length = 0")
    ask(url, f"/sessions/{session}/generate", {})
    page.wait_for_selector('.session[data-state="done"]', timeout=PATIENCE_MS)
    drawn: list[float] = page.evaluate("window.drawn")
    seen: dict[str, float] = page.evaluate("window.seen")
    board = ask(url, f"/sessions/{session}/board")
    ended = {job["id"]: parse_ms(job["completed_at"]) for job in board["jobs"]}
    page.close()
    late = [when - ended[job] for job, when in seen.items() if job in ended]
    return session, late, drawn


def parse_ms(text: str) -> float:
    """Read a time of the API."""
    return datetime.fromisoformat(text).timestamp() * 1000


def measure_replay(browser: Browser, address: str) -> tuple[float, float]:
    """Play a film; return frames a second and the longest gap in ms."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.goto(address)
    page.wait_for_selector(USABLE)
    page.keyboard.press("r")
    page.wait_for_selector(".film")
    rate, worst = page.evaluate(COUNT_FRAMES, REPLAY_S)
    page.close()
    return float(rate), float(worst)


def say(what: str, measured: str, budget: str) -> None:
    """Print a row."""
    print(f"{what:<44}{measured:>18}{budget:>18}", flush=True)


def report_session(browser: Browser, url: str, seats: int, calls: int) -> None:
    """Measure one run and its page, and print the rows."""
    session, late, drawn = measure_run(browser, url, seats)
    address = f"{url}/sessions/{session}"
    middle, worst = statistics.median(late), statistics.quantiles(late, n=20)[-1]
    say(
        f"{calls} calls: commit to page, p50 / p95", f"{middle:.0f} / {worst:.0f} ms", "80 / 200 ms"
    )
    mean = 3 if seats == min(SEATS) else 9
    told = f"{statistics.mean(drawn):.1f} / {max(drawn):.0f} ms"
    say(f"{calls} calls: a frame, mean / worst", told, f"{mean} / 50 ms")
    for line, (paint_max, cold_max, warm_max) in BUDGETS.items():
        paint, cold, warm = measure_opening(browser, address, line)
        say(f"{calls} calls: first paint, {line}", f"{paint:.2f} s", f"{paint_max} s")
        say(f"{calls} calls: usable, {line}", f"{cold:.2f} s", f"{cold_max} s")
        say(f"{calls} calls: usable again, {line}", f"{warm:.2f} s", f"{warm_max} s")
    for view in ("", "#jobs", "#time"):
        rate, gap = measure_replay(browser, address + view)
        what = f"{calls} calls: replay of {view[1:] or 'board'}, longest gap"
        say(what, f"{rate:.0f}/s, {gap:.0f} ms", "50/s")


def main(arguments: Sequence[str]) -> int:
    """Measure, and print a table."""
    argparse.ArgumentParser(prog="make bench-web", description=__doc__).parse_args(arguments)
    chromium = find_browser()
    if chromium is None:
        print(f"No browser was found. {HOW}", file=sys.stderr)
        return 1
    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with serving() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        say("", "measured", "budget")
        for seats, calls in SEATS.items():
            report_session(browser, url, seats, calls)
        browser.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
