"""Figures and negations of a point: what makes two similar sentences say different things. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from dialectic.retrieval.weigh import find_words, stem

# Figures that differ by at most this share of the larger one are rounded.
ROUNDED = 0.1
# Two points are in the same words if they share this much of the shorter one's.
SAME_WORDS = 0.75

_NUMBER = re.compile(
    # Scripts without blanks have letters next to a number.
    r"(?<![.,:/-])(?<![^\W\u2e80-\u9fff\uac00-\ud7af])"
    r"(?P<sign>[-−](?=\d))?"
    r"(?P<money>[€$£¥])?\s?"
    r"(?P<digits>\d{1,3}(?:[,.'’\u00a0\u202f ]\d{3})+(?:[.,]\d{1,2})?(?!\d)|\d+(?:[.,:]\d+)*)"
    r"(?P<scale>k|K|M|bn|m(?=illion)|b(?=illion))?"
    r"(?:[\s\u00a0\u202f]?(?P<percent>%|percent\b|per cent\b|Prozent\b))?"
    r"(?:[\s-]?(?P<unit>[\u2e80-\u9fff\uac00-\ud7af]|[^\W\d_]+))?"
)
_GROUPED = re.compile(r"\d{1,3}(?:[,.'’\u00a0\u202f ]\d{3})+(?=$|[.,]\d{1,2}$)")
_SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6, "b": 1e9, "bn": 1e9}
_SCALE_WORDS = {
    "thousand": 1e3,
    "tausend": 1e3,
    "million": 1e6,
    "millionen": 1e6,
    "billion": 1e9,
    "milliarden": 1e9,
}
_WORDS = {
    word: float(number)
    for number, words in {
        2: "two zwei",
        3: "three drei",
        4: "four vier",
        5: "five fünf",
        6: "six sechs",
        7: "seven sieben",
        8: "eight acht",
        9: "nine neun",
        10: "ten zehn",
        11: "eleven elf",
        12: "twelve zwölf dozen dutzend",
        15: "fifteen fünfzehn fortnight",
        20: "twenty zwanzig",
        30: "thirty dreißig",
        40: "forty vierzig",
        50: "fifty fünfzig",
        60: "sixty sechzig",
        70: "seventy siebzig",
        80: "eighty achtzig",
        90: "ninety neunzig",
        100: "hundred hundert",
    }.items()
    for word in words.split()
}
_WORD_NUMBER = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)
_NEGATION = re.compile(
    r"\b(?:not|no(?:body|ne|thing|r)?|never|neither|without|cannot|forbids?|forbidden|"
    r"refuses?|nicht|nichts|nie|niemals|niemand|kein\w{0,2}|weder|ohne|"
    r"ne|pas|jamais|aucune?|sans|nunca|sin|ningun\w?|не|нет|никогда|без|нельзя)\b"
    r"|n['’]t\b|[不没無无未非]|ない|ません",
    re.IGNORECASE,
)

# A limit is not a negation: “no family gets more than 40” says what “up to 40” says.
_LIMIT = re.compile(
    r"\b(?:no|not|never|cannot|kein\w{0,2}|nicht|nie)\b[^.;:!?]{0,40}?"
    r"\b(?:more|less|fewer|longer|later|earlier|sooner|larger|higher|lower|mehr|weniger|länger|"
    r"später|früher|höher)\s+(?:than|als)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A number in a text, in a normal form: `1,200`, `1200` and `1.2k` are equal."""

    value: float
    unit: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Marks:
    """What a point asserts besides its words."""

    figures: frozenset[float]
    is_negated: bool
    # Its other words.
    stems: frozenset[str]


@lru_cache(maxsize=20_000)
def read_marks(normal: str) -> Marks:
    """Read the figures and the negation of a point's normal form."""
    return Marks(
        frozenset(figure.value for figure in find_figures(normal, spelled=True)),
        _NEGATION.search(_LIMIT.sub(" ", normal)) is not None,
        frozenset(map(stem, find_words(_NEGATION.sub(" ", normal)))),
    )


def find_figures(text: str, *, spelled: bool = False) -> list[Figure]:
    """Find the figures of a text, in order; `spelled` also finds numbers written as words."""
    found = [
        Figure(_read_value(one), _read_unit(one), one.start("digits"), one.end())
        for one in _NUMBER.finditer(text)
    ]
    if spelled:
        found += [
            Figure(_WORDS[one[0].lower()], "", one.start(), one.end())
            for one in _WORD_NUMBER.finditer(text)
        ]
    return found


def _read_value(found: re.Match[str]) -> float:
    """Read a number; dates and versions, which have several points, become one odd number."""
    digits = found["digits"]
    if _GROUPED.match(digits):
        whole = re.sub(r"[,.'’\u00a0\u202f ](?=\d{3})", "", digits)
        value = float(whole.replace(",", "."))
    elif re.fullmatch(r"\d+(?:[.,]\d+)?", digits):
        value = float(digits.replace(",", "."))
    else:  # a time, a version or a date: equal only to itself
        parts = [int(part) for part in re.split(r"[.,:]", digits)]
        value = sum(part * 1e-4**place for place, part in enumerate(parts)) + 0.5e-12
    scale = _SCALES.get(found["scale"] or "", 1.0)
    scale *= _SCALE_WORDS.get((found["unit"] or "").lower(), 1.0) if scale == 1.0 else 1.0
    return round(value * scale * (-1 if found["sign"] else 1), 9)


def _read_unit(found: re.Match[str]) -> str:
    if found["percent"]:
        return "%"
    return found["money"] or (found["unit"] or "").lower()


def is_changed(one: Marks, other: Marks) -> bool:
    """Return whether each has a figure that the other lacks, or only one negates."""
    return _differs_by_figure(one, other) or is_opposite(one, other)


def is_opposite(one: Marks, other: Marks) -> bool:
    """Return whether only one negates, in much the same words.

    In other words a negation moves: “only the group can” is “no one but the group can”.
    """
    if one.is_negated is other.is_negated:
        return False
    fewer = min(len(one.stems), len(other.stems))
    return len(one.stems & other.stems) >= SAME_WORDS * max(fewer, 1)


def is_rounded(one: Marks, other: Marks) -> bool:
    """Return whether their only difference is that figures are rounded."""
    if is_opposite(one, other) or not _differs_by_figure(one, other):
        return False
    return all(_has_near(value, other) for value in one.figures - other.figures) and all(
        _has_near(value, one) for value in other.figures - one.figures
    )


def _differs_by_figure(one: Marks, other: Marks) -> bool:
    return bool(one.figures - other.figures) and bool(other.figures - one.figures)


def _has_near(value: float, marks: Marks) -> bool:
    return any(abs(value - each) <= ROUNDED * max(abs(value), abs(each)) for each in marks.figures)
