"""Live events: a server of nothing else, and a writer that tells when it wrote.

`python -m bench.ours.events ACTION OPTIONS`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from bench.child import Options, say, serve, stopping_event
from bench.ours.engine import create_sessions, open_engine
from dialectic.api.event_stream import EventStream
from dialectic.contract.events import SessionEvent
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, Address, Connection
from dialectic.db.tables import records
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.events.hub import Hub, open_hub
from dialectic.events.stream import Follower

BACKLOG = 2048
STREAMS_MAX = 5000
BALLAST = "x" * 600  # with it an event is as long as most are


class News(SessionEvent):
    type = "news"

    n: int
    at: float
    ballast: str


BuildApp = Callable[[Engine, Hub, Account], Any]


async def prepare(options: Options) -> None:
    """Make a database with nobody in it."""
    await migrate(Address(options["url"], is_embedded=True))


def build_app(engine: Engine, hub: Hub, account: Account) -> Any:
    async def follow(_request: Request) -> EventStream:
        return EventStream(Follower(hub=hub, db=engine.db, account=account))

    return Starlette(routes=[Route("/events", follow)])


async def serve_events(options: Options) -> None:
    """Serve events until told to stop."""
    await serve_app(options, build_app)


async def serve_app(options: Options, build: BuildApp) -> None:
    """Serve what an app makes of the events that the hub reads."""
    stopping = stopping_event()
    async with (
        open_engine(options, APP_ROLE) as engine,
        open_hub(engine.address, streams_max=STREAMS_MAX) as hub,
    ):
        app = build(engine, hub, await open_account(engine.db, "events"))
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", backlog=BACKLOG, ws="none"
        )
        server = uvicorn.Server(config)
        with contextlib.closing(socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)) as place:
            running = asyncio.create_task(server._serve(sockets=[place]))
            say({"port": place.getsockname()[1]})
            await stopping.wait()
            hub.close_streams()
            server.should_exit = server.force_exit = True
            await running


async def write_events(options: Options) -> None:
    """Write events at a pace, each in a commit of its own."""
    async with open_engine(options, APP_ROLE) as engine:
        account = await open_account(engine.db, "events")
        [session_id] = await create_sessions(engine, account, count=1, models=2)
        clock = asyncio.get_running_loop().time
        begun_s = clock()
        for number in range(options["events"]):
            await asyncio.sleep(begun_s + (number + 1) / options["per_s"] - clock())

            async def work(connection: Connection, number: int = number) -> None:
                at = round(time.time(), 6)
                news = News(session_id=session_id, n=number, at=at, ballast=BALLAST)
                await records.record_event(connection, news)

            await engine.db.transact(account.tenant_id, work)


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "serve_events": serve_events,
    "write_events": write_events,
}

if __name__ == "__main__":
    serve(ACTIONS)
