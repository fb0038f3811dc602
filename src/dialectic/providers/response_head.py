"""The head of a response is read in small pieces, up to a limit. Knows neither vendors nor bodies.

The HTTP library accepts any number of interim responses (1xx) before the final one, and parses all
that one read returned without giving way: an endpoint that sends them without end would take every
second turn of the event loop. So a connection hands over little at a time, and breaks off early.
"""

# ruff: noqa: ASYNC109  the library's own interface has these parameters
from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any

import httpcore2
import httpx2

HEAD_BYTES_MAX = 64 << 10
PIECE_BYTES = 4 << 10


def limit_heads(*transports: httpx2.AsyncBaseTransport | None) -> None:
    """Limit what these transports read before the final status of a response."""
    for transport in transports:
        if isinstance(transport, httpx2.AsyncHTTPTransport):
            # The pool takes a network backend, but the transport offers no way to give it one.
            pool = transport._pool
            pool._network_backend = _Backend(pool._network_backend)


def end_head(response: httpx2.Response) -> None:
    """Lift the limit, because the final status has arrived; the next request sets it again."""
    stream = response.extensions.get("network_stream")
    if isinstance(stream, _Stream):
        stream.head_bytes_left = None


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections whose heads are limited."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        opened = await self._inner.connect_tcp(host, port, timeout, local_address, socket_options)
        return _Stream(opened)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection that hands over a limited head for each request."""

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner = inner
        # None while a body is read.
        self.head_bytes_left: int | None = HEAD_BYTES_MAX

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self.head_bytes_left is None:
            return await self._inner.read(max_bytes, timeout)
        if self.head_bytes_left <= 0:
            raise httpcore2.RemoteProtocolError(
                f"no final status came within {HEAD_BYTES_MAX} bytes"
            )
        piece = await self._inner.read(min(max_bytes, PIECE_BYTES), timeout)
        self.head_bytes_left -= len(piece)
        # What has already arrived is returned at once, without a turn for others.
        await asyncio.sleep(0)
        return piece

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.head_bytes_left = HEAD_BYTES_MAX
        await self._inner.write(buffer, timeout)

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._inner.start_tls(ssl_context, server_hostname, timeout))

    async def aclose(self) -> None:
        await self._inner.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
