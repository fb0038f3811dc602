"""Neutral labels: who reads a document does not learn who wrote it. Pure; the session is the seed.

A label tells from which thesis a document descends by a letter, and whose it is by a number; which
letter and number, only the record of the job knows.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Sequence
from uuid import UUID


def _shuffled(seed: str, count: int) -> list[int]:
    numbers = list(range(1, count + 1))
    digest = hashlib.sha256(seed.encode()).digest()
    random.Random(digest).shuffle(numbers)  # noqa: S311  the same in every process, no secret
    return numbers


def build_label(
    header: str, *, session_id: UUID, models: int, origin: int, model_index: int, is_origin: bool
) -> str:
    """Build the label of a document: `Thesis B`, or `Critique B2` for what was made of it."""
    letter = _letters(_shuffled(f"letter:{session_id}", models).index(origin))
    if is_origin:
        return f"{header} {letter}"
    number = _shuffled(f"number:{session_id}", models).index(model_index) + 1
    return f"{header} {letter}{number}"


def _letters(index: int) -> str:
    """Count in letters: A to Z, then AA."""
    rest, last = divmod(index, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("A") + last)


def tell_apart(labels: Sequence[str]) -> list[str]:
    """Number the labels of one reader that are the same: `Draft B2 (1)`, `Draft B2 (2)`."""
    numbers = {label: itertools.count(1) for label in labels}
    return [
        f"{label} ({next(numbers[label])})" if labels.count(label) > 1 else label
        for label in labels
    ]


def order_for_reader(job_id: UUID, items: Sequence[UUID]) -> list[UUID]:
    """Order documents for one reader, so that none is always read first."""
    order = _shuffled(f"order:{job_id}", len(items))
    return [items[number - 1] for number in order]
