"""One event stream for all tabs of a browser, whatever happens to the tab that reads it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import PATIENCE_MS, PHONE, Open, Watch
from tests.browser.site import NAMES, Person, Site

TABS = 30
# Of one tab; it has about two.
HEAP_BYTES_MAX = 6_000_000


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    yield
    for name in NAMES:
        site.simulator.release(name)


def open_tabs(context: BrowserContext, site: Site, count: int, path: str = "/") -> list[Page]:
    tabs = [context.new_page() for _ in range(count)]
    for tab in tabs:
        tab.goto(site.url + path)
    for tab in tabs:
        expect(tab.get_by_role("heading", level=1)).to_be_visible()
        expect(tab.get_by_role("status", name="Connection: live")).to_be_visible()
    return tabs


def count_streams(site: Site, anna: Person) -> int:
    """Count the streams that the server has open for a person's account."""
    channel = site.api.hub._channels.get(anna.user.account.tenant_id)
    return 0 if channel is None else len(channel.subscriptions)


# What a page shows of a session, without what only time changes.
SHOWN = """
() => {
  const folded = [...document.querySelectorAll("button.fold")];
  folded.forEach((one) => one.click());
  const list = (query, key) => [...document.querySelectorAll(query)].map((one) => one.dataset[key]);
  const bar = document.querySelector(".hero [role=progressbar]");
  return JSON.stringify([document.querySelector(".session").dataset.state, bar.ariaValueNow,
    bar.ariaValueText, list(".stages [data-doc]", "doc"), list(".tile[data-job]", "job"),
    document.querySelector(".hero-money strong").textContent, document.title, folded.length]);
}
"""


def read_alike(pages: list[Page]) -> str:
    """Read what all pages show, as soon as they show the same."""
    give_up_at = time.monotonic() + PATIENCE_MS / 1000
    while len(found := {page.evaluate(SHOWN) for page in pages}) > 1:
        assert time.monotonic() < give_up_at, found
    return str(found.pop())


@pytest.mark.sentence(12)
def test_two_tabs_and_a_phone_show_the_same_after_every_event_with_one_stream_for_both_tabs(
    open_context: Open, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=[f"{name}/m" for name in NAMES], until="antithesis")
    desk, phone = open_context(anna), open_context(anna, viewport=PHONE, has_touch=True)
    asked: list[str] = []
    desk.on("request", lambda one: asked.append(one.url))
    pages = [desk.new_page(), desk.new_page(), phone.new_page()]
    for page in pages:
        page.goto(f"{site.url}/sessions/{session['id']}")
        expect(page.locator(".hero [role=progressbar]")).to_be_visible()
    seen = [read_alike(pages)]
    for name in NAMES:
        site.simulator.hold(name)

    anna.start(session)

    expect(pages[0].locator(".tile[data-job]")).to_have_count(3)
    seen.append(read_alike(pages))
    for count, name in enumerate(NAMES, start=1):
        site.simulator.release(name)
        if count < len(NAMES):
            expect(pages[0].locator(".cards [data-doc]")).to_have_count(count)
            seen.append(read_alike(pages))
    for page in pages:
        expect(page.locator(".session")).to_have_attribute("data-state", "done")
        expect(page.locator(".cross [data-doc]")).to_have_count(9)
    seen.append(read_alike(pages))
    assert len(set(seen)) == 5
    assert len([url for url in asked if "/api/v1/events" in url and "drafts" not in url]) <= 1
    assert count_streams(site, anna) == 2


@pytest.mark.sentence(13)
def test_many_tabs_are_one_connection_and_all_of_them_load(
    context: BrowserContext, site: Site, anna: Person, watch: Watch
) -> None:
    tabs = open_tabs(context, site, TABS, "/settings/appearance")

    assert len(watch.list_paths("/api/v1/events")) == 1
    assert count_streams(site, anna) == 1
    tabs[-1].reload()
    expect(tabs[-1].get_by_role("heading", name="Settings")).to_be_visible()
    assert max(map(measure_heap, tabs)) < HEAP_BYTES_MAX


def measure_heap(tab: Page) -> int:
    """The bytes of the live objects of a tab."""
    line = tab.context.new_cdp_session(tab)
    line.send("HeapProfiler.collectGarbage")
    used = int(line.send("Runtime.getHeapUsage")["usedSize"])
    line.detach()
    return used


@pytest.mark.sentence(14)
def test_when_the_tab_that_reads_the_stream_closes_another_takes_over_and_misses_nothing(
    context: BrowserContext, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session("Repair café", until="antithesis", is_autopilot=False)
    leader = context.new_page()
    with leader.expect_request("**/api/v1/events*"):
        leader.goto(site.url)
    second, third = open_tabs(context, site, 2)
    site.simulator.hold("alpha")
    anna.start(session)
    for tab in (second, third):
        expect(tab.get_by_role("heading", name="Running")).to_be_visible()

    with context.expect_event("request", lambda one: "/api/v1/events" in one.url):
        leader.close()
    site.simulator.release("alpha")

    for tab in (second, third):
        expect(tab.locator(".need")).to_contain_text("Thesis is complete")
    first, next_one = [r for r in watch.requests if "/api/v1/events" in r.url]
    assert next_one.headers["last-event-id"] != first.headers["last-event-id"]


def test_a_broken_line_is_told_by_the_sign_alone_and_comes_back_by_itself(
    page: Page, context: BrowserContext, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("ERR_INTERNET_DISCONNECTED|ERR_FAILED|Failed to load resource")
    session = anna.make_session("Repair café", until="antithesis", is_autopilot=False)
    page.goto(site.url)
    expect(page.locator(".project h3")).to_have_text(["Repair café"])

    context.set_offline(True)
    expect(page.get_by_role("status", name="Connection: offline")).to_be_visible()
    expect(page.locator(".project h3")).to_have_text(["Repair café"])
    anna.start(session)
    context.set_offline(False)

    expect(page.get_by_role("status", name="Connection: live")).to_be_visible()
    expect(page.locator(".need")).to_contain_text("Thesis is complete")


def test_a_message_to_a_person_is_counted_in_every_tab_and_read_in_the_panel(
    context: BrowserContext, site: Site, anna: Person
) -> None:
    session = anna.make_session("Repair café", until="antithesis", is_autopilot=False)
    page, other = open_tabs(context, site, 2)
    page.bring_to_front()
    page.get_by_role("button", name="Messages").click()
    expect(page.get_by_text("Nothing waits for you.")).to_be_visible()

    anna.start(session)

    expect(page.get_by_role("button", name="Messages, 1 unread")).to_be_visible()
    panel = page.get_by_role("dialog", name="Messages")
    expect(panel).to_contain_text("Repair café: Thesis is complete")
    panel.get_by_role("button", name="Mark all read").click()
    expect(page.get_by_role("button", name="Messages", exact=True)).to_be_visible()
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(page.get_by_role("button", name="Messages", exact=True)).to_be_focused()
    assert anna.ask("GET", "/me")["unread"] == 0
    other.bring_to_front()
    expect(other.get_by_role("button", name="Messages")).to_be_visible()
