"""Prints the result of a followed session: lists and copies documents, and names the next step.

It does not depend on how the session was started.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import tempfile
from collections.abc import Collection
from pathlib import Path
from uuid import UUID

import click

from dialectic.cli.backend import Attended, Backend, IsBusy
from dialectic.cli.copies import ProjectCopy, find_copy, remember_copy
from dialectic.cli.display.ending import say_done, say_what_helps
from dialectic.cli.display.follow import Seen, follow_session
from dialectic.cli.display.notice import tell_end
from dialectic.cli.display.notifications import report_unread
from dialectic.cli.display.progress import Counting, build_prices, open_display
from dialectic.cli.options import PLAIN, FollowOptions, name_command
from dialectic.cli.pausing import tell_left
from dialectic.cli.terminal import count, dropping_output, say
from dialectic.contract.contributions import ContributionRecord
from dialectic.contract.sessions import SessionDetail, SessionRecord
from dialectic.core.documents.plan_files import strip_project
from dialectic.core.money.quote import Quote
from dialectic.core.session_state import Phase
from dialectic.errors import DialecticError, ExitCode, NotFound, StorageUnavailable, UsageError

# How a notice at the end names it.
END_WORDS = {
    ExitCode.DONE: "done",
    ExitCode.WAITING: "waits for you",
    ExitCode.FUNDS: "waits for money",
    ExitCode.FAILED: "failed",
    ExitCode.INTERRUPTED: "interrupted",
}


async def work_and_follow(
    backend: Backend,
    session_id: UUID,
    *,
    as_json: bool,
    out: Path | None,
    seen: Seen | None = None,
    quote: Quote | None = None,
    strict: bool = False,
    options: FollowOptions = PLAIN,
) -> ExitCode:
    """Run the session to its end, showing new events.

    If `strict`, documents that lack something make it fail.
    """
    try:
        code = await _work(
            backend,
            session_id,
            as_json=as_json,
            out=out,
            seen=seen,
            quote=quote,
            strict=strict,
            options=options,
        )
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
    options: FollowOptions,
) -> ExitCode:
    begun = (await backend.look(session_id)).session
    if out is not None:
        remember_copy(backend.settings.home, begun.project_id, out)
    versions = await list_new_versions(backend, begun.project_id)
    if quote is None and not as_json:
        quote = await _find_rest(backend, session_id)
    with contextlib.ExitStack() as view:
        opened = open_display(
            backend, session_id, as_json=as_json, quiet=options.quiet, quote=quote, begun=begun
        )
        display = view.enter_context(opened)

        async def follow(is_busy: IsBusy) -> ExitCode:
            awaits = not backend.is_local
            return await follow_session(
                backend, session_id, display, seen, awaits_workers=awaits, is_busy=is_busy
            )

        async def conclude(code: ExitCode) -> ExitCode:
            view.close()
            detail = await backend.look(session_id)
            copy = await _keep(backend, begun, out, versions)
            if as_json:
                say_what_helps(code, detail)
            else:
                _name_documents(backend, detail, seen, copy)
                await _say_end(backend, code, detail, display, copy, quiet=options.quiet)
            return say_warnings(detail, code, strict=strict)

        attended = Attended(
            session_id=session_id,
            follow=follow,
            conclude=conclude,
            takes_all=options.takes_all,
            **build_prices(backend, quote),
        )
        code = await backend.run_until(attended)
    tell_end(options, f"{begun.project_name}: {END_WORDS.get(code, 'ended')}")
    return code


async def _keep(
    backend: Backend, session: SessionRecord, out: Path | None, versions: Collection[str]
) -> Path | None:
    """Bring storage and the user's copy up to date; return the folder of the copy, if any."""
    project_id = session.project_id
    await backend.finish(project_id, session.id)
    copy = await update_copy(backend, project_id, session.project_slug, out)
    await tell_new_versions(backend, project_id, versions)
    return copy


async def _find_rest(backend: Backend, session_id: UUID) -> Quote | None:
    """Find the quote for the rest of a session; its view does without one if there is none."""
    try:
        quoted = (await backend.look(session_id, quote=True)).quote
    except DialecticError:
        return None
    return None if quoted is None else quoted.work


async def _say_end(
    backend: Backend,
    code: ExitCode,
    detail: SessionDetail,
    display: Counting,
    copy: Path | None,
    *,
    quiet: bool,
) -> None:
    """Say how the session ended; if quiet, only if something is wrong."""
    if code is not ExitCode.DONE:
        if not quiet:
            display.say_total()
        say_what_helps(code, detail)
    elif not quiet:
        display.finish()
        plan = await _find_plan_page(backend, detail.session)
        say_done(backend, detail.session, display.describe_total(), copy, plan)
    if not quiet:
        await report_unread(backend, shown=detail.session.id)


async def _find_plan_page(backend: Backend, session: SessionRecord) -> str | None:
    """Find the page about the iteration that the session has finished; None if it has none."""
    if session.state.phase is not Phase.ITERATION_COMPLETE:
        return None
    try:
        return (await backend.load_session_plan(session.id)).path
    except (StorageUnavailable, NotFound):
        return None


def say_warnings(detail: SessionDetail, code: ExitCode, *, strict: bool) -> ExitCode:
    """Print what a session's documents lack; return the exit code, which `strict` may change."""
    warnings = detail.list_warnings()
    for warning in warnings:
        say(f"Warning: {warning}")
    is_over = code in (ExitCode.DONE, ExitCode.WAITING)
    return ExitCode.FAILED if strict and warnings and is_over else code


def _name_documents(
    backend: Backend, detail: SessionDetail, seen: Seen | None, out: Path | None
) -> None:
    """Print the paths of the new finished documents for programs; people have seen the names."""
    known = frozenset[UUID]() if seen is None else seen.contributions
    if sys.stdout.isatty():
        return
    with dropping_output():
        for one in detail.contributions:
            if not one.is_intermediate and one.id not in known:
                click.echo(_locate(backend, one.storage_path, out))


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
