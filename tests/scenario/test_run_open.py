"""`dialectic run --open`: the page of a session while it runs, from one server for a home."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from dialectic.postgres import embedded
from dialectic_simulator import Simulator, open_simulator
from tests.command_pool import CommandResult
from tests.database.job_table import database_of_a_module
from tests.fake_browser import FakeBrowser, open_fake_browser
from tests.problems import list_codes
from tests.scenario.server_thread import open_remote_server
from tests.scenario.test_interrupts import HELD, MODEL
from tests.scenario.test_run import PROMPT, Home, copy_home, wait_for
from tests.waiting import PATIENCE_S

RUN = ("run", "--yes", "--models", "play/m", "--until", "thesis", "--open", PROMPT)
OFFLINE = ("run", PROMPT, "--models", "offline/skeptic", "--until", "thesis", "--open")
SESSION_PAGE = re.compile(r"(http://127\.0\.0\.1:\d+)/sessions/([0-9a-f-]{36})")


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBrowser]:
    with open_fake_browser(tmp_path) as opened:
        monkeypatch.setenv("BROWSER", opened.command)
        yield opened


@pytest.fixture
def home(made_home: Path, tmp_path: Path) -> Iterator[Home]:
    with copy_home(made_home, tmp_path / "home") as opened:
        assert opened.tell("wallet", "unlimited").code == 0
        yield opened


@pytest.fixture
async def simulator(home: Home) -> AsyncIterator[Simulator]:
    """A provider that holds every answer until it is released."""
    async with open_simulator(HELD) as running:
        base_url = running.base_url("openai")
        (home.path / "config.toml").write_text(MODEL.format(base_url=base_url))
        running.hold()
        yield running


def read_page(address: str) -> tuple[str, str]:
    """The server and the session of an address that a browser was given."""
    found = SESSION_PAGE.fullmatch(address)
    assert found is not None, address
    return found[1], found[2]


def load_session(url: str, session: str) -> httpx2.Response:
    return httpx2.get(f"{url}/api/v1/sessions/{session}", timeout=PATIENCE_S)


async def end(process: subprocess.Popen[str]) -> CommandResult:
    return await asyncio.to_thread(wait_for, process)


async def test_a_run_shows_its_session_and_serves_the_page_until_it_ends(
    home: Home, browser: FakeBrowser, simulator: Simulator
) -> None:
    process = home.start(*RUN)
    url, session = read_page(await asyncio.to_thread(browser.read_address))
    await simulator.wait_arrived(1)
    page = httpx2.get(f"{url}/sessions/{session}", headers={"Accept": "text/html"})
    found = load_session(url, session)
    simulator.release()
    done = await end(process)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert found.json()["status"] == "generating_thesis"
    assert done.code == 0, done.stderr
    assert done.session == session
    with pytest.raises(httpx2.ConnectError):
        load_session(url, session)


async def test_a_second_run_shows_its_page_on_the_server_of_the_first(
    home: Home, browser: FakeBrowser, simulator: Simulator
) -> None:
    first = home.start(*RUN)
    url, session = read_page(await asyncio.to_thread(browser.read_address))
    second = home.start(*RUN)
    same, other = read_page(await asyncio.to_thread(browser.read_address))
    found = load_session(url, other)
    simulator.release()
    codes = [(await end(one)).code for one in (first, second)]
    assert (same, other != session, found.status_code) == (url, True, 200)
    assert codes == [0, 0]


async def test_a_run_next_to_a_server_shows_its_page_there(
    home: Home, browser: FakeBrowser
) -> None:
    server = home.start("serve", "--port", "0", "--no-worker")
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    done = await asyncio.to_thread(home.tell, *OFFLINE)
    address = browser.read_address()
    server.send_signal(signal.SIGTERM)
    await end(server)
    assert done.code == 0, done.stderr
    assert address == f"{url}/sessions/{done.session}"


def test_a_detached_run_without_a_server_is_refused_and_nothing_is_created(home: Home) -> None:
    refused = home.tell(*OFFLINE, "--detach")
    assert (refused.code, list_codes(refused.stderr)) == (2, ["invalid_request"])
    assert home.tell("list").stdout == ""


def test_a_run_on_a_server_shows_that_servers_page(
    server: embedded.Server, template: str, tmp_path: Path, browser: FakeBrowser
) -> None:
    with (
        database_of_a_module(server, template) as address,
        open_remote_server(address, tmp_path / "there") as remote,
    ):
        here = Home(tmp_path / "here")
        done = here.tell("--server", remote.url, *OFFLINE, token=remote.anna)
        shown = browser.read_address()
    assert done.code == 0, done.stderr
    assert shown == f"{remote.url}/sessions/{done.session}"
