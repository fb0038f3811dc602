"""Search for a purpose: queries from several angles, merged results, diverse pieces of them.

This module builds the queries (pure), the caller pays for their vectors, and then PostgreSQL runs
the search. Knows no money.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.tables import memory
from dialectic.db.tables.memory import Match, Question, Scope
from dialectic.retrieval.embedders import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.embedders import Matrix

# The weight of keywords compared with vectors, from 0 to 2: measured, and a conservative guess for
# other embedders, because strong ones need keywords less.
WORD_WEIGHTS = {"builtin/static": 1.1, "builtin/minilm": 1.0}
WORD_WEIGHT = 0.7
# Relevance against novelty. A lower value costs more than it gains: 0.7 loses a sixth of quality.
DIVERSITY_LAMBDA = 0.9
# How many pieces each query returns, per wanted piece; and the minimum.
SUPERSET_FACTOR = 3
SUPERSET_MIN = 50
# A need may be a long prompt: its start and its end say what it is about.
NEED_CHARS_MAX = 4_000


class Angle(enum.Enum):
    """An angle on a need: the prefix of its query, and its weight."""

    BROAD = ("", 1.0)
    NOVEL = ("New, unusual, original or surprising, found nowhere else: ", 0.4)
    CONFLICTING = ("Contradicts, doubts, objects, risks, fails, disagrees, however: ", 0.4)

    @property
    def opening(self) -> str:
        return self.value[0]

    @property
    def weight(self) -> float:
        return self.value[1]


ALL_ANGLES = tuple(Angle)


@dataclass(frozen=True, slots=True)
class Query:
    """One query, for the embedder and for the keyword search."""

    angle: Angle
    text: str


def build_queries(
    need: str, embedder: Embedder, angles: Sequence[Angle] = ALL_ANGLES
) -> tuple[Query, ...]:
    """Build the queries for a need, none longer than the embedder's limit."""
    words = " ".join(shorten(need, NEED_CHARS_MAX).split())
    return tuple(
        Query(angle, angle.opening + _fit(words, embedder, embedder.count(angle.opening)))
        for angle in angles
    )


def shorten(text: str, chars_max: int) -> str:
    """Shorten a text to its start and its end."""
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]} {text[len(text) - half :]}"


def _fit(words: str, embedder: Embedder, opening_tokens: int) -> str:
    room = max(embedder.piece_tokens_max - opening_tokens, 1)
    while words.strip() and (tokens := embedder.count(words)) > room:
        words = shorten(words, min(len(words) * room // (tokens + 1), len(words) - 2))
    return words


async def find(
    db: Database,
    tenant_id: UUID,
    embedder: Embedder,
    scope: Scope,
    queries: Sequence[Query],
    rows: Matrix,
    *,
    limit: int,
) -> list[Match]:
    """Find the pieces that answer the queries best and differ from each other, best first.

    Their scores are from 0 to 1. `rows` are the vectors of the queries, in order.
    """
    wanted = max(limit * SUPERSET_FACTOR, SUPERSET_MIN)
    questions = [
        Question(
            embedding_model=embedder.name,
            vector=row.tolist(),
            words=query.text.removeprefix(query.angle.opening),
            word_weight=WORD_WEIGHTS.get(embedder.name, WORD_WEIGHT),
            limit=wanted,
        )
        for query, row in zip(queries, rows, strict=True)
    ]

    async def look(connection: Connection) -> list[list[Match]]:
        return [await memory.match_chunks(connection, scope, asked) for asked in questions]

    answers = await db.transact(tenant_id, look)
    weights = [query.angle.weight for query in queries]
    # In a thread: comparing hundreds of pieces would block the event loop.
    return await asyncio.to_thread(choose, answers, weights, limit)


def choose(answers: Sequence[Sequence[Match]], weights: Sequence[float], limit: int) -> list[Match]:
    """Merge the results, and choose the best pieces that differ. Pure."""
    import numpy as np

    scores: dict[int, float] = {}
    matches: dict[int, Match] = {}
    for answer, weight in zip(answers, weights, strict=True):
        for match in answer:
            matches.setdefault(match.id, match)
            scores[match.id] = scores.get(match.id, 0.0) + weight * match.score
    if not matches:
        return []
    best = max(scores.values())
    ids = sorted(matches, key=lambda key: (-scores[key], key))
    relevance = np.asarray([scores[key] / best for key in ids])
    rows = np.asarray([matches[key].vector for key in ids], dtype=np.float32)
    return [
        replace(matches[ids[place]], score=float(relevance[place]))
        for place in choose_diverse(relevance, rows, limit)
    ]


def choose_diverse(
    relevance: NDArray[np.float64],
    rows: Matrix,
    limit: int,
    *,
    trade: float = DIVERSITY_LAMBDA,
) -> list[int]:
    """Choose indices by maximal marginal relevance: each is relevant and unlike the previous ones.

    `rows` are unit vectors. Ties keep the given order.
    """
    import numpy as np

    chosen: list[int] = []
    nearest = np.zeros(len(relevance))
    is_open = np.ones(len(relevance), dtype=bool)
    while len(chosen) < min(limit, len(relevance)):
        worth = np.where(is_open, trade * relevance - (1 - trade) * nearest, -np.inf)
        place = int(worth.argmax())
        chosen.append(place)
        is_open[place] = False
        nearest = np.maximum(nearest, rows @ rows[place])
    return chosen


def order_for_reading(found: Sequence[Match], sources: Sequence[UUID]) -> list[Match]:
    """Sort pieces by source, and within each source by position."""
    places = {source_id: place for place, source_id in enumerate(sources)}
    return sorted(found, key=lambda piece: (places[piece.source_id], piece.position))
