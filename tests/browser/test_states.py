"""Every state of a session is seen on its page, on the whole way from a prompt to a second plan."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from dialectic.core.access import Scope
from tests.browser.conftest import Open, Watch
from tests.browser.site import NAMES, Person, Site
from tests.browser.test_documents import finish, list_documents
from tests.browser.test_new_page import fill_prompt, open_new, wait_for_price
from tests.browser.test_session_live import THREE, visit
from tests.browser.test_session_steering import expect_state

# The state and the detail of each line of the table of states; "starting" needs a server without a
# worker: tests/browser/test_processes.py sees it.
ON_THE_WAY = {"live retrying", "live lost", "gate", "blocked budget", "done"}
AFTERWARDS = {"paused", "cancelled", "done older"}
BY_THEMSELVES = {
    "new",
    "live",
    "live silent",
    "live slowed",
    "blocked approval",
    "blocked endpoint",
    "failed",
    "done incomplete",
    "done stale",
    "gone",
}
# Tells each state that is drawn, however short.
NOTE = """
new MutationObserver(() => {
  const { state, detail } = document.querySelector(".session[data-state]")?.dataset ?? {};
  const seen = [state, detail].filter(Boolean).join(" ");
  if (seen && seen !== window.noted) window.note(window.noted = seen);
}).observe(document, { subtree: true, childList: true, attributeFilter: ["data-state", "data-detail"] });
"""


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    site.simulator.reset()
    yield
    for name in (*NAMES, "gusty", "middle"):
        site.simulator.release(name)


@pytest.fixture
def seen(context: BrowserContext) -> set[str]:
    found: set[str] = set()
    context.expose_function("note", lambda one: found.add(one))
    context.add_init_script(NOTE)
    return found


def go_on(page: Page) -> str:
    """Do what the page offers until the session is done; return what was said at the gate."""
    said = "Think of winter too."
    session = page.locator(".session")
    waits = page.locator(".session:is([data-state=gate], [data-state=blocked], [data-state=done])")
    for _ in range(12):
        expect(waits).to_be_visible(timeout=60_000)
        state = session.get_attribute("data-state")
        if state == "done":
            return said
        card = page.locator(".need-card").first
        if state == "gate" and "Thesis" in card.locator("h2").inner_text():
            page.get_by_label("What must the next stage know?").fill(said)
        card.get_by_role(
            "button", name=re.compile("^(Submit and|Raise the budget|Approve this)")
        ).click()
        expect(
            card.get_by_role("button", name=re.compile("^(Submit|Raise|Approve)"))
        ).to_have_count(0)
    raise AssertionError("it never ends")


def test_from_a_prompt_to_a_plan_and_another_whatever_fails_on_the_way(
    page: Page, site: Site, anna: Person, seen: set[str]
) -> None:
    open_new(page, site, "?models=gusty/m,rainy/m,broken/m")
    fill_prompt(page, "A village hall in a storm.")
    page.get_by_role("switch", name="Stop after each stage").click()
    page.get_by_label("Budget, in dollars").fill("0.02")
    wait_for_price(page)
    page.locator(".quote").get_by_role("button", name=re.compile("^Start")).click()
    expect(page).to_have_url(re.compile("/sessions/"))

    said = go_on(page)

    assert seen >= ON_THE_WAY, ON_THE_WAY - seen
    prompts = [str(call.body) for call in site.simulator.log.calls]
    assert any(said in prompt for prompt in prompts)
    session = page.url
    page.locator(".outcome").get_by_role("link", name="Read the plan").click()
    expect(page.locator(".doc-text h2, .doc-text h3").first).to_be_visible()
    page.goto(session)
    site.simulator.hold("gusty")
    page.locator(".hero").get_by_role("button", name="Iterate").click()
    page.get_by_label("What should be better?").fill("Say who holds the key.")
    page.get_by_role("dialog").get_by_role("button", name=re.compile("^Iterate")).click()
    expect(page.locator(".rail .segmented [aria-current]")).to_have_text("2")
    expect(page.locator(".tile[data-job]").first).to_be_visible()
    page.locator(".hero").get_by_role("button", name="Pause").click()
    expect_state(page, "paused")
    site.simulator.release("gusty")
    page.locator("h1").click()
    page.keyboard.press("[")
    expect(page.locator("[data-detail=older]")).to_be_visible()
    page.keyboard.press("]")
    expect_state(page, "paused")
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Cancel the session").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the session").click()
    expect_state(page, "cancelled")
    assert seen >= ON_THE_WAY | AFTERWARDS


def expect_detail(page: Page, state: str, detail: str) -> None:
    expect_state(page, state)
    expect(page.locator(".session")).to_have_attribute("data-detail", detail)


def test_every_other_state_says_what_is_kept_and_offers_the_way_on(
    open_context: Open, page: Page, site: Site, anna: Person, seen: set[str], watch: Watch
) -> None:
    watch.allow("status of 404")
    cut = anna.make_session(
        models=["alpha/m"], max_output_tokens=300, continue_until_complete=False
    )
    failed = anna.make_session(models=["alpha/m", "broken/m"], wait_for_all=True)
    unpaid = anna.make_session(models=["unpaid/m"])
    edited = anna.make_session(models=["offline/skeptic"], until="antithesis")
    finish(anna, edited)
    thesis = list_documents(anna, edited, "thesis")[0]
    anna.ask("PUT", f"/contributions/{thesis['id']}", {"content": "# Aim\n\nA stove.\n"})
    for session in (cut, failed, unpaid):
        anna.start(session)
    stations = [
        (anna.make_session(), "new", None, "Start"),
        (cut, "done", "incomplete", "Continue it"),
        (edited, "done", "stale", "Regenerate"),
        (failed, "failed", None, "Retry"),
        (unpaid, "blocked", "endpoint", "Try now"),
    ]
    for session, state, detail, button in stations:
        visit(page, site, session)
        expect_state(page, state)
        if detail:
            expect_detail(page, state, detail)
        expect(
            page.locator("main").get_by_role("button", name=re.compile(f"^{button}")).first
        ).to_be_visible()
    see_slow_states(page, site, anna)
    see_approval(open_context, site, seen)
    see_read_only(open_context, site, anna, failed)
    visit(page, site, cut)
    anna.ask("DELETE", f"/projects/{cut['project_id']}")
    expect_state(page, "gone")

    assert seen >= BY_THEMSELVES, BY_THEMSELVES - seen


def see_slow_states(page: Page, site: Site, anna: Person) -> None:
    for name in NAMES:
        site.simulator.hold(name)
    tight = anna.make_session(models=THREE, until="antithesis", budget="0.006")
    visit(page, site, tight)
    anna.start(tight)
    expect_detail(page, "live", "slowed")
    expect(page.locator(".slowed").get_by_role("button", name="Raise the budget")).to_be_visible()
    page.clock.install()
    silent = anna.make_session(models=["alpha/m"])
    visit(page, site, silent)
    anna.start(silent)
    expect(page.locator(".tile[data-job]")).to_have_count(1)
    page.clock.run_for(65_000)
    expect_detail(page, "live", "silent")
    for name in NAMES:
        site.simulator.release(name)


def see_approval(open_context: Open, site: Site, seen: set[str]) -> None:
    poor = site.add_user(is_funded=False)
    site.call(site.api.fund(poor.user, 9_000))
    session = poor.make_session()
    poor.start(session)
    page = open_context(poor).new_page()
    visit(page, site, session)
    expect_detail(page, "blocked", "approval")
    seen.add("blocked approval")


def see_read_only(open_context: Open, site: Site, anna: Person, session: dict[str, str]) -> None:
    token = anna.ask("POST", "/tokens", {"name": "reader", "scopes": [Scope.READ]})["token"]
    reader = Person(site, site.api.come_back(anna.user.account, token))
    page = open_context(reader).new_page()
    visit(page, site, session)
    expect_state(page, "failed")
    expect(page.get_by_text("Your token may read only")).to_be_visible()
    expect(page.locator("main").get_by_role("button", name=re.compile("^Retry"))).to_have_count(0)
