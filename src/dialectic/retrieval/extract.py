"""The built-in compressor: a shorter text made of one document's own passages, within a budget.

What is kept is what the document says only once, weighed by how near it is to a purpose. Pure: the
vectors are given. Knows no database, no money and no model.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dialectic.retrieval.base import Piece
from dialectic.retrieval.passages import Kind, Passages, render
from dialectic.retrieval.scoring import Costs, CountEach, Weighed, read_item

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.base import Matrix

Count = Callable[[str], int]

# With less than this, or with less than a fortieth of the text, nothing meaningful is left.
FLOOR_TOKENS = 64
FLOOR_SHARE = 40
# What a word is still worth each time it has been kept already.
REPEATED = 0.5
# At most this many passages are rated again before the next one is kept: where all are alike, each
# kept one changes the rating of all others.
LOOKS_MAX = 16
# Frames around more passages than this do not count when one of them is chosen.
MEMBERS_MAX = 48
# How much more a passage of the nearest piece is worth than one of the farthest.
NEARNESS = 0.5
# How much less a passage is worth when all of its piece has been kept already.
CROWDING = 0.6
# Parts are counted one by one, which comes out a little above what they have together.
SLACK = 1.1


@dataclass(frozen=True, slots=True)
class Extract:
    """A text made of passages of another one, in its order."""

    text: str
    tokens: int
    # Where each kept passage is in the source.
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
    """Keep of a text what it says only once, as near to the purpose as can be, within a budget.

    `rows` are the vectors of the pieces and `purpose` those of the queries. A text that fits comes
    back as it is. None where the budget leaves nothing meaningful. The same passages are kept under
    a larger budget, and more. `count_each` counts many texts as `count` does, where it is quicker.
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
    """Take as much of an order as fits, exactly; return the passages and what they make.

    The steps depend on the text alone, so what fits a smaller budget is the beginning of what fits
    a larger one, although one more passage may make a text shorter by the mark of a gap.
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
    """List the steps in which an order is tried: halves, down to one of five hundred."""
    least = max(1, passages // 500)
    return [1 << bit for bit in reversed(range(passages.bit_length())) if 1 << bit >= least]


def _rate_pieces(pieces: Sequence[Piece], rows: Matrix, purpose: Matrix) -> NDArray[np.float64]:
    """Rate how near each piece is to any of the queries: 0 the farthest of all, 1 the nearest."""
    import numpy as np

    if not pieces or not len(purpose):
        return np.zeros(max(len(pieces), 1))
    near = (rows @ purpose.T).max(axis=1).astype(np.float64)
    spread = float(near.max() - near.min())
    return (near - near.min()) / spread if spread > 1e-9 else np.zeros(len(pieces))


def _compute_homes(pieces: Sequence[Piece], parts: Passages) -> NDArray[np.intp]:
    """Compute the piece each passage begins in."""
    import numpy as np

    starts = np.array([piece.start for piece in pieces] or [0])
    places = np.array([one.start for one in parts.passages], dtype=np.int64)
    return np.maximum(np.searchsorted(starts, places, side="right") - 1, 0)


class _Choice:
    """Passages in the order in which they are worth keeping: most gain for a token first.

    Each passage kept takes from its words half of what they are worth, so the gain of the others
    only falls, and is computed again only for the one on top. Their price can fall too: when a
    heading they share is paid for, or a gap next to them closes. Then they enter the heap again.
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
        # Prose of the same words is not said twice. Lines of code are: they would not work without.
        self._may_repeat = [one.kind is Kind.CODE for one in parts.passages]
        self._said: set[tuple[int, ...]] = set()
        self._near: list[float] = (1 + NEARNESS * near).tolist()
        self._homes: list[int] = homes.tolist()
        self._costs = costs
        self._frames = [one.frames for one in parts.passages]
        tokens = np.bincount(homes, weights=costs.passages, minlength=len(near))
        self._piece_tokens: list[float] = np.maximum(tokens, 1).tolist()
        self._taken_tokens = [0] * len(near)
        # What is left of the worth of a piece's passages, the more of it has been kept.
        self._spread = [1.0] * len(near)
        self._kept = bytearray(len(parts.passages))
        self._members: dict[int, list[int]] = {}
        # What a passage costs now: itself, a gap, and frames not yet paid for. A neighbour that is
        # kept needs one mark less; there is one place more, so that all have two neighbours.
        self._prices = [cost + costs.mark for cost in costs.passages] + [0]
        for number, frames in enumerate(self._frames):
            for frame in frames:
                self._members.setdefault(frame, []).append(number)
        # A heading over more than these is paid for by one of them anyway.
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
            """Rate a passage at this moment, below zero; it is asked thousands of times."""
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
        """Keep a passage; list those that became cheaper by it."""
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
