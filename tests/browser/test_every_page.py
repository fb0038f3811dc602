"""What holds on every page: read-only tokens, zoom, motion, forced colours, weight, slow lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, Response, Route, ViewportSize, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import PROMPT, Person, Site
from tests.browser.test_documents import OFFLINE, finish, list_documents
from tests.browser.test_for_everyone import list_too_wide
from tests.browser.test_session_live import THREE

# 1280 by 1024 pixels at 400 %.
ZOOMED: ViewportSize = {"width": 320, "height": 256}
NARROW: ViewportSize = {"width": 320, "height": 640}
LASTING = re.compile(r"/assets/[0-9a-f]{16}/")
# Files and bytes of a page, compressed; ADR 61.
FILES_MAX, SCRIPT_BYTES_MAX, STYLE_BYTES_MAX, SHELL_BYTES_MAX = 32, 70_000, 12_000, 3_000
# The outcome of a session that is done also says what survived and who earned their keep: four
# modules and a style that no other first view loads.
DONE_FILES_MAX, DONE_SCRIPT_BYTES_MAX, DONE_STYLE_BYTES_MAX = 35, 80_000, 13_000
# Posts for which the right to read is enough, because nothing is saved.
READS = {"/api/v1/render"}


@pytest.fixture(scope="module")
def pages(site: Site) -> tuple[Person, dict[str, str]]:
    """A person with something on every page: the paths of all of them."""
    person = site.add_user()
    session = person.make_session("Argued", models=OFFLINE, until="antithesis")
    finish(person, session)
    waiting = person.make_session("Waiting", until="antithesis", is_autopilot=False)
    failed = person.make_session("Failed", models=["alpha/m", "broken/m"], wait_for_all=True)
    poor = person.make_session("Poor", models=THREE, until="antithesis", budget="0.006")
    for one in (waiting, failed, poor):
        person.start(one)
    first, second = list_documents(person, session, "thesis")
    person.ask(
        "PUT",
        f"/projects/{session['project_id']}/plan/file?path={_plan(person, session)}",
        {"content": "# Rooms\n\n- [ ] 1. Ask who has keys.\n"},
    )
    chat = person.ask("POST", "/chat", {"message": "Hello.", "model": "offline/skeptic"})
    return person, {
        "projects": "/",
        "new": "/new?prompt=A%20hall.",
        "project": f"/projects/{session['project_id']}",
        "done": f"/sessions/{session['id']}",
        "gate": f"/sessions/{waiting['id']}",
        "failed": f"/sessions/{failed['id']}",
        "blocked": f"/sessions/{poor['id']}",
        "jobs": f"/sessions/{failed['id']}#jobs",
        "time": f"/sessions/{session['id']}#time",
        "activity": f"/sessions/{session['id']}#activity",
        "document": f"/documents/{first['id']}",
        "edit": f"/documents/{first['id']}?mode=edit",
        "compare": f"/compare?ids={first['id']},{second['id']}",
        "chat": f"/chat/{chat['chat_id']}",
        "wallet": "/wallet",
        "models": "/models",
        "process": "/processes/standard",
        "settings": "/settings/appearance",
        "tokens": "/settings/tokens",
    }


def _plan(person: Person, session: dict[str, Any]) -> str:
    slug = person.ask("GET", f"/projects/{session['project_id']}")["slug"]
    return f"{slug}/Pending/01-rooms.md"


def open_page(page: Page, site: Site, path: str) -> None:
    page.goto("about:blank")
    page.goto(site.url + path)
    expect(page.locator("main h1").first).to_be_attached()
    expect(page.locator("main .blank")).to_have_count(0)


@pytest.mark.sentence(56)
def test_no_button_that_a_read_only_token_sees_asks_for_a_change(
    open_context: Open, site: Site, pages: tuple[Person, dict[str, str]], watch: Watch
) -> None:
    # A draft that someone asked for may have ended meanwhile.
    watch.allow("status of 404")
    person, paths = pages
    token = person.ask("POST", "/tokens", {"name": "reader", "scopes": [Scope.READ]})["token"]
    page = open_context(Person(site, site.api.come_back(person.user.account, token))).new_page()
    for name, path in paths.items():
        open_page(page, site, path)
        expect(page.locator("main")).to_contain_text(re.compile(r"\w{3}"))
        watch.requests.clear()
        page.evaluate(
            """() => { for (const one of document.querySelectorAll("main button")) if (one.checkVisibility() && one.dataset.action !== "leave") one.click(); }"""
        )
        page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        assert list_changes(site, watch) == [], name
    # Whoever is signed in may end the own sign-in: that comes last.
    open_page(page, site, paths["settings"])
    watch.requests.clear()
    page.locator("main [data-action=leave]").click()
    page.wait_for_url("**/sign-in")
    assert list_changes(site, watch) == [("DELETE", "/api/v1/browser-session")]


def list_changes(site: Site, watch: Watch) -> list[tuple[str, str]]:
    asked = [(one.method, one.url.removeprefix(site.url)) for one in watch.requests]
    return [(method, path) for method, path in asked if method != "GET" and path not in READS]


# What is cut off: text beyond the window, or hidden by its own box without a sign for it.
CUT_OFF = """
() => [...document.querySelectorAll("main *, header.top *, .bar-bottom *")]
  .filter((one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !one.closest(".sr, [aria-hidden=true], .skip"))
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim()))
  .filter((one) => {
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    if (!box.width) return false;
    let scroller = one;
    while (scroller && !/auto|scroll/.test(getComputedStyle(scroller).overflowX)) scroller = scroller.parentElement;
    const isBeyond = !scroller && (box.right > innerWidth + 1 || box.left < -1);
    const isHidden = style.overflowX === "hidden" && one.scrollWidth > one.clientWidth + 1 && style.textOverflow !== "ellipsis" && style.webkitLineClamp === "none";
    const isSpilled = one.matches(".button, .chip") && one.scrollWidth > one.clientWidth + 1 && style.textOverflow !== "ellipsis";
    return isBeyond || isHidden || isSpilled;
  }).map((one) => one.outerHTML.slice(0, 120))
