"""Schedule: how long tasks take that wait for each other and share a number of slots. Pure.

Tasks are taken in the order in which they are given, each as soon as a slot is free and what it
waits for is done. In a fixed order nothing ends earlier because something takes longer, so the
worst case is never shorter than the expected one.

Author: one of a run's models, as a writer and a reader, and what a call by it costs. Pure.

Knows no process: it is told what a call reads and how long the answer is. What is expected stands
beside what cannot be exceeded.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dialectic.core.models.model import ModelCard
from dialectic.core.money.output_statistics import Size
from dialectic.core.money.price import price_call
from dialectic.core.money.quote import Amount, Duration, Figures
from dialectic.pipeline.fit.combine import Room, count_levels_max, decide_tree


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


# Providers count a little differently from us; nobody is charged for more than this.
INPUT_MARGIN_PERCENT = 110
# What asks for the next part of an answer.
CONTINUE_TOKENS = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a session allows: room for one answer, further turns and tries, calls at a time."""

    max_output_tokens: int | None = None
    max_continuations: int = 0
    max_retries: int = 0
    concurrency: int = 1
    # Who reads what must be shortened; None if that costs nothing.
    embedder: ModelCard | None = None


@dataclass(frozen=True, eq=False)
class Author:
    """One of the models, as a writer and as a reader."""

    card: ModelCard
    terms: Terms
    # How many tokens a byte is, in texts like these.
    tokens_per_byte: float

    @cached_property
    def output_cap(self) -> int:
        return min(
            self.terms.max_output_tokens or self.card.max_output_tokens, self.card.max_output_tokens
        )

    @cached_property
    def input_max(self) -> int:
        window = self.card.context_window_tokens - self.output_cap
        return max(1, min(self.card.max_input_tokens, window))

    def count_bytes(self, size: float) -> int:
        return math.ceil(size * self.tokens_per_byte)

    def price(self, input_tokens: int, output_tokens: int) -> Amount:
        price = price_call(self.card, input_tokens, output_tokens)
        return Amount(1, input_tokens, output_tokens, price)


@dataclass(frozen=True, slots=True)
class Length:
    """How long a document is that is yet to be written; `turns` is how many calls that takes."""

    output_tokens: int
    text_bytes: float
    turns: int


def fit_length(size: Size, author: Author) -> Length:
    """Fit a document into the turns that it may take; what does not fit is not written."""
    cap = author.output_cap
    wanted = max(1, round(size.output_tokens))
    turns = min(-(-wanted // cap), 1 + author.terms.max_continuations)
    written = min(wanted, turns * cap)
    return Length(written, size.text_bytes * written / wanted, turns)


def build_figures(
    author: Author, length: Length, expected_input: int, bound: int, longer_bound: int
) -> Figures:
    """Price one call; `longer_bound` is what it reads at most where answers may go on."""
    terms, cap = author.terms, author.output_cap
    expected = author.price(expected_input, min(cap, length.output_tokens))
    further = Amount()
    for turn in range(1, length.turns):
        rest = length.output_tokens - turn * cap
        further += author.price(_grow(expected_input, turn, author), min(cap, rest))
    worst = author.price(_exceed(_clamp(bound, expected_input, author)), cap)
    continuations = Amount()
    if terms.max_continuations:
        # Where answers go on, what is read grows too: the planned calls cost more than before.
        longest = _clamp(longer_bound, expected_input, author)
        longer = author.price(_exceed(longest), cap)
        more = longer.input_tokens - worst.input_tokens
        continuations = Amount(0, more, 0, longer.credits - worst.credits)
        for turn in range(1, 1 + terms.max_continuations):
            continuations += author.price(_exceed(_grow(longest, turn, author)), cap)
    retries = (worst + continuations) * terms.max_retries
    return Figures(expected, worst, further, continuations, retries)


def build_merges(
    author: Author, sizes: tuple[Sequence[int], Sequence[int], Sequence[int]], room: Room
) -> Figures:
    """Price the calls that merge documents before they are read, where they do not fit.

    Their sizes are those that are expected, those at most, and those at most where answers go on.
    """
    expected, bound, longer = sizes
    likely = Amount()
    for level in decide_tree(expected, room):
        for node in level:
            read = min(sum(expected[node.start : node.stop]), room.call_tokens)
            frame = author.input_max - room.call_tokens
            likely += author.price(frame + read, node.budget_tokens)
        expected = [node.budget_tokens for node in level]
    full = Length(author.output_cap, 0.0, 1)
    one = build_figures(author, full, author.input_max, author.input_max, author.input_max)
    calls, more = _count_merges_max(bound, room), _count_merges_max(longer, room)
    continuations = Amount()
    if author.terms.max_continuations:
        continuations = one.worst * (more - calls) + one.continuations * more
    worst = one.worst * calls
    retries = (worst + continuations) * author.terms.max_retries
    return Figures(likely, worst, Amount(), continuations, retries)


def _count_merges_max(sizes: Sequence[int], room: Room) -> int:
    """Count the merges there can be: on no level more than there are documents."""
    return 0 if sum(sizes) <= room.reader_tokens else len(sizes) * count_levels_max(sizes, room)


def _clamp(bound: int, expected_input: int, author: Author) -> int:
    """Keep a bound between what is expected and what the model takes."""
    return max(expected_input, min(bound, author.input_max))


def _grow(input_tokens: int, turn: int, author: Author) -> int:
    """Tell what a further turn reads: what the first one did, and the answer so far."""
    grown = input_tokens + turn * (author.output_cap + CONTINUE_TOKENS)
    return min(grown, author.card.max_input_tokens)


def _exceed(input_tokens: int) -> int:
    """Tell the most that a provider may make of our count."""
    return -(-input_tokens * INPUT_MARGIN_PERCENT // 100)
