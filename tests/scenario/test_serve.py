"""`dialectic serve`: where it may listen, what it prints, how it leaves; and HTTP on a port."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import resource
import signal
import zipfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import pytest

from dialectic.api.server import FILES_MAX, Running, open_server
from dialectic.db.pool import Address
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic_simulator import Simulator, open_simulator
from tests.database.job_table import database_of_a_module
from tests.fake_browser import open_fake_browser
from tests.problems import check_problem, list_codes, list_commands
from tests.scenario.api_in_process import Api, open_api
from tests.scenario.paid_models import MODELS, TEXT, configure
from tests.scenario.test_run import copy_home, wait_for
from tests.waiting import PATIENCE_S

WRITER = "sim/writer"
SCRIPT: dict[str, Any] = {
    "models": MODELS,
    "default": {"text": TEXT, "gate": "door", "gate_after_tokens": 4},
}


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with open_simulator(SCRIPT) as running:
        yield running


@pytest.fixture
async def api(shared: Address, simulator: Simulator, tmp_path: Path) -> AsyncIterator[Api]:
    settings = configure(tmp_path / "home", simulator, {"sim": None})
    catalog = build_catalog(settings)
    async with open_api(
        shared, tmp_path / "home", catalog, endpoints=settings.endpoints, max_spend_fraction=1.0
    ) as opened:
        yield opened
    await catalog.close()


@pytest.fixture
async def running(api: Api) -> AsyncIterator[Running]:
    async with open_server(api.app, api.hub, host="127.0.0.1", port=0) as opened:
        yield opened


def open_impatient(api: Api, *, head_max_s: float) -> AbstractAsyncContextManager[Running]:
    return open_server(api.app, api.hub, host="127.0.0.1", port=0, head_max_s=head_max_s)


def open_client(running: Running, api: Api) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {api.anna.token}"}
    return httpx2.AsyncClient(base_url=f"{running.url}/api/v1", headers=headers, timeout=PATIENCE_S)


async def test_a_client_that_leaves_a_stream_finds_the_answer_under_its_key(
    api: Api, running: Running, simulator: Simulator
) -> None:
    await api.fund(api.anna)
    wish = {"message": "Name a bakery.", "model": WRITER, "stream": True}
    key = {"Idempotency-Key": str(uuid4())}
    simulator.hold("door")
    async with open_client(running, api) as client:
        async with client.stream("POST", "/chat", json=wish, headers=key) as answer:
            assert answer.status_code == 200
            first = await anext(answer.aiter_lines())
            assert first == "event: delta"
        simulator.release("door")
        again = await client.post("/chat", json=wish, headers=key)
        lines = again.text.strip().splitlines()
        reply = json.loads(lines[-1].removeprefix("data: "))
        assert reply["content"] == TEXT
        assert len(simulator.log.calls) == 1
        plain = await client.post("/chat", json={**wish, "stream": False}, headers=key)
        check_problem(plain, 422, "idempotency_key_reused")


async def test_a_body_without_a_length_is_counted_as_it_comes(api: Api, running: Running) -> None:
    sent = 0

    async def trickle() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(50):
            sent += 1
            yield b" " * 1_000_000

    headers = {"Content-Type": "application/json"}
    async with open_client(running, api) as client:
        answer = await client.post("/projects", content=trickle(), headers=headers)
    check_problem(answer, 413, "too_large")


async def test_a_stream_ends_with_the_token_that_it_was_opened_with(
    api: Api, running: Running
) -> None:
    api.hub.tokens_s = 0.0
    made = await api.anna.post("/tokens", {"name": "lost", "scopes": ["read"]})
    headers = {"Authorization": f"Bearer {made['token']}"}
    async with (
        open_client(running, api) as client,
        client.stream("GET", "/events") as kept,
        client.stream("GET", "/events", headers=headers) as lost,
    ):
        await api.anna.client.delete(f"/tokens/{made['id']}")
        async with asyncio.timeout(PATIENCE_S):
            assert b"event:" not in await lost.aread()
        assert api.hub.count_streams() == 1
        assert not kept.is_closed


async def test_a_client_that_connects_and_sends_nothing_is_not_waited_for(api: Api) -> None:
    async with open_impatient(api, head_max_s=0.05) as running:
        for said in (b"", b"GET /heal", b"GET /healthz HTTP/1.1\r\nHost: x\r\n"):
            async with raw(running) as (reader, writer):
                writer.write(said)
                async with asyncio.timeout(PATIENCE_S):
                    assert await reader.read() == b""


async def test_a_line_that_is_answered_is_kept_and_then_waited_for_no_longer(
    api: Api,
) -> None:
    async with open_impatient(api, head_max_s=0.2) as running, raw(running) as (reader, writer):
        for _ in range(2):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"ok\n" in await reader.readuntil(b"ok\n")
        # Refused before its body, which never comes to its end.
        writer.write(b"POST /api/v1/projects HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
        assert b" 401 " in await reader.readuntil(b"]}")
        writer.write(b"x")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 70_000,
        b"GET / HTTP/1.1\r\nHost: x\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n",
    ],
    ids=["nonsense", "a huge head", "a bare line feed", "only bare line feeds"],
)
async def test_malformed_http_is_a_problem_too(running: Running, said: bytes) -> None:
    async with raw(running) as (reader, writer):
        writer.write(said)
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    assert b" 400 " in head.splitlines()[0]
    assert b"application/problem+json" in head.lower()
    assert json.loads(body)["code"] == "invalid_request"


async def test_line_ends_may_be_split_and_bodies_may_hold_line_feeds(running: Running) -> None:
    async with raw(running) as (reader, writer):
        for part in (b"GET /healthz HTTP/1.1\r", b"\nHost: x\r\n", b"\r\n"):
            writer.write(part)
            await writer.drain()
        assert b" 200 " in await reader.readuntil(b"ok\n")
        body = b'{\n"prompt": 7\n}'
        writer.write(
            b"POST /api/v1/projects HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            + f"Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        assert b" 400 " not in await reader.readuntil(b"\r\n")


@contextlib.asynccontextmanager
async def raw(
    running: Running,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, port = running.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def test_an_archive_is_gone_before_anyone_has_read_it(api: Api, running: Running) -> None:
    made = await api.anna.make_project()
    path = f"/projects/{made['id']}/export"
    async with open_client(running, api) as client, client.stream("GET", path) as answer:
        assert list(api.drafts.iterdir()) == []
        data = await answer.aread()
    assert zipfile.ZipFile(io.BytesIO(data)).testzip() is None
    assert len(data) == int(answer.headers["content-length"])


async def test_a_server_takes_as_many_files_as_the_system_lets_it(api: Api) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        async with open_server(api.app, api.hub, host="127.0.0.1", port=0):
            assert resource.getrlimit(resource.RLIMIT_NOFILE) == (min(hard, FILES_MAX), hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_streams_end_at_once_when_the_server_leaves(api: Api) -> None:
    async with (
        open_server(api.app, api.hub, host="127.0.0.1", port=0) as running,
        open_client(running, api) as client,
        client.stream("GET", "/events") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert (await anext(lines)).startswith("retry: ")
        running.stop()
        assert [line async for line in lines if line.startswith("event: ")] == []
        await asyncio.wait_for(running.wait(), PATIENCE_S)


async def test_a_server_whose_database_is_away_is_not_ready_and_says_when_to_come_back(
    server: embedded.Server, address: Address, tmp_path: Path
) -> None:
    async with open_api(address, tmp_path / "home", patience_s=0.5) as api:
        name = address.url.split("/")[-1].split("?")[0]
        admin = await asyncpg.connect(server.url(user="postgres", database="postgres"))
        await admin.execute(f"alter database {name} allow_connections false")
        await admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = $1", name
        )
        async with api.connect() as client:
            alive = await client.get("http://house.test/healthz")
            ready = await client.get("http://house.test/readyz")
            figures = await client.get("http://house.test/metrics")
        away = await api.anna.client.get("/projects")
        await admin.execute(f"alter database {name} allow_connections true")
        await admin.close()
        assert alive.status_code == 200
        assert (ready.status_code, figures.status_code) == (503, 503)
        assert ready.headers["retry-after"] == "2"
        # Which of the two, depends on what was seen last: a closed door, or a line that broke.
        problem = check_problem(away, 503, away.json()["code"])
        assert problem["code"] in ("database_busy", "database_unreachable")
        assert name not in problem["detail"], "it is nobody's business where it is"
        assert away.headers["retry-after"] == "2"
        assert (await api.anna.client.get("/projects")).status_code == 200


def test_a_command_serves_its_owner_and_refuses_to_meet_strangers_without_tokens(
    made_home: Path, tmp_path: Path
) -> None:
    with copy_home(made_home, tmp_path / "home") as home:
        refused = home.tell("serve", "--host", "0.0.0.0", "--port", "0")
        assert refused.code == 4
        assert list_codes(refused.stderr) == ["configuration"]
        assert list_commands(refused.stderr) == ["dialectic user add NAME --token"]
        process = home.start("serve", "--port", "0", event_streams_max="1")
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        answer = httpx2.get(f"{url}/api/v1/me")
        stranger = httpx2.get(f"{url}/api/v1/me", headers={"Origin": "http://elsewhere.test"})
        with httpx2.stream("GET", f"{url}/api/v1/events"):
            one_more = httpx2.get(f"{url}/api/v1/events")
        process.send_signal(signal.SIGTERM)
        told = wait_for(process)
    assert sorted(answer.json()["scopes"]) == ["admin", "read", "spend", "write"]
    check_problem(stranger, 403, "forbidden")
    check_problem(one_more, 429, "too_many_streams")
    assert (told.code, "Stopped." in told.stderr) == (0, True), told.stderr


def test_a_server_shows_its_first_page_in_the_browser_of_its_owner(
    made_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_fake_browser(tmp_path) as browser, copy_home(made_home, tmp_path / "home") as home:
        monkeypatch.setenv("BROWSER", browser.command)
        process = home.start("serve", "--port", "0", "--no-worker", "--open")
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        shown = browser.read_address()
        page = httpx2.get(url, headers={"Accept": "text/html"})
        process.send_signal(signal.SIGTERM)
        wait_for(process)
    assert shown == url
    assert page.headers["content-type"] == "text/html; charset=utf-8"
