"""`dialectic serve`: the API on a port, with a worker beside it unless told otherwise.

`dialectic worker`: carries out jobs of anyone, for as long as it is left alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

import click

from dialectic.app.accounts import load_owner
from dialectic.cli.local import LocalBackend, open_local_backend
from dialectic.cli.terminal import count, handling_signals, load_settings, run_async, say
from dialectic.cli.worker_host import catching_signals, open_worker
from dialectic.core.local_trust import check_opening, is_loopback
from dialectic.db.tables.accounts import has_tokens
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings

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
    from dialectic.cli.worker_host import open_worker
    from dialectic.events.hub import open_hub

    async with contextlib.AsyncExitStack() as stack:
        streams_max = engine.settings.event_streams_max
        hub = await stack.enter_async_context(open_hub(engine.address, streams_max=streams_max))
        app = build_app(engine, hub, listens_at=host)
        worker = None
        if with_worker:
            backend = LocalBackend(engine, await load_owner(engine.db))
            concurrency = engine.settings.worker_concurrency
            worker = await stack.enter_async_context(open_worker(backend, concurrency=concurrency))
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


@click.command()
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), help="Jobs to run at a time, for each endpoint."
)
def worker(concurrency: int | None) -> None:
    """Carry out jobs until told to stop; calls in flight are finished, unless told twice."""
    sys.exit(run_async(_work(load_settings(), concurrency)))


async def _work(settings: Settings, concurrency: int | None) -> ExitCode:
    async with (
        open_local_backend(settings) as backend,
        open_worker(backend, concurrency=concurrency or settings.worker_concurrency) as host,
    ):
        with catching_signals(lambda count: host.stop(at_once=count > 1)):
            say(f"Worker {host.name} is ready for {count(host.concurrency, 'job')} at a time.")
            await host.run()
        say("Worker stopped.")
    return ExitCode.DONE
