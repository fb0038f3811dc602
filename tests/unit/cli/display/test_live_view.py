"""The live view fits its terminal, counts honestly and says what it does not know."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import pytest
from rich.cells import cell_len
from rich.console import Console

from dialectic.cli.display.live_view import LiveDisplay, SessionView, format_clock
from dialectic.cli.display.time_left import StageShare, estimate_left_s
from dialectic.contract.contributions import JobRecord
from dialectic.contract.sessions import SessionDetail, SessionRecord, StageRecord
from dialectic.core.job import JobStatus
from dialectic.core.money.quote import Duration
from dialectic.live_calls import LiveCall
from tests.cases import each_case

SESSION = UUID("0123abcd-0000-4000-8000-000000000000")
BEGUN = datetime(2026, 11, 18, 6, 0, tzinfo=UTC)
LONG = "some-provider/a-model-with-a-name-that-does-not-end-2026-11-18"


def build_stage(slug: str, finished: int, *, took_s: float | None = None) -> StageRecord:
    ended = None if took_s is None else BEGUN + timedelta(seconds=took_s)
    return StageRecord.model_construct(
        stage_slug=slug,
        iteration_number=1,
        planned_units=9,
        finished_units=finished,
        started_at=BEGUN,
        completed_at=ended,
    )


def build_detail(*stages: StageRecord, jobs: tuple[JobRecord, ...] = ()) -> SessionDetail:
    session = SessionRecord.model_construct(id=SESSION, model_names=[LONG, LONG, "play/m"])
    return SessionDetail.model_construct(session=session, stages=list(stages), jobs=list(jobs))


def build_call(model: str = LONG, text: str = "") -> LiveCall:
    call = LiveCall(
        tenant_id=uuid4(),
        session_id=SESSION,
        job_id=uuid4(),
        attempt=1,
        stage_slug="antithesis",
        output_type="critique",
        model_name=model,
        seat=2,
        input_tokens=10,
    )
    call.add(text)
    return call


def draw(view: SessionView, width: int, height: int = 24, encoding: str = "utf-8") -> list[str]:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    console = Console(file=stream, width=width, height=height, force_terminal=False)
    display = LiveDisplay(view, console)
    console.print(display._draw())
    stream.flush()
    stream.seek(0)
    return stream.read().splitlines()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_its_terminal_and_the_last_leaves_room_for_an_echo(
    width: int,
) -> None:
    calls = [build_call(text="x" * 400_000) for _ in range(3)]
    view = SessionView(list_calls=lambda: calls, describe_cost=lambda: "$1.2345 so far " * 20)
    view.take(build_detail(build_stage("thesis", 9, took_s=13), build_stage("antithesis", 4)))
    lines = draw(view, width)
    assert len(lines) == 2 + 3 + 1 + 2, lines
    assert max(map(cell_len, lines)) <= width
    assert cell_len(lines[-1]) <= width - 4
    assert all("(seat 2)" in line for line in lines[2:5])
    assert all("100,000" in line for line in lines[2:5])


def test_a_view_is_never_higher_than_its_terminal_and_counts_what_it_leaves_out() -> None:
    calls = [build_call() for _ in range(30)]
    view = SessionView(list_calls=lambda: calls)
    view.take(build_detail(*(build_stage(f"stage {n}", n) for n in range(5))))
    for height in (8, 12, 24):
        assert len(draw(view, 80, height)) <= height
    assert "  and 22 more calls" in draw(view, 80, 24)
    assert any("30 calls in flight" in line for line in draw(view, 80, 24))


def test_a_terminal_without_signs_gets_plain_letters() -> None:
    view = SessionView(list_calls=lambda: [build_call("play/m", "text")])
    view.take(build_detail(build_stage("thesis", 4)))
    first, second, *_ = draw(view, 80, encoding="ascii")
    assert "####" in first
    assert second[0] in "|/-\\"


def test_the_clock_of_an_ended_stage_is_its_whole_time_and_a_waiting_one_has_none() -> None:
    view = SessionView()
    waiting = build_stage("synthesis", 0).model_copy(update={"started_at": None})
    view.take(build_detail(build_stage("thesis", 9, took_s=13), waiting))
    first, second, *_ = draw(view, 80)
    assert first.endswith("9/9       0:13")
    assert second.rstrip().endswith("0/9")


def test_a_call_without_text_says_so_and_one_of_another_process_has_no_tokens() -> None:
    job = JobRecord.model_construct(
        id=uuid4(),
        job_type="execute",
        stage_slug="thesis",
        status=JobStatus.PROCESSING,
        model_name="play/m",
        model_index=3,
    )
    view = SessionView(list_calls=lambda: [build_call("play/m")])
    detail = build_detail(build_stage("thesis", 0), jobs=(job,))
    view.take(detail)
    view._seen[job.id] -= 60
    own, other = draw(view, 80)[1:3]
    assert own.endswith("no text yet")
    assert other.endswith("1:00  running")


@each_case(("seconds", "clock"), [(0.9, "0:00"), (7, "0:07"), (750, "12:30"), (3723, "1:02:03")])
def test_a_duration_is_a_clock(seconds: float, clock: str) -> None:
    assert format_clock(seconds) == clock


# -- the time left --------------------------------------------------------------------------------

DURATIONS = {"thesis": Duration(100.0, 0.0), "antithesis": Duration(300.0, 0.0)}


def estimate(thesis: int, elapsed_s: float, *, before: int = 0) -> float:
    shares, earlier = (
        {"thesis": StageShare(done, 10), "antithesis": StageShare(0, 9)}
        for done in (thesis, before)
    )
    return estimate_left_s(DURATIONS, shares, earlier, elapsed_s)


def test_before_anything_is_done_the_expected_time_runs_down() -> None:
    assert estimate(0, 0) == 400
    assert estimate(0, 150) == 250
    assert estimate(0, 999) == 0


def test_a_session_at_the_expected_pace_takes_the_expected_time() -> None:
    assert estimate(5, 50) == pytest.approx(350)


def test_a_slow_session_takes_longer_and_a_fast_one_less() -> None:
    assert estimate(10, 200) > 350
    assert estimate(10, 50) < 250


def test_what_was_done_before_says_nothing_about_the_pace() -> None:
    assert estimate(10, 50, before=5) == pytest.approx(estimate(10, 100, before=0), rel=0.01)


def test_a_session_without_expectations_has_no_time_left() -> None:
    assert estimate_left_s({}, {}, {}, 10) == 0
