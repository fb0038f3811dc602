"""Signing in and out: tokens, sessions that end, CSRF, tabs, and servers on one machine."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest
from playwright.sync_api import Page, Route, expect

from dialectic.db.pool import Address
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site, open_site
from tests.browser.test_stream import count_streams

WRONG = "This token is not valid"


def sign_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def test_someone_unknown_signs_in_and_is_where_they_wanted_to_be(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    anna.make_session("Repair café")
    context = open_context()
    page = context.new_page()
    page.goto(f"{site.url}/?q=café")
    expect(page).to_have_url(re.compile(r"/sign-in\?then=%2F%3Fq%3Dcaf"))
    expect(page.get_by_role("heading", name="Sign in to Dialectic")).to_be_visible()

    sign_in(page, anna.token)

    expect(page.locator(".project h3")).to_have_text(["Repair café"])
    expect(page).to_have_url(re.compile(r"/\?q=caf"))
    kept = page.evaluate("() => JSON.stringify([{...localStorage}, {...sessionStorage}])")
    assert anna.token not in kept + page.url + page.content()
    (cookie,) = context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Lax")
    assert cookie["name"] == f"dialectic_session_{site.url.rpartition(':')[2]}"


@pytest.mark.sentence(50)
def test_a_wrong_an_ended_and_a_revoked_token_are_refused_in_the_same_words(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    revoked = anna.ask("POST", "/tokens", {"name": "old"})
    anna.ask("DELETE", f"/tokens/{revoked['id']}")
    ended = anna.ask("POST", "/tokens", {"name": "short", "life_days": 1})
    site.call(
        site.api.engine.db.transact(
            anna.user.account.tenant_id,
            lambda c: c.execute(
                "update access_tokens set expires_at = created_at where id = $1", ended["id"]
            ),
        )
    )
    page = open_context().new_page()
    page.goto(f"{site.url}/sign-in")
    for token in ("nonsense", "dlk_" + "A" * 43, "tökén 🎉", revoked["token"], ended["token"]):
        sign_in(page, token)
        expect(page.get_by_role("alert")).to_contain_text(WRONG)
        expect(page.get_by_label("Token")).to_be_focused()
        page.get_by_label("Token").fill("x")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_the_way_back_after_signing_in_never_leads_to_another_site(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    for then in ("https://evil.example/", "//evil.example", "javascript:alert(1)", "/sign-in"):
        page = open_context().new_page()
        page.goto(f"{site.url}/sign-in?then={then}")
        sign_in(page, anna.token)
        expect(page).to_have_url(f"{site.url}/")


def test_a_sign_in_that_ends_is_asked_for_again_over_the_page_and_nothing_is_lost(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    anna.make_session("Repair café")
    first = anna.ask("POST", "/tokens", {"name": "laptop"})
    context = open_context()
    page = context.new_page()
    page.goto(f"{site.url}/sign-in")
    sign_in(page, first["token"])
    expect(page.locator(".project")).to_have_count(1)
    page.get_by_role("searchbox", name="Filter").fill("Rep")
    expect(page).to_have_url(re.compile(r"\?q=Rep"))

    anna.ask("DELETE", f"/tokens/{first['id']}")

    dialog = page.get_by_role("dialog", name="Sign in again")
    expect(dialog).to_be_visible()
    expect(dialog.get_by_label("Token")).to_be_focused()
    page.keyboard.press("Escape")
    expect(dialog).to_be_visible()
    dialog.get_by_label("Token").fill(anna.token)
    page.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("searchbox", name="Filter")).to_have_value("Rep")
    expect(page.get_by_role("status", name="Connection: live")).to_be_visible()
    anna.make_session("Repair bicycles")
    anna.start(anna.make_session("Repair lamps"))
    expect(page.locator(".project h3")).to_contain_text(["Repair lamps"])


@pytest.mark.sentence(52)
def test_a_csrf_token_that_does_not_fit_is_fetched_again_and_the_request_repeated_once(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 403")
    page.goto(f"{site.url}/settings/appearance")
    dark = page.get_by_role("radio", name="Dark")
    expect(dark).to_be_attached()
    base = page.evaluate("() => document.documentElement.dataset.base")
    page.evaluate("(base) => import(`${base}/js/api.js`).then((m) => m.rememberCsrf('x'))", base)

    with page.expect_response(lambda r: r.url.endswith("/me/preferences") and r.ok):
        page.get_by_text("Dark", exact=True).click()

    assert anna.ask("GET", "/me")["preferences"]["theme"] == "dark"
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    changes = [r for r in watch.requests if r.method == "PATCH"]
    assert len(changes) == 2
    assert len({r.headers["idempotency-key"] for r in changes}) == 1


@pytest.mark.sentence(51)
def test_signing_out_ends_all_tabs_and_forgets_what_was_kept(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    context = open_context(anna)
    page, other = context.new_page(), context.new_page()
    for tab in (page, other):
        tab.goto(f"{site.url}/settings/appearance")
        expect(tab.get_by_role("heading", name="Settings")).to_be_visible()
    # A tab in the background draws about once a second.
    page.bring_to_front()
    page.get_by_text("Dark", exact=True).click()
    page.evaluate("() => localStorage.setItem('dialectic:u:t:prompt', 'half a prompt')")

    page.get_by_role("button", name="Account").click()
    page.get_by_role("button", name="Sign out", exact=True).click()

    for tab in (page, other):
        expect(tab).to_have_url(re.compile("/sign-in"), timeout=5_000)
    assert count_streams(site, anna) == 0
    assert page.evaluate("() => Object.keys(localStorage)") == []
    page.goto(site.url)
    expect(page).to_have_url(re.compile("/sign-in"))


def test_signing_out_everywhere_ends_every_browser_of_the_person_and_no_other(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 401")
    here, there = open_context(anna).new_page(), open_context(anna).new_page()
    berta = open_context(site.add_user()).new_page()
    for page in (here, there, berta):
        page.goto(f"{site.url}/settings/notifications")
        expect(page.get_by_role("button", name="Sign out everywhere")).to_be_visible()

    here.get_by_role("button", name="Sign out everywhere").click()
    here.get_by_role("dialog").get_by_role("button", name="Sign out everywhere").click()

    expect(here).to_have_url(re.compile("/sign-in"))
    # The other browser's stream ends with its session; what is on its page stays.
    expect(there.get_by_role("dialog", name="Sign in again")).to_be_visible()
    berta.reload()
    expect(berta.get_by_role("heading", name="Settings")).to_be_visible()
    assert anna.ask("GET", "/me")["user_id"]


@pytest.mark.sentence(53)
def test_two_servers_on_one_machine_stay_signed_in_next_to_each_other(
    open_context: Open,
    site: Site,
    site_address: Address,
    anna: Person,
    watch: Watch,
    tmp_path: Path,
) -> None:
    with open_site(site_address, tmp_path / "second") as second:
        watch.origins.add(second.url)
        context = open_context(anna)
        ben = second.add_user("Ben on the second server")
        context.add_cookies([ben.sign_in()])  # type: ignore[list-item]
        page = context.new_page()
        for url, name in ((site.url, anna), (second.url, ben), (site.url, anna)):
            page.goto(url)
            page.get_by_role("button", name="Account").click()
            me = name.ask("GET", "/me")
            expect(page.get_by_role("dialog", name="Account")).to_contain_text(me["name"])
        page.close()
        context.close()


@pytest.mark.sentence(54)
def test_going_over_to_an_organisation_changes_every_tab(
    open_context: Open, site: Site, anna: Person
) -> None:
    anna.make_session("Repair café")
    place = anna.ask("POST", "/organizations", {"name": "The village"})
    inside = Person(site, site.call(site.api.enter(anna.user, UUID(place["id"]))))
    context = open_context(anna)
    page, other = context.new_page(), context.new_page()
    for tab in (page, other):
        tab.goto(site.url)
        expect(tab.locator(".project")).to_have_count(1)
        expect(tab.locator(".balance")).to_have_text("$1.00")

    page.bring_to_front()
    page.get_by_role("button", name="Account").click()
    page.get_by_role("button", name="The village").click()

    for tab in (page, other):
        expect(tab.get_by_role("link", name="Begin with a prompt")).to_be_visible()
        expect(tab.locator(".project")).to_have_count(0)
        expect(tab.locator(".balance")).not_to_have_text("$1.00")
    anna.make_session("Not seen from here")
    inside.make_session("Village hall", models=["offline/skeptic"])
    for tab in (page, other):
        tab.bring_to_front()
        expect(tab.locator(".project h3")).to_have_text(["Village hall"])


def test_a_person_who_is_about_to_be_signed_out_can_stay(page: Page, site: Site) -> None:
    def end_soon(route: Route) -> None:
        me = route.fetch().json()
        soon = (datetime.now(UTC) + timedelta(minutes=4)).isoformat()
        route.fulfill(json={**me, "token_expires_at": soon})

    page.route("**/api/v1/me", end_soon)
    page.goto(site.url)
    expect(page.get_by_role("alert")).to_contain_text("You will be signed out in a few minutes.")

    with page.expect_response("**/browser-session/renew") as renewed:
        page.get_by_role("button", name="Stay").click()

    assert renewed.value.ok
    expect(page.get_by_role("alert")).to_have_count(0)
