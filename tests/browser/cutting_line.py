"""A line to a server that breaks: after some events of a stream, or until it is mended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.browser.site import Person, Site

STREAM = b"GET /api/v1/events"
FRAME_END = b"\n\n"
READ_BYTES = 65_536


@dataclass
class CuttingLine:
    """Passes bytes on between browsers and a server."""

    site: Site
    # How many events of a stream pass before it is cut; None: all.
    events: int | None
    url: str = ""
    cuts: int = 0
    is_down: bool = False
    writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut(self) -> None:
        """Cut all connections, and let no other pass."""

        async def close() -> None:
            self.is_down = True
            for writer in self.writers:
                writer.transport.abort()

        self.site.call(close())

    def mend(self) -> None:
        self.is_down = False

    def sign_in(self, person: Person) -> dict[str, Any]:
        """A person's cookie at this address; a cookie bears the port of its server."""
        name = f"dialectic_session_{self.url.rpartition(':')[2]}"
        return {**person.sign_in(), "name": name, "url": self.url}

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        port = int(self.site.url.rpartition(":")[2])
        inward, outward = await asyncio.open_connection("127.0.0.1", port)
        self.writers |= {writer, outward}
        asked = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._send(reader, outward, asked))
                both.create_task(self._answer(inward, writer, asked))
        except* ConnectionError:
            pass
        finally:
            self.writers -= {writer, outward}
            for end in (outward, writer):
                end.close()

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        while data := await reader.read(READ_BYTES):
            if STREAM in data:
                asked.set()
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event
    ) -> None:
        left = self.events
        while data := await reader.read(READ_BYTES):
            if left is not None and asked.is_set():
                passed = 0
                for frame in data.split(FRAME_END):
                    if b"event: " in frame and b"id: " in frame:
                        if left == 0:
                            # In the middle of a frame: what came of it is worth nothing.
                            writer.write(data[: passed + len(frame) // 2])
                            await writer.drain()
                            self.cuts += 1
                            raise ConnectionAbortedError
                        left -= 1
                    passed += len(frame) + len(FRAME_END)
            writer.write(data)
            await writer.drain()
        writer.close()


@contextmanager
def open_cutting_line(site: Site, events: int | None = None) -> Iterator[CuttingLine]:
    """Open a line to a site, at an address of its own."""
    line = CuttingLine(site, events)
    server = site.call(asyncio.start_server(line.pass_on, "127.0.0.1", 0))
    line.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield line
    finally:
        line.cut()
        site.loop.call_soon_threadsafe(server.close)
