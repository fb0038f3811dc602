"""Prints the result of a followed session: lists and copies documents, and names the next step.

It does not depend on how the session was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import sys
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from uuid import UUID

import click

from dialectic.cli.backend import Backend
from dialectic.cli.copies import ProjectCopy, find_copy, remember_copy
from dialectic.cli.display.follow import SETUP_REASONS, Seen, follow_session
from dialectic.cli.display.notifications import report_unread
from dialectic.cli.display.progress import open_display
from dialectic.cli.display.quote import describe_shortage
from dialectic.cli.error_report import mark, say_remedy
from dialectic.cli.options import name_command
from dialectic.cli.terminal import count, dropping_output, printable, say
from dialectic.contract.contributions import ContributionRecord
from dialectic.contract.sessions import SessionDetail, SessionRecord
from dialectic.core.documents.offline_notice import list_notices
from dialectic.core.documents.plan_files import strip_project
from dialectic.core.money.quote import Quote
from dialectic.core.session_state import Phase
from dialectic.core.transfer.bundle_format import readme_path
from dialectic.errors import DialecticError, ExitCode, NotFound, StorageUnavailable, UsageError


async def work_and_follow(
    backend: Backend,
    session_id: UUID,
    *,
    as_json: bool,
    out: Path | None,
    seen: Seen | None = None,
    quote: Quote | None = None,
    strict: bool = False,
) -> ExitCode:
    """Run the session to its end, showing new events.

    If `strict`, documents that lack something make it fail.
    """
    try:
        code = await _work(
            backend, session_id, as_json=as_json, out=out, seen=seen, quote=quote, strict=strict
        )
    except (asyncio.CancelledError, BrokenPipeError):  # interrupted, or the reader closed the pipe
        tell_left(backend, session_id)
        raise
    except DialecticError as error:
        error.remedy = error.remedy and error.remedy.for_session(session_id)
        raise
    if code is ExitCode.INTERRUPTED:
        tell_left(backend, session_id)
    return code


async def _work(
    backend: Backend,
    session_id: UUID,
    *,
    as_json: bool,
    out: Path | None,
    seen: Seen | None,
    quote: Quote | None,
    strict: bool,
) -> ExitCode:
    async def follow() -> ExitCode:
        with open_display(backend, as_json=as_json, quote=quote) as display:
            awaits = not backend.is_local
            return await follow_session(backend, session_id, display, seen, awaits_workers=awaits)

    begun = (await backend.look(session_id)).session
    project_id, slug = begun.project_id, begun.project_slug
    if out is not None:
        remember_copy(backend.settings.home, project_id, out)
    versions = await list_new_versions(backend, project_id)

    async def conclude(code: ExitCode) -> ExitCode:
        detail = await backend.look(session_id)
        await backend.finish(project_id, session_id)
        copy = await update_copy(backend, project_id, slug, out)
        await tell_new_versions(backend, project_id, versions)
        known = seen.contributions if seen is not None else frozenset()
        if as_json:
            _say_what_helps(code, detail)
        else:
            with dropping_output():
                _name_documents(backend, slug, detail, known, copy)
            if code is ExitCode.DONE:
                await _say_where(backend, detail.session, copy)
            _say_what_helps(code, detail)
            await report_unread(backend, shown=session_id)
        return say_warnings(detail, code, strict=strict)

    return await backend.run_until(follow(), session_id=session_id, conclude=conclude)


def say_warnings(detail: SessionDetail, code: ExitCode, *, strict: bool) -> ExitCode:
    """Print what a session's documents lack; return the exit code, which `strict` may change."""
    warnings = detail.list_warnings()
    for warning in warnings:
        say(f"Warning: {warning}")
    is_over = code in (ExitCode.DONE, ExitCode.WAITING)
    return ExitCode.FAILED if strict and warnings and is_over else code


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


