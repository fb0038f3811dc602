"""Whether a document follows rulings, by reading it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import numpy as np

from dialectic.core.points import Obedience, Relation
from dialectic.core.process.definition import Holds
from dialectic.provenance.align import Alignment, decide_relation
from dialectic.provenance.ruled_words import RuledWords

_IDLE = (Holds.REFUSED, Holds.ASIDE, Holds.TAKEN)


def judge_obedience(
    alignment: Alignment, document: int, rulings: Sequence[RuledWords]
) -> dict[UUID, Obedience]:
    """Judge whether a document follows each ruling, whose texts are part of the lineage."""
    return {one.id: _judge(alignment, document, one) for one in rulings}


def _judge(alignment: Alignment, document: int, one: RuledWords) -> Obedience:
    upheld, *rejected = [alignment.lineage.find(text.id) for text in one.list_texts()]
    constants = alignment.constants
    is_broken = any(_says(alignment, document, each, constants.sure) for each in rejected)
    if not one.upheld.strip():
        return Obedience.BROKEN if is_broken else Obedience.KEPT
    is_kept = _says(alignment, document, upheld, constants.hop)
    if is_kept == is_broken:
        return Obedience.UNCLEAR
    return Obedience.KEPT if is_kept else Obedience.BROKEN


def _says(alignment: Alignment, document: int, other: int | None, floor: float) -> bool:
    """Say whether a document says what a text says, without changing a figure or negating it."""
    if other is None or not len(alignment.sheets[document]) or not len(alignment.sheets[other]):
        return False
    mine, theirs = alignment.lineage.points[document].points, alignment.lineage.points[other].points
    scores = alignment.score(document, other)
    return any(
        mine[int(here)].holds not in _IDLE
        and decide_relation(mine[int(here)], theirs[int(there)]) is not Relation.CHANGED
        for here, there in zip(*np.nonzero(scores >= floor), strict=True)
    )
