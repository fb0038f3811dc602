"""Score the passages of a text by their words, and count their tokens.

A word is worth more if fewer passages contain it and if it is rare in general; its rank in a token
vocabulary tells that for any language. The scores depend only on the text and its tokenizer and are
cached for the last few texts. Knows no vectors, no purpose and no budget.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import add

from dialectic.retrieval.passages import MARK, Passages, split_passages
from dialectic.tokens.encodings import load_encoding

VOCABULARY = "o200k_base"
# Words of lower rank are in every text; words of higher rank, or of several tokens, in few.
RANK_COMMON, RANK_RARE = 300, 100_000
COMMON_WORTH = 0.02
# A number counts as much as the rarest word; a single digit is mostly an item number.
NUMBER_WORTH, DIGIT_WORTH = 1.0, 0.35
# A word that never appears in lower case is a name.
NAME_FACTOR = 1.3
# Words with the same beginning count as one: `decide` and `decided`.
STEM_CHARS = 7
# How many words are cached from one text to the next.
KNOWN_WORDS_MAX = 20_000

_WORD = re.compile(
    r"\d+(?:[.,:/-]\d+)*"
    # Scripts without blanks between words: two characters count as a word.
    r"|[\u2e80-\u9fff\uac00-\ud7af\U00020000-\U0003ffff]{1,2}"
    r"|[^\W\d_][^\W_]*(?:['’_.-][^\W_]+)*"
)
_DIGIT = re.compile(r"\d")
# Marks of other items contain no words.
_NUMBER_MARK = re.compile(r"[ \t]*\d{1,9}[.)][ \t]+")


@dataclass(frozen=True, slots=True)
class Weighed:
    """The words of each passage, as numbers, and the value of each word by its number."""

    # Each word once, in ascending order.
    words: list[tuple[int, ...]]
    worth: list[float]


def weigh(texts: Sequence[str]) -> Weighed:
    """Weigh the words of all passages of a text against each other and against the language."""
    numbers: dict[str, int] = {}
    written: dict[str, int] = {}
    counts: Counter[int] = Counter()
    passages = []
    for text in texts:
        found = set()
        # The number of an item is not one of its words.
        mark = _NUMBER_MARK.match(text)
        for word in _WORD.findall(text, mark.end() if mark else 0):
            written[word] = number = numbers.setdefault(_stem(word), len(numbers))
            found.add(number)
        passages.append(tuple(sorted(found)))
        counts.update(found)
    common = {number for word, number in written.items() if word.islower()}
    names = {number for word, number in written.items() if not word[0].isdigit()} - common
    return Weighed(passages, _rate_all(list(numbers), counts, names))


# Cached: texts share most of their words.
@lru_cache(maxsize=KNOWN_WORDS_MAX)
def _stem(word: str) -> str:
    lowered = word.lower()
    return lowered[:STEM_CHARS] if lowered.isalpha() else lowered


def _rate_all(stems: Sequence[str], counts: Mapping[int, int], names: set[int]) -> list[float]:
    """Score words: a word that several passages share is worth less to each of them."""
    # A column of measurements is routine, although no two are equal: numbers share their form.
    forms = [_DIGIT.sub("0", stem) if stem[0].isdigit() else "" for stem in stems]
    alike: Counter[str] = Counter()
    for number, form in enumerate(forms):
        alike[form] += counts[number]
    worth = []
    for number, stem in enumerate(stems):
        form = forms[number]
        sharers = max(counts[number], math.sqrt(alike[form])) if form else counts[number]
        rated = _rate(stem) / sharers
        worth.append(rated * NAME_FACTOR if number in names else rated)
    return worth


@lru_cache(maxsize=KNOWN_WORDS_MAX)
def _rate(word: str) -> float:
    """Score how rare a word is in general: 0 for the most common, 1 for rare."""
    if word[0].isdigit():
        return NUMBER_WORTH if len(word) > 1 else DIGIT_WORTH
    try:
        rank = load_encoding(VOCABULARY).encode_single_token(f" {word}")
    except KeyError:
        return 1.0
    span = math.log(max(rank, 1) / RANK_COMMON) / math.log(RANK_RARE / RANK_COMMON)
    return min(max(span, COMMON_WORTH), 1.0)


CountEach = Callable[[Sequence[str]], list[int]]

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
