"""The first page: it explains itself, lists what there is, and moves by events."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site


@pytest.mark.sentence(1)
def test_an_empty_home_explains_itself_and_offers_examples(page: Page, site: Site) -> None:
    page.goto(site.url)

    expect(page.get_by_role("heading", level=1)).to_have_text(
        "Several language models argue until a plan holds"
    )
    expect(page.get_by_role("link", name="Begin with a prompt")).to_be_visible()
    example = page.get_by_role("link", name="A seed library")
    expect(example).to_have_attribute("href", re.compile(r"^/new\?prompt=A%20seed%20library"))
    expect(page).to_have_title("Projects · Dialectic")


def test_a_row_tells_how_its_session_stands_and_leads_to_it(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session("Repair café", models=["alpha/m", "beta/m"])
    page.goto(site.url)

    row = page.locator(".project").filter(has_text="Repair café")
    expect(row).to_contain_text("A booking service for a village hall")
    expect(row).to_contain_text("not started")
    expect(row.get_by_role("img", name="Seat 2: m")).to_have_text("2")
    link = row.get_by_role("link", name="Repair café", exact=True)
    expect(link).to_have_attribute("href", f"/sessions/{session['id']}")


def test_a_session_that_starts_elsewhere_moves_up_fills_its_bar_and_then_needs_you(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session("Repair café", until="antithesis", is_autopilot=False)
    anna.make_session("Seed library")
    page.goto(site.url)
    names = page.locator(".project h3")
    expect(names).to_have_text(["Seed library", "Repair café"])

    site.simulator.hold("alpha")
    anna.start(session)

    expect(names).to_have_text(["Repair café", "Seed library"])
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    bar = page.locator(".project").first.get_by_role("progressbar")
    expect(bar).to_have_attribute("aria-valuetext", "1 of 2 calls")
    site.simulator.release("alpha")
    need = page.locator(".need")
    expect(need).to_contain_text("Repair café: Thesis is complete, read and go on")
    expect(need.get_by_role("link", name="Read Repair café")).to_have_attribute(
        "href", f"/sessions/{session['id']}"
    )
    expect(page).to_have_title("1 to do · Projects · Dialectic")
    expect(bar).to_have_attribute("aria-valuenow", "2")


def test_rows_stay_where_they_are_while_someone_points_at_them(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session("Repair café")
    anna.make_session("Seed library")
    page.goto(site.url)
    names = page.locator(".project h3")
    expect(names).to_have_text(["Seed library", "Repair café"])
    names.first.hover()

    anna.start(session)

    row = page.locator(".project").filter(has_text="Repair café")
    expect(row.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "2")
    expect(names).to_have_text(["Seed library", "Repair café"])
    page.mouse.move(5, 5)
    expect(names).to_have_text(["Repair café", "Seed library"])


def test_a_filter_is_in_the_address_and_survives_a_reload(
    page: Page, site: Site, anna: Person
) -> None:
    for name in ("Repair café", "Seed library"):
        anna.make_session(name)
    page.goto(site.url)
    names = page.locator(".project h3")
    expect(names).to_have_count(2)

    page.keyboard.press("/")
    page.keyboard.type("seed")

    expect(names).to_have_text(["Seed library"])
    expect(page).to_have_url(re.compile(r"\?q=seed$"))
    expect(page.get_by_role("searchbox", name="Filter by name")).to_be_focused()
    page.reload()
    expect(names).to_have_text(["Seed library"])
    expect(page.get_by_role("searchbox", name="Filter by name")).to_have_value("seed")
    page.get_by_role("button", name="Running").click()
    expect(page.get_by_text("Nothing fits this filter.")).to_be_visible()
    page.go_back()
    expect(names).to_have_text(["Seed library"])


def test_a_list_that_cannot_be_loaded_says_why_and_loads_again(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    anna.make_session("Repair café")
    watch.allow("status of 503")
    broken = True

    def answer(route: Route) -> None:
        body = '{"code": "server_busy", "detail": "The server is busy.", "request_id": "abc123"}'
        if broken:
            route.fulfill(status=503, content_type="application/problem+json", body=body)
        else:
            route.continue_()

    page.route("**/api/v1/needs", answer)
    page.goto(site.url)
    expect(page.get_by_role("alert")).to_contain_text("The server is busy.")
    expect(page.get_by_role("alert")).to_contain_text("abc123")

    broken = False
    page.get_by_role("button", name="Try again").click()

    expect(page.locator(".project h3")).to_have_text(["Repair café"])


def test_a_token_that_may_only_read_is_offered_nothing_else(open_context: Open, site: Site) -> None:
    page = open_context(site.add_user(scopes={Scope.READ})).new_page()
    page.goto(site.url)

    expect(page.get_by_text("Your token may read only")).to_be_visible()
    expect(page.get_by_role("link", name="Begin with a prompt")).to_have_count(0)


def test_calls_that_wait_for_money_are_named_on_the_first_page(
    open_context: Open, site: Site
) -> None:
    poor = site.add_user(is_funded=False)
    poor.start(poor.make_session("Seed library"))
    page = open_context(poor).new_page()
    page.goto(site.url)

    expect(page.locator(".need")).to_contain_text("Seed library: 2 calls wait for money")
    expect(page.locator(".need").get_by_role("link", name="Top up")).to_be_visible()


def test_what_people_and_models_write_is_shown_as_text(
    page: Page, site: Site, anna: Person
) -> None:
    anna.make_session("<img src=x onerror=alert(1)> & <b>bold</b>")
    page.goto(site.url)

    expect(page.locator(".project h3")).to_have_text("<img src=x onerror=alert(1)> & <b>bold</b>")
    expect(page.locator("main img")).to_have_count(0)
