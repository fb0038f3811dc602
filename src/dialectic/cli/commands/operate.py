"""`dialectic serve, worker, db`: the API with a worker, a worker alone, the database itself."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import signal
import sys
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from dialectic.app.accounts import load_owner
from dialectic.cli.browsers import show_page
from dialectic.cli.local import LocalBackend, open_local_backend
from dialectic.cli.page_server import HOST, PORT, open_home_server
from dialectic.cli.terminal import count, handling_signals, load_settings, run_async, say
from dialectic.cli.worker_host import catching_signals, open_worker
from dialectic.db.migrate import migrate as migrate_database
from dialectic.engine import Engine, open_address, open_engine
from dialectic.errors import ConfigurationError, ExitCode, UsageError
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic.settings import Settings, inherited_environment

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
@click.option(
    "--open", "opens_page", is_flag=True, help="Open the first page in your browser as well."
)
def serve(host: str, port: int, *, with_worker: bool, opens_page: bool) -> None:
    """Serve the web app and the API until stopped.

    Requests and calls in flight are finished first.
    """
    settings = _stopping_at_once(load_settings(is_server=True))
    serving = _serve(settings, host, port, with_worker=with_worker, opens_page=opens_page)
    sys.exit(run_async(serving))


def _stopping_at_once(settings: Settings) -> Settings:
    """Let the embedded server stop with this command: an operator who ends it wants no rest."""
    return dataclasses.replace(settings, database_idle_s=0.0)


async def _serve(
    settings: Settings, host: str, port: int, *, with_worker: bool, opens_page: bool
) -> ExitCode:
    catalog = build_catalog(settings)
    async with open_engine(settings, catalog, pool_size=POOL_SIZE, patience_s=PATIENCE_S) as engine:
        await _run(engine, host, port, with_worker=with_worker, opens_page=opens_page)
    say("Stopped.")
    return ExitCode.DONE


async def _run(
    engine: Engine, host: str, port: int, *, with_worker: bool, opens_page: bool
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        worker = None
        owner = await load_owner(engine.db, is_own_home=engine.address.is_embedded)
        if with_worker:
            backend = LocalBackend(engine, owner)
            concurrency = engine.settings.worker_concurrency
            worker = await stack.enter_async_context(open_worker(backend, concurrency=concurrency))
        opened = open_home_server(engine, host=host, port=port)
        server = await stack.enter_async_context(opened)
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
            say(f"Open {server.url} in your browser; the API is described at {server.url}/docs.")
            if opens_page:
                await show_page(server.url)
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
    sys.exit(run_async(_work(_stopping_at_once(load_settings()), concurrency)))


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


@click.group()
def db() -> None:
    """The database: migrate, print its URL, open a shell, stop the embedded server."""


@db.command(short_help="Migrate the database to this version's schema.")
def migrate() -> None:
    """Migrate the database to this version's schema; does nothing if it is current."""

    async def main(settings: Settings) -> ExitCode:
        async with open_address(settings) as address:
            applied = await migrate_database(address)
        for name in applied:
            say(f"applied {name}")
        say("The database is up to date.")
        return ExitCode.DONE

    sys.exit(run_async(main(load_settings())))


@db.command(short_help="Print the URL of the database.")
def url() -> None:
    """Print the URL of the database; an embedded server stops when it is not used."""

    async def main(settings: Settings) -> ExitCode:
        async with open_address(settings) as address:
            await migrate_database(address)
            click.echo(address.url)
        return ExitCode.DONE

    sys.exit(run_async(main(load_settings())))


@db.command(
    context_settings={"ignore_unknown_options": True}, short_help="Open psql on the database."
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def shell(arguments: tuple[str, ...]) -> None:
    """Open psql on the database, if psql is installed; ARGUMENTS are passed to it."""
    program = shutil.which("psql")
    if program is None:
        raise ConfigurationError(
            "psql is not installed. Install a PostgreSQL client, or connect with another one to "
            "the URL that `dialectic db url` prints."
        )

    async def main(settings: Settings) -> int:
        async with open_address(settings) as address:
            await migrate_database(address)
            process = await asyncio.create_subprocess_exec(
                program, *arguments, env=psql_environment(address.url)
            )

            def pass_on(number: signal.Signals) -> None:
                if number is not signal.SIGINT:  # psql handles ^C: the terminal sends it there too
                    process.terminate()

            with handling_signals(pass_on):
                return await process.wait()

    sys.exit(run_async(main(load_settings())))


def psql_environment(url: str) -> dict[str, str]:
    """Build psql's environment: every user could read a URL on the command line."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    given = {
        "PGHOST": parts.hostname or query.get("host"),
        "PGPORT": str(parts.port) if parts.port else query.get("port"),
        "PGUSER": unquote(parts.username) if parts.username else query.get("user"),
        "PGPASSWORD": unquote(parts.password) if parts.password else query.get("password"),
        "PGDATABASE": unquote(parts.path.lstrip("/")) or query.get("dbname"),
        "PGSSLMODE": query.get("sslmode"),
        # A forgotten open transaction would block everyone who needs its rows.
        "PGOPTIONS": "-c search_path=dialectic,public -c idle_in_transaction_session_timeout=60s",
    }
    return inherited_environment() | {name: text for name, text in given.items() if text}


@db.command(short_help="Stop the embedded server.")
def stop() -> None:
    """Stop the embedded server, even if commands are using it; they start it again."""
    settings = load_settings()
    if settings.database_url:
        raise UsageError(
            "DIALECTIC_DATABASE_URL is set. This command stops only the embedded server."
        )
    stopped = embedded.stop_server(settings.home)
    say("The server has stopped." if stopped else "No server was running.")
