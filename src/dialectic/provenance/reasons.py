"""The reason that an item gives for a refusal: what it says besides the words it refuses. Pure."""

from __future__ import annotations

import re

from dialectic.provenance.points import normalize
from dialectic.retrieval.weigh import find_words, stem

# A refusal with fewer words of reason is empty.
REASON_WORDS_MIN = 4

_QUOTED = re.compile(
    "\u201c[^\u201c\u201d]*\u201d|\u201e[^\u201e\u201c\u201d]*[\u201c\u201d]|\u00ab[^\u00ab\u00bb]*\u00bb"
    '|\u300c[^\u300c\u300d]*\u300d|"[^"\n]*"'
)
_NUMBER = re.compile(r"\b[A-Z]{1,3}-?\d{1,4}\b\s*[:.)]?")
_LEAD = re.compile(
    r"^[\s:;,.–—-]*(?:(?:the )?(?:reason|severity|grund|refused|rejected|abgelehnt)\b"
    r"[\s:;,.–—-]*)*",
    re.IGNORECASE,
)
_SPLIT = re.compile(r":\s|\s[–—-]\s|;\s|\.\s|,\s(?=(?:because|since|as|weil|da)\b)|\s\(")


def read_reason(written: str, refused: str, labels: frozenset[str] = frozenset()) -> str:
    """Read the reason from an item that refuses something."""
    bare = _QUOTED.sub(" ", written)
    if bare != written:
        rest = _NUMBER.sub(" ", normalize(bare, labels)[0])
    else:
        rest = _drop_refused(normalize(written, labels)[0], refused)
    return _LEAD.sub("", " ".join(rest.split())).strip()


def _drop_refused(text: str, refused: str) -> str:
    """Drop the parts of a text that repeat what is refused."""
    known = {stem(word) for word in find_words(refused)}
    parts = [part for part in _SPLIT.split(_NUMBER.sub(" ", text)) if part.strip()]
    kept = []
    for part in parts:
        stems = [stem(word) for word in find_words(part)]
        shared = sum(each in known for each in stems)
        if stems and shared * 2 <= len(stems):
            kept.append(part.strip())
    return "; ".join(kept)


def is_empty_reason(reason: str) -> bool:
    """Return whether a reason says nothing: it has too few words."""
    return len(find_words(reason)) < REASON_WORDS_MIN
