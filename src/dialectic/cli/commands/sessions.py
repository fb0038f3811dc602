"""`dialectic status, watch, pause, resume, cancel`: show and control sessions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import click

from dialectic.cli.backend import (
    Backend,
    get_id_to_change,
    get_to_change,
    run_with_backend,
    with_backend,
)
from dialectic.cli.display.notifications import report_unread
from dialectic.cli.error_report import advise, mark
from dialectic.cli.options import (
    FollowOptions,
    archived_option,
    follow_options,
    name_command,
    strict_option,
)
from dialectic.cli.terminal import count, echo_json, printable, say, show_time
from dialectic.contract.summaries import Kind
from dialectic.errors import ExitCode, Remedy, RemedyAction, UsageError

if TYPE_CHECKING:
    from dialectic.contract.contributions import JobRecord
    from dialectic.contract.quotes import WorkQuote
    from dialectic.contract.session_detail import SessionDetail, SessionRecord

LIST_MAX = 50
# The fields of a session in the list for programs.
LISTED = {"id", "status", "status_text", "created_at", "project_name", "model_count"}
job_option = click.option(
    "--job", metavar="JOB", help="Only this job: an id that `status` shows, or a prefix of it."
)


async def get_job_id(backend: Backend, session_id: UUID, text: str) -> UUID:
    """Find a job of a session by its id or a prefix of it."""
    digits = text.replace("-", "").lower()
    ids = [job.id for job in (await backend.look(session_id)).jobs]
    found = [job_id for job_id in ids if str(job_id).replace("-", "").startswith(digits)]
    if len(found) != 1 or not digits:
        problem = "More than one job begins" if len(found) > 1 else "No job of the session begins"
        raise UsageError(
            f"{problem} with {text!r}.",
            reason="ambiguous_id" if len(found) > 1 else "no_job",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_JOBS, session_id=str(session_id)),
        )
    return found[0]


async def _get_job_to_change(backend: Backend, session_id: UUID, text: str) -> UUID:
    return await get_to_change(functools.partial(get_job_id, backend, session_id), text)


@click.command()
@click.argument("session", required=False)
@click.option(
    "--quote", "with_quote", is_flag=True, help="Include the remaining work and its price."
)
@archived_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def status(session: str | None, *, with_quote: bool, archived: bool, as_json: bool) -> None:
    """Show all sessions, or SESSION (an id or a prefix of one) in detail."""
    if with_quote and session is None:
        raise UsageError(
            "--quote needs a session. Name one.",
            subject="--quote",
            remedy=Remedy(RemedyAction.LIST_SESSIONS),
        )

    async def act(backend: Backend) -> ExitCode:
        if session is None:
            await show_list(backend, as_json=as_json, archived=archived)
        else:
            session_id = await backend.get_id(Kind.SESSION, session)
            await show_session(backend, session_id, with_quote=with_quote, as_json=as_json)
        if not as_json:
            await report_unread(backend)
        return ExitCode.DONE

    run_with_backend(act)


async def show_list(backend: Backend, *, as_json: bool, archived: bool) -> None:
    """Show the newest sessions; those of archived projects only if wanted."""
    rows = await backend.list_sessions(LIST_MAX + 1, archived=None if archived else False)
    has_more = len(rows) > LIST_MAX
    del rows[LIST_MAX:]
    if as_json:
        listed = [row.model_dump(include=LISTED) for row in rows]
        echo_json({"sessions": listed, "has_more": has_more})
        return
    width = max((len(row.status_text) for row in rows), default=0)
    for row in rows:
        click.echo(
            printable(
                f"{str(row.id)[:8]}  {show_time(row.created_at)}  "
                f"{count(row.model_count, 'model'):<9}  {row.status_text:<{width}}  "
                f"{row.project_name}"
            )
        )
    if not rows:
        command = name_command('run "…"')
        say(f"No sessions yet. `{command}` starts one.")
    if has_more:
        say(f"Only the latest {LIST_MAX} are listed; older ones are found by their id.")


async def show_session(
    backend: Backend, session_id: UUID, *, as_json: bool, with_quote: bool = False
) -> None:
    """Show the progress and the errors of a session."""
    detail = await backend.look(session_id, quote=with_quote)
    quote = detail.quote
    if as_json:
        parts = {"session", "stages", "jobs", "contributions"}
        echo_json(detail.model_dump(include=parts | ({"quote"} if with_quote else set())))
        return
    click.echo(printable("\n".join(_describe(backend, detail))))
    if quote is not None:
        from dialectic.cli.display.quote import describe_limits

        full_answers_only = detail.session.full_answers_only
        limits = describe_limits(quote.answer_limits, full_answers_only=full_answers_only)
        click.echo(printable("\n".join([*_describe_quote(quote), *limits])))


def _describe_quote(quote: WorkQuote) -> Iterator[str]:
    from dialectic.cli.display.quote import describe_forecast, draw_quote
    from dialectic.contract.base import read_credits

    amounts = (quote.spent, quote.forecast), (quote.spent_play, quote.forecast_play)
    for is_play, (spent, whole) in zip((False, True), amounts, strict=True):
        if read_credits(whole):
            cost = describe_forecast(read_credits(spent), read_credits(whole), is_play=is_play)
            yield f"Cost      {cost}"
    if quote.work.lines:
        yield "\nRemaining work:\n"
        yield from draw_quote(quote.work)


def _describe(backend: Backend, detail: SessionDetail) -> Iterator[str]:
    from dialectic.cli.display.session_end import find_end_of, has_stage_to_read
    from dialectic.core.documents.shortcomings import describe_document
    from dialectic.core.job_status import JobStatus, describe_status
    from dialectic.core.seats import describe_seat

    session = detail.session
    yield f"Session   {session.id}"
    yield f"Project   {session.project_name}"
    yield f"Status    {session.status_text}"
    yield f"Models    {', '.join(_name_models(session))}"
    if not session.continue_until_complete:
        yield "Cut off   truncated responses are not continued (--no-continue)"
    if session.full_answers_only:
        yield "Money     calls wait for it rather than get a shorter answer (--full-answers)"
    for stage in detail.stages:
        done = f"{stage.finished_units} of {count(stage.planned_units, 'document')}"
        number = f"{stage.iteration_number}/" if session.iteration_count > 1 else ""
        lost = [describe_seat(n, session.model_names[n - 1]) for n in stage.lost_seats]
        without = f", without {' and '.join(lost)}" if lost else ""
        yield f"Stage     {number}{stage.stage_slug}: {done}, {stage.status}{without}"
    for job in detail.jobs:
        if job.status is JobStatus.COMPLETED and not job.error_details:
            continue
        reason = f" ({job.status_reason})" if job.status_reason else ""
        who = name_seat(session, job.model_index, job.model_name)
        yield f"Job       {str(job.id)[:8]} {who}: {describe_status(job.status)}{reason}"
        yield from _describe_errors(job)
    for one in detail.contributions:
        if one.is_intermediate:
            continue
        notes = [*describe_document(one), *(["stale"] if one.is_stale else [])]
        yield "  ".join([f"Document  {backend.locate(one.storage_path)}", *notes])
    for warning in detail.list_warnings():
        yield f"Warning   {warning}"
    if find_end_of(detail) is ExitCode.WAITING:
        command = "next" if has_stage_to_read(session) else "resume"
        yield f"Waits     `{name_command(f'{command} {str(session.id)[:8]}')}` continues"


def name_seat(session: SessionRecord, seat: int | None, model: str | None) -> str:
    """Name a model, with the number of its seat if it has several."""
    is_repeated = session.model_names.count(str(model)) > 1
    return f"{model} (seat {seat})" if is_repeated and seat is not None else str(model)


def _name_models(session: SessionRecord) -> Iterator[str]:
    for seat, model in enumerate(session.model_names, start=1):
        left = " (left)" if seat in session.dropped_seats else ""
        yield f"{name_seat(session, seat, model)}{left}"


def _describe_errors(job: JobRecord) -> Iterator[str]:
    """List a job's errors, and the remedy for the last one unless the job is done."""
    from dialectic.core.job_status import JobStatus

    for error in job.error_details:
        yield f"            attempt {error.attempt}: {mark(error.message, error.code)}"
    if job.error_details and job.status is not JobStatus.COMPLETED:
        advice = advise(job.error_details[-1].known_remedy)
        if advice is not None:
            yield f"            {advice}"


