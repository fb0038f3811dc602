"""`GET /events`: live events as a resumable server-sent event stream.

Owns the response: its start, its pace and its end. The hub renders each event once for all clients,
and others authenticate the caller. Errors before the first byte are raised, so that the
application's handlers turn them into problem responses.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from dialectic.core.event import State, render_position
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import UsageError
from dialectic.events.hub import Hub
from dialectic.events.stream import PAGE, Follower, Told

# Random, so that clients do not all reconnect at once.
RETRY_MIN_MS = 1000
RETRY_MAX_MS = 3000
# Stands for the local owner, who needs no token until one exists.
NO_TOKEN = UUID(int=0)
ID_MAX_CHARS = 100

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

FindCaller: TypeAlias = Callable[[Request], Awaitable[Account]]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a client must read."""

    # Timeout for one write. Without it, a stuck client would keep its backlog in memory for ever.
    send_max_s: float = 30.0
    # How long a client that was too slow has to read the end of its stream.
    end_max_s: float = 5.0
    # How many missed events one write holds.
    page: int = PAGE


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
        tenant_id = self._follower.account.tenant_id
        async with contextlib.aclosing(self._follower.follow()) as parts:
            async for part in parts:
                await self._write(send, self._render(tenant_id, part))

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

    def _render(self, tenant_id: UUID, told: Told) -> bytes:
        if isinstance(told, State):
            return told.render(tenant_id)
        if not told:
            return render_position(tenant_id, self._follower.seq)
        return b"".join([event.wire for event in told])


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


def build_stream(
    engine: Engine,
    hub: Hub,
    account: Account,
    request: Request,
    *,
    token_id: UUID | None = None,
    pace: Pace = PACE,
) -> EventStream:
    """Build the stream of a request from `Last-Event-ID` or `?after=`, and `?session=`.

    The stream ends when the request's token expires or is revoked.
    """
    after = request.headers.get("last-event-id") or request.query_params.get("after")
    follower = Follower(
        hub=hub,
        db=engine.db,
        account=account,
        after=after[:ID_MAX_CHARS] if after else None,
        session_id=parse_session(request.query_params.get("session")),
        token_id=token_id,
        page=pace.page,
    )
    return EventStream(follower, pace)


def parse_session(text: str | None) -> UUID | None:
    """Parse the id of a session; None means all sessions."""
    if not text:
        return None
    try:
        return UUID(text)
    except ValueError:
        raise UsageError("`session` is not an id. Use an id from `GET /sessions`.") from None


def build_routes(
    engine: Engine, hub: Hub, find_caller: FindCaller, *, pace: Pace = PACE
) -> list[Route]:
    """Build the route of live events for an app that authenticates its callers."""

    async def events(request: Request) -> EventStream:
        return build_stream(engine, hub, await find_caller(request), request, pace=pace)

    return [Route("/events", events, methods=["GET"])]
