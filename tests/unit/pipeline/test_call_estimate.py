"""How long calls take that wait for each other and share slots."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.money.quote import Duration
from dialectic.pipeline.call_estimate import build_durations
from dialectic.pipeline.outline import DocumentKey, PlannedCall

Timed = tuple[PlannedCall, Duration]


def build_call(number: int, *after: Timed, stage: str = "one", takes: float = 1.0) -> Timed:
    reads = tuple(call.makes for call, _ in after)
    call = PlannedCall("step", DocumentKey(stage, "kind", 1, number), reads)
    return call, Duration(takes, takes * 2)


def add_up(durations: dict[str, Duration]) -> Duration:
    return sum(durations.values(), start=Duration())


@pytest.mark.parametrize(
    ("slots", "expected_s"), [(1, 4.0), (2, 2.0), (3, 2.0), (4, 1.0), (99, 1.0)]
)
def test_calls_that_wait_for_nothing_share_the_slots(slots: int, expected_s: float) -> None:
    calls = [build_call(n) for n in range(4)]
    assert add_up(build_durations(calls, slots=slots)) == Duration(expected_s, expected_s * 2)


def test_a_chain_takes_as_long_as_its_links() -> None:
    first = build_call(0)
    second = build_call(1, first)
    calls = [first, second, build_call(2, second)]
    assert add_up(build_durations(calls, slots=9)).expected_s == 3.0


def test_what_is_waited_for_and_not_among_the_calls_is_done_already() -> None:
    calls = [build_call(5, build_call(1), build_call(2))]
    assert add_up(build_durations(calls, slots=1)).expected_s == 1.0


def test_a_stage_that_overlaps_adds_only_what_comes_after() -> None:
    short, long = build_call(0, takes=1.0), build_call(1, takes=5.0)
    calls = [
        short,
        long,
        build_call(2, short, stage="two", takes=2.0),
        build_call(3, long, stage="two", takes=2.0),
        build_call(4, short, stage="three", takes=1.0),
    ]
    durations = build_durations(calls, slots=9)
    assert {stage: d.expected_s for stage, d in durations.items()} == {
        "one": 5.0,
        "two": 2.0,
        "three": 0.0,
    }


def test_nothing_takes_no_time() -> None:
    assert build_durations([], slots=4) == {}


@st.composite
def plans(draw: st.DrawFn) -> list[Timed]:
    calls: list[Timed] = []
    for number in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        call, _ = build_call(number, *(calls[n] for n in after), stage=f"s{number // 4}")
        expected_s = draw(st.integers(0, 9))
        calls.append((call, Duration(expected_s, expected_s + draw(st.integers(0, 9)))))
    return calls


@given(plans(), st.integers(1, 5))
def test_the_worst_time_is_never_shorter_than_the_expected_one(
    calls: list[Timed], slots: int
) -> None:
    whole = add_up(build_durations(calls, slots=slots))
    assert whole.expected_s <= whole.worst_s


@given(plans(), st.integers(1, 5))
def test_no_schedule_is_shorter_than_its_work_or_its_longest_chain_nor_longer_than_both(
    calls: list[Timed], slots: int
) -> None:
    ends: dict[DocumentKey, float] = {}
    for call, takes in calls:
        ends[call.makes] = takes.expected_s + max((ends[key] for key in call.reads), default=0)
    work, chain = sum(takes.expected_s for _, takes in calls), max(ends.values())
    found = add_up(build_durations(calls, slots=slots)).expected_s
    assert max(chain, work / slots) <= found <= work


@given(plans(), st.integers(1, 4))
def test_more_slots_never_take_longer(calls: list[Timed], slots: int) -> None:
    fewer, more = (add_up(build_durations(calls, slots=n)) for n in (slots, slots + 1))
    assert more.expected_s <= fewer.expected_s
