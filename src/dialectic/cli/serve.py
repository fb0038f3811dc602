"""`dialectic serve`: the API on a port, with a worker beside it unless told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import sys

import click

from dialectic.accounts import load_owner
from dialectic.cli.local import LocalDesk
from dialectic.cli.signals import handling_signals
from dialectic.cli.terminal import load_settings, run_async, say
from dialectic.domain.door import check_opening, is_loopback
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings
from dialectic.store.accounts import has_tokens

HOST = "127.0.0.1"
PORT = 8420
POOL_SIZE = 20
# A request is told soon that the database is away; whoever sent it decides whether to wait.
PATIENCE_S = 5.0


@click.command()
@click.option(
    "--host", default=HOST, show_default=True, help="Where to listen; others need a token there."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port; 0 lets the system choose one.",
)
@click.option(
    "--worker/--no-worker", "with_worker", default=True, help="Whether to carry out jobs as well."
)
def serve(host: str, port: int, *, with_worker: bool) -> None:
    """Serve the API until told to stop; requests and calls in flight are finished first."""
    settings = load_settings(is_server=True)
    sys.exit(run_async(_serve(settings, host, port, with_worker=with_worker)))


async def _serve(settings: Settings, host: str, port: int, *, with_worker: bool) -> ExitCode:
    catalog = build_catalog(settings)
    async with open_engine(settings, catalog, pool_size=POOL_SIZE, patience_s=PATIENCE_S) as engine:
        is_known = await has_tokens(engine.db)
        check_opening(host, has_tokens=is_known)
        if not is_known and is_loopback(host):
            say("There is no token yet: whoever is at this machine is its owner.")
        await _run(engine, host, port, with_worker=with_worker)
    say("Stopped.")
    return ExitCode.DONE


async def _run(engine: Engine, host: str, port: int, *, with_worker: bool) -> None:
    from dialectic.api.app import build_app  # the framework: 0.6 s that other commands need not pay
    from dialectic.api.server import open_server
    from dialectic.cli.host import open_worker
    from dialectic.notify.hub import open_hub

    async with contextlib.AsyncExitStack() as stack:
        streams_max = engine.settings.event_streams_max
        hub = await stack.enter_async_context(open_hub(engine.address, streams_max=streams_max))
        app = build_app(engine, hub, listens_at=host)
        worker = None
        if with_worker:
            desk = LocalDesk(engine, await load_owner(engine.db))
            concurrency = engine.settings.worker_concurrency
            worker = await stack.enter_async_context(open_worker(desk, concurrency=concurrency))
        server = await stack.enter_async_context(open_server(app, hub, host=host, port=port))
        count = 0

        def leave(_number: object) -> None:
            nonlocal count
            count += 1
            server.stop(at_once=count > 1)
            if worker is not None:
                worker.stop(at_once=count > 1)
            if count == 1:
                say("Finishing what is under way; again breaks it off.")

        tasks = {asyncio.create_task(server.wait())}
        if worker is not None:
            tasks.add(asyncio.create_task(worker.run()))
        with handling_signals(leave):
            click.echo(server.url)
            say(f"Serving at {server.url}/api/v1, described at {server.url}/docs.")
            # Whichever ends first by itself takes the other along.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not count:
                leave(None)
            for task in tasks:
                await task
