"""What comes of a session that a command follows: its documents named and copied, and what is next.

Knows nothing of how a session was begun.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dialectic.app.sessions import Overview
from dialectic.atomic_write import replacing
from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import Seen, follow_session
from dialectic.cli.display.progress import open_display
from dialectic.cli.display.quote import describe_shortage
from dialectic.cli.options import name_command
from dialectic.cli.terminal import printable, say
from dialectic.core.money.quote import Quote
from dialectic.core.transfer.bundle_format import readme_path
from dialectic.errors import ExitCode, UsageError


async def work_and_follow(
    backend: Backend,
    session_id: UUID,
    *,
    as_json: bool,
    out: Path | None,
    seen: Seen | None = None,
    quote: Quote | None = None,
) -> ExitCode:
    """Carry out jobs in this process until the session ends, showing what is new."""

    async def follow() -> ExitCode:
        with open_display(backend, as_json=as_json, quote=quote) as display:
            awaits = not backend.is_local
            return await follow_session(backend, session_id, display, seen, awaits_workers=awaits)

    async def conclude(code: ExitCode) -> ExitCode:
        overview = await backend.look(session_id)
        project_id, slug = overview.session["project_id"], overview.session["project_slug"]
        await backend.finish(project_id, session_id)
        if out is not None:
            await copy_out(backend, project_id, slug, out)
        if not as_json:
            known = seen.contributions if seen is not None else frozenset()
            _name_documents(backend, slug, overview, known, out)
        if code is ExitCode.DONE and not as_json:
            _say_where(backend, slug, session_id, out)
        _say_what_helps(code, overview)
        return code

    try:
        code = await backend.run_until(follow(), session_id=session_id, conclude=conclude)
    except (asyncio.CancelledError, BrokenPipeError):  # told to leave, or left by its reader
        tell_left(backend, session_id)
        raise
    if code is ExitCode.INTERRUPTED:
        tell_left(backend, session_id)
    return code


@contextlib.contextmanager
def telling_unstarted(session_id: UUID) -> Iterator[None]:
    """Name a session that is made, whose command is told to leave before it has begun."""
    try:
        yield
    except asyncio.CancelledError:
        command = name_command(f"resume {str(session_id)[:8]}")
        say(f"Interrupted. Session {session_id} is made; `{command}` starts it.")
        raise


def tell_left(backend: Backend, session_id: UUID) -> None:
    """Say what becomes of a session whose command was interrupted."""
    short = str(session_id)[:8]
    if backend.is_local:
        say(f"Interrupted. `{name_command(f'resume {short}')}` goes on.")
        return
    say(
        f"Left; the server goes on. `{name_command(f'watch {short}')}` follows it again, "
        f"`{name_command(f'pause {short}')}` holds it up."
    )


def _name_documents(
    backend: Backend, slug: str, overview: Overview, known: frozenset[UUID], out: Path | None
) -> None:
    """Name the finished documents that are new: whole paths for programs, a list for people."""
    rows = [
        row
        for row in overview.contributions
        if not row["is_intermediate"] and row["id"] not in known
    ]
    paths = [row["storage_path"] for row in rows]
    if not sys.stdout.isatty():
        for path in paths:
            click.echo(_locate(backend, path, out))
    elif paths:
        click.echo(printable(f"Documents in {_locate(backend, slug, out)}:"))
        click.echo(printable("\n".join(build_tree([p.removeprefix(f"{slug}/") for p in paths]))))


def build_tree(paths: list[str]) -> list[str]:
    """List paths as people read them: each folder once, its files below it."""
    lines: list[str] = []
    for folder, inside in itertools.groupby(paths, lambda path: path.rpartition("/")[0]):
        lines += [f"  {folder}/", *(f"    {path.rpartition('/')[2]}" for path in inside)]
    return lines


def _say_where(backend: Backend, slug: str, session_id: UUID, out: Path | None) -> None:
    if backend.is_local or out is not None:
        say(f"Begin with {_locate(backend, readme_path(slug), out)}, which leads to all of them.")
    else:
        command = name_command(f"export {str(session_id)[:8]}")
        say(f"They are kept at the server; `{command}` brings them here, and so does --out DIR.")


def _say_what_helps(code: ExitCode, overview: Overview) -> None:
    """Say how a session goes on that did not come to its end."""
    match code:
        case ExitCode.WAITING:
            say_what_next(overview.session)
        case ExitCode.FUNDS:
            say("\n".join(describe_shortage(overview)))
        case ExitCode.FAILED:
            _say_why(overview.session)
        case _:
            pass


def _say_why(session: dict[str, Any]) -> None:
    """Say why a session did not come to its end, and what helps."""
    short = str(session["id"])[:8]
    if session["status"] == "cancelled":
        say("The session was cancelled. What is written stays.")
        return
    say(
        f"Not everything succeeded: `{name_command(f'status {short}')}` says what, "
        f"`{name_command(f'retry {short}')}` runs it again."
    )


def say_what_next(session: dict[str, Any]) -> None:
    """Say how a session that waits for a person goes on."""
    stage, short = session["current_stage_slug"], str(session["id"])[:8]
    if not has_stage_to_read(session):
        say(f"Paused. `{name_command(f'resume {short}')}` goes on.")
        return
    say(f"Stage {stage} is complete and waits for you. Read, then say what you think of it:")
    say(f'  {name_command(f"feedback {short} {stage}")} "…"    (also: edit, rate)')
    say(f"  {name_command(f'next {short}')}    starts the next stage")


def has_stage_to_read(session: dict[str, Any]) -> bool:
    """Say whether what a session waits for is a person who reads a stage, and no resuming.

    One whose last jobs are paused each by its id is in the middle of its stage.
    """
    return str(session["status"]).endswith("_generation_complete")


def _locate(backend: Backend, path: str, out: Path | None) -> str:
    if out is not None:
        return str(out / path)
    return backend.locate(path)


def prepare_out(out: Path | None, *, detach: bool) -> None:
    """Make sure that documents can be written to a folder, before anything is paid for them."""
    if out is None:
        return
    if detach:
        raise UsageError(
            "With --detach nobody is there to copy the documents to --out. Leave out one of them; "
            f"`{name_command('export')}` brings them later.",
            reason="two_options",
            subject="--out",
        )
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        raise UsageError(
            f"--out {out} cannot be written: {error.strerror}. Choose another folder.",
            reason="unwritable",
            subject=str(out),
        ) from None


async def copy_out(backend: Backend, project_id: UUID, slug: str, out: Path) -> None:
    """Copy a project's files below a folder, in the same layout."""
    for path in await backend.list_files(project_id, slug):
        data = await backend.read_file(project_id, path)
        target = out / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing(target) as file:
                file.write(data)
        except OSError as error:
            raise UsageError(
                f"{target} cannot be written: {error.strerror}. The documents are safe in "
                f"{backend.locate(slug)}."
            ) from None
