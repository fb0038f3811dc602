"""How long tasks take that wait for each other and share slots."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.money.quote import Duration
from dialectic.pipeline.call_estimate import Task, build_durations
from tests.cases import each_case


def build_task(name: int, *after: int, group: str = "one", takes: float = 1.0) -> Task:
    return Task(name, group, after, takes, takes * 2)


def add_up(durations: dict[str, Duration]) -> Duration:
    return sum(durations.values(), start=Duration())


@each_case(("slots", "expected_s"), [(1, 4.0), (2, 2.0), (3, 2.0), (4, 1.0), (99, 1.0)])
def test_tasks_that_wait_for_nothing_share_the_slots(slots: int, expected_s: float) -> None:
    tasks = [build_task(n) for n in range(4)]
    assert add_up(build_durations(tasks, slots=slots)) == Duration(expected_s, expected_s * 2)


def test_a_chain_takes_as_long_as_its_links() -> None:
    tasks = [build_task(0), build_task(1, 0), build_task(2, 1)]
    assert add_up(build_durations(tasks, slots=9)).expected_s == 3.0


def test_what_is_waited_for_and_not_among_the_tasks_is_done_already() -> None:
    assert add_up(build_durations([build_task(5, 1, 2)], slots=1)).expected_s == 1.0


def test_a_group_that_overlaps_adds_only_what_comes_after() -> None:
    tasks = [
        build_task(0, takes=1.0),
        build_task(1, takes=5.0),
        build_task(2, 0, group="two", takes=2.0),
        build_task(3, 1, group="two", takes=2.0),
        build_task(4, 0, group="three", takes=1.0),
    ]
    durations = build_durations(tasks, slots=9)
    assert {group: d.expected_s for group, d in durations.items()} == {
        "one": 5.0,
        "two": 2.0,
        "three": 0.0,
    }


def test_nothing_takes_no_time() -> None:
    assert build_durations([], slots=4) == {}


@st.composite
def plans(draw: st.DrawFn) -> list[Task]:
    tasks = []
    for name in range(draw(st.integers(1, 12))):
        after = draw(st.sets(st.integers(0, name - 1), max_size=3)) if name else set()
        expected_s = draw(st.integers(0, 9))
        worst_s = expected_s + draw(st.integers(0, 9))
        tasks.append(Task(name, f"g{name // 4}", tuple(after), expected_s, worst_s))
    return tasks


@given(plans(), st.integers(1, 5))
def test_the_worst_time_is_never_shorter_than_the_expected_one(
    tasks: list[Task], slots: int
) -> None:
    whole = add_up(build_durations(tasks, slots=slots))
    assert whole.expected_s <= whole.worst_s


@given(plans(), st.integers(1, 5))
def test_no_schedule_is_shorter_than_its_work_or_its_longest_chain_nor_longer_than_both(
    tasks: list[Task], slots: int
) -> None:
    ends: dict[object, float] = {}
    for task in tasks:
        ends[task.name] = task.expected_s + max((ends[n] for n in task.after), default=0)
    work, chain = sum(task.expected_s for task in tasks), max(ends.values())
    found = add_up(build_durations(tasks, slots=slots)).expected_s
    assert max(chain, work / slots) <= found <= work


@given(plans(), st.integers(1, 4))
def test_more_slots_never_take_longer(tasks: list[Task], slots: int) -> None:
    fewer, more = (add_up(build_durations(tasks, slots=n)) for n in (slots, slots + 1))
    assert more.expected_s <= fewer.expected_s
