"""The application on a port: started, told to stop, drained. Nothing else of the API knows uvicorn.

Signals are left to whoever started it. When it stops, streams of events end at once, requests have
a while to be answered, and then the listener is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from dialectic.listening import bind
from dialectic.notify.hub import Hub

KEEP_ALIVE_S = 75
DRAIN_S = 30
BACKLOG = 2048


class _Quiet(uvicorn.Server):
    """A server that says when it is ready, and leaves signals alone."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Running:
    """A server that answers."""

    def __init__(self, server: _Quiet, task: asyncio.Task[Any], hub: Hub, url: str) -> None:
        self._server, self._task, self._hub = server, task, hub
        self.url = url

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more requests and finish those under way, or break them off."""
        self._hub.close_streams()
        self._server.should_exit = True
        self._server.force_exit = self._server.force_exit or at_once

    async def wait(self) -> None:
        """Wait until it has stopped."""
        await asyncio.wait({self._task})


@contextlib.asynccontextmanager
async def open_server(app: ASGIApp, hub: Hub, *, host: str, port: int) -> AsyncIterator[Running]:
    """Open a server that answers from here on; port 0 lets the system choose one."""
    with contextlib.closing(bind(host, port)) as listening:
        server = _Quiet(_configure(app))
        task = asyncio.create_task(server.serve(sockets=[listening]))
        ready = asyncio.create_task(server.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        shown = f"[{host}]" if ":" in host else host
        running = Running(server, task, hub, f"http://{shown}:{listening.getsockname()[1]}")
        try:
            yield running
        finally:
            running.stop()
            await running.wait()
    await task  # what made it end by itself, if anything did


def _configure(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="none",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # Whoever stands behind a proxy is told from its owner by these headers: they stay.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
