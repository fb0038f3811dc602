"""Shell completion of ids and names: sessions, contributions, projects, stages, models, processes.

Only what is there at once is offered: an embedded database that does not run is not started.
A Tab must never fail or wait, so every error means no candidates.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from dialectic.cli.options import find_server_option, list_runnable

VARIABLE = "_DIALECTIC_COMPLETE"
PATIENCE_S = 2.0
SESSIONS_MAX = 50
# Contributions are offered for the newest sessions only: each takes a query.
SESSIONS_READ_MAX = 5

Found: TypeAlias = Iterable[tuple[str, str]]
"""Values with what to say about each."""


class Completing(click.ParamType[Any]):
    """A type whose values are completed from a list."""

    def __init__(self, inner: click.ParamType[Any], find: Callable[[click.Context], Found]) -> None:
        self._inner = inner
        self._find = find
        self.name = inner.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        return self._inner.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        del param
        # A list of models is completed after its last comma.
        before, comma, begun = incomplete.rpartition(",")
        with contextlib.suppress(Exception):
            return [
                CompletionItem(f"{before}{comma}{value}", help=about)
                for value, about in self._find(ctx)
                if value.lower().startswith(begun.lower())
            ]
        return []


def complete_values(command: click.Command) -> None:
    """Let a command, or each command of a group, complete ids and names."""
    for one in list_runnable(command):
        for param in one.params:
            find = _choose(param)
            if find is not None:
                param.type = Completing(param.type, find)


def _choose(param: click.Parameter) -> Callable[[click.Context], Found] | None:
    shown = (param.metavar or "").upper()
    if param.name == "found" and shown == "PROJECT":
        return list_projects
    return BY_NAME.get(param.name or "")


# -- without a database ----------------------------------------------------------------------------


def list_models(_context: click.Context) -> Found:
    """List the models and the aliases."""
    from dialectic.cli.aliases import load_aliases
    from dialectic.providers.catalog import build_catalog
    from dialectic.settings import Settings

    settings = Settings.load()
    known = [(name, "") for name in sorted(build_catalog(settings).cards)]
    return [*load_aliases(settings.home).items(), *known]


def list_named_processes(_context: click.Context) -> Found:
    """List the processes with a name."""
    from dialectic.processes.loader import list_processes
    from dialectic.settings import Settings

    return [(one.name, "") for one in list_processes(Settings.load().own_processes)]


# -- with one --------------------------------------------------------------------------------------


def _ask(work: Callable[[Any], Awaitable[Found]]) -> Found:
    """Ask the backend, if it can answer at once."""
    import asyncio  # every command loads this module
    from dataclasses import replace

    from dialectic.cli.backend import open_backend
    from dialectic.postgres.embedded import describe_server
    from dialectic.settings import Settings

    settings = Settings.load()
    if (server := find_server_option()) is not None:
        settings = replace(settings, server=server)
    is_remote = settings.server or settings.database_url
    if not is_remote and not describe_server(settings.home).running:
        return []

    async def main() -> Found:
        async with asyncio.timeout(PATIENCE_S), open_backend(settings) as backend:
            return await work(backend)

    return asyncio.run(main())


def list_sessions(_context: click.Context) -> Found:
    """List the newest sessions by their short ids."""

    async def work(backend: Any) -> Found:
        rows = await backend.list_sessions(SESSIONS_MAX, archived=False)
        return [(str(row.id)[:8], f"{row.project_name}: {row.status_text}") for row in rows]

    return _ask(work)


def list_projects(_context: click.Context) -> Found:
    """List the newest projects by their folders."""

    async def work(backend: Any) -> Found:
        rows = await backend.list_projects(SESSIONS_MAX, archived=None)
        return [(row.slug, row.name) for row in rows]

    return _ask(work)


def list_contributions(_context: click.Context) -> Found:
    """List the documents of the newest sessions by their short ids."""

    async def work(backend: Any) -> Found:
        sessions = await backend.list_sessions(SESSIONS_READ_MAX, archived=False)
        found = []
        for session in sessions:
            for one in (await backend.look(session.id)).contributions:
                if not one.is_intermediate:
                    name = one.storage_path.rsplit("/", 1)[-1]
                    found.append((str(one.id)[:8], f"{session.project_name}: {name}"))
        return found

    return _ask(work)


def list_any(context: click.Context) -> Found:
    """List sessions and contributions."""
    return [*list_sessions(context), *list_contributions(context)]


def list_stages(context: click.Context) -> Found:
    """List the stages of the session that the command line names."""
    from dialectic.contract.projects import Kind

    async def work(backend: Any) -> Found:
        session_id = await backend.get_id(Kind.SESSION, context.params["session"])
        return [(run.stage_slug, run.status) for run in (await backend.look(session_id)).stages]

    return _ask(work)


BY_NAME: dict[str, Callable[[click.Context], Found]] = {
    "session": list_sessions,
    "contribution": list_contributions,
    "on": list_contributions,
    "before": list_contributions,
    "after": list_contributions,
    "found": list_any,
    "project": list_projects,
    "stage": list_stages,
    "models": list_models,
    "model": list_models,
    "lead": list_models,
    "meant": list_models,
    "process": list_named_processes,
    "source": list_named_processes,
}