"""


@pytest.mark.sentence(63)
def test_at_400_percent_and_at_320_pixels_nothing_is_cut_off(
    open_context: Open, site: Site, pages: tuple[Person, dict[str, str]]
) -> None:
    person, paths = pages
    page = open_context(person, viewport=ZOOMED, device_scale_factor=4).new_page()
    for name, path in paths.items():
        open_page(page, site, path)
        for size in (ZOOMED, NARROW):
            page.set_viewport_size(size)
            assert list_too_wide(page, 320) == [], name
            assert page.evaluate(CUT_OFF) == [], name
        # What sticks to the edges leaves room to read.
        page.set_viewport_size(ZOOMED)
        stuck = page.evaluate(
            """() => [...document.querySelectorAll("body *")]
              .filter((one) => /fixed|sticky/.test(getComputedStyle(one).position) && one.checkVisibility() && !one.closest("dialog, .sr"))
              .map((one) => one.getBoundingClientRect()).filter((box) => box.width > 200)
              .reduce((sum, box) => sum + Math.max(0, Math.min(box.bottom, innerHeight) - Math.max(box.top, 0)), 0)"""
        )
        assert stuck <= ZOOMED["height"] / 2, name


# The longest that anything would move, in seconds.
LONGEST = """
() => Math.max(...[...document.querySelectorAll("*")].flatMap((one) => {
  const style = getComputedStyle(one);
  const seconds = (text) => text.split(",").map((part) => parseFloat(part) * (part.trim().endsWith("ms") ? 0.001 : 1));
  return [...(style.animationName === "none" ? [] : seconds(style.animationDuration)), ...seconds(style.transitionDuration)];
}))
"""
# Signs of states that have no shape left, or the colour of their ground.
UNSEEN = """
() => [...document.querySelectorAll("main .glyph, main .seat")]
  .filter((one) => one.checkVisibility())
  .filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width < 8 || box.height < 8 || getComputedStyle(one).color === getComputedStyle(document.body).backgroundColor;
  }).map((one) => one.outerHTML.slice(0, 100))
