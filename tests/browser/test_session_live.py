"""A session page while its models write: what arrives is seen, once and in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Watch
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


@pytest.mark.sentence(11)
def test_progress_never_goes_back_and_ends_where_the_server_is(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m"], until="paralysis")
    visit(page, site, session)
    page.evaluate(
        """() => {
          const bar = document.querySelector(".hero [role=progressbar]");
          window.told = [];
          new MutationObserver(() => window.told.push([bar.ariaValueNow, bar.ariaValueText]))
            .observe(bar, { attributes: true });
        }"""
    )

    anna.start(session)

    expect(page.locator(".session")).to_have_attribute("data-state", "done")
    told = page.evaluate("window.told")
    numbers = [int(now) for now, _ in told]
    assert numbers == sorted(numbers)
    assert all(text.startswith(f"{now} of ") for now, text in told)
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
    # A whole run costs the page its snapshot and the plan's price, but no question in between.
    assert [path.partition("?")[0] for path in list_asked(watch)] == [
        "/api/v1/me",
        f"/api/v1/sessions/{session['id']}/board",
    ]


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
    page.locator(".place-foot a").first.click()
    picked = page.locator(".inspector-title").inner_text()
    page.evaluate("scrollTo(0, 90)")

    page.reload()

    expect(page.locator(".inspector-title")).to_have_text(picked)
    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    expect(page.locator(".place:has([aria-current])")).to_have_count(1)
    page.wait_for_function("scrollY === 90")


@pytest.mark.sentence(17)
def test_a_line_that_breaks_again_and_again_loses_and_doubles_nothing(
    page: Page, context: BrowserContext, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("ERR_INTERNET_DISCONNECTED|ERR_FAILED|Failed to load resource")
    session = anna.make_session(models=THREE, until="antithesis")
    visit(page, site, session)
    for name in NAMES:
        site.simulator.hold(name)
    anna.start(session)
    for count, name in enumerate(NAMES, start=1):
        context.set_offline(True)
        expect(page.get_by_role("status", name="Connection: offline")).to_be_visible()
        site.simulator.release(name)
        context.set_offline(False)
        expect(page.locator(".cards [data-doc]")).to_have_count(count)

    expect(page.locator(".session")).to_have_attribute("data-state", "done")
    expect(page.locator(".cross [data-doc]")).to_have_count(9)


@pytest.mark.sentence(5)
def test_two_seats_of_one_model_have_their_own_numbers_colours_and_cards(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "alpha/m"])
    anna.start(session)
    visit(page, site, session)

    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    names = page.locator(".cards .seat").all_inner_texts()
    colours = page.locator(".cards .seat").evaluate_all(
        "all => all.map((one) => getComputedStyle(one).color)"
    )
    assert names == ["1", "2"]
    assert len(set(colours)) == 2
    assert page.locator(".rail-seats .seat").all_inner_texts() == ["1", "2"]


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
    tile.get_by_role("button", name="Other model").click()
    expect(page.get_by_role("dialog", name="Another model")).to_be_visible()
    page.keyboard.press("Escape")
    tile.get_by_role("button", name="Wait").click()
    expect(tile).not_to_have_class(re.compile("late"))
    page.clock.run_for(65_000)
    calls = len(site.simulator.log.calls)
    tile.get_by_role("button", name="Retry").click()
    site.call(site.simulator.wait_arrived(calls + 1))
    site.simulator.release("alpha")
    expect(page.locator(".cards [data-doc]")).to_have_count(1)


@pytest.mark.sentence(21)
def test_a_hidden_tab_draws_nothing_and_still_changes_its_title(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m"])
    page.add_init_script(
        "Object.defineProperty(Document.prototype, 'hidden', { get: () => Boolean(window.isHidden) });"
        "const frame = window.requestAnimationFrame;"
        "window.requestAnimationFrame = (work) => window.isHidden ? 0 : frame(work);"
    )
    visit(page, site, session)
    page.evaluate("window.isHidden = true")

    anna.start(session)

    expect(page).to_have_title(re.compile("done · Village hall"))
    expect(page.locator(".session")).to_have_attribute("data-state", "new")


@pytest.mark.sentence(18)
def test_a_page_that_slept_too_long_loads_the_board_again_and_says_nothing_of_it(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(models=THREE)
    anna.start(session)
    visit(page, site, session)
    expect(page.locator(".session")).to_have_attribute("data-state", "done")
    page.locator(".place-foot a").first.click()
    picked = page.locator(".inspector-title").inner_text()
    watch.requests.clear()

    with page.expect_response(re.compile("/board")):
        page.evaluate(
            "new BroadcastChannel('dialectic-stream').postMessage({ kind: 'reset', from: '' })"
        )

    expect(page.locator(".inspector-title")).to_have_text(picked)
    expect(page.locator(".notice, .toast")).to_have_count(0)
    assert [path for path in list_asked(watch) if "/board" not in path] == []
