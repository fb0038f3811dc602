"""`GET /events`: live events as a resumable server-sent event stream.

Owns the response: its start, its pace and its end. The hub renders each event once for all clients,
and others authenticate the caller. Errors before the first byte are raised, so that the
application's handlers turn them into problem responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from dialectic.events.frames import EventFrame, render_position
from dialectic.events.stream import Follower

# Random, so that clients do not all reconnect at once.
RETRY_MIN_MS = 1000
RETRY_MAX_MS = 3000
# Stands for the local owner, who needs no token until one exists.
NO_TOKEN = UUID(int=0)

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a client must read."""

    # Timeout for one write. Without it, a stuck client would keep its backlog in memory for ever.
    send_max_s: float = 30.0
    # How long a client that was too slow has to read the end of its stream.
    end_max_s: float = 5.0


PACE = Pace()


class _TooSlow(Exception):
    """The client did not read in time."""


class EventStream(Response):
    """Streams events until the client leaves or lags, its token ends, or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, follower: Follower, pace: Pace = PACE) -> None:
        super().__init__()
        self._follower, self._pace = follower, pace
        self._has_started = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        pumping = asyncio.current_task()
        assert pumping is not None
        was_ended = has_left = False

        def end() -> None:
            """Cancel the pump, including a write that the client does not read."""
            nonlocal was_ended
            if not was_ended:
                was_ended = True
                pumping.cancel()

        def leave() -> None:
            nonlocal has_left
            has_left = True
            end()

        self._follower.on_end = end
        watching = asyncio.create_task(_watch(receive, leave))
        try:
            await self._pump(send)
        except _TooSlow:
            pass
        except asyncio.CancelledError:
            if not was_ended or pumping.uncancel():
                raise
        finally:
            was_ended = True
            watching.cancel()
        if not has_left:
            await self._finish(send)

    async def _pump(self, send: Send) -> None:
        async with contextlib.aclosing(self._follower.follow()) as pages:
            async for frames in pages:
                await self._write(send, self._render(frames))

    async def _write(self, send: Send, data: bytes) -> None:
        try:
            async with asyncio.timeout(self._pace.send_max_s):
                await send(_chunk(await self._open(send) + data))
        except TimeoutError:
            raise _TooSlow from None

    async def _open(self, send: Send) -> bytes:
        """Start the response if it has not started; return the prefix of its first write."""
        if self._has_started:
            return b""
        self._has_started = True
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        return render_retry()

    async def _finish(self, send: Send) -> None:
        """End the response; after a timeout the server closes the connection.

        A stream that ends before its first event sends only the reconnect delay.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pace.end_max_s):
                last = await self._open(send)
                await send({"type": "http.response.body", "body": last, "more_body": False})

    def _render(self, frames: list[EventFrame]) -> bytes:
        if not frames:
            at = self._follower
            return render_position(at.account.tenant_id, at.seq, at.horizon)
        return b"".join([frame.wire for frame in frames])


async def _watch(receive: Receive, leave: Callable[[], None]) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leave()


def _chunk(data: bytes) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": True}


def render_retry() -> bytes:
    """Build the line that sets the client's reconnect delay."""
    pause_ms = random.randint(RETRY_MIN_MS, RETRY_MAX_MS)  # noqa: S311  no secret
    return f"retry: {pause_ms}\n".encode()
