"""A server and a worker in processes of their own: what a page shows of both, and of a restart."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import Open, Watch
from tests.browser.site import Site
from tests.scenario.paid_models import configure
from tests.scenario.test_run import Home, copy_home, wait_for

# A model at the simulator whose answer stands still in the middle while its gate is held.
WRITER = "halfway/writer"
PROMPT = "A tool library for a street of forty houses."


@contextmanager
def running(home: Home, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A command of a home while it runs."""
    process = home.start(*words)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        wait_for(process)


@dataclass
class Street:
    """A home with money, a worker in one process and a server in another."""

    home: Home
    url: str = ""

    @contextmanager
    def serving(self) -> Iterator[subprocess.Popen[str]]:
        """The server; a second one takes the port of the first."""
        port = self.url.rpartition(":")[2] or "0"
        with running(self.home, "serve", "--port", port, "--no-worker") as process:
            assert process.stdout is not None
            self.url = process.stdout.readline().strip()
            yield process

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = httpx2.request(method, f"{self.url}/api/v1{path}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def start(self) -> dict[str, Any]:
        """Start a session of one call."""
        wishes = {"prompt": PROMPT, "models": [WRITER], "until": "thesis", "approve_spend": True}
        found: dict[str, Any] = self.ask("POST", "/runs", wishes)["session"]
        return found


@pytest.fixture(scope="module")
def street(
    site: Site, made_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Street]:
    path = tmp_path_factory.mktemp("street") / "home"
    with copy_home(made_home, path) as home:
        configure(path, site.simulator, {"halfway": "halfway"})
        assert home.tell("wallet", "topup", "1").code == 0
        yield Street(home)


@pytest.fixture
def context(street: Street, open_context: Open, site: Site) -> Iterator[BrowserContext]:
    """A browser on the machine of the server, where no one has to sign in."""
    opened = open_context()
    yield opened
    # Before its server ends, so that no page misses it.
    opened.close()
    site.simulator.release("middle")


def visit(page: Page, street: Street, session: dict[str, Any]) -> None:
    page.goto(f"{street.url}/sessions/{session['id']}")
    expect(page.locator(".hero .sentence").first).to_be_visible()


@pytest.mark.sentence(10, 16, 48)
def test_words_come_from_another_process_and_a_restart_of_the_server_is_told_by_the_sign_alone(
    street: Street, context: BrowserContext, site: Site, watch: Watch
) -> None:
    watch.allow("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_EMPTY_RESPONSE")
    site.simulator.hold("middle")
    with ExitStack() as workers:
        with street.serving() as server:
            watch.origins.add(street.url)
            session = street.start()
            tabs = [context.new_page(), context.new_page()]
            visit(tabs[0], street, session)
            # Nothing works on it yet.
            expect(tabs[0].locator(".session")).to_have_attribute("data-state", "starting")
            workers.enter_context(running(street.home, "worker"))
            for tab in tabs:
                visit(tab, street, session)
                expect(tab.locator(".tile .draft-text")).to_contain_text(re.compile(r"\w+ \w+ \w+"))
            expect(tabs[0].locator(".balance")).to_have_text("$1.00")
            assert street.home.tell("wallet", "topup", "2").code == 0
            for tab in tabs:
                expect(tab.locator(".balance")).to_have_text("$3.00")
            server.kill()
            server.wait()
            for tab in tabs:
                tab.bring_to_front()
                expect(tab.get_by_role("status", name="Connection: reconnecting")).to_be_visible()
                expect(tab.locator(".tile[data-job]")).to_have_count(1)
                expect(tab.locator(".notice, .toast, [role=alert]:not(:empty)")).to_have_count(0)
        # It is written while no server is there to tell of it.
        site.simulator.release("middle")
        with street.serving():
            for tab in tabs:
                tab.bring_to_front()
                expect(tab.locator(".session")).to_have_attribute("data-state", "done")
                expect(tab.get_by_role("status", name="Connection: live")).to_be_visible()
            board = street.ask("GET", f"/sessions/{session['id']}/board")
            for tab in tabs:
                shown = tab.locator(".cards [data-doc]").evaluate_all(
                    "all => all.map((one) => one.dataset.doc)"
                )
                assert shown == [one["original_id"] for one in board["documents"]]
                expect(tab.locator(".hero-money strong")).to_have_text(
                    f"${float(board['money']['spent']):.4f}"
                )
                expect(tab.locator(".notice, .toast, [role=alert]:not(:empty)")).to_have_count(0)
            context.close()
