"""How much a page loads: bytes and requests have a budget, and nothing is sent twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from playwright.sync_api import Page, Response, expect

from tests.browser.conftest import Watch
from tests.browser.site import Person, Site

LASTING = re.compile(r"/assets/[0-9a-f]{16}/")


@pytest.mark.sentence(67)
def test_the_first_view_is_within_its_bytes_and_requests(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    anna.make_session("Repair café")
    seen: list[Response] = []
    page.on("response", lambda response: seen.append(response))
    # The stream begins while the page loads, before or after its list is there.
    with page.expect_request("**/api/v1/events"):
        page.goto(site.url)
    expect(page.locator(".project")).to_have_count(1)

    paths = watch.list_paths()
    assert [path for path, count in Counter(paths).items() if count > 1] == []
    api = [path for path in paths if path.startswith("/api/")]
    assert sorted(path.partition("?")[0] for path in api) == [
        "/api/v1/events",
        "/api/v1/me",
        "/api/v1/needs",
        "/api/v1/projects",
    ]
    assert len(paths) - len(api) <= 22
    lasting = [response for response in seen if LASTING.search(response.url)]
    assert len(lasting) == len(paths) - len(api) - 1
    for response in lasting:
        assert "immutable" in response.headers["cache-control"]
        size = int(response.headers["content-length"])
        assert size < 1024 or response.headers.get("content-encoding") == "gzip"
    assert sum(int(response.headers["content-length"]) for response in lasting) < 48_000


@pytest.mark.sentence(67)
def test_a_second_visit_asks_for_the_shell_and_the_data_alone(
    page: Page, site: Site, anna: Person
) -> None:
    anna.make_session("Repair café")
    page.goto(site.url)
    expect(page.locator(".project")).to_have_count(1)

    page.goto(f"{site.url}/?q=Repair")
    expect(page.locator(".project")).to_have_count(1)

    sizes = page.evaluate(
        """() => performance.getEntriesByType("resource")
          .filter((one) => one.name.includes("/assets/") && !one.name.endsWith(".svg"))
          .map((one) => one.transferSize)"""
    )
    assert sizes
    assert not any(sizes)


def test_the_argument_map_is_loaded_when_someone_looks_at_it(
    page: Page, site: Site, anna: Person, watch: Watch
) -> None:
    session = anna.make_session("Repair café")
    sizes: dict[str, int] = {}

    def note(found: Response) -> None:
        sizes[found.url] = int(found.headers.get("content-length", 0))

    page.on("response", note)
    page.goto(f"{site.url}/sessions/{session['id']}")
    expect(page.locator(".hero .sentence").first).to_be_visible()
    before = {path.rpartition("/")[2] for path in watch.list_paths("/assets/")}
    assert not before & {"map.js", "claim.js", "claims.js", "coverage.js", "session_map.css"}

    known = set(sizes)
    page.keyboard.press("2")
    expect(page.get_by_text("claims appear with the first proposal")).to_be_visible()

    loaded = {url: size for url, size in sizes.items() if url not in known and "/assets/" in url}
    names = {url.rpartition("/")[2] for url in loaded}
    assert "map.js" in names
    assert not names & {"coverage.js", "dissent.js"}
    assert sum(loaded.values()) < 28_000
