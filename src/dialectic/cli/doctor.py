"""`dialectic doctor`: looks at everything the program needs, and says what to do where it fails."""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable
from uuid import uuid4

import click

from dialectic import embedded
from dialectic.cli.terminal import load_settings, printable, run_async
from dialectic.engine import Engine, check_storage, open_engine
from dialectic.errors import DialecticError, ExitCode
from dialectic.providers.catalog import build_catalog, choose_default_models
from dialectic.settings import Settings
from dialectic.store.database import redact


@click.command()
def doctor() -> None:
    """Check settings, database, storage and models; exits 0 only if all is well."""
    sys.exit(run_async(_examine(load_settings())))


async def _examine(settings: Settings) -> ExitCode:
    _report("program", f"Python {platform.python_version()} on {platform.platform()}")
    _report("home", str(settings.home))
    _report("settings", "read")
    _describe_server(settings)
    try:
        async with open_engine(settings, build_catalog(), checks_storage=False) as engine:
            well = [await _check(name, look, engine) for name, look in CHECKS.items()]
    except DialecticError as error:
        _report("database", error.message, well=False)
        return error.exit_code
    return ExitCode.DONE if all(well) else ExitCode.CONFIGURATION


def _describe_server(settings: Settings) -> None:
    if settings.database_url:
        _report("server", redact(settings.database_url))
        return
    state = embedded.describe_server(settings.home)
    running = f"runs as process {state.pid}" if state.running else "starts with each command"
    data = state.data_version or "none yet"
    _report("server", f"embedded {state.binaries_version}, {running}; data version {data}")


async def _check_database(engine: Engine) -> str:
    row = (await engine.db.fetch("select version() as version, current_user as role"))[0]
    return f"{row['version'].split(' on ')[0]}, as {row['role']}, schema up to date"


async def _check_storage(engine: Engine) -> str:
    await check_storage(engine)
    key = f"doctor/{uuid4().hex}"
    await engine.files.write(key, b"probe")
    await engine.files.delete(key)
    return f"writable: {engine.settings.storage_location}"


async def _check_models(engine: Engine) -> str:
    names = choose_default_models(engine.catalog, engine.settings.default_models)
    for name in names:
        engine.catalog.load_provider(engine.catalog.load_card(name))
    return f"default {', '.join(names)}"


CHECKS: dict[str, Callable[[Engine], Awaitable[str]]] = {
    "database": _check_database,
    "storage": _check_storage,
    "models": _check_models,
}


async def _check(name: str, look: Callable[[Engine], Awaitable[str]], engine: Engine) -> bool:
    try:
        _report(name, await look(engine))
    except DialecticError as error:
        _report(name, error.message, well=False)
        return False
    return True


def _report(name: str, text: str, *, well: bool = True) -> None:
    click.echo(printable(f"{'ok  ' if well else 'FAIL'}  {name:<9} {text}"))
