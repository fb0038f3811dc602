"""A session is handed on: as a file that needs nothing, or by a link that can be revoked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site


@pytest.fixture
def session(anna: Person) -> str:
    """A session whose first stage is complete."""
    made = anna.make_session("Repair café", models=["offline/skeptic", "offline/architect"])
    anna.start(made)
    return str(made["id"])


def open_share(page: Page, site: Site, session: str) -> Locator:
    page.goto(f"{site.url}/sessions/{session}")
    expect(page.get_by_role("heading", level=1)).to_have_text("Repair café")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("Share the report")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Share the report")
    expect(dialog).to_contain_text("No link works at present")
    return dialog


@pytest.mark.sentence(44)
def test_the_report_opens_from_a_file_without_a_network(
    page: Page, site: Site, session: str, browser: Browser, tmp_path: Path
) -> None:
    dialog = open_share(page, site, session)
    with page.expect_download() as begun:
        dialog.get_by_role("link", name="Download as a file").click()
    path = tmp_path / "report.html"
    begun.value.save_as(path)
    text = path.read_text()
    assert site.url not in text

    context = browser.new_context(offline=True)
    reader = context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    reader.on("request", lambda request: asked.append(request.url))
    reader.on("pageerror", lambda error: wrong.append(str(error)))
    reader.on("console", lambda told: wrong.append(told.text) if told.type == "error" else None)
    reader.goto(path.as_uri())
    expect(reader.locator("h1").first).to_contain_text("Repair café")
    context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert wrong == []


@pytest.mark.sentence(45)
def test_a_link_is_shown_once_and_leads_nowhere_when_it_is_revoked(
    page: Page, site: Site, session: str
) -> None:
    dialog = open_share(page, site, session)
    dialog.get_by_role("button", name="Make a link").click()
    field = dialog.get_by_label("Copy it now")
    expect(field).to_be_focused()
    link = field.input_value()
    assert httpx2.get(link).status_code == 200
    never = link[:-6] + "AAAAAA"
    assert httpx2.get(never).status_code == 404

    dialog.get_by_role("button", name="Revoke").click()

    expect(dialog).to_contain_text("No link works at present")
    gone, unknown = httpx2.get(link), httpx2.get(never)
    assert gone.status_code == unknown.status_code == 404
    assert gone.text == unknown.text


def test_a_pass_phrase_that_is_too_short_is_refused_in_the_dialog(
    page: Page, site: Site, session: str, watch: Watch
) -> None:
    watch.allow("status of 422")
    dialog = open_share(page, site, session)
    dialog.get_by_label("Pass phrase").fill("short")
    page.keyboard.press("Enter")

    expect(dialog.get_by_role("alert")).to_be_visible()
    dialog.get_by_label("Pass phrase").fill("long enough now")
    page.keyboard.press("Enter")
    expect(dialog.locator(".rows")).to_contain_text("pass phrase")


def test_a_token_that_only_reads_may_download_and_make_no_link(
    open_context: Open, site: Site, anna: Person, session: str
) -> None:
    issued = anna.ask("POST", "/tokens", {"name": "reader", "scopes": [Scope.READ]})
    reader = Person(site, replace(anna.user, token=issued["token"]))
    page = open_context(reader).new_page()
    dialog = open_share(page, site, session)

    expect(dialog.get_by_role("link", name="Download as a file")).to_be_visible()
    expect(dialog.get_by_role("button", name="Make a link")).to_have_count(0)
