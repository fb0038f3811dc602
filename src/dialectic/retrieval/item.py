"""An item that is shortened: its passages, what their words are worth, what they cost in tokens.

All that depends on the item and its tokenizer alone, found out once for the last few. Knows no
purpose and no budget.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import add

from dialectic.retrieval.passages import Passages, split_passages
from dialectic.retrieval.render import MARK
from dialectic.retrieval.weigh import Weighed, weigh

CountEach = Callable[[Sequence[str]], list[int]]

# What was found out about longer items is not remembered.
REMEMBERED_CHARS_MAX = 500_000
# The passages of longer items are counted in a thread of their own: who counts with a vocabulary
# needs the interpreter only at the beginning and at the end.
ASIDE_CHARS = 20_000


@dataclass(frozen=True, slots=True)
class Costs:
    """What each passage and each frame adds to a text, in tokens; and the mark of a gap."""

    passages: list[int]
    frames: list[int]
    mark: int


class Item:
    """One text, taken apart."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._costs: dict[Hashable, Costs] = {}
        self.parts: Passages = split_passages(text)

    def weigh_and_price(self, counter: Hashable, count_each: CountEach) -> tuple[Weighed, Costs]:
        """Weigh the words of all passages, and count them; once for each who counts."""
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
        # All at once: between two counts a thread would wait for its turn.
        counts = iter(count_each([f" {MARK}", *opened, *closed, *self._passages]))
        mark = next(counts) + 1
        opening = [next(counts) + 2 for _ in frames]
        closing = [next(counts) + 1 if one.closing else 0 for one in frames]
        return Costs([tokens + 1 for tokens in counts], list(map(add, opening, closing)), mark)


def read_item(text: str) -> Item:
    """Take a text apart, or find it among those of a moment ago.

    The same item is often shortened for several models in a row, to several lengths.
    """
    return _remembered(text) if len(text) <= REMEMBERED_CHARS_MAX else Item(text)


_remembered = lru_cache(maxsize=4)(Item)
