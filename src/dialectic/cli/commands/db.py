"""`dialectic db`: the database itself."""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from dialectic.cli.terminal import handling_signals, load_settings, run_async, say
from dialectic.db.migrate import migrate as migrate_database
from dialectic.engine import open_address
from dialectic.errors import ConfigurationError, ExitCode, UsageError
from dialectic.postgres import embedded
from dialectic.settings import Settings, inherited_environment


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


@db.command()
def url() -> None:
    """Print the URL of the database. The embedded server runs only while a command does."""

    async def main(settings: Settings) -> ExitCode:
        async with open_address(settings) as address:
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
