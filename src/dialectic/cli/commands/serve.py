"""`dialectic serve, worker`: the API on a port, by default with a worker; a worker alone.

A worker runs jobs of all tenants until it is stopped.
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
from dialectic.core.access import check_opening, is_loopback
from dialectic.db.tables.accounts import has_tokens
from dialectic.engine import Engine, open_engine
from dialectic.errors import ExitCode
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings

HOST = "127.0.0.1"
PORT = 8420
POOL_SIZE = 20
# Fail fast if the database is unavailable; the client decides whether to retry.
PATIENCE_S = 5.0


@click.command()
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="The address to listen on; remote clients need a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port; 0 chooses a free one.",
)
@click.option(
    "--worker/--no-worker", "with_worker", default=True, help="Whether to run jobs as well."
)
def serve(host: str, port: int, *, with_worker: bool) -> None:
    """Serve the API until stopped; requests and calls in flight are finished first."""
    settings = load_settings(is_server=True)
    sys.exit(run_async(_serve(settings, host, port, with_worker=with_worker)))


async def _serve(settings: Settings, host: str, port: int, *, with_worker: bool) -> ExitCode:
    catalog = build_catalog(settings)
    async with open_engine(settings, catalog, pool_size=POOL_SIZE, patience_s=PATIENCE_S) as engine:
        is_known = await has_tokens(engine.db)
        check_opening(host, has_tokens=is_known)
        if not is_known and is_loopback(host):
            say("No token exists yet: every user of this machine has the owner's access.")
        await _run(engine, host, port, with_worker=with_worker)
    say("Stopped.")
    return ExitCode.DONE


async def _run(engine: Engine, host: str, port: int, *, with_worker: bool) -> None:
    from dialectic.api.app import build_app  # FastAPI takes 0.6 s to import
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
                say("Finishing requests and calls in flight; press ^C again to abort them.")

        tasks = {asyncio.create_task(server.wait())}
        if worker is not None:
            tasks.add(asyncio.create_task(worker.run()))
        with handling_signals(leave):
            click.echo(server.url)
            say(f"Serving at {server.url}/api/v1, described at {server.url}/docs.")
            # If one of them stops by itself, stop the other.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not count:
                leave(None)
            for task in tasks:
                await task


@click.command()
@click.option(
    "--concurrency", type=click.IntRange(1, 1000), help="Parallel jobs for each endpoint."
)
def worker(concurrency: int | None) -> None:
    """Run jobs until stopped; calls in flight are finished, unless stopped twice."""
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
