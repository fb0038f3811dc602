"""What a person does with a session on its page, and what the server and the models see of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Open, Watch
from tests.browser.site import NAMES, Person, Site
from tests.browser.test_session_live import THREE, visit


@pytest.fixture(autouse=True)
def nothing_held(site: Site) -> Iterator[None]:
    """Let no gate of one test hold the calls of another."""
    site.simulator.reset()
    yield
    for name in (*NAMES, "middle"):
        site.simulator.release(name)


def expect_state(page: Page, state: str) -> None:
    expect(page.locator(".session")).to_have_attribute("data-state", state)


def list_prompts(site: Site, endpoint: str) -> list[str]:
    """List what an endpoint of the simulator was asked, in order."""
    return [str(call.body) for call in site.simulator.log.calls if call.endpoint == endpoint]


def list_jobs(person: Person, session: dict[str, Any], **wanted: object) -> list[dict[str, Any]]:
    found = person.ask("GET", f"/sessions/{session['id']}/board")["jobs"]
    return [job for job in found if all(job[name] == value for name, value in wanted.items())]


@pytest.mark.sentence(23)
def test_at_the_gate_feedback_and_stars_go_into_the_next_prompt(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session(until="antithesis", is_autopilot=False)
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "gate")
    expect(page).to_have_title(re.compile("^▲ · Village hall"))
    asked = len(list_prompts(site, "alpha"))

    page.get_by_label("What must the next stage know?").fill("Think of winter too.")
    card = page.locator(".cards .place.seat-2")
    card.hover()
    card.get_by_role("button", name="2 stars").click()
    expect(card.get_by_role("group", name="Rating: 2 stars")).to_be_visible()
    page.reload()
    expect(page.get_by_label("What must the next stage know?")).to_have_value(
        "Think of winter too."
    )
    expect(card.get_by_role("group", name="Rating: 2 stars")).to_be_visible()
    watch.requests.clear()
    page.get_by_role("button", name=re.compile("Submit and start Antithesis about")).first.click()

    expect_state(page, "done")
    sent = [one.url.rpartition("/")[2] for one in watch.requests if one.method != "GET"]
    assert sent == ["submit"]
    later = "".join(list_prompts(site, "alpha")[asked:])
    assert "Think of winter too." in later
    assert re.search(r"2 of 5|2/5", later)


@pytest.mark.sentence(24)
def test_pause_lets_calls_in_flight_finish_and_starts_no_other_in_all_tabs(
    context: BrowserContext, site: Site, anna: Person
) -> None:
    session = anna.make_session(until="antithesis")
    site.simulator.hold("alpha")
    site.simulator.hold("beta")
    anna.start(session)
    page, other = context.new_page(), context.new_page()
    for tab in (other, page):
        visit(tab, site, session)
        expect(tab.locator(".tile[data-job]")).to_have_count(2)

    page.locator("h1").click()
    page.keyboard.press("p")
    for tab in (page, other):
        expect_state(tab, "paused")
    site.simulator.release("alpha")
    site.simulator.release("beta")
    expect(page.locator(".cards [data-doc]")).to_have_count(2)
    expect(page.locator(".tile[data-job]")).to_have_count(0)
    assert len(site.simulator.log.calls) == 2

    other.bring_to_front()
    other.get_by_role("button", name="Resume").first.click()
    for tab in (other, page):
        expect_state(tab, "done")


@pytest.mark.sentence(25)
def test_without_money_the_page_says_what_is_missing_and_goes_on_when_the_budget_is_raised(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=THREE, until="antithesis", budget="0.006")
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "blocked")
    need = page.locator(".need-card")
    expect(need).to_contain_text(
        re.compile(r"The next call may cost \$0\.\d+; the budget has \$0\.\d+ left")
    )
    expect(page.locator(".hero")).to_contain_text("The budget will end in")
    done = {job["id"] for job in list_jobs(anna, session, status="completed")}
    asked = len(site.simulator.log.calls)

    need.get_by_role("button", name=re.compile(r"Raise the budget to \$")).click()

    expect_state(page, "done")
    jobs = list_jobs(anna, session)
    assert len(jobs) == 12
    assert len(site.simulator.log.calls) - asked == len(jobs) - len(done)


@pytest.mark.sentence(26)
def test_a_call_that_costs_too_much_to_be_made_unasked_waits_for_one_approval(
    open_context: Open, site: Site
) -> None:
    poor = site.add_user(is_funded=False)
    site.call(site.api.fund(poor.user, 9_000))
    session = poor.make_session(models=["alpha/m", "beta/m"])
    poor.start(session)
    page = open_context(poor).new_page()
    visit(page, site, session)
    expect_state(page, "blocked")
    expect(page.locator(".need-card h2")).to_have_text(re.compile(r"One call may cost \$0\.\d+"))
    waiting = len(list_jobs(poor, session, status="paused"))

    page.get_by_role("button", name=re.compile("Approve this call")).first.click()

    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    assert len(list_jobs(poor, session, status="paused")) == waiting - 1


@pytest.mark.sentence(27)
def test_a_failed_call_is_retried_alone(page: Page, site: Site, anna: Person) -> None:
    session = anna.make_session(models=["alpha/m", "fickle/m"], wait_for_all=True)
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "failed")
    expect(page.locator(".failures")).to_contain_text("Seat 2 (m): The provider rejected the key.")
    page.locator(".failures a").click()
    inspector = page.locator(".inspector")
    expect(inspector).to_contain_text("provider_auth")

    inspector.get_by_role("button", name=re.compile("^Retry about")).click()

    expect_state(page, "done")
    assert len(list_prompts(site, "alpha")) == 1
    assert len(list_prompts(site, "fickle")) == 2


@pytest.mark.sentence(28)
def test_another_model_on_a_failed_seat_finishes_the_stage(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "broken/m"], wait_for_all=True)
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "failed")

    page.get_by_role("button", name="Other model").click()
    page.get_by_label("Model", exact=True).select_option("offline/skeptic")
    page.get_by_role("button", name="Use this model").click()

    expect_state(page, "done")
    expect(page.locator(".rail-seats")).to_contain_text("skeptic")
    expect(page.locator(".cards .place.seat-2")).to_contain_text("skeptic")
    assert len(list_prompts(site, "alpha")) == 1


@pytest.mark.sentence(29)
def test_cancel_asks_ends_and_keeps_what_is_written(page: Page, site: Site, anna: Person) -> None:
    session = anna.make_session(until="antithesis")
    site.simulator.hold("beta")
    anna.start(session)
    visit(page, site, session)
    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Cancel the session").click()
    dialog = page.get_by_role("dialog", name="Cancel this session?")
    dialog.get_by_role("button", name="Leave it").click()
    expect(page.get_by_role("button", name="More actions")).to_be_focused()
    page.get_by_role("button", name="More actions").click()
    page.get_by_role("button", name="Cancel the session").click()
    dialog.get_by_role("button", name="Cancel the session").click()

    expect_state(page, "cancelled")
    expect(page.locator(".hero")).to_contain_text("Cancelled after")
    expect(page.locator(".cards [data-doc]")).to_have_count(1)
    expect(page.locator(".hero").get_by_role("button", name="Pause")).to_have_count(0)
    page.locator(".cards [data-doc]").click()
    expect(page.locator(".doc-text")).to_contain_text(re.compile(r"\w{4}"))


@pytest.mark.sentence(31)
def test_another_iteration_is_shown_and_leaves_the_first_as_it_was(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session()
    anna.start(session)
    visit(page, site, session)
    expect_state(page, "done")
    expect(page.locator(".stages [data-doc]")).to_have_count(2)
    first = page.locator(".stages [data-doc]").evaluate_all(
        "all => all.map((one) => one.dataset.doc)"
    )
    texts = [anna.ask("GET", f"/contributions/{one}")["content"] for one in first]

    page.locator(".hero").get_by_role("button", name="Iterate").click()
    dialog = page.get_by_role("dialog", name="Another iteration")
    dialog.get_by_label("What should be better?").fill("Say who holds the key.")
    dialog.get_by_role("button", name=re.compile("^Iterate")).click()

    expect(page.locator(".rail .segmented [aria-current]")).to_have_text("2")
    expect_state(page, "done")
    expect(page.locator(".stages [data-doc]")).to_have_count(2)
    second = page.locator(".stages [data-doc]").evaluate_all(
        "all => all.map((one) => one.dataset.doc)"
    )
    assert set(first).isdisjoint(second)
    page.keyboard.press("[")
    expect(page.get_by_text("An older iteration: 1 of 2.")).to_be_visible()
    expect(page.locator(".hero").get_by_role("button", name="Iterate")).to_have_count(0)
    expect(page.locator(".stages [data-doc]")).to_have_count(2)
    assert (
        page.locator(".stages [data-doc]").evaluate_all("all => all.map((one) => one.dataset.doc)")
        == first
    )
    assert [anna.ask("GET", f"/contributions/{one}")["content"] for one in first] == texts


@pytest.mark.sentence(46)
def test_the_meter_says_what_the_ledger_says_and_never_adds_play_money(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=["alpha/m", "beta/m", "offline/skeptic"], budget="0.9")
    visit(page, site, session)
    site.simulator.hold("alpha")
    site.simulator.hold("beta")
    anna.start(session)
    for count, name in enumerate(("alpha", "beta"), start=2):
        site.simulator.release(name)
        expect(page.locator(".cards [data-doc]")).to_have_count(count)
        spent = Decimal(anna.ask("GET", f"/sessions/{session['id']}")["spent"])
        assert spent > 0
        expect(page.locator(".hero-money strong")).to_have_text(f"${spent:.4f}")
    expect_state(page, "done")

    found = anna.ask("GET", f"/sessions/{session['id']}")
    real, play = Decimal(found["spent"]), Decimal(found["play_spent"])
    assert real > 0
    assert play > 0
    expect(page.locator(".hero-money strong")).to_have_text(f"${real:.4f}")
    expect(page.locator(".hero-money .sentence")).to_contain_text(f"play {play:.4f}")
    wallet = anna.ask("GET", "/wallet")
    assert Decimal(wallet["money"]["balance"]) == 1 - real
    charged = {job["seat"]: Decimal(job["charged"]) for job in list_jobs(anna, session)}
    assert charged[1] + charged[2] == real
    assert charged[3] == play


@pytest.mark.sentence(47)
def test_a_forecast_beyond_the_budget_is_told_before_the_budget_is_met(
    page: Page, site: Site, anna: Person
) -> None:
    session = anna.make_session(models=THREE, until="paralysis", budget="0.05")
    visit(page, site, session)
    expect(page.locator("p.beyond")).to_have_text(
        re.compile("The budget will end in (Antithesis|Synthesis)")
    )

    page.locator("p.beyond").get_by_role("button", name=re.compile("Raise it to")).click()
    page.get_by_role("button", name="Set the budget").click()

    expect(page.locator("p.beyond")).to_have_count(0)


def test_what_happened_to_the_project_of_an_open_page_is_told(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 404")
    session = anna.make_session()
    visit(page, site, session)
    project = anna.ask("GET", f"/sessions/{session['id']}")["project_id"]

    anna.ask("DELETE", f"/projects/{project}")

    expect_state(page, "gone")
    expect(
        page.get_by_text("This project was deleted. What you see is how it was.")
    ).to_be_visible()
