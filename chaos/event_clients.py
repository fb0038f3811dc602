"""Clients of a stream of events on raw sockets: what each has seen, whatever is done to its line.

Owns the lines and what came over them. Knows nothing of the server but its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from chaos.event_server import HOST
from dialectic.core.sse import EventParser

READ_BYTES = 65_536
CONNECT_MAX_S = 30.0
COME_BACK_MIN_S = 0.05
COME_BACK_MAX_S = 0.5


@dataclass(frozen=True, slots=True)
class Frame:
    """One event as it came."""

    event_id: str
    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class Line:
    """One connection. HTTP/1.0, so that the body is just what the server wrote."""

    port: int
    path: str = "/events"
    headers: dict[str, str] = field(default_factory=dict)
    status: int = 0
    head: dict[str, str] = field(default_factory=dict)
    reader: asyncio.StreamReader = field(init=False)
    writer: asyncio.StreamWriter = field(init=False)
    last_id: str = ""
    _parser: EventParser = field(default_factory=EventParser)

    async def open(self, own: socket.socket | None = None) -> Line:
        """Connect, by a socket of the caller's if one is given, and read the head."""
        if own is None:
            self.reader, self.writer = await asyncio.open_connection(HOST, self.port)
        else:
            await asyncio.get_running_loop().sock_connect(own, (HOST, self.port))
            self.reader, self.writer = await asyncio.open_connection(sock=own)
        try:
            await self._greet()
        except BaseException:
            self.close()
            raise
        return self

    async def _greet(self) -> None:
        lines = [f"GET {self.path} HTTP/1.0", *(f"{k}: {v}" for k, v in self.headers.items())]
        self.writer.write("\r\n".join([*lines, "", ""]).encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.status = int(head[0].split()[1])
        self.head = dict(line.lower().split(": ", 1) for line in head[1:] if line)

    async def read(self) -> list[Frame] | None:
        """Read what has come, whole frames only; None at the end."""
        data = await self.reader.read(READ_BYTES)
        if not data:
            return None
        events = self._parser.feed(data)
        self.last_id = self._parser.last_id or self.last_id
        return [Frame(event.id or "", event.name, json.loads(event.data)) for event in events]

    def close(self) -> None:
        """Hang up at once; what is on its way is lost."""
        self.writer.transport.abort()


@dataclass(slots=True)
class Client:
    """Someone who follows until all has been seen, and comes back whenever the line is lost."""

    port: int
    rng: Random
    wanted: int
    last_id: str
    # How long a line is kept on average before the client cuts it.
    line_s: float
    seen: list[Frame] = field(default_factory=list)
    lines: int = 0
    refusals: int = 0

    async def follow(self) -> None:
        while len(self.seen) < self.wanted:
            try:
                async with asyncio.timeout(CONNECT_MAX_S):
                    line = await Line(
                        self.port, headers={"Last-Event-ID": self.last_id}, last_id=self.last_id
                    ).open()
            except (OSError, EOFError, TimeoutError):
                self.refusals += 1
                await asyncio.sleep(self.rng.uniform(COME_BACK_MIN_S, COME_BACK_MAX_S))
                continue
            self.lines += 1
            try:
                with contextlib.suppress(TimeoutError, OSError):
                    async with asyncio.timeout(self.rng.expovariate(1 / self.line_s)):
                        await self._read(line)
            finally:
                self.last_id = line.last_id
                line.close()

    async def _read(self, line: Line) -> None:
        while len(self.seen) < self.wanted and (frames := await line.read()) is not None:
            self.seen += frames


async def follow_all(clients: Sequence[Client]) -> None:
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(client.follow())
