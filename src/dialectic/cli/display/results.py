"""Prints the result of a followed session: lists and copies documents, and names the next step.

It does not depend on how the session was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import click

from dialectic.atomic_write import replacing
from dialectic.cli.backend import Backend
from dialectic.cli.display.follow import Seen, follow_session
from dialectic.cli.display.notifications import report_unread
from dialectic.cli.display.progress import open_display
from dialectic.cli.display.quote import describe_shortage
from dialectic.cli.options import name_command
from dialectic.cli.terminal import printable, say
from dialectic.contract.sessions import SessionDetail, SessionRecord
from dialectic.core.money.quote import Quote
from dialectic.core.session_state import Phase
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
    """Run the session to its end, showing new events."""

    async def follow() -> ExitCode:
        with open_display(backend, as_json=as_json, quote=quote) as display:
            awaits = not backend.is_local
            return await follow_session(backend, session_id, display, seen, awaits_workers=awaits)

    async def conclude(code: ExitCode) -> ExitCode:
        detail = await backend.look(session_id)
        project_id, slug = detail.session.project_id, detail.session.project_slug
        await backend.finish(project_id, session_id)
        if out is not None:
            await copy_out(backend, project_id, slug, out)
        if not as_json:
            known = seen.contributions if seen is not None else frozenset()
            _name_documents(backend, slug, detail, known, out)
        if code is ExitCode.DONE and not as_json:
            _say_where(backend, slug, session_id, out)
        _say_what_helps(code, detail)
        if not as_json:
            await report_unread(backend, shown=session_id)
        return code

    try:
        code = await backend.run_until(follow(), session_id=session_id, conclude=conclude)
    except (asyncio.CancelledError, BrokenPipeError):  # interrupted, or the reader closed the pipe
        tell_left(backend, session_id)
        raise
    if code is ExitCode.INTERRUPTED:
        tell_left(backend, session_id)
    return code


@contextlib.contextmanager
def telling_unstarted(session_id: UUID) -> Iterator[None]:
    """Print the id of a new session whose command is interrupted before it starts."""
    try:
        yield
    except asyncio.CancelledError:
        command = name_command(f"resume {str(session_id)[:8]}")
        say(f"Interrupted. Session {session_id} was created; `{command}` starts it.")
        raise


def tell_left(backend: Backend, session_id: UUID) -> None:
    """Describe the state of a session whose command was interrupted."""
    short = str(session_id)[:8]
    if backend.is_local:
        say(f"Interrupted. `{name_command(f'resume {short}')}` resumes it.")
        return
    say(
        f"Stopped following; the server continues. `{name_command(f'watch {short}')}` follows it "
        f"again, `{name_command(f'pause {short}')}` pauses it."
    )


def _name_documents(
    backend: Backend, slug: str, detail: SessionDetail, known: frozenset[UUID], out: Path | None
) -> None:
    """Print the new finished documents: full paths for programs, a list for people."""
    paths = [
        one.storage_path
        for one in detail.contributions
        if not one.is_intermediate and one.id not in known
    ]
    if not sys.stdout.isatty():
        for path in paths:
            click.echo(_locate(backend, path, out))
    elif paths:
        click.echo(printable(f"Documents in {_locate(backend, slug, out)}:"))
        click.echo(printable("\n".join(build_tree([p.removeprefix(f"{slug}/") for p in paths]))))


def build_tree(paths: list[str]) -> list[str]:
    """Format paths for people: each folder once, its files below it."""
    lines: list[str] = []
    for folder, inside in itertools.groupby(paths, lambda path: path.rpartition("/")[0]):
        lines += [f"  {folder}/", *(f"    {path.rpartition('/')[2]}" for path in inside)]
    return lines


def _say_where(backend: Backend, slug: str, session_id: UUID, out: Path | None) -> None:
    if backend.is_local or out is not None:
        say(f"Start with {_locate(backend, readme_path(slug), out)}, which links to all of them.")
    else:
        command = name_command(f"export {str(session_id)[:8]}")
        say(f"They are on the server; `{command}` or --out DIR copies them here.")


def _say_what_helps(code: ExitCode, detail: SessionDetail) -> None:
    """Print how to continue a session that did not finish."""
    match code:
        case ExitCode.WAITING:
            say_what_next(detail.session)
        case ExitCode.FUNDS:
            say("\n".join(describe_shortage(detail)))
        case ExitCode.FAILED:
            _say_why(detail.session)
        case _:
            pass


def _say_why(session: SessionRecord) -> None:
    """Print why a session did not finish, and what helps."""
    short = str(session.id)[:8]
    if session.state.phase is Phase.CANCELLED:
        say("The session was cancelled. Its documents are kept.")
        return
    say(
        f"Some jobs failed: `{name_command(f'status {short}')}` shows them, "
        f"`{name_command(f'retry {short}')}` retries them."
    )


def say_what_next(session: SessionRecord) -> None:
    """Print how to continue a session that waits for the user."""
    stage, short = session.current_stage_slug, str(session.id)[:8]
    if not has_stage_to_read(session):
        say(f"Paused. `{name_command(f'resume {short}')}` resumes it.")
        return
    say(f"Stage {stage} is complete and waits for you. Read it, then give feedback:")
    say(f'  {name_command(f"feedback {short} {stage}")} "…"    (also: edit, rate)')
    say(f"  {name_command(f'next {short}')}    starts the next stage")


def has_stage_to_read(session: SessionRecord) -> bool:
    """Return whether a session waits for the user to review a stage, not to resume it.

    A session whose last jobs were paused one by one is still within its stage.
    """
    return session.state.phase is Phase.STAGE_COMPLETE


def _locate(backend: Backend, path: str, out: Path | None) -> str:
    if out is not None:
        return str(out / path)
    return backend.locate(path)


def prepare_out(out: Path | None, *, detach: bool) -> None:
    """Check that a folder is writable before any money is spent."""
    if out is None:
        return
    if detach:
        raise UsageError(
            "--detach exits before the documents exist, so --out cannot copy them. Omit one of "
            f"them; `{name_command('export')}` copies the documents later.",
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
    """Copy a project's files into a folder, with the same layout."""
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
