"""Models and processes: what can be asked, whether it answers, and what a process does."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import Site


def test_models_that_can_be_asked_come_first_and_others_name_their_variable(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/models")

    groups = page.locator(".provider")
    expect(groups.first.get_by_role("button", name="Test").first).to_be_visible()
    missing = groups.filter(has=page.get_by_role("heading", name="openai", exact=True))
    expect(missing).to_contain_text("OPENAI_API_KEY")
    expect(missing.get_by_role("button", name="Test")).to_have_count(0)
    page.get_by_role("button", name="Usable").click()
    expect(missing).to_have_count(0)
    expect(page).to_have_url(re.compile("kind=usable"))
    page.get_by_label("Filter models").fill("skept")
    expect(page.locator("tr[data-model]")).to_have_count(1)


def test_a_test_says_whether_a_model_answers(page: Page, site: Site) -> None:
    page.goto(f"{site.url}/models")
    row = page.locator("tr[data-model='offline/skeptic']")
    row.get_by_role("button", name="Test").click()
    expect(row.get_by_role("status")).to_contain_text("answers")

    expect(row.get_by_role("button", name="Test")).to_be_focused()


def test_a_token_that_only_reads_sees_models_and_no_test(open_context: Open, site: Site) -> None:
    page = open_context(site.add_user(scopes={Scope.READ})).new_page()
    page.goto(f"{site.url}/models")

    expect(page.locator("tr[data-model='offline/skeptic']")).to_be_visible()
    expect(page.get_by_role("button", name="Test")).to_have_count(0)


def test_a_process_counts_its_calls_for_the_seats_and_shows_its_prompts(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/processes/standard")
    told = page.get_by_role("status").filter(has_text="calls with")
    expect(told).to_have_text("57 calls with 3 seats")

    page.get_by_role("slider", name="Seats").press("ArrowRight")

    expect(told).to_have_text("112 calls with 4 seats")
    expect(page).to_have_url(re.compile("seats=4"))
    read = page.locator(".stage-box").filter(has_text="Antithesis")
    read.get_by_role("button", name="Read its prompt").click()
    expect(page.get_by_role("dialog")).to_contain_text("{{")
    page.keyboard.press("Escape")
    expect(read.get_by_role("button", name="Read its prompt")).to_be_focused()


def test_a_process_that_does_not_exist_is_not_found(page: Page, site: Site, watch: Watch) -> None:
    watch.allow("status of 404")
    page.goto(f"{site.url}/processes/nothing")

    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
