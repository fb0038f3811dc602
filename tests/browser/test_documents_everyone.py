"""Documents for everyone: axe, phones, keys, focus, forced colours."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import PHONE, Open
from tests.browser.site import Person, Site
from tests.browser.test_documents import OFFLINE, finish, list_documents, read, write, write_thesis
from tests.browser.test_for_everyone import check_axe, list_small_targets, list_too_wide


@pytest.fixture(scope="module")
def argued(site: Site) -> tuple[Person, dict[str, str]]:
    """A person with two versions of a thesis, another one and a critique: the paths of pages."""
    person = site.add_user()
    session = person.make_session("Argued", models=OFFLINE, until="antithesis")
    finish(person, session)
    first, second = list_documents(person, session, "thesis")
    critique = list_documents(person, session, "antithesis")[0]
    edited: dict[str, Any] = person.ask(
        "PUT", f"/contributions/{first['id']}", {"content": "## Aim\n\nA hall with a stove.\n"}
    )
    return person, {
        "read": f"/documents/{critique['id']}",
        "newest": f"/documents/{edited['id']}",
        "older": f"/documents/{first['id']}",
        "edit": f"/documents/{edited['id']}?mode=edit",
        "source": f"/documents/{second['id']}?mode=source",
        "changes": f"/documents/{edited['id']}?mode=diff",
        "compare": f"/compare?ids={edited['id']},{second['id']}&faint=1",
        "too few": "/compare",
    }


def settle(page: Page) -> None:
    expect(page.locator("main h1").first).to_be_visible()
    expect(page.locator("main .blank")).to_have_count(0)
    expect(page.get_by_text("Comparing with what its author read")).to_have_count(0)


@pytest.mark.sentence(59)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_on_documents(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, str]], scheme: str
) -> None:
    person, paths = argued
    page = open_context(person, color_scheme=scheme, reduced_motion="reduce").new_page()
    for path in paths.values():
        page.goto(site.url + path)
        settle(page)
        check_axe(page)
    page.goto(site.url + paths["read"])
    settle(page)
    page.keyboard.press("j")
    expect(page.locator(".source-card").first).to_be_visible()
    check_axe(page)
    page.get_by_role("button", name="More actions").click()
    check_axe(page)
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_role("dialog", name="Compare with")).to_be_visible()
    check_axe(page)


@pytest.mark.sentence(62)
@pytest.mark.parametrize("width", [390, 320])
def test_nothing_of_a_document_scrolls_sideways_or_is_too_small_for_a_thumb(
    open_context: Open, site: Site, argued: tuple[Person, dict[str, str]], width: int
) -> None:
    person, paths = argued
    page = open_context(person, viewport={**PHONE, "width": width}, has_touch=True).new_page()
    for name, path in paths.items():
        page.goto(site.url + path)
        settle(page)
        assert list_too_wide(page, width) == [], name
        small = [one for one in list_small_targets(page) if 'class="ref"' not in one]
        assert small == [], name


def test_a_document_is_read_edited_and_saved_by_keys_alone(
    page: Page, site: Site, anna: Person
) -> None:
    one = write_thesis(anna, "## Aim\n\nA hall.\n")
    read(page, site, one["id"])
    page.keyboard.press("e")
    field = page.get_by_label("Text in Markdown")
    expect(field).to_be_focused()
    write(page, "## Aim\n\nA hall with a stove.\n")
    page.keyboard.press("Control+s")
    expect(page.locator(".doc-text")).to_contain_text("with a stove")
    assert page.evaluate("() => document.activeElement !== document.body")
    page.keyboard.press("Shift+D")
    expect(page.locator(".change ins")).to_contain_text("with a stove")
    page.keyboard.press("Escape")
    expect(page.locator(".doc-text")).to_be_visible()
    assert page.evaluate("() => document.activeElement !== document.body")
