"""`dialectic doctor`: checks everything the program needs, and says how to fix it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Awaitable, Callable, Iterator
from uuid import uuid4

import click

from dialectic.app.accounts import LOCAL_USER
from dialectic.cli.error_report import advise, mark
from dialectic.cli.terminal import load_settings, printable, run_async
from dialectic.db.pool import redact
from dialectic.db.tables import lists
from dialectic.db.tables.accounts import find_account
from dialectic.db.tables.lists import PageQuery
from dialectic.engine import Engine, check_storage, open_engine
from dialectic.errors import (
    ConfigurationError,
    DialecticError,
    ExitCode,
    Remedy,
    RemedyAction,
)
from dialectic.limits.admission import EndpointState, list_endpoints
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog, choose_default_models
from dialectic.retrieval.embedders import check_embedder
from dialectic.settings import Settings


@click.command()
def doctor() -> None:
    """Check settings, database, storage, models and embedder; exits 0 only if all checks pass."""
    sys.exit(run_async(_examine(load_settings())))


async def _examine(settings: Settings) -> ExitCode:
    _report("program", f"Python {platform.python_version()} on {platform.platform()}")
    _report("home", str(settings.home))
    _report("settings", "read")
    _describe_server(settings)
    catalog = build_catalog(settings)
    try:
        check_embedder(settings.embedder, catalog)
    except DialecticError as error:
        _report_failure("embedder", error)
        return error.exit_code
    try:
        async with open_engine(settings, catalog, checks_storage=False) as engine:
            well = [await _check(name, look, engine) for name, look in CHECKS.items()]
    except DialecticError as error:
        _report_failure("database", error)
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
    """Write where the owner's documents go: in a new folder, and in that of the last project."""
    await check_storage(engine)
    folders = [f"doctor/{uuid4().hex}"]
    if (account := await find_account(engine.db, LOCAL_USER)) is not None:
        page = PageQuery(1)
        newest = await engine.db.transact(
            account.tenant_id, lambda connection: lists.list_projects(connection, page)
        )
        names = (uuid4().hex, *(row["slug"] for row in newest))
        folders = [f"{account.tenant_id}/{name}" for name in names]
    for folder in folders:
        key = f"{folder}/doctor-{uuid4().hex}"
        await engine.files.write(key, b"probe")
        await engine.files.delete(key)
    return f"writable: {engine.files.place}"


async def _check_models(engine: Engine) -> str:
    names = choose_default_models(engine.catalog, engine.settings)
    for name in names:
        engine.catalog.load_provider(engine.catalog.load_card(name))
    known, usable = len(engine.catalog.entries), len(engine.catalog.cards)
    return f"default {', '.join(names)}; {known} known, {usable} of them usable"


async def _check_embedder(engine: Engine) -> str:
    return engine.embedder.name


async def _check_endpoints(engine: Engine) -> str:
    rows = await list_endpoints(engine.db)
    known = [row for row in rows if row.endpoint in engine.catalog.endpoints]
    faults = [fault for row in known for fault in describe_faults(row)]
    if faults:
        remedies = [fault.remedy for fault in faults if fault.remedy is not None]
        told = " ".join(fault.message for fault in faults)
        raise ConfigurationError(told, remedy=remedies[0] if remedies else None)
    slow = [words for row in known if (words := describe_pace(row)) is not None]
    return " ".join(slow) or f"{len(engine.catalog.endpoints)} configured, no problems"


def describe_faults(row: EndpointState) -> Iterator[ConfigurationError]:
    """Describe what blocks calls to an endpoint, and how to fix it."""
    name, since = row.endpoint, row.opened_at
    if row.circuit != "closed" and row.reason == "provider_quota":
        yield ConfigurationError(
            f"{name}: the account has had no credit since {since:%Y-%m-%d %H:%M} UTC "
            f"({row.message}). Add credit, then resume the waiting sessions.",
            reason="account_empty",
            subject=name,
            remedy=Remedy(RemedyAction.RESUME),
        )
    elif row.circuit != "closed":
        wait_s = max(0.0, row.probe_in_s or 0.0)
        probe = (
            "A probe is running" if row.circuit == "probing" else f"Next probe in {wait_s:.0f} s"
        )
        yield ConfigurationError(
            f"{name}: has been failing since {since:%Y-%m-%d %H:%M} UTC ({row.message}). "
            f"{probe}; calls are blocked until then.",
            reason="probing" if row.circuit == "probing" else "failing",
            subject=name,
        )
    if row.key_refused_at is not None:
        yield ConfigurationError(
            f"{name}: the key has been rejected since {row.key_refused_at:%Y-%m-%d %H:%M} UTC "
            f"({row.key_message}). Set another key, then retry the failed jobs.",
            reason="key_refused",
            subject=name,
            remedy=Remedy(RemedyAction.RETRY),
        )


def describe_pace(row: EndpointState) -> str | None:
    """Describe an endpoint's rate limit, if one applies."""
    words = []
    if row.closed_s:
        words.append(f"accepts no calls for {row.closed_s:.0f} s, at its request")
    if row.rate_per_minute is not None:
        words.append(f"limited to {row.rate_per_minute:.0f} requests a minute for now")
    return f"{row.endpoint}: {'; '.join(words)}." if words else None


CHECKS: dict[str, Callable[[Engine], Awaitable[str]]] = {
    "database": _check_database,
    "storage": _check_storage,
    "models": _check_models,
    "embedder": _check_embedder,
    "endpoints": _check_endpoints,
}


async def _check(name: str, look: Callable[[Engine], Awaitable[str]], engine: Engine) -> bool:
    try:
        _report(name, await look(engine))
    except DialecticError as error:
        _report_failure(name, error)
        return False
    return True


def _report_failure(name: str, error: DialecticError) -> None:
    _report(name, mark(error.message, error.code), well=False)
    is_this = error.remedy is not None and error.remedy.action is RemedyAction.CHECK_SETUP
    if not is_this and (advice := advise(error.remedy)) is not None:
        click.echo(printable(f"{'':<15} {advice}"))


def _report(name: str, text: str, *, well: bool = True) -> None:
    click.echo(printable(f"{'ok  ' if well else 'FAIL'}  {name:<9} {text}"))
