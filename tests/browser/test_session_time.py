"""Jobs, Timeline, Activity and Replay of a session: every call, when it ran, and the film of it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.large_board import build_large_board
from tests.browser.site import NAMES, Person, Site
from tests.browser.test_for_everyone import check_axe, list_too_wide

TABS = ["jobs", "time", "activity"]
PARTS = {"board": ".stages", "jobs": ".jobs", "time": ".timeline", "activity": ".activity"}
ELEMENTS_MAX, CHANGED_MAX = 3_000, 40


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    yield
    for name in (*NAMES, "middle"):
        site.simulator.release(name)


@pytest.fixture
def done(anna: Person) -> dict[str, Any]:
    """A session of two seats that has ended: two proposals, four critiques."""
    session = anna.make_session(until="antithesis")
    anna.start(session)
    return session


@pytest.fixture
def large(page: Page, anna: Person) -> dict[str, Any]:
    """A board of 324 jobs, which the page of its session gets."""
    path = f"/sessions/{anna.make_session()['id']}/board"
    board = build_large_board(anna.ask("GET", path))
    assert len(board["jobs"]) == 324
    body = json.dumps(board)
    page.route(
        re.compile(rf"{path}(\?|$)"),
        lambda route: route.fulfill(content_type="application/json", body=body),
    )
    return board


def open_tab(page: Page, site: Site, session: dict[str, Any], tab: str, query: str = "") -> None:
    page.goto(f"{site.url}/sessions/{session['id']}{query}#{tab}")
    expect(page.locator(PARTS[tab])).to_be_visible()


def expect_done(page: Page) -> None:
    expect(page.locator(".session")).to_have_attribute("data-state", "done")


def read_page(page: Page) -> list[str]:
    """Read what the page says: head, rail, view; without drafts, whose texts come later."""
    found: list[str] = page.evaluate(
        """() => [".hero", ".rail", "[role=tabpanel]"].map((part) => {
          const copy = document.querySelector(part).cloneNode(true);
          copy.querySelectorAll(".draft, .tile-count").forEach((one) => one.remove());
          return copy.textContent.replace(/\\s+/g, " ");
        })"""
    )
    return found


# -- jobs -----------------------------------------------------------------------------------------


def test_jobs_have_a_dot_for_each_call_in_the_row_of_its_step_and_the_column_of_its_seat(
    page: Page, site: Site, anna: Person, done: dict[str, Any]
) -> None:
    open_tab(page, site, done, "jobs")
    expect_done(page)

    expect(page.locator(".jobs .dot.done")).to_have_count(6)
    row = page.locator(".jobs tbody tr").nth(1)
    expect(row.locator("th")).to_have_text("Antithesis")
    expect(row.locator("td").nth(0).locator(".dot.seat-1")).to_have_count(2)
    expect(row.locator("td").nth(1).locator(".dot.seat-2")).to_have_count(2)
    expect(row).to_contain_text("4 of 4")
    page.get_by_role("button", name=re.compile("^Failed")).click()
    expect(page.get_by_text("No call has failed.")).to_be_visible()


def test_a_failed_call_is_found_by_the_filter_selected_and_retried(
    page: Page, site: Site, anna: Person
) -> None:
    two = ["alpha/m", "fickle/m"]
    session = anna.make_session(prompt="Jobs of a hall.", models=two, wait_for_all=True)
    anna.start(session)
    open_tab(page, site, session, "jobs")
    page.get_by_role("button", name="Failed 1").click()
    dot = page.locator(".jobs .dot")
    expect(dot).to_have_count(1)
    expect(dot).to_have_class(re.compile("failed"))

    dot.click(modifiers=["Shift"])
    expect(dot).to_have_attribute("aria-checked", "true")
    bar = page.get_by_role("region", name="Selected calls")
    expect(bar).to_contain_text("1 call selected")
    expect(bar.get_by_role("button", name="Pause")).to_have_count(0)
    bar.get_by_role("button", name=re.compile("^Retry 1")).click()

    expect_done(page)
    expect(bar).to_have_count(0)


def test_calls_are_selected_paused_and_cancelled_by_keys_alone(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m"], until="antithesis")
    site.simulator.hold("alpha")
    site.simulator.hold("beta")
    anna.start(session)
    open_tab(page, site, session, "jobs")
    expect(page.locator(".jobs .dot.run")).to_have_count(2)

    page.get_by_role("button", name="Select", exact=True).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    page.keyboard.press("j")
    page.keyboard.press(" ")
    expect(page.locator(".dot[aria-checked=true]")).to_have_count(2)
    page.get_by_role("button", name="Cancel 2").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Cancel 2 calls").focus()
    page.keyboard.press("Enter")

    expect(page.locator(".jobs .dot.cancelled")).to_have_count(2)
    assert page.evaluate("document.activeElement !== document.body")


# -- timeline -------------------------------------------------------------------------------------


def test_the_timeline_has_every_call_in_the_lane_of_its_seat_and_the_same_as_a_table(
    page: Page, site: Site, done: dict[str, Any]
) -> None:
    open_tab(page, site, done, "time")
    expect_done(page)
    expect(page.locator(".lane")).to_have_count(2)
    expect(page.locator(".lane.seat-1 .span")).to_have_count(3)
    in_lanes = names(page.locator(".span"))

    page.keyboard.press("v")

    expect(page.locator(".times tbody tr")).to_have_count(6)
    assert names(page.locator(".times [data-job]")) == in_lanes
    page.locator(".times [data-job]").first.click()
    expect(page.locator(".inspector")).to_contain_text("Writing theses")


def names(items: Locator) -> list[str]:
    found: list[str] = items.evaluate_all("all => all.map((one) => one.dataset.job)")
    return sorted(found)


def test_calls_of_a_lane_never_overlap_and_the_critical_path_is_marked_on_request(
    page: Page, site: Site, large: dict[str, Any]
) -> None:
    open_tab(page, site, large["session"], "time")
    boxes: list[list[list[float]]] = page.locator(".lane").evaluate_all(
        """lanes => lanes.map((lane) => [...lane.querySelectorAll(".span")]
          .map((one) => one.getBoundingClientRect()).map((box) => [box.top, box.left, box.right]))"""
    )
    for lane in boxes:
        ordered = sorted(lane)
        for (top, _, right), (next_top, left, _) in itertools.pairwise(ordered):
            assert top != next_top or left >= right - 0.5

    page.keyboard.press("c")

    expect(page.locator(".span.on-path")).to_have_count(2)
    expect(page.locator(".path-sentence")).to_contain_text("These 2 calls set the end")
    page.keyboard.press("c")
    expect(page.locator(".span.on-path")).to_have_count(0)


# -- activity -------------------------------------------------------------------------------------


def test_activity_folds_what_is_alike_and_of_one_second(
    page: Page, site: Site, large: dict[str, Any]
) -> None:
    open_tab(page, site, large["session"], "activity")
    page.get_by_role("button", name="Documents", exact=True).click()
    line = page.locator(".activity-line", has_text="Writing checklists")
    expect(line).to_have_count(1)

    line.get_by_role("button").click()

    expect(line.locator(".activity-items li")).to_have_count(6)
    expect(line.locator(".activity-items li").first).to_contain_text("wrote The proposal of seat")


def test_new_activity_waits_behind_a_pill_while_older_lines_are_read(
    page: Page, site: Site, anna: Person, done: dict[str, Any]
) -> None:
    open_tab(page, site, done, "activity")
    first = page.locator(".activity-line").first
    expect(page.locator(".activity")).to_contain_text("Antithesis is complete")
    page.set_viewport_size({"width": 1000, "height": 300})
    page.locator(".activity-line").last.scroll_into_view_if_needed()
    newest = first.inner_text()
    seen = page.evaluate("scrollY")

    anna.ask("POST", f"/sessions/{done['id']}/feedback", {"stage": "thesis", "text": "No wifi."})

    pill = page.get_by_role("button", name="1 new")
    expect(pill).to_be_visible()
    assert first.inner_text() == newest
    assert page.evaluate("scrollY") == seen
    pill.click()
    expect(first).to_contain_text("No wifi.")
    expect(pill).to_have_count(0)


# -- replay ---------------------------------------------------------------------------------------


@pytest.mark.sentence(43)
def test_a_replay_ends_as_the_page_is_begins_with_nothing_and_has_links_to_its_moments(
    open_context: Open, site: Site
) -> None:
    mira, ben = site.add_colleagues()
    done = mira.make_session(models=["offline/architect", "offline/skeptic"], until="antithesis")
    mira.start(done)
    page = open_context(mira).new_page()
    open_tab(page, site, done, "board")
    expect_done(page)
    # Folded here only: a moment of the past looks the same on every page.
    thesis = page.locator("[data-key=fold-thesis]")
    if thesis.get_attribute("aria-expanded") == "true":
        thesis.click()
    expect(thesis).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".survived")).to_be_visible()
    as_it_is = read_page(page)

    page.keyboard.press("r")
    page.get_by_role("button", name="Pause the replay").click()
    slider = page.get_by_role("slider", name="Moment")
    slider.fill("0")
    expect(page.locator(".session")).to_have_attribute("data-state", "new")
    expect(page.locator(".hero")).to_contain_text("Not started")
    expect(page.locator("[data-doc]")).to_have_count(0)

    slider.fill("1000")
    expect_done(page)
    assert read_page(page) == as_it_is

    slider.fill("500")
    expect(page).to_have_url(re.compile(r"[?&]at=\d+"))
    expect(page.locator(".session")).not_to_have_attribute("data-state", "done")
    then = read_page(page)
    other = open_context(ben).new_page()
    other.goto(page.url)
    expect(other.locator(".film")).to_be_visible()
    expect(other.locator(".session")).not_to_have_attribute("data-state", "done")
    assert read_page(other) == then

    page.keyboard.press("Escape")
    expect(page.locator(".film")).to_have_count(0)
    assert read_page(page) == as_it_is


def test_a_replay_plays_pauses_and_steps_by_keys_and_words_flow_in_its_tiles(
    page: Page, site: Site, large: dict[str, Any]
) -> None:
    page.route("**/contributions/*", lambda route: route.fulfill(json={"content": "word " * 2000}))
    open_tab(page, site, large["session"], "board")
    page.keyboard.press("r")
    expect(page.locator(".tile .draft-text").first).to_contain_text("word")
    page.keyboard.press(" ")
    slider = page.get_by_role("slider", name="Moment")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    slider.fill("0")

    page.keyboard.press("Shift+ArrowRight")
    expect(slider).to_have_js_property("value", "417")
    page.keyboard.press("ArrowLeft")
    expect(slider).to_have_js_property("value", "375")
    expect(page.locator(".hero")).to_contain_text("writing now")


# -- for everyone ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_these_views(
    open_context: Open, site: Site, anna: Person, scheme: str
) -> None:
    session = anna.make_session(models=["alpha/m", "broken/m"], wait_for_all=True)
    anna.start(session)
    page = open_context(anna, color_scheme=scheme, reduced_motion="reduce").new_page()
    for tab in TABS:
        open_tab(page, site, session, tab)
        check_axe(page)
    open_tab(page, site, session, "jobs")
    expect(page.locator(".session")).to_have_attribute("data-state", "failed")
    page.locator(".dot").first.click(modifiers=["Shift"])
    check_axe(page)
    open_tab(page, site, session, "time")
    page.keyboard.press("c")
    page.keyboard.press("v")
    check_axe(page)
    page.keyboard.press("r")
    page.keyboard.press(" ")
    expect(page.locator(".film")).to_be_visible()
    check_axe(page)


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_on_a_phone_nothing_scrolls_sideways_and_thumbs_hit_everything(
    open_context: Open, site: Site, anna: Person, done: dict[str, Any], width: int
) -> None:
    page = open_context(anna, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    for tab in TABS:
        open_tab(page, site, done, tab)
        expect_done(page)
        assert list_too_wide(page, width) == []
        assert list_small(page, "[role=tabpanel]") == []
    page.locator("#replay").click()
    expect(page.locator(".film")).to_be_visible()
    assert list_too_wide(page, width) == []
    assert list_small(page, ".film") == []


def list_small(page: Page, part: str) -> list[str]:
    found: list[str] = page.evaluate(
        """(part) => [...document.querySelectorAll(`${part} :is(button, a[href], input, select)`)]
          .filter((one) => one.checkVisibility())
          .map((one) => [one.outerHTML.slice(0, 90), one.getBoundingClientRect()])
          .filter(([, box]) => box.height < 43.5 || box.width < 24)
          .map(([html, box]) => `${html} ${box.width}x${box.height}`)""",
        part,
    )
    return found


# Hand an event to the page as its stream does, and count the elements that the frame changes.
TELL = """
async ([part, event]) => {
  const base = document.documentElement.dataset.base;
  const { deliver } = await import(`${base}/js/router.js`);
  const { draw } = await import(`${base}/js/store.js`);
  const changed = new Set();
  const seen = new MutationObserver((records) => records.forEach((one) => changed.add(one.target)));
  seen.observe(document.querySelector(part), { subtree: true, childList: true, attributes: true });
  deliver({ kind: "event", event });
  draw();
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  return changed.size;
}
"""


@pytest.mark.sentence(69)
def test_with_324_jobs_each_view_is_small_and_an_event_changes_little_of_it(
    page: Page, site: Site, watch: Watch, large: dict[str, Any]
) -> None:
    job = next(one for one in large["jobs"] if one["step"] == "pairwise")
    error = {"code": "provider_error", "message": "It failed.", "at": job["completed_at"]}
    session = large["session"]
    failed = {**job, "status": "failed", "document_id": None, "errors": [error]}
    event = {"type": "jobs_changed", "session_id": session["id"], "data": {"jobs": [failed]}}
    marks = {"board": ".dot.failed", "jobs": ".dot.failed", "time": ".span.failed"}
    for tab, part in PARTS.items():
        page.goto(f"{site.url}/settings/appearance")
        open_tab(page, site, large["session"], tab)
        assert page.locator("body *").count() <= ELEMENTS_MAX, tab

        assert page.evaluate(TELL, [part, event]) <= CHANGED_MAX, tab

        expect(page.locator(marks.get(tab, '.activity-line[data-kind="failure"]'))).to_have_count(1)
    asked = [path for path in watch.list_paths("/api/") if path.startswith("/api/v1/sessions")]
    assert len([path for path in asked if path.endswith("/board")]) == len(PARTS)
    # What survived is compared by the server: the outcome asks for it, and nothing else does.
    compared = {path.rpartition("/")[2].partition("?")[0] for path in asked} - {"board"}
    assert compared <= {"claims", "worth"}
