"""`dialectic feedback, edit, rate, next, iterate, retry, regenerate`: steer between stages."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import click

from dialectic.cli.aliases import expand, load_aliases
from dialectic.cli.backend import (
    Attended,
    Backend,
    IsBusy,
    get_id_to_change,
    open_backend,
    run_with_backend,
    with_backend,
)
from dialectic.cli.display.follow import follow_jobs, see_all
from dialectic.cli.display.notice import tell_end
from dialectic.cli.display.progress import build_prices, open_display
from dialectic.cli.display.quote import (
    check_funds,
    draw_quote,
    format_time,
    is_wanted,
    say_limits,
)
from dialectic.cli.display.results import (
    conclude_change,
    list_new_versions,
    prepare_out,
    work_and_follow,
)
from dialectic.cli.display.session_end import has_stage_to_read
from dialectic.cli.editor import can_edit, edit_text, keeping
from dialectic.cli.input import read_text
from dialectic.cli.options import FollowOptions, follow_options, name_command, strict_option
from dialectic.cli.pausing import leaving_paused, tell_left
from dialectic.cli.terminal import (
    ask_yes,
    count,
    echo_lines,
    load_settings,
    printable,
    run_async,
    say,
)
from dialectic.contract.contributions import RATING_MAX, RATING_MIN, ContributionRecord
from dialectic.contract.projects import Kind
from dialectic.contract.sessions import SessionRecord
from dialectic.core.documents.staleness import Kept, count_by
from dialectic.core.models.model import parse_model_list
from dialectic.core.money.price import format_roughly
from dialectic.core.slug import short_id
from dialectic.errors import ExitCode, Remedy, RemedyAction, UsageError

Callback = Callable[..., None]

_out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy documents here, and keep the copy current.",
)
_detach = click.option("--detach", is_flag=True, help="Leave the work to other workers.")
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
_file = click.option(
    "--file", type=click.Path(path_type=Path), help="Read the text from a file, `-` for stdin."
)


def goes_on(command: Callback) -> Callback:
    """Add the options of commands that start work in a session."""
    options = (_json, follow_options, strict_option, _detach, _out, click.argument("session"))
    for decorate in options:
        command = decorate(command)
    return command


@click.command()
@click.argument("session")
@click.argument("stage")
@click.argument("text", required=False)
@_file
@click.option("--on", default="", help="The contribution it is about; default: the whole stage.")
def feedback(session: str, stage: str, text: str | None, file: Path | None, on: str) -> None:
    """Add feedback on STAGE of SESSION; every later prompt includes it."""
    said = read_text(text, file, what="feedback")

    async def act(backend: Backend) -> ExitCode:
        session_id = await get_id_to_change(backend, Kind.SESSION, session)
        target = await get_id_to_change(backend, Kind.CONTRIBUTION, on) if on else None
        saved = await backend.give_feedback(session_id, stage.lower(), said, target)
        say(f"Saved in {backend.locate(saved.path)}.")
        return ExitCode.DONE

    run_with_backend(act)


@click.command()
@click.argument("contribution")
@_file
def edit(contribution: str, file: Path | None) -> None:
    """Change CONTRIBUTION in your editor, or replace it; the old version is kept."""
    if file is None and can_edit():
        edited = _edit_in_editor(contribution)
        if edited is None:
            say("Nothing was changed.")
            return
        with keeping(edited, name_command(f"edit {contribution}")):
            _save_edit(contribution, edited)
    _save_edit(contribution, read_text(None, file, what="text", has_argument=False))


def _edit_in_editor(contribution: str) -> str | None:
    """Open a contribution in the editor, while no database is held; None if it was not changed."""

    async def load() -> ContributionRecord:
        async with open_backend(load_settings(knows_server=True)) as backend:
            found = await get_id_to_change(backend, Kind.CONTRIBUTION, contribution)
            return await backend.load_contribution(found)

    record = run_async(load())
    if not record.is_latest_edit:
        say("A newer version exists; you are editing an older one.")
    return edit_text(record.content)


def _save_edit(contribution: str, text: str) -> NoReturn:
    async def act(backend: Backend) -> ExitCode:
        found = await get_id_to_change(backend, Kind.CONTRIBUTION, contribution)
        before = await backend.load_contribution(found)
        versions = await list_new_versions(backend, before.project_id)
        edited = await backend.edit(found, text)
        say(f"Version {edited.version} is {edited.id}.")
        if edited.stale:
            command = name_command(f"regenerate --stale {str(before.session_id)[:8]}")
            say(f"{count(edited.stale, 'document')} made from the old version: now stale.")
            say(f"`{command}` writes them again.")
        copy = await conclude_change(backend, before, versions)
        click.echo(backend.locate(edited.path) if copy is None else copy / edited.path)
        return ExitCode.DONE

    run_with_backend(act)


@click.command()
@click.argument("contribution")
@click.argument("rating", type=click.IntRange(RATING_MIN, RATING_MAX))
@with_backend
async def rate(backend: Backend, contribution: str, rating: int) -> None:
    """Rate CONTRIBUTION from 1 to 5; later prompts include the rating."""
    found = await get_id_to_change(backend, Kind.CONTRIBUTION, contribution)
    await backend.rate(found, rating)
    say(f"Contribution {found} is rated {rating}.")


@click.command(name="next")
@click.option("--models", default="", metavar="M,…", help="The models of the stages to come.")
@goes_on
def next_(session: str, models: str, **options: Any) -> None:
    """Submit the feedback on SESSION's stage and start the next one."""
    wanted = None
    if models:
        aliases = load_aliases(load_settings(knows_server=True).home)
        wanted = parse_model_list(expand(models, aliases))

    async def begin(backend: Backend, session_id: UUID) -> None:
        if wanted is not None:
            await backend.change_models(session_id, wanted)
        stage = await backend.start_next(session_id)
        say(f"Session {session_id} continues with {stage}.")
        await say_open_dissents(backend, session_id)

    begin_work(begin, session, **options)


