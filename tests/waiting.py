"""The one way to wait in tests: for what somebody tells, never by the clock, and never for ever.

A database of the tests rings a bell at every commit that changed something, and `until` looks again
when it rings. A lock that is waited for rings nothing: there the server is asked again as soon as
it has answered. A process tells by being stopped, and a server that starts by its log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncpg

from dialectic.db.pool import Address, Connection

PATIENCE_S = 120.0
LOG_READ_BYTES = 65_536

BELL = "bell"
# The queue has a bell of its own, which rings also when a message is taken and when it is done.
CHANNELS = (BELL, "ch_pgqueuer")
TABLES = (
    "dialectic_generation_jobs",
    "dialectic_stage_runs",
    "dialectic_sessions",
    "dialectic_contributions",
    "dialectic_files",
    "notifications",
)


# -- what happens in a database --------------------------------------------------------------------


async def hang_bell(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Let a database tell its changes, to all tests that are made of it."""
    await connection.execute(
        f"create schema {BELL};"
        f"create function {BELL}.ring() returns trigger language plpgsql as"
        f" $$ begin perform pg_catalog.pg_notify('{BELL}', ''); return null; end $$"
    )
    for table in TABLES:
        await connection.execute(
            f"create trigger z_bell after insert or update or delete on dialectic.{table}"
            f" for each statement execute function {BELL}.ring()"
        )


async def until(
    address: Address, condition: Callable[[], Awaitable[Any]], *, patience_s: float = PATIENCE_S
) -> None:
    """Wait for something that others do, and fail when they never do it."""
    async with asyncio.timeout(patience_s):
        while True:
            async with _listening(address) as bell:
                while not bell.is_broken:
                    bell.rung.clear()
                    if await condition():
                        return
                    await bell.rung.wait()


class _Bell:
    def __init__(self) -> None:
        self.rung = asyncio.Event()
        self.is_broken = False

    def ring(self, *_: object) -> None:
        self.rung.set()

    def fall(self, *_: object) -> None:
        """The connection is lost: all clients are disconnected. It is opened again."""
        self.is_broken = True
        self.rung.set()


@contextlib.asynccontextmanager
async def _listening(address: Address) -> AsyncIterator[_Bell]:
    bell = _Bell()
    connection = await asyncpg.connect(address.url)
    connection.add_termination_listener(bell.fall)
    try:
        for channel in CHANNELS:
            await connection.add_listener(channel, bell.ring)
        yield bell
    finally:
        connection.terminate()


async def until_someone_waits(admin: Connection, for_what: str = "true") -> None:
    """Wait until a transaction waits for a lock that another one holds."""
    await _ask_until(
        admin, f"select exists (select from pg_locks where not granted and {for_what})"
    )


async def until_blocked(admin: Connection, connection: Connection) -> None:
    """Wait until one connection waits for a lock that another one holds."""
    pid = connection.get_server_pid()
    await _ask_until(admin, "select cardinality(pg_blocking_pids($1)) > 0", pid)


async def _ask_until(admin: Connection, question: str, *arguments: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await admin.fetchval(question, *arguments):
            pass


# -- what a process does ---------------------------------------------------------------------------


def until_stopped(process: subprocess.Popen[Any], *, patience_s: float = PATIENCE_S) -> None:
    """Wait for a failpoint to freeze the process."""
    with _killed_after(patience_s, process):
        _, status = os.waitpid(process.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status), "it never came to the failpoint"


def until_said(
    process: subprocess.Popen[str], words: str, *, patience_s: float = PATIENCE_S
) -> str:
    """Wait for a line with these words on stderr; return all that came until then."""
    assert process.stderr is not None
    said = ""
    with _killed_after(patience_s, process):
        for line in process.stderr:
            said += line
            if words in line:
                return said
    raise AssertionError(f"{words!r} was never said: {said}")


@contextlib.contextmanager
def _killed_after(patience_s: float, process: subprocess.Popen[Any]) -> Iterator[None]:
    """A test that waits for a process in vain is freed by its end."""
    killing = threading.Timer(patience_s, process.kill)
    killing.start()
    try:
        yield
    finally:
        killing.cancel()


@contextlib.contextmanager
def hearing_server_log(home: Path) -> Iterator[Callable[[str], None]]:
    """Put a pipe in the place of the server's log; give a way to wait for words in it."""
    log = home / "postgres" / "server.log"
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    os.mkfifo(log)
    # Open for both, so that it neither waits for a writer nor ends with one.
    pipe = os.open(log, os.O_RDWR)
    heard = b""

    def wait_for(words: str) -> None:
        nonlocal heard
        give_up_at = time.monotonic() + PATIENCE_S
        while words.encode() not in heard:
            left_s = max(0.0, give_up_at - time.monotonic())
            assert select.select([pipe], [], [], left_s)[0], f"{words!r} was never said: {heard!r}"
            heard += os.read(pipe, LOG_READ_BYTES)

    try:
        yield wait_for
    finally:
        log.unlink()
        os.close(pipe)
