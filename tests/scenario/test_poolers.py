"""PgBouncer between the commands and PostgreSQL: session pooling works, any other is refused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dialectic.db.pool import Address
from dialectic.postgres import embedded
from tests.database.job_table import database_of_a_module
from tests.ports import find_free_port
from tests.problems import list_codes
from tests.scenario.test_run import PROMPT, Home, open_home
from tests.waiting import PATIENCE_S

BOUNCER = shutil.which("pgbouncer")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BOUNCER is None, reason="pgbouncer is not installed"),
]

CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = 60
max_client_conn = 200
"""
RUN = ("run", "--until", "thesis", "--models", "offline/skeptic")


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture(scope="module")
def relay(shared: Address) -> Iterator[int]:
    """A port that leads to the server's socket: PgBouncer runs as a user who cannot reach it."""
    query = parse_qs(urlsplit(shared.url).query)
    path = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
    told: queue.Queue[tuple[int, Callable[[], object]]] = queue.Queue()

    async def serve() -> None:
        stop, meetings = asyncio.Event(), set[asyncio.Task[None]]()

        async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            meeting = asyncio.current_task()
            assert meeting is not None
            meetings.add(meeting)
            inner, outer = await asyncio.open_unix_connection(path)
            try:
                await asyncio.gather(pump(reader, outer), pump(inner, writer))
            finally:
                outer.close()
                writer.close()

        async with await asyncio.start_server(meet, "127.0.0.1", 0) as listening:
            port = listening.sockets[0].getsockname()[1]
            loop = asyncio.get_running_loop()
            told.put((port, lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()
        for meeting in meetings:
            meeting.cancel()
        await asyncio.gather(*meetings, return_exceptions=True)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    port, stop = told.get(timeout=PATIENCE_S)
    yield port
    stop()
    thread.join(PATIENCE_S)


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes on until one side closes."""
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextlib.contextmanager
def pooling(folder: Path, relay: int, mode: str) -> Iterator[int]:
    """Run PgBouncer; yield its port."""
    assert BOUNCER is not None
    port, config = find_free_port(), Path("/tmp") / f"bouncer-{os.getpid()}-{mode}.ini"
    config.write_text(CONFIG.format(server=relay, port=port, mode=mode))
    user = "nobody" if os.geteuid() == 0 else None
    with (folder / f"{mode}.log").open("w") as log:
        process = subprocess.Popen(
            [BOUNCER, str(config)], stdout=log, stderr=log, user=user, cwd="/"
        )
    try:
        until_listening(port)
        yield port
    finally:
        process.kill()
        process.wait()
        config.unlink()


def until_listening(port: int) -> None:
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port)).close()
            return


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with open_home(tmp_path / "home") as opened:
        yield opened


def build_url(shared: Address, port: int) -> str:
    return f"postgresql://postgres@127.0.0.1:{port}{urlsplit(shared.url).path}"


def test_session_pooling_carries_a_whole_run(
    home: Home, shared: Address, relay: int, tmp_path: Path
) -> None:
    with pooling(tmp_path, relay, "session") as port:
        url = build_url(shared, port)
        run = home.tell(*RUN, PROMPT, database_url=url)
        assert run.code == 0, run.stderr
        doctor = home.tell("doctor", database_url=url)
        assert doctor.code == 0, doctor.stdout


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_shares_sessions_is_refused_in_one_sentence(
    home: Home, shared: Address, relay: int, tmp_path: Path, mode: str
) -> None:
    with pooling(tmp_path, relay, mode) as port:
        url = build_url(shared, port)
        for words in (("status",), (*RUN, PROMPT), ("worker",), ("doctor",)):
            told = home.tell(*words, database_url=url)
            assert told.code == 4, told.stderr
            said = told.stdout if words == ("doctor",) else told.stderr
            assert list_codes(said) == ["pooler_unsupported"]
            assert "session pooling" in said
            assert "bug" not in said
