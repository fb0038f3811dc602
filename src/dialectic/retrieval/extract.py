"""The built-in compressor: shortens a document to its own passages, within a token budget.

It keeps what the document says only once, weighted by similarity to a purpose. The worth of its
words depends only on the text and is cached for the last few texts. Pure: the caller passes the
vectors in. Knows no database, no money and no model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import add
from typing import TYPE_CHECKING

from dialectic.retrieval.passages import MARK, Kind, Passages, render, split_passages
from dialectic.retrieval.pieces import Piece
from dialectic.retrieval.weigh import Weighed, weigh

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.embedders import Matrix

Count = Callable[[str], int]
CountEach = Callable[[Sequence[str]], list[int]]

# Below this, or below a fortieth of the text, nothing meaningful is left.
FLOOR_TOKENS = 64
FLOOR_SHARE = 40
# The factor by which a word loses value each time it is kept.
REPEATED = 0.5
# Rescore at most this many passages before keeping the next one: if all are alike, each kept
# passage changes the scores of all others.
LOOKS_MAX = 16
# Frames around more passages than this are ignored when choosing a passage.
MEMBERS_MAX = 48
# How much more a passage of the most similar piece is worth than one of the least similar.
NEARNESS = 0.5
# How much less a passage is worth once the rest of its piece is kept.
CROWDING = 0.6
# Parts are counted one by one, which gives slightly more than counting them together.
SLACK = 1.1


@dataclass(frozen=True, slots=True)
class Extract:
    """A text made of passages of another text, in the same order."""

    text: str
    tokens: int
    # The positions of the kept passages in the source.
    spans: tuple[tuple[int, int], ...]
    passages_kept: int
    passages_total: int

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return self.passages_kept == self.passages_total


def count_floor_tokens(text_tokens: int) -> int:
    """Find the smallest budget for a text of this length that leaves something meaningful."""
    return max(FLOOR_TOKENS, -(-text_tokens // FLOOR_SHARE))


def extract(
    text: str,
    pieces: Sequence[Piece],
    rows: Matrix,
    purpose: Matrix,
    budget_tokens: int,
    count: Count,
    *,
    count_each: CountEach | None = None,
) -> Extract | None:
    """Keep the passages that a text says only once and that suit the purpose, within a budget.

    `rows` are the vectors of the pieces and `purpose` those of the queries. A text that fits is
    returned unchanged; None if the budget leaves nothing meaningful. A larger budget keeps the same
    passages and more. `count_each` counts many texts like `count`, but faster.
    """
    tokens = count(text)
    if count_floor_tokens(tokens) > budget_tokens < tokens:
        return None
    item = read_item(text)
    parts, total = item.parts, len(item.parts.passages)
    if tokens <= budget_tokens:
        spans = tuple((one.start, one.end) for one in parts.passages)
        return Extract(text, tokens, spans, total, total)
    each = count_each or (lambda texts: [count(one) for one in texts])
    weighed, costs = item.weigh_and_price(count, each)
    worth = _rate_pieces(pieces, rows, purpose)
    homes = _compute_homes(pieces, parts)
    order = _Choice(parts, weighed, costs, worth, homes).order(int(budget_tokens * SLACK))
    kept, short = _fit(text, parts, order, budget_tokens, count)
    if not kept:
        return None
    spans = tuple((parts.passages[n].start, parts.passages[n].end) for n in kept)
    return Extract(short, count(short), spans, len(kept), total)


def _fit(
    text: str, parts: Passages, order: Sequence[int], budget_tokens: int, count: Count
) -> tuple[list[int], str]:
    """Take the longest prefix of an order that fits; return the passages and their text.

    The steps depend on the text alone, so a smaller budget keeps a prefix of what a larger one
    keeps, although one more passage may shorten a text by closing a gap.
    """
    taken, short = 0, ""
    for step in _list_steps(len(parts.passages)):
        if taken + step > len(order):
            continue
        candidate = render(text, parts, sorted(order[: taken + step]))
        if count(candidate) <= budget_tokens:
            taken, short = taken + step, candidate
    return sorted(order[:taken]), short


def _list_steps(passages: int) -> list[int]:
    """List the steps in which an order is tried: halves, down to one five-hundredth."""
    least = max(1, passages // 500)
    return [1 << bit for bit in reversed(range(passages.bit_length())) if 1 << bit >= least]


def _rate_pieces(pieces: Sequence[Piece], rows: Matrix, purpose: Matrix) -> NDArray[np.float64]:
    """Score how similar each piece is to any query: 0 for the least similar, 1 for the most."""
    import numpy as np

    if not pieces or not len(purpose):
        return np.zeros(max(len(pieces), 1))
    near = (rows @ purpose.T).max(axis=1).astype(np.float64)
    spread = float(near.max() - near.min())
    return (near - near.min()) / spread if spread > 1e-9 else np.zeros(len(pieces))


def _compute_homes(pieces: Sequence[Piece], parts: Passages) -> NDArray[np.intp]:
    """Find the piece in which each passage begins."""
    import numpy as np

    starts = np.array([piece.start for piece in pieces] or [0])
    places = np.array([one.start for one in parts.passages], dtype=np.int64)
    return np.maximum(np.searchsorted(starts, places, side="right") - 1, 0)


class _Choice:
    """Passages in the order of their value: the highest gain per token first.

    Each kept passage halves the value of its words, so the gain of the others only falls and is
    recomputed only for the top of the heap. Costs can fall too: when a shared heading is paid for,
    or a gap next to a passage closes. Then the passage enters the heap again.
    """

    def __init__(
        self,
        parts: Passages,
        weighed: Weighed,
        costs: Costs,
        near: NDArray[np.float64],
        homes: NDArray[np.intp],
    ) -> None:
        import numpy as np

        self._words, self._left = weighed.words, list(weighed.worth)
        # Repeated prose is dropped. Repeated lines of code are kept: the code needs them.
        self._may_repeat = [one.kind is Kind.CODE for one in parts.passages]
        self._said: set[tuple[int, ...]] = set()
        self._near: list[float] = (1 + NEARNESS * near).tolist()
        self._homes: list[int] = homes.tolist()
        self._costs = costs
        self._frames = [one.frames for one in parts.passages]
        tokens = np.bincount(homes, weights=costs.passages, minlength=len(near))
        self._piece_tokens: list[float] = np.maximum(tokens, 1).tolist()
        self._taken_tokens = [0] * len(near)
        # The remaining value of a piece's passages, by how much of it has been kept.
        self._spread = [1.0] * len(near)
        self._kept = bytearray(len(parts.passages))
        self._members: dict[int, list[int]] = {}
        # The current cost of a passage: itself, a gap, and frames not yet paid for. A kept
        # neighbour saves one mark; one extra entry gives every passage two neighbours.
        self._prices = [cost + costs.mark for cost in costs.passages] + [0]
        for number, frames in enumerate(self._frames):
            for frame in frames:
                self._members.setdefault(frame, []).append(number)
        # A heading over more passages than this will be paid for by one of them anyway.
        for frame in [f for f, some in self._members.items() if len(some) > MEMBERS_MAX]:
            del self._members[frame]
        for frame, members in self._members.items():
            for number in members:
                self._prices[number] += costs.frames[frame]

    def order(self, tokens_max: int) -> list[int]:
        """List passages until they have this many tokens together."""
        words, worth, prices = self._words, self._left.__getitem__, self._prices
        homes, near, spread = self._homes, self._near, self._spread
        done, may_repeat, said = self._kept, self._may_repeat, self._said

        def rate(number: int) -> float:
            """Score a passage now, as a negative number; called thousands of times."""
            home, price = homes[number], prices[number]
            gain = sum(map(worth, words[number])) * near[home] * spread[home]
            return -gain / price if price > 1 else -gain

        heap = [(rate(number), number) for number in range(len(homes))]
        heapq.heapify(heap)
        order: list[int] = []
        spent = looks = 0
        while heap:
            rated, number = heap[0]
            if done[number] or (words[number] in said and not may_repeat[number]):
                heapq.heappop(heap)
                continue
            now, looks = rate(number), looks + 1
            if now > rated and looks < LOOKS_MAX:
                heapq.heapreplace(heap, (now, number))
                continue
            spent, looks = spent + prices[number], 0
            if spent > tokens_max:
                break
            order.append(number)
            for cheaper in self._keep(number):
                if not done[cheaper]:
                    heapq.heappush(heap, (rate(cheaper), cheaper))
        return order

    def _keep(self, number: int) -> list[int]:
        """Keep a passage; list the passages that became cheaper."""
        self._kept[number] = 1
        self._said.add(self._words[number])
        for word in self._words[number]:
            self._left[word] *= REPEATED
        home = self._homes[number]
        self._taken_tokens[home] += self._costs.passages[number]
        self._spread[home] = 1 - CROWDING * self._taken_tokens[home] / self._piece_tokens[home]
        self._prices[number - 1] -= self._costs.mark
        self._prices[number + 1] -= self._costs.mark
        cheaper = [n for n in (number - 1, number + 1) if 0 <= n < len(self._frames)]
        for frame in self._frames[number]:
            members = self._members.pop(frame, [])
            for member in members:
                self._prices[member] -= self._costs.frames[frame]
            cheaper += members
        return cheaper


# -- parsed texts ---------------------------------------------------------------------------------

# Longer items are not cached.
REMEMBERED_CHARS_MAX = 500_000
# The passages of longer items are counted in a thread: counting with a vocabulary holds the GIL
# only at the beginning and at the end.
ASIDE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Costs:
    """The tokens that each passage and each frame adds to a text, and those of a gap mark."""

    passages: list[int]
    frames: list[int]
    mark: int


class Item:
    """One parsed text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._costs: dict[Hashable, Costs] = {}
        self.parts: Passages = split_passages(text)

    def weigh_and_price(self, counter: Hashable, count_each: CountEach) -> tuple[Weighed, Costs]:
        """Weigh and count the words of all passages; once per tokenizer."""
        if (known := self._costs.get(counter)) is not None:
            return self._weighed, known
        if len(self._text) < ASIDE_CHARS:
            costs = self._price(count_each)
        else:
            with ThreadPoolExecutor(1) as aside:
                counting = aside.submit(self._price, count_each)
                _ = self._weighed
                costs = counting.result()
        self._costs[counter] = costs
        return self._weighed, costs

    @cached_property
    def _weighed(self) -> Weighed:
        return weigh(self._passages)

    @cached_property
    def _passages(self) -> list[str]:
        return [self._text[one.start : one.end] for one in self.parts.passages]

    def _price(self, count_each: CountEach) -> Costs:
        frames = self.parts.frames
        opened = [self._text[one.start : one.end] for one in frames]
        closed = [one.closing for one in frames if one.closing]
        # In one call: between two calls the thread would wait for the GIL.
        counts = iter(count_each([f" {MARK}", *opened, *closed, *self._passages]))
        mark = next(counts) + 1
        opening = [next(counts) + 2 for _ in frames]
        closing = [next(counts) + 1 if one.closing else 0 for one in frames]
        return Costs([tokens + 1 for tokens in counts], list(map(add, opening, closing)), mark)


def read_item(text: str) -> Item:
    """Parse a text, or find it in the cache.

    The same item is often shortened for several models in a row, to several lengths.
    """
    return _remembered(text) if len(text) <= REMEMBERED_CHARS_MAX else Item(text)


_remembered = lru_cache(maxsize=4)(Item)