@click.command()
@click.option("--yes", is_flag=True, help="Also if stages of this iteration are still to come.")
@goes_on
def iterate(session: str, *, yes: bool, **options: Any) -> None:
    """Start another iteration of SESSION, with its last outputs and all feedback as input."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        if not yes:
            await _confirm_early_end((await backend.look(session_id)).session)
        number = await backend.iterate(session_id)
        say(f"Session {session_id} starts iteration {number}.")

    begin_work(begin, session, **options)


async def _confirm_early_end(session: SessionRecord) -> None:
    """Ask before an iteration is left in which stages are still to come."""
    if not has_stage_to_read(session) or session.state.is_complete(session.until_stage_slug):
        return
    left = (
        f"Iteration {session.iteration_count} has only reached {session.current_stage_slug}; its "
        f"other stages up to {session.until_stage_slug} would not be run."
    )
    if not sys.stdin.isatty():
        raise UsageError(
            f"{left} Add --yes to start the next iteration anyway.",
            reason="unconfirmed",
            subject="--yes",
            remedy=Remedy(RemedyAction.START_NEXT, session_id=str(session.id)),
        )
    if not await ask_yes(f"{left} Start the next iteration anyway? [y/N] "):
        raise UsageError("Nothing was started.", reason="unconfirmed")


@click.command()
@goes_on
def retry(session: str, **options: Any) -> None:
    """Retry the failed jobs of SESSION; saved work is not repeated."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        stages = await backend.retry(session_id)
        say(f"Session {session_id} retries the failed jobs of {', '.join(stages)}.")

    begin_work(begin, session, **options)


async def say_open_dissents(backend: Backend, session_id: UUID) -> None:
    """Say how many dissents are open. Nothing waits for them."""
    found = await backend.list_dissents(session_id, iteration=None, shows_all=True)
    count = sum(one.status.value == "open" for one in found.dissents)
    if count:
        say(
            f"{count} open dissent{'' if count == 1 else 's'}: see `dialectic dissent "
            f"{short_id(session_id)}`, and decide with `dialectic rule`."
        )


def begin_work(
    begin: Callable[[Backend, UUID], Awaitable[None]], session: str, **options: Any
) -> None:
    """Start work in a session and, unless detached, run it to its end."""
    detach, out, follow = options.pop("detach"), options["out"], FollowOptions.take(options)
    prepare_out(out, detach=detach)

    async def act(backend: Backend) -> ExitCode:
        session_id = await get_id_to_change(backend, Kind.SESSION, session)
        seen = await see_all(backend, session_id)
        async with leaving_paused(backend, session_id):
            await begin(backend, session_id)
            await say_limits(backend, session_id)
            if detach:
                return ExitCode.DONE
            return await work_and_follow(backend, session_id, seen=seen, options=follow, **options)

    run_with_backend(act)


