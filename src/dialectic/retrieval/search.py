"""Searching for a purpose: questions from several angles, one superset, diverse pieces of it.

What is asked is decided here (pure), the caller pays for its vectors, and then the database is
asked. Knows no money.
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
from dialectic.retrieval.base import Embedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dialectic.retrieval.base import Matrix

# How much words count compared with vectors, from 0 to 2: as measured, and for other embedders a
# careful guess, because strong ones need words less.
WORD_WEIGHTS = {"builtin/static": 1.1, "builtin/minilm": 1.0}
WORD_WEIGHT = 0.7
# Relevance against novelty. Less costs more than it gains: 0.7 loses a sixth of the quality.
DIVERSITY_LAMBDA = 0.9
# How many pieces each question brings, for each one that is wanted; and at least.
SUPERSET_FACTOR = 3
SUPERSET_MIN = 50
# A need may be a long prompt: the start and the end of it say what it is about.
NEED_CHARS_MAX = 4_000


class Angle(enum.Enum):
    """How a need is looked at, with what is said in front of it, and how much it counts."""

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
    """One question, as it is put to the embedder and to the keyword half."""

    angle: Angle
    text: str


def build_queries(
    need: str, embedder: Embedder, angles: Sequence[Angle] = ALL_ANGLES
) -> tuple[Query, ...]:
    """Build the questions that a need asks, none longer than the embedder reads."""
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
    """Find the pieces that answer the questions best and say different things, best first.

    Their scores are from 0 to 1. `rows` are the questions' vectors, in their order.
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
    # Comparing hundreds of pieces takes a while, and others wait for the event loop.
    return await asyncio.to_thread(choose, answers, weights, limit)


def choose(answers: Sequence[Sequence[Match]], weights: Sequence[float], limit: int) -> list[Match]:
    """Join the answers to one superset, and choose from it the best that differ. Pure."""
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
    """Choose places by maximal marginal relevance: each next one is relevant and unlike the rest.

    `rows` are unit vectors. What is worth as much comes in the order it was given in.
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
    """Put pieces into the order of their sources, and within each into the text's own."""
    places = {source_id: place for place, source_id in enumerate(sources)}
    return sorted(found, key=lambda piece: (places[piece.source_id], piece.position))
