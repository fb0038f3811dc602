"""A server of nothing but sockets: it plays the bytes it is given, and keeps what it was sent."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

HEADERS_BYTES_MAX = 1 << 20


@dataclass(frozen=True)
class Hang:
    """Say nothing more until the other side goes."""


@dataclass(frozen=True)
class Reset:
    """Break the connection so that the other side sees an error, not an end."""


@dataclass(frozen=True)
class Close:
    """End the connection as if all had been said."""


@dataclass(frozen=True)
class Drip:
    """Send a piece over and over, with a little time in between, until the other side goes."""

    piece: bytes
    every_s: float = 0.02


@dataclass(frozen=True)
class Flood:
    """Send a piece over and over, as fast as it is taken, until the other side goes."""

    piece: bytes


Step = bytes | Hang | Reset | Close | Drip | Flood | asyncio.Event
"""Bytes are sent; an event is waited for."""


@dataclass(frozen=True)
class Heard:
    """One request, as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Wire:
    """The server: one script for each request, the last one for all that follow."""

    port: int = 0
    scripts: list[tuple[Step, ...]] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0
    # Said before anything was heard.
    greeting: bytes = b""
    # Set once a script has come to its `Hang`, and once the other side has gone from one.
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    # Set once the other side has gone without having asked anything.
    left: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def play(self, *steps: Step) -> None:
        """Play these steps to the next request."""
        self.scripts.append(steps)

    def play_answer(
        self,
        *pieces: Step,
        status: int = 200,
        content_type: str | None = "text/event-stream",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Play an answer whose body ends when the connection does."""
        lines = [f"HTTP/1.1 {status} Whatever", "connection: close"]
        lines += [f"content-type: {content_type}"] if content_type else []
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        self.play("\r\n".join([*lines, "", ""]).encode("latin-1"), *pieces)

    def play_json(
        self, body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        length = {"content-length": str(len(data))}
        self.play_answer(
            data,
            status=status,
            content_type="application/json",
            headers={**length, **(headers or {})},
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                writer.write(self.greeting)
                await self._play_scripts(reader, writer)
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _play_scripts(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        is_open = True
        while is_open:
            try:
                self.heard.append(await _hear(reader))
            except asyncio.IncompleteReadError:
                self.left.set()
                raise
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
            for step in script:
                await self._carry_out(step, reader, writer)
            is_open = _stays_open(script)

    async def _carry_out(
        self, step: Step, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match step:
            case bytes():
                writer.write(step)
                await writer.drain()
            case asyncio.Event():
                await step.wait()
            case Hang():
                self.hanging.set()
                with contextlib.suppress(ConnectionError):
                    await reader.read()
                self.gone.set()
                raise ConnectionError
            case Close():
                raise ConnectionError
            case Reset():
                linger = struct.pack("ii", 1, 0)
                writer.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, linger
                )
                writer.transport.abort()
                raise ConnectionError
            case Flood(piece):
                try:
                    while True:
                        writer.write(piece)
                        await writer.drain()
                finally:
                    self.gone.set()
            case Drip(piece, every_s):
                with contextlib.suppress(ConnectionError):
                    while not reader.at_eof():
                        writer.write(piece)
                        await writer.drain()
                        with contextlib.suppress(TimeoutError):
                            await asyncio.wait_for(reader.read(), every_s)
                self.gone.set()
                raise ConnectionError


def _stays_open(script: tuple[Step, ...]) -> bool:
    head = script[0] if script else b""
    return isinstance(head, bytes) and b"\r\nconnection: close\r\n" not in head


async def _hear(reader: asyncio.StreamReader) -> Heard:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.strip().split("\r\n")
    method, path, _ = first.split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(method, path, headers, body)


@contextlib.asynccontextmanager
async def open_wire() -> AsyncIterator[Wire]:
    """Serve on a port of the machine's choosing."""
    wire = Wire()
    connections: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        with contextlib.suppress(asyncio.CancelledError):
            await wire.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=HEADERS_BYTES_MAX)
    wire.port = server.sockets[0].getsockname()[1]
    try:
        yield wire
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
