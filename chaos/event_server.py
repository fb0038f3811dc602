"""A server of events, and nothing else: the product's stream in a small app of its own.

`python -m chaos.event_server URL PORT HOME SABOTAGE` serves the events of the account `local` until
it is killed or told to stop; it says `ready` when it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from dialectic.api.event_stream import PACE, EventStream, Pace
from dialectic.db.pool import APP_ROLE, Address, Database
from dialectic.db.tables.notifications import PAGE
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine, Failpoints
from dialectic.errors import DialecticError
from dialectic.events.hub import Hub, open_hub
from dialectic.events.stream import Follower
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store

HOST = "127.0.0.1"
BACKLOG = 4096
STREAMS_MAX = 5000

FindCaller: TypeAlias = Callable[[Request], Awaitable[Account]]


class EventServer(uvicorn.Server):
    """Ends streams as soon as it is told to leave: they never end by themselves."""

    def __init__(self, config: uvicorn.Config, hub: Hub) -> None:
        super().__init__(config)
        self.hub = hub

    def leave(self) -> None:
        self.hub.close_streams()
        self.should_exit = True


def build_app(
    engine: Engine, hub: Hub, find_caller: FindCaller, pace: Pace = PACE, *, page: int = PAGE
) -> Starlette:
    async def follow(request: Request) -> EventStream:
        session = request.query_params.get("session")
        follower = Follower(
            hub=hub,
            db=engine.db,
            account=await find_caller(request),
            after=request.headers.get("last-event-id") or request.query_params.get("after"),
            session_id=UUID(session) if session else None,
            page=page,
        )
        return EventStream(follower, pace)

    async def refuse(_request: Request, error: Exception) -> Response:
        assert isinstance(error, DialecticError)
        problem = {"code": error.code, "detail": error.message}
        return JSONResponse(problem, error.status, media_type="application/problem+json")

    return Starlette(
        routes=[Route("/events", follow)],
        exception_handlers={DialecticError: refuse},
    )


def build_server(app: Any, hub: Hub) -> EventServer:
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", backlog=BACKLOG, ws="none"
    )
    return EventServer(config, hub)


@contextlib.asynccontextmanager
async def serving(app: Any, hub: Hub, port: int = 0) -> AsyncIterator[int]:
    """Serve an app in this process; the port is free again afterwards."""
    server = build_server(app, hub)
    with contextlib.closing(listen(port)) as listening:
        running = asyncio.create_task(server._serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.leave()
            await running


def listen(port: int) -> socket.socket:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind((HOST, port))
    listening.listen(BACKLOG)
    return listening


@contextlib.asynccontextmanager
async def open_plain_engine(address: Address, home: Path) -> AsyncIterator[Engine]:
    """Open an engine on a database that is there."""
    settings = Settings(home=home)
    async with Database.open(address, APP_ROLE, size=8) as db:
        yield Engine(
            settings=settings,
            address=address,
            db=db,
            files=open_store(settings.storage_location),
            catalog=build_catalog(settings),
            failpoints=Failpoints.parse(""),
        )


def allow_many_files() -> None:
    """Let this process have as many sockets as it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def build_caller(engine: Engine) -> FindCaller:
    """Everybody is the account `local`."""
    account = await open_account(engine.db, "local")

    async def find_caller(_request: Request) -> Account:
        return account

    return find_caller


async def run(url: str, port: int, home: Path) -> None:
    address = Address(url, is_embedded=True)
    async with (
        open_plain_engine(address, home) as engine,
        open_hub(address, streams_max=STREAMS_MAX) as hub,
    ):
        app = build_app(engine, hub, await build_caller(engine))
        server = build_server(app, hub)
        with contextlib.closing(listen(port)) as listening:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.leave)
            print("ready", flush=True)
            await server._serve(sockets=[listening])  # without signal handlers of its own


def main() -> None:
    from chaos.sabotage import load

    url, port, home, sabotage = sys.argv[1:]
    load(sabotage).patch()
    logging.basicConfig(level=logging.WARNING)
    allow_many_files()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(url, int(port), Path(home)))


if __name__ == "__main__":
    main()
