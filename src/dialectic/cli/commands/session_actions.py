"""`dialectic feedback, edit, rate, next, iterate, retry, regenerate`: steer between stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import click

from dialectic.cli.backend import Backend, get_id_to_change, run_with_backend, with_backend
from dialectic.cli.display.follow import follow_job, see_all
from dialectic.cli.display.progress import open_display
from dialectic.cli.display.quote import say_limits
from dialectic.cli.display.results import (
    conclude_change,
    list_new_versions,
    prepare_out,
    tell_left,
    work_and_follow,
)
from dialectic.cli.input import read_text
from dialectic.cli.options import strict_option
from dialectic.cli.terminal import count, say
from dialectic.contract.contributions import RATING_MAX, RATING_MIN
from dialectic.contract.projects import Kind
from dialectic.core.models.model import parse_model_list
from dialectic.errors import ExitCode

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
    for decorate in (_json, strict_option, _detach, _out, click.argument("session")):
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
        saved = await backend.give_feedback(session_id, stage, said, target)
        say(f"Saved in {backend.locate(saved.path)}.")
        return ExitCode.DONE

    run_with_backend(act)


@click.command()
@click.argument("contribution")
@_file
def edit(contribution: str, file: Path | None) -> None:
    """Replace CONTRIBUTION with your own text; the old version is kept."""
    text = read_text(None, file, what="text", has_argument=False)

    async def act(backend: Backend) -> ExitCode:
        found = await get_id_to_change(backend, Kind.CONTRIBUTION, contribution)
        before = await backend.load_contribution(found)
        versions = await list_new_versions(backend, before.project_id)
        edited = await backend.edit(found, text)
        say(f"Version {edited.version} is {edited.id}.")
        if edited.stale:
            say(f"{count(edited.stale, 'document')} made from the old version: now stale.")
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
    wanted = parse_model_list(models) if models else None

    async def begin(backend: Backend, session_id: UUID) -> None:
        if wanted is not None:
            await backend.change_models(session_id, wanted)
        stage = await backend.start_next(session_id)
        say(f"Session {session_id} continues with {stage}.")

    begin_work(begin, session, **options)


@click.command()
@goes_on
def iterate(session: str, **options: Any) -> None:
    """Start another iteration of SESSION, with its last outputs and all feedback as input."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        number = await backend.iterate(session_id)
        say(f"Session {session_id} starts iteration {number}.")

    begin_work(begin, session, **options)


@click.command()
@goes_on
def retry(session: str, **options: Any) -> None:
    """Retry the failed jobs of SESSION; saved work is not repeated."""

    async def begin(backend: Backend, session_id: UUID) -> None:
        stages = await backend.retry(session_id)
        say(f"Session {session_id} retries the failed jobs of {', '.join(stages)}.")

    begin_work(begin, session, **options)


def begin_work(
    begin: Callable[[Backend, UUID], Awaitable[None]], session: str, **options: Any
) -> None:
    """Start work in a session and, unless detached, run it to its end."""
    detach, out = options.pop("detach"), options["out"]
    prepare_out(out, detach=detach)

    async def act(backend: Backend) -> ExitCode:
        session_id = await get_id_to_change(backend, Kind.SESSION, session)
        seen = await see_all(backend, session_id)
        await begin(backend, session_id)
        await say_limits(backend, session_id)
        if detach:
            return ExitCode.DONE
        return await work_and_follow(backend, session_id, seen=seen, **options)

    run_with_backend(act)


@click.command()
@click.argument("contribution")
@_detach
@_json
@with_backend
async def regenerate(
    backend: Backend, contribution: str, *, detach: bool, as_json: bool
) -> ExitCode:
    """Let the same model write CONTRIBUTION again; documents based on it become stale."""
    found = await get_id_to_change(backend, Kind.CONTRIBUTION, contribution)
    old = await backend.load_contribution(found)
    session_id = old.session_id
    versions = await list_new_versions(backend, old.project_id)
    job_id = await backend.regenerate(found)
    if detach:
        click.echo(job_id)
        return ExitCode.DONE

    async def follow() -> ExitCode:
        with open_display(backend, as_json=as_json) as display:
            return await follow_job(backend, session_id, job_id, display)

    async def conclude(code: ExitCode) -> ExitCode:
        await conclude_change(backend, old, versions)
        return code

    code = await backend.run_until(follow(), conclude=conclude)
    if code is ExitCode.INTERRUPTED:
        tell_left(backend, session_id)
    return code
