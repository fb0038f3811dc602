"""The wallet: what is left, what was spent, and how it follows what happens elsewhere."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from playwright.sync_api import Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site


def test_the_balance_follows_a_top_up_made_elsewhere(page: Page, site: Site, anna: Person) -> None:
    page.goto(f"{site.url}/wallet")
    expect(page.locator("[data-of=real]")).to_have_text("$1.00")
    rows = page.get_by_role("row")
    before = rows.count()

    site.call(site.api.fund(anna.user))

    expect(page.locator(".balance")).to_have_text("$2.00")
    expect(page.locator("[data-of=real]")).to_have_text("$2.00")
    expect(rows).to_have_count(before + 1)
    expect(rows.nth(1)).to_contain_text("+ $1.0000")


def test_what_calls_cost_is_shown_by_day_and_model_and_in_the_journal(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session("Repair café")
    page.goto(f"{site.url}/wallet")
    expect(page.get_by_text("Nothing was spent.")).to_be_visible()

    anna.start(session)

    expect(page.locator(".by-model li")).to_have_count(2)
    expect(page.locator(".days i:not(.none)")).to_have_count(1)
    calls = page.get_by_role("row").filter(has_text="alpha/m")
    expect(calls.get_by_role("link", name="Thesis")).to_have_attribute(
        "href", f"/sessions/{session['id']}"
    )
    page.get_by_role("button", name="Added", exact=True).click()
    expect(calls).to_have_count(0)
    expect(page).to_have_url(re.compile(r"kind=added"))
    page.reload()
    expect(page.get_by_role("row").filter(has_text="Top-up")).to_have_count(1)
    expect(calls).to_have_count(0)


def test_play_money_is_topped_up_in_the_page_and_never_added_to_dollars(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/wallet")
    page.get_by_role("button", name="Top up").click()
    dialog = page.get_by_role("dialog", name="Top up")
    dialog.get_by_label("Amount in dollars").fill("2.50")
    dialog.get_by_text("Play money, for offline models").click()
    dialog.get_by_label("Note").fill("=1+1 for a trial")
    page.keyboard.press("Enter")

    expect(dialog).to_have_count(0)
    expect(page.locator("[data-of=play]")).to_have_text("play 1,002.50")
    expect(page.locator("[data-of=real]")).to_have_text("$1.00")
    expect(page.get_by_role("row").nth(1)).to_contain_text("=1+1 for a trial")
    expect(page.get_by_role("button", name="Top up")).to_be_focused()
    with page.expect_download() as begun:
        page.get_by_role("button", name="CSV").click()
    lines = list(csv.DictReader(Path(begun.value.path()).read_text().splitlines()))
    assert lines[0]["notes"] == "'=1+1 for a trial"
    assert {line["is_play"] for line in lines} == {"true", "false"}


def test_a_refused_top_up_keeps_the_dialog_and_says_why(
    page: Page, site: Site, watch: Watch
) -> None:
    watch.allow("status of 403|status of 422")
    page.goto(f"{site.url}/wallet")
    page.get_by_role("button", name="Top up").click()
    dialog = page.get_by_role("dialog", name="Top up")
    expect(dialog.get_by_label("Amount in dollars")).to_be_focused()
    page.keyboard.press("Enter")

    expect(dialog.get_by_role("alert")).to_contain_text("owner")
    dialog.get_by_label("Amount in dollars").fill("nonsense")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_be_visible()
    expect(page.locator("[data-of=real]")).to_have_text("$1.00")


def test_a_token_that_only_reads_sees_the_wallet_and_no_button_to_fill_it(
    open_context: Open, site: Site
) -> None:
    page = open_context(site.add_user(scopes={Scope.READ})).new_page()
    page.goto(f"{site.url}/wallet")

    expect(page.locator("[data-of=real]")).to_have_text("$1.00")
    expect(page.get_by_role("button", name="Top up")).to_have_count(0)
    expect(page.get_by_role("button", name="Limit")).to_have_count(0)
