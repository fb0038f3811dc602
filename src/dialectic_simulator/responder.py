"""Send a response: bytes at their times, gates, and the end of the connection. Decides nothing."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from dialectic_simulator.framing import End, Response, join_frames

Message = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class Gates:
    """Gates by name. A call waits at a held gate until the gate is released."""

    def __init__(self) -> None:
        self._held: dict[str, asyncio.Event] = {}

    def hold(self, name: str) -> None:
        self._held.setdefault(name, asyncio.Event())

    def release(self, name: str) -> None:
        if (gate := self._held.pop(name, None)) is not None:
            gate.set()

    def release_all(self) -> None:
        for name in list(self._held):
            self.release(name)

    async def pass_through(self, *names: str) -> None:
        for name in names:
            if (gate := self._held.get(name)) is not None:
                await gate.wait()


@dataclass(slots=True)
class Progress:
    """The progress of a response; also read when sending was interrupted."""

    status: int | None = None
    tokens: int = 0
    is_complete: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """The connection on which a response is sent."""

    send: Send
    transport: asyncio.Transport
    gates: Gates

    async def play(
        self, response: Response, progress: Progress, on_end: Callable[[], None]
    ) -> None:
        """Send a response. A hanging one never returns: the client has to disconnect.

        The end is recorded just before the client can notice it, so that a client that has its
        answer finds it in the log.
        """
        await self.gates.pass_through(*response.gates)
        late = response.late_gate
        started_s = asyncio.get_running_loop().time()
        # With a gate in the middle, send every frame by itself, so that the gate is not skipped.
        frames = join_frames(response.frames) if late is None else response.frames
        for left, frame in zip(reversed(range(len(frames))), frames, strict=True):
            if late is not None and progress.tokens >= response.late_gate_tokens:
                await self.gates.pass_through(late)
            await _sleep_until(started_s + frame.at_s)
            if progress.status is None:
                await self._begin(response, progress)
            progress.tokens += frame.tokens
            if left == 0 and response.end is End.DONE:
                progress.is_complete = True
                on_end()
            await self.send({"type": "http.response.body", "body": frame.data, "more_body": True})
        await self._end(response, on_end)

    async def _begin(self, response: Response, progress: Progress) -> None:
        headers = {"content-type": response.content_type, **response.headers}
        encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        progress.status = response.status
        await self.send(
            {"type": "http.response.start", "status": response.status, "headers": encoded}
        )

    async def _end(self, response: Response, on_end: Callable[[], None]) -> None:
        match response.end:
            case End.DONE:
                await self.send({"type": "http.response.body", "body": b"", "more_body": False})
            case End.CLOSE:
                on_end()
                self.transport.close()
            case End.RESET:
                on_end()
                _reset(self.transport)
            case End.HANG:
                await asyncio.Event().wait()


async def _sleep_until(at_s: float) -> None:
    left_s = at_s - asyncio.get_running_loop().time()
    if left_s > 0:
        await asyncio.sleep(left_s)


def _reset(transport: asyncio.Transport) -> None:
    """Close a connection with a reset (RST) instead of an orderly end."""
    held: socket.socket = transport.get_extra_info("socket")
    held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