@click.command()
@click.argument("session")
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
def watch(session: str, *, strict: bool, as_json: bool) -> None:
    """Follow SESSION from its start to its end; other workers do the work."""
    from dialectic.cli.display.ending import say_what_next
    from dialectic.cli.display.follow import follow_session
    from dialectic.cli.display.progress import open_display
    from dialectic.cli.display.quote import describe_shortage
    from dialectic.cli.display.results import say_warnings

    async def act(backend: Backend) -> ExitCode:
        session_id = await backend.get_id(Kind.SESSION, session)
        with open_display(backend, session_id, as_json=as_json) as display:
            code = await follow_session(backend, session_id, display, awaits_workers=True)
        if not as_json:
            display.say_total()
        detail = await backend.look(session_id)
        if code is ExitCode.FUNDS:
            say("\n".join(describe_shortage(detail)))
        if code is ExitCode.WAITING:
            say_what_next(detail.session)
        if not as_json:
            await report_unread(backend, shown=session_id)
        return say_warnings(detail, code, strict=strict)

    try:
        run_with_backend(act)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)


@click.command()
@click.argument("session")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Copy documents here, and keep the copy current.",
)
@click.option(
    "--approve-spend", is_flag=True, help="Approve the calls above the automatic spending limit."
)
@click.option("--budget", metavar="USD", help="New spending limit of the whole session.")
@click.option(
    "--full-answers/--short-answers",
    "full_answers_only",
    default=None,
    help="Whether to wait for money, or accept shorter answers.",
)
@click.option("--detach", is_flag=True, help="Leave the work to other workers.")
@job_option
@strict_option
@follow_options
@click.option("--json", "as_json", is_flag=True, help="One JSON object per event on stdout.")
def resume(
    session: str,
    out: Path | None,
    budget: str | None,
    job: str | None,
    *,
    approve_spend: bool,
    full_answers_only: bool | None,
    detach: bool,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Resume SESSION where it stopped; saved work is not repeated."""
    from dialectic.cli.display.quote import say_limits
    from dialectic.cli.display.results import prepare_out, work_and_follow
    from dialectic.cli.pausing import leaving_paused
    from dialectic.core.money.price import parse_usd

    budget_credits = None if budget is None else parse_usd(budget)
    if job is not None:
        _refuse_session_options(budget, full_answers_only)
    prepare_out(out, detach=detach)
    follow = FollowOptions.take(options)

    async def act(backend: Backend) -> ExitCode:
        session_id = await get_id_to_change(backend, Kind.SESSION, session)
        async with leaving_paused(backend, session_id):
            await _begin_again(
                backend,
                session_id,
                job,
                approves_spend=approve_spend,
                budget_credits=budget_credits,
                full_answers_only=full_answers_only,
            )
            await say_limits(backend, session_id)
            if detach:
                return _say_detached(session_id)
            return await work_and_follow(
                backend, session_id, as_json=as_json, out=out, strict=strict, options=follow
            )

    run_with_backend(act)


async def _begin_again(
    backend: Backend,
    session_id: UUID,
    job: str | None,
    *,
    approves_spend: bool,
    budget_credits: int | None,
    full_answers_only: bool | None,
) -> None:
    """Resume a session or one of its jobs."""
    if job is not None:
        job_id = await _get_job_to_change(backend, session_id, job)
        await backend.resume_job(session_id, job_id, approves_spend=approves_spend)
    else:
        await backend.resume(
            session_id,
            approves_spend=approves_spend,
            budget_credits=budget_credits,
            full_answers_only=full_answers_only,
        )
    # The process that created the session may have died before starting its stage.
    await backend.generate(session_id)


def _say_detached(session_id: UUID) -> ExitCode:
    command = name_command(f"watch {str(session_id)[:8]}")
    say(f"Session {session_id} is resumed; other workers run it. `{command}` follows.")
    return ExitCode.DONE


def _refuse_session_options(budget: str | None, full_answers_only: bool | None) -> None:
    """Refuse options of a session where only one of its jobs is resumed."""
    if budget is not None:
        raise UsageError(
            "A budget applies to the whole session. Omit --job or --budget.", subject="--budget"
        )
    if full_answers_only is not None:
        raise UsageError(
            "The length of answers applies to the whole session. Omit --job, or --full-answers "
            "and --short-answers.",
            subject="--full-answers",
        )


@click.command()
@click.argument("session")
@job_option
@with_backend
async def pause(backend: Backend, session: str, job: str | None) -> None:
    """Pause SESSION until it is resumed; running jobs finish their turn."""
    session_id = await get_id_to_change(backend, Kind.SESSION, session)
    if job is not None:
        job_id = await _get_job_to_change(backend, session_id, job)
        await backend.pause_job(session_id, job_id)
        how = name_command(f"resume {str(session_id)[:8]} --job {str(job_id)[:8]}")
        say(f"Job {job_id} is paused. `{how}` resumes it.")
        return
    is_new = await backend.pause(session_id)
    command = name_command(f"resume {str(session_id)[:8]}")
    say(f"Session {session_id} is paused{'' if is_new else ' already'}. `{command}` resumes it.")


@click.command()
@click.argument("session")
@job_option
@with_backend
async def cancel(backend: Backend, session: str, job: str | None) -> None:
    """Cancel SESSION for good; documents are kept."""
    session_id = await get_id_to_change(backend, Kind.SESSION, session)
    if job is not None:
        job_id = await _get_job_to_change(backend, session_id, job)
        await backend.cancel_job(session_id, job_id)
        say(f"Job {job_id} is cancelled.")
        return
    is_new = await backend.cancel(session_id)
    say(f"Session {session_id} is cancelled{'' if is_new else ' already'}.")
