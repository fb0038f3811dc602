"""One browser and one server for all browser tests of a process; each test has its own context.

A test fails on any console error, uncaught error, policy violation or request to another host that
it did not announce.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)
from playwright.sync_api import Error as BrowserError

from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.browser.site import Person, Site, open_site
from tests.database.job_table import database_of_a_module
from tools.browser import HOW, find_browser, must_have_one

FOLDER = Path(__file__).parent
# Read before the settings of the caller are forgotten.
CHROMIUM = find_browser()
FLAGS = [
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--force-color-profile=srgb",
    # The superuser has no sandbox; the pages are our own.
    *(["--no-sandbox"] if os.geteuid() == 0 else []),
]
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
PATIENCE_MS = 15_000
expect.set_options(timeout=PATIENCE_MS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a browser where there is none, but never where every change is checked."""
    if CHROMIUM is None and not must_have_one():
        lacking = pytest.mark.skip(reason=f"No browser was found. {HOW}")
        for item in items:
            if "tests/browser/" in item.nodeid:
                item.add_marker(lacking)


class Launched:
    """The browser of this process while browser tests follow each other.

    Its driver takes the event loop of this thread while it lives, so it ends before other tests.
    """

    stack = ExitStack()
    browser: Browser | None = None

    @classmethod
    def get(cls) -> Browser:
        if cls.browser is None:
            assert CHROMIUM is not None, f"No browser was found. {HOW}"
            playwright = cls.stack.enter_context(sync_playwright())
            cls.browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            cls.stack.callback(cls.browser.close)
        return cls.browser

    @classmethod
    def end(cls) -> None:
        cls.browser = None
        cls.stack.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """End the browser after the last of the browser tests that follow each other."""
    yield
    if nextitem is None or FOLDER not in nextitem.path.parents:
        Launched.end()


@pytest.fixture(scope="module")
def browser(site: Site) -> Browser:
    """The browser of all browser tests; the server is there before it."""
    del site
    return Launched.get()


@pytest.fixture(scope="session")
def site_address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture(scope="session")
def site(site_address: Address, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(site_address, tmp_path_factory.mktemp("site")) as opened:
        yield opened
        Launched.end()  # before the server: it would wait for the connections


# A call may end while its draft is asked for: the page goes on with its document.
RACES = (re.compile(r"status of 404 .*/draft$"),)


@dataclass
class Watch:
    """What went wrong in the pages of a test, except what it announced."""

    origins: set[str]
    allowed: list[re.Pattern[str]] = field(default_factory=lambda: [*RACES])
    found: list[str] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)

    def allow(self, pattern: str) -> None:
        """Announce an error, such as a refused request: `watch.allow("status of 401")`."""
        self.allowed.append(re.compile(pattern))

    def follow(self, page: Page) -> None:
        page.on("console", self._hear)
        page.on("pageerror", self._catch)
        page.on("request", self._see)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            where = message.location.get("url", "")
            self.found.append(f"console: {message.text} {where}")

    def _catch(self, error: BrowserError) -> None:
        self.found.append(f"uncaught: {error}")

    def _see(self, request: Request) -> None:
        self.requests.append(request)
        if not request.url.startswith((*self.origins, "data:", "blob:", "about:")):
            self.found.append(f"request to another host: {request.url}")

    def list_paths(self, prefix: str = "/") -> list[str]:
        """List the paths that were asked for."""
        paths = [re.sub(r"^https?://[^/]+", "", request.url) for request in self.requests]
        return [path for path in paths if path.startswith(prefix)]

    def check(self) -> None:
        assert [one for one in self.found if not any(a.search(one) for a in self.allowed)] == []


@pytest.fixture
def watch(site: Site) -> Iterator[Watch]:
    made = Watch({site.url})
    yield made
    made.check()


Open = Callable[..., BrowserContext]


@pytest.fixture
def open_context(browser: Browser, watch: Watch) -> Iterator[Open]:
    """Open contexts: a person's own browser, on a desk or as a phone."""
    opened: list[BrowserContext] = []

    def make(person: Person | None = None, **options: Any) -> BrowserContext:
        context = browser.new_context(**{"viewport": DESKTOP, **options})
        context.set_default_timeout(PATIENCE_MS)
        context.on("page", watch.follow)
        opened.append(context)
        if person is not None:
            context.add_cookies([person.sign_in()])  # type: ignore[list-item]
        return context

    yield make
    for context in opened:
        context.close()


@pytest.fixture
def anna(site: Site) -> Person:
    """A user with all scopes, in a tenant where nothing is yet."""
    return site.add_user()


@pytest.fixture
def context(open_context: Open, anna: Person) -> BrowserContext:
    return open_context(anna)


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """A page of Anna's browser."""
    return context.new_page()
