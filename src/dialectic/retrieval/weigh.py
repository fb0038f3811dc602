"""What the words of passages are worth: rare words more, words of every text almost nothing. Pure.

A word is worth more if fewer passages contain it and if it is rare in general; its rank in a token
vocabulary tells that for any language.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

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
        for word in find_words(text):
            written[word] = number = numbers.setdefault(stem(word), len(numbers))
            found.add(number)
        passages.append(tuple(sorted(found)))
        counts.update(found)
    common = {number for word, number in written.items() if word.islower()}
    names = {number for word, number in written.items() if not word[0].isdigit()} - common
    return Weighed(passages, _rate_all(list(numbers), counts, names))


def find_words(text: str) -> list[str]:
    """Find the words of a passage; the number of an item is not one of them."""
    mark = _NUMBER_MARK.match(text)
    return _WORD.findall(text, mark.end() if mark else 0)


# Cached: texts share most of their words.
@lru_cache(maxsize=KNOWN_WORDS_MAX)
def stem(word: str) -> str:
    """Reduce a word to the beginning that it shares with its other forms."""
    lowered = word.lower()
    return lowered[:STEM_CHARS] if lowered.isalpha() else lowered


def _rate_all(stems: Sequence[str], counts: Mapping[int, int], names: set[int]) -> list[float]:
    """Score words: a word that several passages share is worth less to each of them."""
    # A column of measurements is routine, although no two are equal: numbers share their form.
    forms = [_DIGIT.sub("0", each) if each[0].isdigit() else "" for each in stems]
    alike: Counter[str] = Counter()
    for number, form in enumerate(forms):
        alike[form] += counts[number]
    worth = []
    for number, each in enumerate(stems):
        form = forms[number]
        sharers = max(counts[number], math.sqrt(alike[form])) if form else counts[number]
        rated = rate(each) / sharers
        worth.append(rated * NAME_FACTOR if number in names else rated)
    return worth


@lru_cache(maxsize=KNOWN_WORDS_MAX)
def rate(word: str) -> float:
    """Score how rare a word is in general: 0 for the most common, 1 for rare."""
    if word[0].isdigit():
        return NUMBER_WORTH if len(word) > 1 else DIGIT_WORTH
    try:
        rank = load_encoding(VOCABULARY).encode_single_token(f" {word}")
    except KeyError:
        return 1.0
    span = math.log(max(rank, 1) / RANK_COMMON) / math.log(RANK_RARE / RANK_COMMON)
    return min(max(span, COMMON_WORTH), 1.0)