async def _say_where(backend: Backend, session: SessionRecord, out: Path | None) -> None:
    """Print where to begin reading, and that offline models wrote it, if they did."""
    slug = session.project_slug
    for notice in list_notices(session.model_names, ""):
        say(notice)
    if backend.is_local or out is not None:
        page = await _find_plan_page(backend, session)
        say(f"Begin with {_locate(backend, page or readme_path(slug), out)}")
    else:
        command = name_command(f"export {str(session.id)[:8]}")
        say(f"They are on the server; `{command}` or --out DIR copies them here.")


async def _find_plan_page(backend: Backend, session: SessionRecord) -> str | None:
    """Find the page about the iteration that the session has finished; None if it has none."""
    if session.state.phase is not Phase.ITERATION_COMPLETE:
        return None
    try:
        return (await backend.load_session_plan(session.id)).path
    except NotFound:
        return None


def _say_what_helps(code: ExitCode, detail: SessionDetail) -> None:
    """Print how to continue a session that did not finish."""
    match code:
        case ExitCode.WAITING:
            say_what_next(detail.session)
        case ExitCode.FUNDS:
            say("\n".join(describe_shortage(detail)))
        case ExitCode.CONFIGURATION:
            _say_setup(detail)
        case ExitCode.FAILED:
            _say_why(detail.session)
        case _:
            pass


def _say_setup(detail: SessionDetail) -> None:
    """Print what the operator must correct before the paused jobs can continue."""
    waiting = [job for job in detail.jobs if job.status_reason in SETUP_REASONS]
    # One reason of each kind: jobs with the same reason say the same.
    for entry in {job.status_reason: job.error_details[-1] for job in waiting}.values():
        say(f"Paused: {mark(entry.message, entry.code)}")
        say_remedy(entry.known_remedy)


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


async def update_copy(
    backend: Backend, project_id: UUID, slug: str, out: Path | None = None
) -> Path | None:
    """Bring a project's copy up to date; return its folder, if it has one.

    `out` is where this command was told to copy to. A copy that cannot be written is a warning: the
    documents are safe in storage.
    """
    home = backend.settings.home
    place = out or find_copy(home, project_id)
    if place is None:
        return None
    if out is None and not (place / slug).is_dir():
        say(f"Warning: the copy {place / slug} is gone. --out DIR makes a new one.")
        return None
    try:
        files = await backend.list_files(project_id, slug)
        read = functools.partial(backend.read_file, project_id)
        kept = await ProjectCopy.open(place, slug).update(files, read)
    except (OSError, StorageUnavailable, NotFound) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        say(f"Warning: the copy in {place} is not complete: {reason}")
        say(f"The documents are safe in {backend.locate(slug)}.")
        return place
    if kept:
        say(f"You have changed {count(len(kept), 'file')} of the copy. The new versions:")
        for one in kept:
            say(f"  {place / slug / one.newer}")
    return place


# -- the plan's files ------------------------------------------------------------------------------


async def list_new_versions(backend: Backend, project_id: UUID) -> dict[str, str]:
    """List the new versions of plan files that the user has worked on: which file, by path."""
    try:
        files = await backend.list_plan(project_id)
    except StorageUnavailable:
        return {}  # the command may not need storage
    return {file.path: file.replaces for file in files if file.replaces is not None}


async def conclude_change(
    backend: Backend, changed: ContributionRecord, versions: Collection[str]
) -> Path | None:
    """Bring the copy up to date after a contribution has changed; return its folder."""
    project_id, copy = changed.project_id, None
    if find_copy(backend.settings.home, project_id) is not None:
        await backend.finish(project_id, changed.session_id)
        copy = await update_copy(backend, project_id, changed.storage_path.partition("/")[0])
    await tell_new_versions(backend, project_id, versions)
    return copy


async def tell_new_versions(backend: Backend, project_id: UUID, known: Collection[str]) -> None:
    """Name the plan files whose new version was written next to them since."""
    for path, replaced in (await list_new_versions(backend, project_id)).items():
        if path not in known:
            say(
                f"The plan has changed. You had changed, moved or deleted {replaced}: its new "
                f"version is {strip_project(path)}."
            )
