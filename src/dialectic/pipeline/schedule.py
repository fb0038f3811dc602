"""Schedule: how long tasks take that wait for each other and share a number of slots. Pure.

Tasks are taken in the order in which they are given, each as soon as a slot is free and what it
waits for is done. In a fixed order nothing ends earlier because something takes longer, so the
worst case is never shorter than the expected one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

from dialectic.domain.quote import Duration


@dataclass(frozen=True, slots=True)
class Task:
    """Something that takes a while, after others that were given before it."""

    name: Hashable
    group: str
    after: Sequence[Hashable]
    expected_s: float
    worst_s: float


def build_durations(tasks: Sequence[Task], *, slots: int) -> dict[str, Duration]:
    """Build how much each group adds to the time of all; groups in the order of their first task.

    A group that overlaps with those before it adds only what it needs after they have ended.
    """
    expected = _list_ends(tasks, slots, lambda task: task.expected_s)
    worst = _list_ends(tasks, slots, lambda task: task.worst_s)
    durations: dict[str, Duration] = {}
    over = Duration()
    for group, end_s in expected.items():
        added = Duration(max(0.0, end_s - over.expected_s), max(0.0, worst[group] - over.worst_s))
        durations[group] = added
        over += added
    return durations


def _list_ends(
    tasks: Sequence[Task], slots: int, take_s: Callable[[Task], float]
) -> dict[str, float]:
    """List when the last task of each group ends."""
    free = [0.0] * max(1, min(slots, len(tasks)))
    ends: dict[Hashable, float] = {}
    groups: dict[str, float] = {}
    for task in tasks:
        # What is not among the tasks was done before they began.
        ready = max((ends.get(name, 0.0) for name in task.after), default=0.0)
        end = max(ready, heapq.heappop(free)) + take_s(task)
        heapq.heappush(free, end)
        ends[task.name] = end
        groups[task.group] = max(groups.get(task.group, 0.0), end)
    return groups
