"""Settings: tokens, members, organisations, how a person is told, how numbers read."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open
from tests.browser.site import Person, Site


def test_a_token_is_made_shown_once_and_revoked(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/settings/tokens")
    page.get_by_role("button", name="Make a token").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("administer").uncheck()
    page.keyboard.press("Enter")
    shown = page.get_by_role("dialog", name="Copy the token now")
    expect(shown.get_by_label("Token")).to_have_value(re.compile("^dlk_"))
    shown.get_by_role("button", name="Done").click()

    row = page.get_by_role("listitem").filter(has_text="laptop")
    expect(row).not_to_contain_text("admin")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog", name="Revoke laptop?").get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)


def test_someone_without_the_right_to_administer_sees_no_tokens(
    open_context: Open, site: Site
) -> None:
    page = open_context(site.add_user(scopes={Scope.READ})).new_page()
    page.goto(f"{site.url}/settings/tokens")

    expect(page.get_by_role("tab", name="Appearance")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tab", name="Tokens")).to_have_count(0)


def test_an_organisation_is_made_entered_and_gets_members(page: Page, site: Site) -> None:
    other = site.add_user()
    name = other.ask("GET", "/me")["name"]
    page.goto(f"{site.url}/settings/organisations")
    page.get_by_role("button", name="Make an organisation").click()
    page.get_by_label("Name").fill("Bakers")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Go over to Bakers").click()
    expect(page).to_have_url(f"{site.url}/")
    page.goto(f"{site.url}/settings/members")

    page.get_by_role("button", name="Add a member").click()
    page.get_by_label("Name of the user").fill(name)
    page.keyboard.press("Enter")
    row = page.get_by_role("listitem").filter(has_text=name)
    row.get_by_label(f"Role of {name}").select_option("admin")
    expect(row.locator(".chip")).to_have_text("admin")
    row.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(row).to_have_count(0)
    page.goto(f"{site.url}/wallet")
    expect(page.locator(".page-head")).to_contain_text("Of the organisation Bakers")


@pytest.mark.sentence(66)
def test_in_german_numbers_and_dates_read_right_everywhere(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/settings/appearance")
    with page.expect_response("**/me/preferences"):
        page.get_by_label("Dates and numbers").select_option("de-DE")
    expect(page.locator("#language + .help")).to_contain_text("1.234,50")

    page.goto(f"{site.url}/wallet")

    expect(page.locator("[data-of=real]")).to_have_text("1,00\u00a0$")
    page.goto(f"{site.url}/settings/appearance")
    expect(page.locator("#language + .help")).to_contain_text(re.compile(r"12\.03\.2026, \d\d:05"))


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_hidden_page_tells_of_a_finished_session_only_those_who_asked(
    open_context: Open, site: Site, anna: Person, is_wanted: bool
) -> None:
    context = open_context(anna)
    context.grant_permissions(["notifications"], origin=site.url)
    context.add_init_script(
        """globalThis.told = [];
        globalThis.Notification = class { static permission = "granted";
          static requestPermission() { return Promise.resolve("granted"); }
          constructor(title) { told.push(title); } };
        document.hasFocus = () => false;"""
    )
    page = context.new_page()
    page.goto(f"{site.url}/settings/notifications")
    if is_wanted:
        page.get_by_label("A session is done: desktop notice").check()
    session = anna.make_session("Repair café", models=["offline/skeptic"])
    anna.start(session)

    expect(page.get_by_role("button", name="Messages, 1 unread")).to_be_visible()
    assert len(page.evaluate("told")) == (1 if is_wanted else 0)


def test_the_palette_finds_projects_documents_and_chats_and_opens_them(
    page: Page, site: Site, anna: Person
) -> None:
    anna.start(anna.make_session("Zebra crossing", models=["offline/skeptic"]))
    asked = {"message": "How wide is a zebra crossing?", "model": "offline/skeptic"}
    chat = anna.ask("POST", "/chat", asked)["chat_id"]
    page.goto(site.url)
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search or act")
    field.fill("zebra")

    options = page.get_by_role("option")
    expect(options.filter(has_text="project").first).to_contain_text("Zebra crossing")
    options.filter(has=page.get_by_text("chat", exact=True)).click()
    expect(page).to_have_url(f"{site.url}/chat/{chat}")