"""


@pytest.mark.sentence(64)
def test_without_motion_nothing_moves_and_in_forced_colours_every_sign_is_seen(
    open_context: Open, site: Site, pages: tuple[Person, dict[str, str]]
) -> None:
    person, paths = pages
    page = open_context(person, reduced_motion="reduce", forced_colors="active").new_page()
    for name, path in paths.items():
        open_page(page, site, path)
        assert page.evaluate(LONGEST) <= 1 / 60, name
        assert page.evaluate(UNSEEN) == [], name
    for state in ("gate", "failed", "blocked", "done"):
        open_page(page, site, paths[state])
        # The state has a word and a shape, not a colour alone.
        expect(page.locator(".hero .sentence .glyph").first).to_be_visible()
        expect(page.locator(".hero .sentence strong").first).not_to_be_empty()


def keep_in(seen: list[Response]) -> Callable[[Response], None]:
    return lambda one: seen.append(one)


@pytest.mark.sentence(67)
def test_the_first_view_of_each_page_is_within_its_bytes_and_sends_nothing_twice(
    open_context: Open, site: Site, pages: tuple[Person, dict[str, str]], watch: Watch
) -> None:
    person, paths = pages
    for name in (
        "new",
        "project",
        "done",
        "document",
        "compare",
        "chat",
        "wallet",
        "models",
        "process",
        "settings",
    ):
        context = open_context(person)
        page = context.new_page()
        seen: list[Response] = []
        page.on("response", keep_in(seen))
        watch.requests.clear()
        page.goto(site.url + paths[name])
        expect(page.locator("main h1").first).to_be_attached()
        expect(page.locator("main .blank")).to_have_count(0)

        asked = Counter(one.url for one in watch.requests if "/events" not in one.url)
        assert [url for url, count in asked.items() if count > 1] == [], name
        lasting = [one for one in seen if LASTING.search(one.url)]
        assert all("immutable" in one.headers["cache-control"] for one in lasting), name
        others = {one.url.removeprefix(site.url) for one in seen} - {
            one.url.removeprefix(site.url) for one in lasting
        }
        assert all(
            path.startswith("/api/v1/") or path == paths[name].partition("#")[0] for path in others
        ), name
        is_done = name == "done"
        assert len(lasting) <= (DONE_FILES_MAX if is_done else FILES_MAX), name
        size = {
            kind: sum(
                int(one.headers["content-length"]) for one in lasting if one.url.endswith(kind)
            )
            for kind in (".js", ".css")
        }
        assert size[".js"] < (DONE_SCRIPT_BYTES_MAX if is_done else SCRIPT_BYTES_MAX), name
        assert size[".css"] < (DONE_STYLE_BYTES_MAX if is_done else STYLE_BYTES_MAX), name
        assert int(seen[0].headers["content-length"]) < SHELL_BYTES_MAX, name
        context.close()


@pytest.mark.sentence(68)
def test_on_a_slow_line_a_session_has_its_frame_first_and_its_buttons_before_the_rest(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(until="antithesis", is_autopilot=False)
    line = page.context.new_cdp_session(page)
    slow = {
        "offline": False,
        "latency": 400,
        "downloadThroughput": 50_000,
        "uploadThroughput": 50_000,
    }
    line.send("Network.emulateNetworkConditions", slow)
    held: list[Route] = []
    # A part of the page that comes late.
    page.route("**/js/views/session/jobs.js", lambda route: held.append(route))
    # The board is asked for with the shell and may be there before the modules: here it is not.
    boards: list[Route] = []
    page.route(f"**/sessions/{session['id']}/board", lambda route: boards.append(route))
    page.goto(f"{site.url}/sessions/{session['id']}#jobs", wait_until="commit")

    expect(page.locator(".rail .blank").first).to_be_visible()
    (board,) = boards
    board.continue_()
    expect(page.locator(".hero .sentence").first).to_be_visible()
    page.locator(".hero").get_by_role("button", name=re.compile("^Start")).click()
    expect(page.locator(".session")).to_have_attribute("data-state", "gate")
    for route in held:
        route.continue_()
    expect(page.locator(".jobs .dot.done")).to_have_count(2)
    asked = [path for path in watch.list_paths() if "/events" not in path]
    assert len(asked) == len(set(asked))


@pytest.mark.sentence(60)
def test_from_a_prompt_to_the_plan_by_keys_alone(page: Page, site: Site) -> None:
    page.goto(site.url)
    expect(page.get_by_role("link", name="Begin with a prompt")).to_be_visible()
    page.keyboard.press("n")
    walk_to(page, "#new-prompt")
    page.keyboard.type(PROMPT)
    # Two of the three seats leave, so that it is short.
    for _ in range(2):
        walk_to(page, "[aria-label^='Remove seat 2']")
        page.keyboard.press("Enter")
    expect(page.locator(".quote .amount")).to_have_text(re.compile(r"play \d"))
    page.keyboard.press("Control+Enter")
    expect(page).to_have_url(re.compile("/sessions/"))
    expect(page.locator(".session")).to_have_attribute("data-state", "done", timeout=60_000)
    walk_to(page, ".outcome a.main")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile("/documents/"))
    expect(page.locator(".doc-text")).to_contain_text(re.compile(r"\w{4}"))
    assert page.evaluate("() => document.activeElement !== document.body")


def walk_to(page: Page, place: str) -> None:
    """Press Tab until the focus is there, as someone without a pointer does."""
    expect(page.locator(place).first).to_be_visible()
    for _ in range(150):
        if page.evaluate("(place) => document.activeElement.matches(place)", place):
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"Tab does not lead to {place}")


# Hands events of running calls to the page as its stream does, one frame for each hundred.
POUR = """
async ([session, jobs, count]) => {
  const { deliver } = await import(`${document.documentElement.dataset.base}/js/router.js`);
  const { draw } = await import(`${document.documentElement.dataset.base}/js/store.js`);
  for (let n = 1; n <= count; n += 1) {
    const job = jobs[n % jobs.length];
    const data = { jobs: [{ ...job, status: "processing", document_id: null, words: n }], gone: [], stages: [] };
    deliver({ kind: "event", event: { type: "jobs_changed", session_id: session, data } });
    deliver({ kind: "draft", draft: { session_id: session, job_id: job.id, attempt: n, turn: 0, at: 0, text: "word ".repeat(20), words: n, phase: "writing" } });
    if (n % 100 === 0) {
      draw();
      await new Promise((done) => requestAnimationFrame(done));
    }
  }
}
"""


@pytest.mark.sentence(70)
def test_after_twenty_thousand_events_a_page_holds_no_more_than_after_two_hundred(
    open_context: Open, site: Site, pages: tuple[Person, dict[str, str]]
) -> None:
    person, paths = pages
    page = open_context(person).new_page()
    open_page(page, site, paths["done"])
    session = paths["done"].rpartition("/")[2]
    jobs = [
        one
        for one in person.ask("GET", f"/sessions/{session}/board")["jobs"]
        if one["kind"] == "call"
    ]
    line = page.context.new_cdp_session(page)
    line.send("Performance.enable")

    def measure(count: int) -> dict[str, float]:
        page.evaluate(POUR, [session, jobs, count])
        for _ in range(2):
            line.send("HeapProfiler.collectGarbage")
        found = line.send("Performance.getMetrics")["metrics"]
        return {one["name"]: one["value"] for one in found}

    few = measure(200)
    before, after = measure(7_800), measure(12_000)

    assert after["Nodes"] <= few["Nodes"] + 50
    assert after["JSEventListeners"] <= few["JSEventListeners"] + 10
    # Code that the browser compiles on the way counts too, but not again.
    assert after["JSHeapUsedSize"] <= before["JSHeapUsedSize"] * 1.1
