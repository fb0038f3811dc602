"""sse-starlette on the same events, read by the same hub: each client's are rendered for it."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import AsyncIterator
from typing import Any

from sse_starlette import EventSourceResponse, JSONServerSentEvent
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from bench.child import Options, serve
from bench.ours.events import serve_app
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.events.frames import EventFrame
from dialectic.events.hub import Hub
from dialectic.events.stream import Follower

SEPARATOR = "\n"  # the clients read what ours writes


@functools.lru_cache(maxsize=1000)
def read_body(frame: EventFrame) -> Any:
    """Read an event once for all: only what is rendered for each client is to be measured."""
    return json.loads(frame.wire.rpartition(b"\ndata: ")[2])


def build_app(engine: Engine, hub: Hub, account: Account) -> Any:
    async def follow() -> AsyncIterator[JSONServerSentEvent]:
        follower = Follower(hub=hub, db=engine.db, account=account)
        async with contextlib.aclosing(follower.follow()) as told:
            async for part in told:
                if not part:
                    yield JSONServerSentEvent({}, event="begin", sep=SEPARATOR)
                for frame in part:
                    body = read_body(frame)
                    yield JSONServerSentEvent(
                        body, id=str(frame.seq), event=body["type"], sep=SEPARATOR
                    )

    async def events(_request: Request) -> EventSourceResponse:
        return EventSourceResponse(follow(), sep=SEPARATOR)

    return Starlette(routes=[Route("/events", events)])


async def serve_events(options: Options) -> None:
    """Serve events until told to stop."""
    await serve_app(options, build_app)


if __name__ == "__main__":
    serve({"serve_events": serve_events})
