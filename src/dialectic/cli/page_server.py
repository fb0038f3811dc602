"""The server of a home: serves the web app and the API, and tells other commands its address.

The first server of a home holds a lock while it runs, and its address is in the locked file. So a
command that wants to show a page finds the server that runs, and starts one only if there is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dialectic.cli.terminal import say
from dialectic.core.access import check_opening, is_loopback
from dialectic.db.tables.accounts import has_tokens
from dialectic.errors import ConfigurationError, UsageError
from dialectic.postgres.place import try_lock, unlock

if TYPE_CHECKING:
    from dialectic.api.server import Running
    from dialectic.engine import Engine

HOST = "127.0.0.1"
PORT = 8420
ANY_PORT = 0
LOCK_NAME = "server.lock"
URL_BYTES_MAX = 1_000
# How long a server may take from its lock to its address.
START_MAX_S = 10.0
POLL_S = 0.02


@contextlib.asynccontextmanager
async def open_home_server(engine: Engine, *, host: str, port: int) -> AsyncIterator[Running]:
    """Serve the web app and the API; the first server of a home tells its address there."""
    from dialectic.api.app import build_app  # FastAPI takes 0.6 s to import
    from dialectic.api.server import open_server
    from dialectic.app.changes import build_source
    from dialectic.events.hub import open_hub

    is_known = await has_tokens(engine.db)
    check_opening(host, has_tokens=is_known)
    if not is_known and is_loopback(host):
        say("No token exists yet: every user of this machine has the owner's access.")
    streams_max, source = engine.settings.event_streams_max, build_source(engine)
    async with open_hub(engine.address, streams_max=streams_max, source=source) as hub:
        app = build_app(engine, hub, listens_at=host)
        with _holding_lock(engine.settings.home) as lock:
            async with open_server(app, hub, host=host, port=port) as server:
                if lock is not None:
                    os.pwrite(lock, _name_for_this_machine(server.url).encode(), 0)
                yield server


@contextlib.asynccontextmanager
async def open_web_app(engine: Engine, *, may_start: bool) -> AsyncIterator[str]:
    """Find the address of the server of this home; start a server if there is none."""
    url = await _find_url(engine.settings.home)
    if url is not None:
        yield url
        return
    if not may_start:
        raise UsageError(
            "--open needs a server, and --detach leaves none: no server of this home is running. "
            "Start one with `dialectic serve`, or omit --detach.",
            reason="no_server",
            subject="--open",
        )
    async with contextlib.AsyncExitStack() as stack:
        server = await _start(stack, engine)
        yield server.url


async def _start(stack: contextlib.AsyncExitStack, engine: Engine) -> Running:
    """Start a server at its usual port, where the browser keeps what it has stored, or another."""
    try:
        return await stack.enter_async_context(open_home_server(engine, host=HOST, port=PORT))
    except ConfigurationError as error:
        if error.reason != "port_taken":
            raise
    return await stack.enter_async_context(open_home_server(engine, host=HOST, port=ANY_PORT))


@contextlib.contextmanager
def _holding_lock(home: Path) -> Iterator[int | None]:
    """Hold the lock of this home's server; None if another server holds it."""
    # With a database elsewhere, the home may not exist yet.
    home.mkdir(parents=True, exist_ok=True)
    lock = try_lock(home / LOCK_NAME, fcntl.LOCK_EX)
    if lock is None:
        yield None
        return
    try:
        os.ftruncate(lock, 0)
        yield lock
    finally:
        unlock(lock)


async def _find_url(home: Path) -> str | None:
    """Find the address of the server that runs in this home; wait for one that is starting."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(START_MAX_S):
            while True:
                if not (home / LOCK_NAME).exists():
                    return None
                lock = try_lock(home / LOCK_NAME, fcntl.LOCK_SH)
                if lock is not None:
                    unlock(lock)
                    return None
                with (home / LOCK_NAME).open("rb") as file:
                    if url := file.read(URL_BYTES_MAX).decode():
                        return url
                await asyncio.sleep(POLL_S)
    return None


def _name_for_this_machine(url: str) -> str:
    """Name a server by an address that a browser can open: it may listen at all of them."""
    return url.replace("//0.0.0.0:", f"//{HOST}:").replace("//[::]:", "//[::1]:")
