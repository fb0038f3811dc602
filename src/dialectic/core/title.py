"""The title of a project, taken from its prompt: the first sentence, in whole words. Pure.

Every script is kept as it is written. Folders are transliterated elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from dialectic.core.text import clean_line

# In columns of a terminal: a Chinese character takes two.
TITLE_COLUMNS_MAX = 72
# A clause may replace a sentence that is too long, unless it is shorter than this.
CLAUSE_COLUMNS_MIN = 20
SENTENCE_COLUMNS_MIN = 8
UNTITLED = "project"

_MARKUP = re.compile(r"^(?:[#>*\-+\s]+|\d{1,3}[.)]\s+)+")
_SENTENCE_END = re.compile(
    r"(?<=[.!?\u2026\u06d4\u061f\u0964])(?=\s)|(?<=[\u3002\uff01\uff1f\uff0e])"
)
_CLAUSE_END = re.compile(
    r"(?=[,;:\u2013\u2014]\s|\s[\u2013\u2014(\-]\s?|[\u3001\uff0c\uff1b\uff1a\u060c])"
)
# A full stop after one of these does not end a sentence; nor does one after a single letter.
_ABBREVIATIONS = frozenset(
    "approx bzw ca cf co corp dr e.g eg etc ggf i.e ie inc incl jr ltd max min mr mrs ms no nr "
    "p.m a.m prof sr st usw vs z.b".split()
)


def derive_title(prompt: str) -> str:
    """Derive a title from the first sentence of a prompt."""
    plain = prompt.replace("**", "").replace("`", "")
    lines = (clean_line(_MARKUP.sub("", line).strip("*_\"' \t")) for line in plain.splitlines())
    first = next(filter(None, lines), "")
    # "?" and "!" belong to a title; a full stop does not.
    sentence = next(_list_sentences(first), "").rstrip(" .:;,\u3002\uff0e\u0964\u06d4")
    return shorten(sentence, TITLE_COLUMNS_MAX) or UNTITLED


def shorten(text: str, columns_max: int) -> str:
    """Shorten a text to some columns: after a clause if there is one, else after a whole word."""
    if measure(text) <= columns_max:
        return text
    room = columns_max - 1  # for the ellipsis
    clauses = [text[: end.start()].rstrip() for end in _CLAUSE_END.finditer(text)]
    fitting = [one for one in clauses if CLAUSE_COLUMNS_MIN <= measure(one) <= room]
    if fitting:
        return f"{fitting[-1]}…"
    head = _take(text, room)
    words = head.rsplit(maxsplit=1)
    is_cut = not text[len(head) :].startswith(" ")
    if is_cut and len(words) == 2 and measure(words[0]) >= room // 2:
        head = words[0]
    return f"{head.rstrip()}…"


def measure(text: str) -> int:
    """Count the columns that a text takes in a terminal."""
    return sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _take(text: str, columns_max: int) -> str:
    """Take the beginning of a text, without parting a character from its marks."""
    taken = 0
    for place, character in enumerate(text):
        taken += _width(character)
        if taken > columns_max:
            return text[:place]
    return text


def _list_sentences(line: str) -> Iterator[str]:
    """List how far the first sentence may reach, shortest first; the last is the whole line."""
    for end in _SENTENCE_END.finditer(line):
        sentence = line[: end.start()].strip()
        last = sentence.rsplit(maxsplit=1)[-1].rstrip(".").lstrip("(\"'").lower()
        is_short = sentence.endswith(".") and (len(last) == 1 or last in _ABBREVIATIONS)
        if not is_short and measure(sentence) >= SENTENCE_COLUMNS_MIN:
            yield sentence
    yield line