@click.command()
@click.argument("found", metavar="ID")
@click.option(
    "--stale", is_flag=True, help="All documents of session ID that rest on something newer."
)
@click.option("--dry-run", is_flag=True, help="With --stale: print what it would cost, and stop.")
@click.option("--yes", is_flag=True, help="Answer yes to every question.")
@_detach
@follow_options
@_json
def regenerate(
    found: str,
    *,
    stale: bool,
    dry_run: bool,
    yes: bool,
    detach: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Let the same model write contribution ID again; documents based on it become stale.

    With --stale, every document of session ID that rests on something newer is written again, each
    after those that it reads. Documents that you edited stay as they are.
    """
    if dry_run and not stale:
        raise UsageError("--dry-run needs --stale and a session.", subject="--dry-run")
    follow = FollowOptions.take(options)

    async def act(backend: Backend) -> ExitCode:
        if not stale:
            contribution_id = await get_id_to_change(backend, Kind.CONTRIBUTION, found)
            old = await backend.load_contribution(contribution_id)

            async def begin() -> list[UUID]:
                return [await backend.regenerate(contribution_id)]

            return await _rewrite(backend, old, begin, follow, detach=detach, as_json=as_json)
        session_id = await get_id_to_change(backend, Kind.SESSION, found)
        if not await _wants_rewrites(backend, session_id, dry_run=dry_run, yes=yes):
            return ExitCode.DONE
        old = await _load_any(backend, session_id)

        async def begin_all() -> list[UUID]:
            return await backend.regenerate_stale(session_id)

        return await _rewrite(backend, old, begin_all, follow, detach=detach, as_json=as_json)

    run_with_backend(act)


async def _load_any(backend: Backend, session_id: UUID) -> ContributionRecord:
    """Load a contribution of a session that has some: it names the project and its folder."""
    detail = await backend.look(session_id)
    return await backend.load_contribution(detail.contributions[0].id)


async def _wants_rewrites(backend: Backend, session_id: UUID, *, dry_run: bool, yes: bool) -> bool:
    """Show the stale documents and their quote; ask if they are expensive."""
    found = await backend.list_stale(session_id)
    for one in found.kept:
        why = "you edited it" if one.kept is Kept.EDITED else "its job was not imported"
        say(f"  left as it is, {why}: {one.path}")
    if not found.documents:
        say("No document rests on something newer.")
        return False
    kinds = count_by(one.type for one in found.documents)
    say(f"{count(len(found.documents), 'document')} to write again: {kinds}.")
    if dry_run:
        for one in found.documents:
            click.echo(printable(f"{str(one.id)[:8]}  {one.iteration}/{one.stage:<12} {one.path}"))
        echo_lines(draw_quote(found.quote.work))
        return False
    price = format_roughly(
        found.quote.work.paid.likely.credits, is_play=found.quote.work.is_play_money
    )
    say(f"Expected: {price}, about {format_time(found.quote.seconds.expected)}.")
    await check_funds(backend, found.quote.work)
    limit_usd = backend.settings.confirm_above_usd
    if not yes and not await is_wanted(found.quote.work, confirm_above_usd=limit_usd):
        say("Nothing was started.")
        return False
    return True


async def _rewrite(
    backend: Backend,
    old: ContributionRecord,
    begin: Callable[[], Awaitable[list[UUID]]],
    options: FollowOptions,
    *,
    detach: bool,
    as_json: bool,
) -> ExitCode:
    """Start jobs that write documents again and, unless detached, run them to their end."""
    versions = await list_new_versions(backend, old.project_id)
    async with leaving_paused(backend, old.session_id):
        job_ids = await begin()
        if detach:
            click.echo("\n".join(map(str, job_ids)))
            return ExitCode.DONE
        code = await _work_on_jobs(backend, old.session_id, job_ids, options, as_json=as_json)
    if code is ExitCode.INTERRUPTED:
        tell_left(backend, old.session_id)
    else:
        await conclude_change(backend, old, versions)
    tell_end(options, "The document is done." if code is ExitCode.DONE else "Not done.")
    return code


async def _work_on_jobs(
    backend: Backend,
    session_id: UUID,
    job_ids: list[UUID],
    options: FollowOptions,
    *,
    as_json: bool,
) -> ExitCode:
    """Run some jobs to their end, and show them."""
    view = open_display(backend, session_id, as_json=as_json, quiet=options.quiet)
    with view as display:

        async def follow(is_busy: IsBusy) -> ExitCode:
            return await follow_jobs(backend, session_id, job_ids, display, is_busy=is_busy)

        attended = Attended(
            session_id=session_id,
            follow=follow,
            takes_all=options.takes_all,
            **build_prices(backend, None),
        )
        code = await backend.run_until(attended)
    if not (as_json or options.quiet):
        display.say_total()
    return code
