"""What a page cannot do: load from elsewhere, make HTML of text, be framed, see another's work."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from playwright.sync_api import Page, expect

from dialectic.web import pages
from tests.browser.conftest import Open, Watch
from tests.browser.site import Person, Site
from tests.waiting import until


@pytest.mark.sentence(57)
def test_a_string_given_to_the_page_as_html_throws(page: Page, site: Site, watch: Watch) -> None:
    watch.allow("TrustedHTML|TrustedTypePolicy")
    page.goto(site.url)
    expect(page.get_by_role("heading", level=1)).to_be_visible()

    thrown = page.evaluate(
        """() => {
          const names = [];
          for (const act of [
            () => { document.body.innerHTML = "<b>x</b>"; },
            () => trustedTypes.createPolicy("mine", { createHTML: (text) => text }),
            () => eval("1"),
          ]) {
            try { act(); names.push("nothing"); } catch (error) { names.push(error.name); }
          }
          return names;
        }"""
    )

    # Code that a test evaluates may evaluate more; a page's own may not.
    assert thrown[:2] == ["TypeError", "TypeError"]


@pytest.mark.sentence(58)
def test_a_page_that_another_site_frames_shows_nothing(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("frame")
    watch.origins.add("http://evil.test")
    context = open_context(anna)
    frame = f'<!doctype html><iframe src="{site.url}/"></iframe>'
    context.route(
        "http://evil.test/", lambda route: route.fulfill(body=frame, content_type="text/html")
    )
    page = context.new_page()
    page.goto("http://evil.test/")

    inner = page.frames[1]
    assert "Dialectic" not in inner.title()
    assert not inner.url.startswith(site.url)


def test_an_address_without_a_page_says_so(page: Page, site: Site, watch: Watch) -> None:
    watch.allow("status of 404")
    page.goto(f"{site.url}/nowhere")
    expect(page.get_by_role("heading", name="Not found")).to_be_visible()
    expect(page.get_by_role("link", name="To all projects")).to_be_visible()
    assert (
        page.evaluate("() => performance.getEntriesByType('navigation')[0].responseStatus") == 404
    )


def list_strangers_pages(site: Site) -> list[str]:
    """Work of another tenant: the addresses of its pages."""
    ben = site.add_user()
    session = ben.make_session(models=["offline/skeptic"])
    ben.start(session)
    address, tenant = site.api.engine.address, ben.user.account.tenant_id
    found: list[Any] = []

    async def has_document() -> bool:
        query = "select id from dialectic_contributions"
        found[:] = await site.api.engine.db.transact(tenant, lambda c: c.fetch(query))
        return bool(found)

    site.call(until(address, has_document))
    chat = ben.ask("POST", "/chat", {"message": "Hello.", "model": "offline/skeptic"})
    ids = {
        "session": session["id"],
        "project": session["project_id"],
        "document": found[0]["id"],
        "chat": chat["chat_id"],
    }
    return [
        path.format(id=ids[view])
        for path, view in pages.PAGES.items()
        if "{id}" in path and f"js/views/{view}.js" in pages.load_assets().by_path
    ]


@pytest.mark.sentence(55)
def test_what_belongs_to_someone_else_and_what_never_was_look_the_same(
    page: Page, site: Site, watch: Watch
) -> None:
    watch.allow("status of 404")
    theirs = list_strangers_pages(site)
    never = [re.sub(r"[0-9a-f-]{36}", str(uuid4()), path) for path in theirs]

    shown = []
    for path in (*theirs, *never):
        page.goto(site.url + path)
        expect(page.get_by_role("heading", name="Not found")).to_be_visible()
        shown.append((page.title(), page.locator("main").inner_text()))

    assert len(theirs) == 4
    assert len(set(shown)) == 1


@pytest.mark.sentence(45)
def test_a_link_that_was_revoked_and_one_that_never_was_look_the_same(
    open_context: Open, site: Site, anna: Person, watch: Watch
) -> None:
    watch.allow("status of 404")
    ben = site.add_user()
    share = ben.ask("POST", f"/sessions/{ben.make_session()['id']}/shares")
    page = open_context().new_page()
    page.goto(site.url + share["path"])
    expect(page.get_by_role("heading", level=1)).to_contain_text("Village hall")

    # Nobody else can take it away, and learns nothing by trying.
    for one in (share["id"], str(uuid4())):
        headers = {"Authorization": f"Bearer {anna.token}"}
        refused = httpx2.delete(f"{site.url}/api/v1/shares/{one}", headers=headers)
        assert (refused.status_code, refused.json()["reason"]) == (404, "no_share")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Village hall")

    ben.ask("DELETE", f"/shares/{share['id']}")

    shown = []
    for path in (share["path"], f"/s/{'A' * 43}", "/s/short"):
        answer = page.goto(site.url + path)
        assert answer is not None
        shown.append((answer.status, page.content()))
    assert len(set(shown)) == 1
    assert shown[0][0] == 404


@pytest.mark.sentence(57)
def test_no_page_asks_another_host(page: Page, site: Site, watch: Watch) -> None:
    for path in ("/", "/settings/appearance", f"/sign-in?then=/projects/{uuid4()}"):
        page.goto(site.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()

    assert {request.url.split("/")[2] for request in watch.requests} == {site.url.split("/")[2]}
