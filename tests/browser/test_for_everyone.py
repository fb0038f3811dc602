"""Every page works for everyone: axe finds nothing, keys reach everything, phones fit."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open, Watch
from tests.browser.site import Person, Site

# Pages that need no more than an account; others add theirs.
PATHS = [
    "/",
    "/settings/appearance",
    "/wallet",
    "/models",
    "/processes/standard",
    "/chat",
    "/settings/notifications",
    "/settings/tokens",
    "/settings/members",
    "/settings/organisations",
    "/nowhere",
]


@pytest.fixture
def busy(site: Site, anna: Person) -> Person:
    """A person with something in every part of the list of projects."""
    anna.start(anna.make_session("Repair café", until="antithesis", is_autopilot=False))
    anna.make_session("A very long name of a project that does not fit into one line of a phone")
    return anna


def check_axe(page: Page) -> None:
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    results = Axe().run(page, options=options)
    found = [
        (one["id"], node["target"], node["failureSummary"])
        for one in results.response["violations"]
        for node in one["nodes"]
    ]
    assert found == []


def list_small_targets(page: Page) -> list[str]:
    """List what a thumb would miss, except links inside of sentences."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll("button, a[href], input, select")]
          .filter((one) => one.checkVisibility())
          .filter((one) => !one.closest(".sr, .skip, .switch, .tick, p:not(.facts-line), h3"))
          .filter((one) => !one.matches(".sr"))
          .map((one) => [one.outerHTML.slice(0, 80), one.closest("a.project-link") ?? one])
          .map(([html, one]) => [html, one.matches(".project-link") ? one.closest("li") : one])
          .map(([html, one]) => [html, one.getBoundingClientRect()])
          .filter(([, box]) => box.height < 43.5 || box.width < 43.5)
          .map(([html, box]) => `${html} ${box.width}x${box.height}`)"""
    )
    return found


def list_too_wide(page: Page, width: int) -> list[str]:
    """List what reaches beyond the page; nothing if it does not scroll sideways."""
    found: list[str] = page.evaluate(
        """(width) => document.documentElement.scrollWidth <= width ? []
          : [...document.querySelectorAll("body *")]
            .filter((one) => one.getBoundingClientRect().right > width)
            .map((one) => one.outerHTML.slice(0, 120))""",
        width,
    )
    return found


def settle(page: Page) -> None:
    """Wait until the page has its data."""
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main .blank")).to_have_count(0)


@pytest.mark.sentence(59)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_any_page(
    open_context: Open, site: Site, busy: Person, watch: Watch, scheme: str
) -> None:
    watch.allow("status of 404")
    page = open_context(busy, color_scheme=scheme, reduced_motion="reduce").new_page()
    for path in PATHS:
        page.goto(site.url + path)
        settle(page)
        check_axe(page)
    page.goto(site.url)
    settle(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    check_axe(page)
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search or act")).to_be_visible()
    check_axe(page)
    page.keyboard.press("Escape")
    for name in ("Messages", "Account"):
        page.get_by_role("button", name=name).click()
        expect(page.get_by_role("dialog", name=name)).to_be_visible()
        check_axe(page)


@pytest.mark.sentence(59)
def test_axe_finds_nothing_where_someone_signs_in_or_begins(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    page = open_context().new_page()
    page.goto(f"{site.url}/sign-in")
    page.get_by_label("Token").fill("nonsense")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_be_visible()
    check_axe(page)
    page.get_by_label("Token").fill(anna.token)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Begin with a prompt")).to_be_visible()
    check_axe(page)


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_nothing_scrolls_sideways_or_is_too_small_for_a_thumb(
    open_context: Open, site: Site, busy: Person, watch: Watch, width: int
) -> None:
    watch.allow("status of 404")
    page = open_context(busy, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    for path in PATHS:
        page.goto(site.url + path)
        settle(page)
        assert list_too_wide(page, width) == []
        assert list_small_targets(page) == []
    page.goto(site.url)
    settle(page)
    main = page.locator(".bar-bottom .button")
    box = main.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] > PHONE["height"] - 60


def test_the_way_through_the_pages_works_by_keys_alone(
    page: Page, site: Site, busy: Person
) -> None:
    page.goto(site.url)
    settle(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".project-link").first).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(".project-link").nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(page.locator(".project-link").first).to_be_focused()
    page.keyboard.press("Control+k")
    page.keyboard.type("settings")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Settings")).to_be_focused()
    page.keyboard.press("g")
    page.keyboard.press("p")
    expect(page.get_by_role("heading", name="Projects", level=1)).to_be_focused()
    page.keyboard.press("t")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


@pytest.mark.sentence(61)
def test_focus_is_never_lost_when_something_opens_closes_or_moves(
    page: Page, site: Site, busy: Person
) -> None:
    page.goto(site.url)
    settle(page)
    filter_field = page.get_by_role("searchbox", name="Filter")
    filter_field.focus()
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox")).to_be_focused()
    for _ in range(30):
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.closest('dialog, body').tagName") in (
            "DIALOG",
            "BODY",
        )
    page.get_by_role("combobox").focus()
    page.keyboard.press("Escape")
    expect(filter_field).to_be_focused()
    anna_link = page.locator(".project-link").filter(has_text="A very long name")
    anna_link.focus()
    session = busy.ask("GET", "/sessions")["items"][0]
    busy.start(session)
    expect(page.locator(".project").filter(has_text="A very long")).to_contain_text("done")
    expect(anna_link).to_be_focused()


def test_keys_can_be_switched_off(page: Page, site: Site, anna: Person) -> None:
    page.goto(f"{site.url}/settings/appearance")
    with page.expect_response("**/me/preferences"):
        page.get_by_role("switch").click()
    page.locator("h1").click()

    page.keyboard.press("n")
    page.keyboard.press("t")

    expect(page).to_have_url(f"{site.url}/settings/appearance")
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog", name="Search or act")).to_be_visible()


def test_those_who_want_less_motion_see_none(open_context: Open, site: Site, anna: Person) -> None:
    site.simulator.hold("alpha")
    anna.start(anna.make_session("Repair café"))
    page = open_context(anna, reduced_motion="reduce").new_page()
    page.goto(site.url)
    expect(page.get_by_role("heading", name="Running")).to_be_visible()
    expect(page.locator(".glyph.run .turning")).to_be_visible()

    moving = page.evaluate(
        "() => document.getAnimations().filter((one) => one.playState === 'running').length"
    )

    assert moving == 0
    site.simulator.release("alpha")


def test_every_state_can_be_told_in_forced_colours(
    open_context: Open, site: Site, busy: Person
) -> None:
    page = open_context(busy, forced_colors="active").new_page()
    page.goto(site.url)
    settle(page)

    row = page.locator(".project").filter(has_text="Repair café")
    expect(row).to_contain_text("Thesis is complete")
    width = row.locator(".bar > span").first.evaluate(
        "(one) => getComputedStyle(one).borderTopWidth"
    )
    assert width == "1px"


def test_the_theme_is_there_before_the_first_paint_and_stays(
    open_context: Open, site: Site, anna: Person
) -> None:
    context = open_context(anna, color_scheme="dark")
    page = context.new_page()
    page.goto(f"{site.url}/settings/appearance")
    expect(page.locator("html")).not_to_have_attribute("data-theme", "light")
    page.get_by_text("Light", exact=True).click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")

    page.goto(f"{site.url}/settings/appearance", wait_until="commit")

    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
