"""A session page while its models write: what arrives is seen, once and in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from dialectic.db.tables import notifications
from tests.browser.conftest import Open, Watch
from tests.browser.cutting_line import open_cutting_line
from tests.browser.site import NAMES, Person, Site

THREE = [f"{name}/m" for name in NAMES]
QUIET = ("/api/v1/events", "/api/v1/notifications")


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    yield
    for name in (*NAMES, "middle"):
        site.simulator.release(name)


def visit(page: Page, site: Site, session: dict[str, str], query: str = "") -> None:
    page.goto(f"{site.url}/sessions/{session['id']}{query}")
    expect(page.locator(".hero .sentence").first).to_be_visible()


def list_asked(watch: Watch) -> list[str]:
    """List what was asked of the API, except the stream and the bell."""
    return [path for path in watch.list_paths("/api/") if not path.startswith(QUIET)]


def find_card(page: Page, seat: int) -> str:
    return f".cards .place.seat-{seat}"


@pytest.mark.sentence(8)
def test_a_document_lands_by_its_event_alone_in_its_place_and_moves_nothing_above(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(models=THREE)
    for name in NAMES:
        site.simulator.hold(name)
    anna.start(session)
    visit(page, site, session)
    expect(page.locator(".tile[data-job]")).to_have_count(3)
    above = page.locator("#now-title").bounding_box()
    asked = len(list_asked(watch))

    site.simulator.release("beta")

    expect(page.locator(find_card(page, 2))).to_have_class(re.compile("written"))
    expect(page.locator(f"{find_card(page, 2)} .place-title")).not_to_be_empty()
    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    expect(page.locator(".tile[data-job]")).to_have_count(2)
    assert page.locator("#now-title").bounding_box() == above
    assert len(list_asked(watch)) == asked


@pytest.mark.sentence(9)
def test_words_appear_while_a_call_runs_and_begin_its_document(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["halfway/m"])
    site.simulator.hold("middle")
    visit(page, site, session)
    anna.start(session)

    page.locator(".tile .draft-text").click()
    draft = page.locator(".whole-draft")
    expect(draft).to_contain_text("#")
    expect(page.locator(".tile .tile-count")).to_contain_text("words")
    told = draft.inner_text().strip()
    site.simulator.release("middle")

    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    document_id = page.locator(".cards [data-doc]").get_attribute("data-doc")
    content = anna.ask("GET", f"/contributions/{document_id}")["content"]
    assert len(told) > 100
    assert " ".join(content.split()).startswith(" ".join(told.split())[:-20])


# Notes what the bar says whenever it changes, and what the last events said at that moment.
WATCH_BAR = """
async () => {
  const { listen } = await import(`${document.documentElement.dataset.base}/js/stream.js`);
  const bar = document.querySelector(".hero [role=progressbar]");
  const stages = new Map();
  const count = (key) => ["thesis", "antithesis"].reduce((sum, slug) => sum + (stages.get(slug)?.[key] ?? 0), 0);
  window.told = [];
  listen(({ event }) => (event?.data?.stages ?? []).forEach((stage) => stages.set(stage.slug, stage)));
  new MutationObserver(() => window.told.push([bar.ariaValueNow, bar.ariaValueText, count("finished"), count("planned")]))
    .observe(bar, { attributes: true });
}
"""


@pytest.mark.sentence(11)
def test_progress_never_goes_back_and_is_the_servers_at_every_event(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m"], until="antithesis")
    visit(page, site, session)
    page.evaluate(WATCH_BAR)

    site.simulator.hold("beta")
    anna.start(session)
    bar = page.locator(".hero [role=progressbar]")
    expect(bar).to_have_attribute("aria-valuenow", re.compile("[1-5]"))
    site.simulator.release("beta")

    expect(page.locator(".session")).to_have_attribute("data-state", "done")
    told = page.evaluate("window.told")
    numbers = [int(now) for now, *_ in told]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1
    for now, text, finished, planned in told:
        assert int(now) == finished
        assert text == f"{finished} of {planned} calls"
    board = anna.ask("GET", f"/sessions/{session['id']}/board")
    assert numbers[-1] == sum(stage["finished"] for stage in board["stages"])


@pytest.mark.sentence(19, 20)
def test_a_page_opened_while_events_pour_in_shows_each_document_once(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m"], until="paralysis")
    anna.start(session)
    visit(page, site, session)

    expect(page.locator(".session")).to_have_attribute("data-state", "done")
    board = anna.ask("GET", f"/sessions/{session['id']}/board")
    page.locator("button.fold").evaluate_all("all => all.forEach((one) => one.click())")
    expect(page.locator(".stages [data-doc]")).to_have_count(len(board["documents"]))
    shown = page.locator(".stages [data-doc]").evaluate_all(
        "all => all.map((one) => one.dataset.doc)"
    )
    assert sorted(shown) == sorted(one["original_id"] for one in board["documents"])
    # A whole run costs the page its snapshot and, if it saw the end, the plan and what survived:
    # nothing in between.
    place = f"/api/v1/sessions/{session['id']}"
    asked = [path.partition("?")[0] for path in list_asked(watch)]
    assert asked[:2] == ["/api/v1/me", f"{place}/board"]
    assert sorted(set(asked[2:])) == sorted(asked[2:])
    assert set(asked[2:]) <= {f"{place}/board", f"{place}/claims", f"{place}/worth"}


@pytest.mark.sentence(15)
def test_a_reload_in_the_middle_of_a_run_shows_the_same_page(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=THREE)
    site.simulator.hold("gamma")
    anna.start(session)
    page.set_viewport_size({"width": 1280, "height": 420})
    visit(page, site, session)
    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    for tab, thing, chosen in (
        ("Board", ".place-foot a", ".place:has([aria-current])"),
        ("Jobs", ".jobs .dot.done", ".jobs .dot[aria-current]"),
    ):
        page.get_by_role("tab", name=tab).click()
        page.locator(thing).first.click()
        expect(page.locator(".inspector")).to_be_visible()
        picked = page.url
        page.evaluate("scrollTo(0, 90)")

        page.reload()

        expect(page.get_by_role("tab", name=tab)).to_have_attribute("aria-selected", "true")
        expect(page.locator(".inspector")).to_be_visible()
        expect(page).to_have_url(picked)
        expect(page.locator(chosen)).to_have_count(1)
        page.wait_for_function("scrollY === 90")


# Keeps the documents that events brought, in their order.
KEEP_ARRIVALS = """
async () => {
  const { listen } = await import(`${document.documentElement.dataset.base}/js/stream.js`);
  window.arrived = [];
  listen(({ event }) => { if (event?.data?.document) window.arrived.push([event.type, event.data.document.id]); });
}
"""


@pytest.mark.sentence(17)
def test_a_stream_that_is_cut_after_every_fifth_event_loses_and_doubles_nothing(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET")
    session = anna.make_session(until="antithesis")
    with open_cutting_line(site, events=5) as line:
        watch.origins.add(line.url)
        context = open_context()
        context.add_cookies([line.sign_in(anna)])  # type: ignore[list-item]
        page = context.new_page()
        page.goto(f"{line.url}/sessions/{session['id']}")
        expect(page.locator(".hero .sentence").first).to_be_visible()
        page.evaluate(KEEP_ARRIVALS)

        anna.start(session)

        expect(page.locator(".session")).to_have_attribute("data-state", "done", timeout=60_000)
        expect(page.locator(".cards [data-doc]")).to_have_count(2)
        expect(page.locator(".cross [data-doc]")).to_have_count(4)
        arrived = page.evaluate("window.arrived")
        context.close()
    board = anna.ask("GET", f"/sessions/{session['id']}/board")
    assert line.cuts > 1
    told = [tuple(one) for one in arrived]
    assert len(told) == len(set(told))
    assert {document for _, document in told} == {one["id"] for one in board["documents"]}


@pytest.mark.sentence(5)
def test_two_seats_of_one_model_have_their_own_numbers_colours_and_cards_everywhere(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "alpha/m"])
    anna.start(session)
    visit(page, site, session)
    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    # The board's cards, the rail, the columns of jobs, the lanes of the timeline, two documents.
    found = {
        "board": ".cards .seat",
        "board#": ".rail-seats .seat",
        "jobs": ".jobs thead .seat",
        "time": ".lane .seat",
    }
    for tab, seats in found.items():
        page.goto(f"{site.url}/sessions/{session['id']}#{tab.rstrip('#')}")
        expect(page.locator(seats)).to_have_text(["1", "2"])
        colours = page.locator(seats).evaluate_all(
            "all => all.map((one) => getComputedStyle(one).color)"
        )
        assert len(set(colours)) == 2, tab
    documents = anna.ask("GET", f"/sessions/{session['id']}/board")["documents"]
    for one in documents:
        page.goto(f"{site.url}/documents/{one['id']}")
        expect(page.locator(".doc-bar .seat").first).to_have_text(str(one["seat"]))
    assert sorted(one["seat"] for one in documents) == [1, 2]


@pytest.mark.sentence(22)
def test_a_call_that_is_silent_for_a_minute_turns_amber_and_offers_retry_and_another_model(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m"])
    site.simulator.hold("alpha")
    page.clock.install()
    anna.start(session)
    visit(page, site, session)
    tile = page.locator(".tile[data-job]")
    expect(tile).to_have_count(1)
    expect(tile).not_to_have_class(re.compile("late"))

    page.clock.run_for(65_000)

    expect(tile).to_have_class(re.compile("late"))
    expect(page.locator(".hero .sentence").first).to_contain_text("no word for")
    # By keys: a tile that grows is no steady target for a pointer while the clock is stopped.
    tile.get_by_role("button", name="Other model").press("Enter")
    expect(page.get_by_role("dialog", name="Another model")).to_be_visible()
    page.keyboard.press("Escape")
    tile.get_by_role("button", name="Wait").press("Enter")
    expect(tile).not_to_have_class(re.compile("late"))
    page.clock.run_for(65_000)
    calls = len(site.simulator.log.calls)
    tile.get_by_role("button", name="Retry").press("Enter")
    site.call(site.simulator.wait_arrived(calls + 1))
    site.simulator.release("alpha")
    expect(page.locator(".cards [data-doc]")).to_have_count(1)


@pytest.mark.sentence(21)
def test_a_hidden_tab_draws_nothing_and_still_changes_its_title_and_tells_that_it_is_done(
    page: Page, site: Site, anna: Person
) -> None:
    wish = {"notifications": {"session_done": {"desktop": True}}}
    anna.ask("PATCH", "/me/preferences", wish)
    session = anna.make_session(models=["alpha/m"])
    page.context.grant_permissions(["notifications"], origin=site.url)
    page.add_init_script(
        "Object.defineProperty(Document.prototype, 'hidden', { get: () => Boolean(window.isHidden) });"
        "const frame = window.requestAnimationFrame;"
        "window.requestAnimationFrame = (work) => window.isHidden ? 0 : frame(work);"
        "window.told = [];"
        "window.Notification = class { static permission = 'granted';"
        " constructor(title) { window.told.push(title); } };"
    )
    visit(page, site, session)
    page.evaluate("window.isHidden = true")

    anna.start(session)

    expect(page).to_have_title(re.compile("done · Village hall"))
    page.wait_for_function("window.told.length")
    expect(page.locator(".session")).to_have_attribute("data-state", "new")
    assert [title for title in page.evaluate("window.told") if "Village hall" in title]
    assert len(page.evaluate("window.told")) == 1


@pytest.mark.sentence(18)
def test_a_page_that_slept_longer_than_events_are_kept_loads_the_board_and_says_nothing_of_it(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET")
    session = anna.make_session(models=THREE)
    with open_cutting_line(site) as line:
        watch.origins.add(line.url)
        context = open_context()
        context.add_cookies([line.sign_in(anna)])  # type: ignore[list-item]
        page = context.new_page()
        with page.expect_request("**/api/v1/events*"):
            page.goto(f"{line.url}/sessions/{session['id']}?stage=thesis")
        expect(page.locator(".inspector")).to_be_visible()
        line.cut()
        expect(page.get_by_role("status", name="Connection: reconnecting")).to_be_visible()
        anna.start(session)
        site.call(site.api.work(anna.user, session["id"]))
        site.call(notifications.prune(site.api.worker_engine.db, kept_days=0, kept_max=0))
        watch.requests.clear()

        line.mend()

        expect(page.locator(".session")).to_have_attribute("data-state", "done")
        expect(page.locator(".cards [data-doc]")).to_have_count(3)
        expect(page.locator(".inspector")).to_be_visible()
        expect(page.locator(".notice, .toast")).to_have_count(0)
        # Once the board; a finished session also asks what survived.
        place = f"/api/v1/sessions/{session['id']}"
        asked = [path.partition("?")[0] for path in list_asked(watch)]
        assert asked.count(f"{place}/board") == 1
        assert set(asked) <= {f"{place}/{part}" for part in ("board", "claims", "worth")}
        context.close()


@pytest.mark.sentence(20)
def test_in_ten_minutes_of_a_running_session_a_page_asks_for_nothing_but_the_stream(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m", "halfway/m"])
    for gate in ("beta", "middle"):
        site.simulator.hold(gate)
    page.clock.install()
    anna.start(session)
    visit(page, site, session)
    expect(page.locator(".tile .draft-text")).to_have_count(1)
    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    watch.requests.clear()

    for _ in range(10):
        page.clock.run_for(60_000)
    site.simulator.release("beta")

    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    paths = [path for path in watch.list_paths() if not path.startswith("/api/v1/events")]
    assert len(paths) <= 5, paths
