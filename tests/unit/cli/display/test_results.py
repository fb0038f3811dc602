"""What is said of a session whose command leaves it, or that came to no end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, cast
from uuid import UUID

import click
import pytest

from dialectic.cli.display.follow import LineDisplay
from dialectic.cli.display.progress import Counting
from dialectic.cli.display.quote import describe_shortage
from dialectic.cli.display.results import say_warnings
from dialectic.cli.options import KEPT
from dialectic.cli.pausing import leaving_paused
from dialectic.contract.contributions import ContributionLine, JobError, JobRecord
from dialectic.contract.events import SessionCancelled, SessionEvent, SessionPaused, StageEnded
from dialectic.contract.sessions import SessionDetail, SessionRecord, StageRecord
from dialectic.core.job import JobStatus
from dialectic.errors import Conflict, DatabaseFull, ExitCode, Remedy, RemedyAction
from dialectic.pipeline.call_estimate import Terms
from dialectic.pipeline.estimate import Brief, build_quote
from dialectic.processes.loader import load_process
from dialectic.providers.offline.provider import CARDS
from tests.cases import each_case
from tests.problems import list_codes, list_commands
from tests.sample_events import build_event

if TYPE_CHECKING:
    from dialectic.cli.backend import Backend

SESSION = UUID("0123abcd-0000-4000-8000-000000000000")


@pytest.fixture
def at_a_server() -> Iterator[None]:
    with click.Context(click.Command("run")) as context:
        context.meta[KEPT] = "http://there"
        yield


class Desk:
    """A backend that pauses its session, or cannot."""

    def __init__(self, error: Exception | None = None, *, is_local: bool = True) -> None:
        self.is_local, self.paused, self._error = is_local, 0, error

    async def pause(self, session_id: UUID) -> bool:
        assert session_id == SESSION
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        self.paused += 1
        return True


async def leave(desk: Desk, *, again: bool = False) -> None:
    async def work() -> None:
        async with leaving_paused(cast("Backend", desk), SESSION):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    if again:
        await asyncio.sleep(0)
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("again", [False, True])
async def test_an_interrupted_command_leaves_its_session_paused_and_says_how_to_resume_it(
    capsys: pytest.CaptureFixture[str], *, again: bool
) -> None:
    desk = Desk()
    await leave(desk, again=again)
    said = capsys.readouterr().err
    assert desk.paused == 1
    assert str(SESSION) in said
    assert "`dialectic resume 0123abcd`" in said


async def test_an_interrupted_command_says_if_its_session_could_not_be_paused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await leave(Desk(DatabaseFull("There is no room.")))
    said = capsys.readouterr().err
    assert "could not be paused: There is no room." in said
    assert "dialectic resume" not in said


async def test_a_session_that_has_ended_is_not_said_to_be_paused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await leave(Desk(Conflict("It is complete.")))
    said = capsys.readouterr().err
    assert "paused" not in said
    assert "`dialectic status 0123abcd`" in said


async def test_a_server_goes_on_without_its_follower(capsys: pytest.CaptureFixture[str]) -> None:
    desk = Desk(is_local=False)
    await leave(desk)
    assert desk.paused == 0
    assert "the server continues" in capsys.readouterr().err


def build_waiting(
    code: str, remedy: Remedy | None, *, full_answers_only: bool = False
) -> SessionDetail:
    told = None if remedy is None else remedy.as_dict()
    entry = {"attempt": 1, "code": code, "message": "There is too little.", "remedy": told}
    job = JobRecord.model_construct(
        status=JobStatus.PAUSED,
        status_reason=code,
        error_details=[JobError.model_validate(entry)],
    )
    return SessionDetail.model_construct(
        session=SessionRecord.model_construct(id=SESSION, full_answers_only=full_answers_only),
        jobs=[job],
    )


def test_money_that_is_missing_is_put_in_first_and_then_the_session_goes_on() -> None:
    topup = Remedy(RemedyAction.TOP_UP)
    said = "\n".join(describe_shortage(build_waiting("insufficient_funds", topup)))
    assert list_commands(said) == ["dialectic wallet topup 20"]
    assert list_codes(said) == ["insufficient_funds"]
    assert "`dialectic resume 0123abcd`" in said.splitlines()[-1]


def test_what_resumes_a_session_by_itself_is_not_followed_by_a_resume() -> None:
    approve = Remedy(RemedyAction.APPROVE_SPEND, session_id=str(SESSION))
    said = "\n".join(describe_shortage(build_waiting("spend_needs_approval", approve)))
    assert list_commands(said) == ["dialectic resume 0123abcd --approve-spend"]
    assert said.count("dialectic resume") == 1


def test_a_session_that_waits_for_full_answers_may_go_on_with_shorter_ones() -> None:
    topup = Remedy(RemedyAction.TOP_UP)
    waiting = build_waiting("insufficient_funds", topup, full_answers_only=True)
    *_, last = describe_shortage(waiting)
    assert last == (
        "Or `dialectic resume 0123abcd --short-answers` continues with shorter answers."
    )


def test_a_job_that_was_paused_by_an_older_version_has_no_remedy_and_is_resumed() -> None:
    said = "\n".join(describe_shortage(build_waiting("insufficient_funds", None)))
    assert list_commands(said) == []
    assert "`dialectic resume 0123abcd`" in said.splitlines()[-1]


@pytest.mark.usefixtures("at_a_server")
def test_commands_about_a_session_name_the_server() -> None:
    approve = Remedy(RemedyAction.APPROVE_SPEND, session_id=str(SESSION))
    said = "\n".join(describe_shortage(build_waiting("spend_needs_approval", approve)))
    assert list_commands(said) == [
        "dialectic --server http://there resume 0123abcd --approve-spend"
    ]


def build_ended(status: str) -> StageEnded:
    return StageEnded(
        session_id=SESSION,
        stage_slug="thesis",
        iteration_number=1,
        status=status,
        completed=0,
        failed=1,
        cancelled=0,
    )


@each_case(
    ("data", "goes_on"),
    [
        (build_ended("complete"), True),
        (build_ended("failed"), False),
        (SessionCancelled(session_id=SESSION), False),
        (SessionPaused(session_id=SESSION), True),
    ],
)
def test_nothing_is_forecast_of_a_session_that_has_ended_early(
    data: SessionEvent, *, goes_on: bool
) -> None:
    process = load_process("standard")
    brief = Brief(request="Sell what is left over.", domain="General")
    quote = build_quote(process, CARDS[:1], brief, Terms())
    counting = Counting(cast("Backend", None), LineDisplay(), quote)
    counting.show(build_event(data))
    assert ("in the end" in counting.counters.describe()) is goes_on


def build_detail(*lost: int) -> SessionDetail:
    session = SessionRecord.model_construct(iteration_count=1, model_names=["a/b", "c/d", "e/f"])
    slugs = ("thesis", "antithesis")
    stages = [
        StageRecord.model_construct(stage_slug=slug, iteration_number=1, lost_seats=list(lost))
        for slug in slugs
    ]
    documents = [
        ContributionLine.model_construct(
            stage=slug, iteration_number=1, is_intermediate=True, is_incomplete=False, flags=[]
        )
        for slug in slugs
    ]
    return SessionDetail.model_construct(
        session=session, stages=stages, contributions=documents, plans=[]
    )


@each_case(
    ("code", "lost", "strict", "end"),
    [
        (ExitCode.DONE, (), True, ExitCode.DONE),
        (ExitCode.DONE, (2,), False, ExitCode.DONE),
        (ExitCode.DONE, (2,), True, ExitCode.FAILED),
        (ExitCode.WAITING, (2,), True, ExitCode.FAILED),
        (ExitCode.FUNDS, (2,), True, ExitCode.FUNDS),
    ],
)
def test_a_finished_session_that_lacks_a_seat_fails_only_if_it_is_strict(
    code: ExitCode, lost: tuple[int, ...], strict: bool, end: ExitCode
) -> None:
    assert say_warnings(build_detail(*lost), code, strict=strict) is end


def test_what_a_session_lacks_is_said_once_for_each_seat(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say_warnings(build_detail(2), ExitCode.DONE, strict=False)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("Warning: seat 2 (c/d)")
    assert "thesis, antithesis" in line
