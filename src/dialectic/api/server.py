"""The application on a port: started, told to stop, drained. Nothing else of the API knows uvicorn.

Signals are left to whoever started it. When it stops, streams of events end at once, requests have
a while to be answered, and then the listener is gone. Nobody who connects and says nothing is
waited for for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar, cast

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from dialectic.api.problems import MEDIA_TYPE, render_broken
from dialectic.events.hub import Hub
from dialectic.net import bind

KEEP_ALIVE_S = 75
DRAIN_S = 30
BACKLOG = 2048
HEAD_MAX_S = 20.0
# Every stream is a socket; what a shell allows is far less than the streams of one tenant.
FILES_MAX = 65_536


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


class _Protocol(H11Protocol):
    """HTTP as uvicorn speaks it, with an end to what it would wait for without one."""

    # How long a client may take for the head of a request, and for the rest of one that was
    # answered.
    head_max_s: ClassVar[float] = HEAD_MAX_S
    _giving_up: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._expect()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Between two requests uvicorn waits as long as it does for an idle connection.
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._forget()

    def _expect(self) -> None:
        """Wait for the client only so long, unless it is the client who waits for us."""
        if self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
            self._forget()
        elif self._giving_up is None:
            self._giving_up = self.loop.call_later(self.head_max_s, self.transport.close)

    def _forget(self) -> None:
        if self._giving_up is not None:
            self._giving_up.cancel()
            self._giving_up = None

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP, or has far too much of a head, as all else that is refused."""
        body = render_broken(msg)
        headers = [("Content-Type", MEDIA_TYPE), ("Connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


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
async def open_server(
    app: ASGIApp, hub: Hub, *, host: str, port: int, head_max_s: float = HEAD_MAX_S
) -> AsyncIterator[Running]:
    """Open a server that answers from here on; port 0 lets the system choose one."""
    _allow_many_files()
    with contextlib.closing(bind(host, port)) as listening:
        server = _Quiet(_configure(app, head_max_s))
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


def _allow_many_files() -> None:
    """Let this process have as many sockets as it needs, if the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _configure(app: ASGIApp, head_max_s: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="none",
        # Whatever else is installed: this one has a limit for the heads of requests.
        http=type("_Protocol", (_Protocol,), {"head_max_s": head_max_s}),
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
