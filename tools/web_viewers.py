"""Many viewers of one session: open event streams on plain sockets, which read and count."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

CONNECTING_AT_ONCE = 20
START_MAX_S = 60


@dataclass(slots=True)
class Seen:
    """What all viewers have received."""

    streams: int = 0
    frames: int = 0
    size_bytes: int = 0
    # Streams that were refused or cut.
    lost: int = 0
    # Set when another stream has begun or is lost.
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True, eq=False)
class Viewer(asyncio.Protocol):
    """One open stream."""

    seen: Seen
    path: str
    has_begun: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"GET {self.path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        if not self.has_begun:
            self.has_begun = True
            self.seen.streams += data.startswith(b"HTTP/1.1 200")
            self.seen.lost += not data.startswith(b"HTTP/1.1 200")
            self.seen.news.set()
        self.seen.frames += data.count(b"\nevent: ")
        self.seen.size_bytes += len(data)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.seen.lost += 1
        self.seen.news.set()


@contextmanager
def viewers(url: str, session: str, count: int) -> Iterator[Seen]:
    """Let many follow a session, with its drafts, in a thread of their own."""
    seen, place = Seen(), urlsplit(url)
    host, port = place.hostname or "", place.port or 80
    path = f"/api/v1/events?drafts={session}"
    ready, end = threading.Event(), threading.Event()

    async def watch() -> None:
        loop, gate = asyncio.get_running_loop(), asyncio.Semaphore(CONNECTING_AT_ONCE)

        async def connect() -> asyncio.Transport:
            async with gate:
                found = loop.create_connection(lambda: Viewer(seen, path), host, port)
                return (await found)[0]

        lines = await asyncio.gather(*(connect() for _ in range(count)))
        while seen.streams + seen.lost < count:
            await seen.news.wait()
            seen.news.clear()
        ready.set()
        await loop.run_in_executor(None, end.wait)
        for line in lines:
            line.abort()

    thread = threading.Thread(target=lambda: asyncio.run(watch()), daemon=True)
    thread.start()
    try:
        if not ready.wait(START_MAX_S):
            raise SystemExit(f"Only {seen.streams} of {count} streams could be opened.")
        yield seen
    finally:
        end.set()
        thread.join()
