"""Runs the application on a port with uvicorn: start, stop, drain.

The caller handles signals. On stop, event streams end at once and requests get a grace period. A
client that connects and sends nothing is disconnected after a timeout.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
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
# Every stream is a socket; the usual shell limit is far below the streams of one tenant.
FILES_MAX = 65_536
BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")


class _Server(uvicorn.Server):
    """A uvicorn server that reports when it is ready and handles no signals."""

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
    """uvicorn's HTTP protocol with timeouts where it has none."""

    # Timeout for the head of a request, and for the rest of a body after its response.
    head_max_s: ClassVar[float] = HEAD_MAX_S
    _head_timeout: asyncio.TimerHandle | None = None
    # The CR of a line end whose LF has not arrived yet.
    _split_cr: bytes = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._start_head_timeout()

    def data_received(self, data: bytes) -> None:
        if self.conn.their_state is h11.IDLE:
            head = self._split_cr + data.partition(b"\r\n\r\n")[0]
            if BARE_LINE_FEED.search(head):
                # Another server on the way may read it as part of a line, and so another request.
                self.send_400_response("A line of the request's head ends without a CR.")
                return
        self._split_cr = data[-1:] if data.endswith(b"\r") else b""
        super().data_received(data)
        # Between requests uvicorn's keep-alive timeout applies.
        self._start_head_timeout()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_head_timeout()

    def _start_head_timeout(self) -> None:
        """Start the timeout, unless the client is waiting for our response."""
        if self.conn.our_state in (h11.SEND_RESPONSE, h11.SEND_BODY):
            self._cancel_head_timeout()
        elif self._head_timeout is None:
            self._head_timeout = self.loop.call_later(self.head_max_s, self.transport.close)

    def _cancel_head_timeout(self) -> None:
        if self._head_timeout is not None:
            self._head_timeout.cancel()
            self._head_timeout = None

    def send_400_response(self, msg: str) -> None:
        """Respond to malformed HTTP and oversized heads with problem+json."""
        body = render_broken(msg)
        headers = [("Content-Type", MEDIA_TYPE), ("Connection", "close")]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Running:
    """A running server."""

    def __init__(self, server: _Server, task: asyncio.Task[Any], hub: Hub, url: str) -> None:
        self._server, self._task, self._hub = server, task, hub
        self.url = url

    def stop(self, *, at_once: bool = False) -> None:
        """Accept no more requests; finish those in progress, or abort them."""
        self._hub.close_streams()
        self._server.should_exit = True
        self._server.force_exit = self._server.force_exit or at_once

    async def wait(self) -> None:
        """Wait until the server has stopped."""
        await asyncio.wait({self._task})


@contextlib.asynccontextmanager
async def open_server(
    app: ASGIApp, hub: Hub, *, host: str, port: int, head_max_s: float = HEAD_MAX_S
) -> AsyncIterator[Running]:
    """Start a server; with port 0 the system chooses a free port."""
    _allow_many_files()
    with contextlib.closing(bind(host, port)) as listening:
        server = _Server(_configure(app, head_max_s))
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
    await task  # raises if the server crashed


def _allow_many_files() -> None:
    """Raise the limit of open files as far as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = FILES_MAX if hard == resource.RLIM_INFINITY else min(FILES_MAX, hard)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _configure(app: ASGIApp, head_max_s: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        interface="asgi3",
        loop="none",
        # Always h11, even if httptools is installed: it limits the size of request heads.
        http=type("_Protocol", (_Protocol,), {"head_max_s": head_max_s}),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        # Keep these headers: they distinguish a client behind a proxy from the local owner.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
