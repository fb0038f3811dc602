"""Chat: one model answers, in every tab, whether or not someone looks."""

from __future__ import annotations

import re

from playwright.sync_api import BrowserContext, Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site

QUESTION = "Is a lending library for tools worth it?"


def ask(page: Page, text: str, model: str = "offline/skeptic") -> None:
    page.get_by_label("Model").select_option(model)
    page.get_by_label("Question").fill(text)
    page.keyboard.press("Enter")


def make_chat(person: Person, text: str = QUESTION) -> str:
    reply = person.ask("POST", "/chat", {"message": text, "model": "offline/skeptic"})
    return str(reply["chat_id"])


def test_a_question_tells_its_price_and_its_answer_becomes_a_document(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/chat")
    expect(page.get_by_role("switch", name="Full Response Mode")).to_be_checked()
    page.get_by_label("Model").select_option("offline/skeptic")
    page.get_by_label("Question").fill(QUESTION)
    expect(page.get_by_role("button", name=re.compile("^Ask"))).to_contain_text("about play")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(QUESTION)
    expect(page.locator(".message.answered .document h3").first).to_be_visible()
    expect(page.get_by_label("Question")).to_be_focused()
    expect(page.get_by_role("navigation", name="Chats").get_by_role("link")).to_have_count(2)


def test_an_answer_that_finishes_while_the_tab_is_closed_is_found_on_return(
    context: BrowserContext, site: Site
) -> None:
    page = context.new_page()
    page.goto(f"{site.url}/chat")
    site.simulator.hold("alpha")
    chat = f"{site.url}/chat/{make_chat_of(page, site)}"
    page.goto(chat)
    ask(page, "And who repairs them?", "alpha/m")
    expect(page.locator("[aria-busy=true]")).to_contain_text("Waiting for the first word")
    page.close()

    page = context.new_page()
    page.goto(chat)
    expect(page.locator(".message.asked").last).to_contain_text("And who repairs them?")
    expect(page.locator("li[aria-busy=true]")).to_be_visible()
    site.simulator.release("alpha")

    expect(page.locator("li[aria-busy=true]")).to_have_count(0)
    expect(page.locator(".message.answered")).to_have_count(2)


def make_chat_of(page: Page, site: Site) -> str:
    """Ask the first question in the page; return the id of its chat."""
    del site
    ask(page, QUESTION)
    expect(page).to_have_url(re.compile(r"/chat/[0-9a-f-]{36}$"))
    return page.url.rpartition("/")[2]


def test_two_tabs_of_one_chat_agree(context: BrowserContext, site: Site, anna: Person) -> None:
    chat = make_chat(anna)
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(f"{site.url}/chat/{chat}")
        expect(page.locator(".message")).to_have_count(2)

    second.get_by_label("Question").fill("not sent yet")
    first.bring_to_front()
    ask(first, "And who repairs them?")

    for page in (first, second):
        page.bring_to_front()
        expect(page.locator(".message")).to_have_count(4)
    expect(second.get_by_label("Question")).to_have_value("not sent yet")


def test_an_edited_question_is_asked_again_and_the_old_branch_stays_reachable(
    page: Page, site: Site, anna: Person
) -> None:
    page.goto(f"{site.url}/chat/{make_chat(anna)}")
    page.get_by_role("button", name="Edit and ask again").click()
    page.get_by_label("Your question").fill("Is a lending library for books worth it?")
    page.get_by_role("button", name="Ask again").click()

    asked = page.locator(".message.asked")
    expect(asked).to_have_count(1)
    expect(asked).to_contain_text("for books")
    versions = page.get_by_role("group", name="Versions of this question")
    expect(versions).to_contain_text("2 of 2")
    versions.get_by_role("button", name="Earlier version").click()
    expect(asked).to_contain_text("for tools")
    expect(versions).to_contain_text("1 of 2")


def test_full_response_mode_joins_the_parts_and_without_it_an_answer_is_cut_off(
    page: Page, site: Site
) -> None:
    page.goto(f"{site.url}/chat")
    page.get_by_label("Longest answer").fill("60")
    page.get_by_text("Full Response Mode").click()
    ask(page, QUESTION)
    notice = page.locator(".message .notice")
    expect(notice).to_contain_text("cut off")
    cut = page.locator(".message.answered").inner_text()

    page.goto(f"{site.url}/chat")
    page.get_by_text("Full Response Mode").click()
    ask(page, QUESTION)

    expect(page.locator(".message.answered .tools")).to_contain_text("5 calls")
    assert len(page.locator(".message.answered").inner_text()) > len(cut)


def test_a_question_that_is_stopped_before_its_first_word_goes_back_into_the_field(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 502")
    page.goto(f"{site.url}/chat/{make_chat(anna)}")
    site.simulator.hold("beta")
    ask(page, QUESTION, "beta/m")
    page.get_by_role("button", name="Stop").click()

    expect(page.get_by_label("Question")).to_have_value(QUESTION)
    expect(page.locator("li[aria-busy=true]")).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    site.simulator.release("beta")


def test_without_money_the_page_names_the_ways_out(
    open_context: Open, site: Site, watch: Watch
) -> None:
    watch.allow("status of 402")
    page = open_context(site.add_user(is_funded=False)).new_page()
    page.goto(f"{site.url}/chat")
    ask(page, QUESTION, "alpha/m")

    alert = page.get_by_role("alert")
    expect(alert.get_by_role("link", name="To the wallet")).to_be_visible()
    expect(alert.get_by_role("button", name="Choose another model")).to_be_visible()
    expect(page.get_by_label("Question")).to_have_value(QUESTION)


def test_some_messages_of_a_chat_become_a_project(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("project\\.js|status of 404")
    page.goto(f"{site.url}/chat/{make_chat(anna)}")
    page.get_by_role("button", name="Make a project of this").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("checkbox").last.uncheck()
    dialog.get_by_label("Name").fill("Tool library")
    dialog.get_by_role("button", name="Make a project").click()

    expect(page).to_have_url(re.compile(r"/projects/[0-9a-f-]{36}$"))
    project = anna.ask("GET", "/projects")["items"][0]
    assert project["name"] == "Tool library"
    assert project["prompt_excerpt"].startswith(QUESTION)


def test_a_chat_of_another_tenant_is_not_found(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 404")
    chat = make_chat(anna)
    page = open_context(site.add_user()).new_page()
    page.goto(f"{site.url}/chat/{chat}")

    expect(page.get_by_role("heading", level=1)).to_have_text("Not found")


def test_a_token_that_only_reads_sees_a_chat_and_no_field(open_context: Open, site: Site) -> None:
    reader = site.add_user(scopes={Scope.READ})
    page = open_context(reader).new_page()
    page.goto(f"{site.url}/chat")

    expect(page.get_by_text("may not spend")).to_be_visible()
    expect(page.get_by_label("Question")).to_have_count(0)
