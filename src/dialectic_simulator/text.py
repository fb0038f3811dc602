"""The document of a conversation, and where it continues. Knows no tokens and no wire.

A model that is shown half a document writes the other half. So does this one: it finds the text so
far in the document of the conversation's opening, and answers with what follows.
"""

from __future__ import annotations

import functools
import re

from dialectic.providers.offline.provider import compose_document, read_conversation
from dialectic_simulator.conversation import Ask
from dialectic_simulator.script import Manner

_TAIL_CHARS = (200, 80, 30, 12)
_SPACE = re.compile(r"\s+")
_WORD = re.compile(r"\S")

read_opening = functools.lru_cache(maxsize=64)(read_conversation)
compose_cached = functools.lru_cache(maxsize=64)(compose_document)


def write_document(ask: Ask, manner: Manner, *, seed: int, edition: int) -> str:
    """Write the whole document that answers a conversation."""
    if manner.text is not None:
        return manner.text
    task, _ = read_opening(ask.turns)
    variant = " ".join(filter(None, [ask.variant, str(edition)]))
    document = compose_cached(ask.model, ask.system, task, seed=str(seed), variant=variant)
    # A prompt may contain a lone surrogate, and a document may quote it.
    return document.encode("utf-8", "replace").decode()


def read_written(ask: Ask) -> str:
    """Find the part of the document in the turns so far."""
    return read_opening(ask.turns)[1]


def choose_edition(ask: Ask, manner: Manner, *, seed: int, editions: int) -> int:
    """Find which of several documents a conversation continues: the one that begins like it."""
    written = read_written(ask)

    def likeness(edition: int) -> int:
        document = write_document(ask, manner, seed=seed, edition=edition)
        return measure_common(document, written)

    return max(range(1, max(1, editions) + 1), key=likeness)


def decide_rest(document: str, written: str, manner: Manner) -> str:
    """Decide the remaining text: the document, or what follows the turns so far."""
    if not written or manner.restart or manner.fault == "continuation_restarts":
        return document
    if manner.empty:
        return ""
    place = measure_written(document, written)
    if place == len(document) and is_endless(manner):
        return _build_note(written)
    return manner.preamble + document[max(0, place - manner.overlap) :]


def is_endless(manner: Manner) -> bool:
    """Return whether a document is endless."""
    return manner.always_length or manner.fault == "always_length"


def measure_written(document: str, written: str) -> int:
    """Find how much of a document was sent, even if it was trimmed, shortened or edited."""
    if document.startswith(written):
        return len(written)
    if (place := _find_place_in_words(document, written)) is not None:
        return place
    for chars in _TAIL_CHARS:
        tail = written[-chars:]
        # Turns are only ever shortened: the true position is at or after the written length.
        start = document.find(tail, max(0, len(written) - len(tail)))
        start = start if start >= 0 else document.rfind(tail)
        if start >= 0:
            return start + len(tail)
    return measure_common(document, written)


def _find_place_in_words(document: str, written: str) -> int | None:
    """Find the end of the text so far if it differs only in blanks and line ends."""
    said = _SPACE.sub("", written)
    if not _SPACE.sub("", document).startswith(said):
        return None
    place = 0
    for count, match in enumerate(_WORD.finditer(document), start=1):
        place = match.end()
        if count == len(said):
            break
    return place if said else 0


def measure_common(a: str, b: str) -> int:
    """Measure the length of the common prefix of two texts."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _build_note(written: str) -> str:
    """Build one more paragraph for an endless document."""
    return (
        f"\n\nNote at {len(written)} characters: there is more to say about this, and what was said"
        f" up to here, {len(written.split())} words in all, is not the end of it."
    )
