"""Compute the expected and the maximum cost of one call, and the duration of all calls. Pure.

Independent of any process: the caller gives the input and the length of the answer.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import count_upper_input
from dialectic.core.money.quote import NO_AMOUNT, Amount, Duration, Figures, add_up
from dialectic.pipeline.answer_length import grow_limit
from dialectic.pipeline.assemble import compute_input_max, compute_output_cap
from dialectic.pipeline.fit.combine import Room, count_levels_max, decide_tree
from dialectic.pipeline.outline import PlannedCall

# The tokens of a request to continue, at least, and those of what it quotes.
CONTINUE_TOKENS = 400
QUOTED_TOKENS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """The limits of a session: answer length, continuations, retries and concurrent calls."""

    max_output_tokens: int | None = None
    # Whether a cut answer is continued; if not, each answer has the model's own limit.
    continues: bool = False
    max_continuations: int = 0
    max_retries: int = 0
    concurrency: int = 1
    # The model that embeds texts for shortening; None if embedding is free.
    embedder: ModelCard | None = None


class Tokens(NamedTuple):
    """The size of a text: expected, at most in one turn, and at most with continuations."""

    expected: int
    worst: int
    longest: int


@dataclass(frozen=True, eq=False)
class Author:
    """One of a run's models, as writer and reader."""

    card: ModelCard
    terms: Terms
    tokens_per_byte: float
    continue_tokens: int = CONTINUE_TOKENS

    @cached_property
    def output_cap(self) -> int:
        return compute_output_cap(self.terms.max_output_tokens, self.card)

    @cached_property
    def input_max(self) -> int:
        return max(1, compute_input_max(self.card, self.output_cap))

    def count_bytes(self, size: float) -> int:
        return math.ceil(size * self.tokens_per_byte)

    def grow_limit(self, limit_tokens: int, turn: int) -> int:
        """Compute the limit of a turn."""
        return grow_limit(limit_tokens, turn, self.card, self.terms.max_output_tokens)

    def list_turns(self, input_tokens: int, outputs: Iterable[int]) -> Iterator[tuple[int, int]]:
        """List input and output tokens of each turn: it reads the prompt and the answer so far."""
        for output_tokens in outputs:
            yield min(input_tokens, self.card.max_input_tokens), output_tokens
            input_tokens += output_tokens + self.continue_tokens

    def split(self, output_tokens: int, limit_tokens: int) -> Iterator[int]:
        """Split an answer into turns, the first of which has a limit."""
        for turn in itertools.count():
            written = min(output_tokens, self.grow_limit(limit_tokens, turn))
            yield written
            output_tokens -= written
            if output_tokens <= 0:
                return


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The size of one call's prompt: without documents, of each document, and in total."""

    author: Author
    frame: int
    reads: Sequence[Tokens]
    whole: Tokens
    # The room for documents, and whether the resources must be shortened for it.
    room: int

    @property
    def is_frame_shortened(self) -> bool:
        return self.room > self.author.input_max - self.frame


def count_continue_tokens(template: str, tokens_per_byte: float) -> int:
    """Count the tokens of a request to continue, from a process's template for it."""
    own = math.ceil(len(template.encode()) * tokens_per_byte)
    return max(CONTINUE_TOKENS, own + QUOTED_TOKENS)


def build_figures(
    author: Author, output_tokens: int, read: Tokens, limit_tokens: int | None = None
) -> Figures:
    """Price one planned call with all possible continuations and retries.

    `limit_tokens` is the limit of its first turn; by default the model's own.
    """
    terms, cap = author.terms, author.output_cap
    limit = cap if limit_tokens is None else limit_tokens

    def price(input_tokens: int, *outputs: int) -> Iterator[Amount]:
        for read_tokens, written in author.list_turns(input_tokens, outputs):
            yield Amount.of_call(author.card, read_tokens, written)

    def price_full_turns(bound: int, *outputs: int) -> Amount:
        """Price full answers with the largest input count that a provider may report."""
        most = max(expected_input, min(bound, author.input_max))
        return add_up(
            Amount.of_call(author.card, count_upper_input(read_tokens), written)
            for read_tokens, written in author.list_turns(most, outputs)
        )

    expected_input = min(read.expected, author.input_max)
    expected, *further = price(expected_input, *author.split(output_tokens, limit))
    worst = price_full_turns(read.worst, limit)
    # With continuations the inputs grow too, so even the first turn costs more. A retry has the
    # model's own limit.
    longest = price_full_turns(read.longest, *[cap] * (1 + terms.max_continuations))
    continuations = longest + worst * -1
    return Figures(expected, worst, add_up(further), continuations, longest * terms.max_retries)


def build_merge_figures(author: Author, sizes: Sequence[Tokens], room: Room) -> Figures:
    """Price the calls that merge documents which do not fit their reader."""
    likely, read = NO_AMOUNT, [size.expected for size in sizes]
    for level in decide_tree(read, room):
        for node in level:
            text = min(sum(read[node.start : node.stop]), room.call_tokens)
            frame = author.input_max - room.call_tokens
            likely += Amount.of_call(author.card, frame + text, node.budget_tokens)
        read = [node.budget_tokens for node in level]

    def count_merges_max(bounds: Sequence[int]) -> int:
        """Compute the maximum number of merges: one per document on every level."""
        fits = sum(bounds) <= room.reader_tokens
        return 0 if fits else len(bounds) * count_levels_max(bounds, room)

    calls = count_merges_max([size.worst for size in sizes])
    more = count_merges_max([size.longest for size in sizes])
    full = Tokens(author.input_max, author.input_max, author.input_max)
    one = build_figures(author, author.output_cap, full)
    worst = one.worst * calls
    continuations = one.worst * (more - calls) + one.continuations * more
    retries = (worst + continuations) * author.terms.max_retries
    return Figures(likely, worst, NO_AMOUNT, continuations, retries)


def build_durations(
    calls: Sequence[tuple[PlannedCall, Duration]], *, slots: int
) -> dict[str, Duration]:
    """Compute what each stage adds to the total duration, in the order of their first calls.

    Calls start in the given order, each as soon as a slot is free and its inputs exist. With a
    fixed order, a longer call never makes another one end earlier, so the worst case is never
    shorter than the expected one. A stage that overlaps with earlier ones adds only the time
    after their end.
    """
    expected = _list_ends(((call, takes.expected_s) for call, takes in calls), slots)
    worst = _list_ends(((call, takes.worst_s) for call, takes in calls), slots)
    durations: dict[str, Duration] = {}
    over = Duration()
    for slug, end_s in expected.items():
        added = Duration(max(0.0, end_s - over.expected_s), max(0.0, worst[slug] - over.worst_s))
        durations[slug] = added
        over += added
    return durations


def _list_ends(calls: Iterable[tuple[PlannedCall, float]], slots: int) -> dict[str, float]:
    """List when the last call of each stage ends."""
    free = [0.0] * max(1, slots)
    ends: dict[object, float] = {}
    stages: dict[str, float] = {}
    for call, takes_s in calls:
        # A document without a planned call already exists.
        ready = max((ends.get(read, 0.0) for read in call.reads), default=0.0)
        end = max(ready, heapq.heappop(free)) + takes_s
        heapq.heappush(free, end)
        ends[call.makes] = end
        stages[call.makes.stage_slug] = max(stages.get(call.makes.stage_slug, 0.0), end)
    return stages
