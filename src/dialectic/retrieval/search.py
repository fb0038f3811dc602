"""Search for a purpose: queries from several angles, merged results, diverse pieces of them.

This module builds the queries (pure), the caller pays for their vectors, and then PostgreSQL runs
the search. Knows no money.
"""

from __future__ import annotations

import asyncio
import enum
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
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


# The vector of an angle lies between those of the need and of the angle's cues: the need's share.
# With these figures two angles have less than half of their first 50 pieces in common; `make bench
# BENCH=quality` measures that, and how well the union ranks.
NEED_SHARE = 0.6
# The share of the need's words that an angle's keyword search adds to the cues: the longest, which
# are the rarest. The whole need would find the same pieces from every angle.
WORDS_SHARE = 1 / 3
WORDS_MIN = 3
WORD_CHARS_MIN = 4
# The need alone ranks the first places: there an angle with any weight costs quality. After them
# every fifth piece is the best of an angle, in turn.
FIRST_PLACES = 10
ANGLE_EVERY = 5


class Angle(enum.Enum):
    """An angle on a need: the cues that its query adds."""

    BROAD = ""
    NOVEL = (
        "new unusual original surprising unlike alternative instead only first unique different "
        "idea"
    )
    CONFLICTING = (
        "contradict doubt object risk fail disagree however wrong but cannot unless problem"
    )

    @property
    def cues(self) -> str:
        return self.value


ALL_ANGLES = tuple(Angle)


@dataclass(frozen=True, slots=True)
class Query:
    """One query: what the embedder reads, and the words of the keyword search.

    From an angle, the embedder reads the cues alone: they are the same for every need, so their
    vector is made and paid for once. `turn_rows` adds the need.
    """

    angle: Angle
    text: str
    words: str


def build_queries(
    need: str, embedder: Embedder, angles: Sequence[Angle] = ALL_ANGLES
) -> tuple[Query, ...]:
    """Build the queries for a need, none longer than the embedder's limit."""
    words = _fit(" ".join(shorten(need, NEED_CHARS_MAX).split()), embedder)
    telling = choose_words(words)
    return tuple(
        Query(angle, angle.cues, f"{angle.cues} {telling}")
        if angle.cues
        else Query(angle, words, words)
        for angle in angles
    )


def choose_words(text: str) -> str:
    """Choose the longest words of a text, in its order; equal lengths keep the first ones."""
    known = [word for word in re.findall(r"\w+", text) if len(word) >= WORD_CHARS_MIN]
    words = list(dict.fromkeys(known))
    count = max(WORDS_MIN, round(len(words) * WORDS_SHARE))
    longest = set(sorted(words, key=len, reverse=True)[:count])
    return " ".join(word for word in words if word in longest)


def turn_rows(queries: Sequence[Query], rows: Matrix) -> Matrix:
    """Turn the vectors of angles towards the need, which the first query without cues asks."""
    import numpy as np

    needs = [row for query, row in zip(queries, rows, strict=True) if not query.angle.cues]
    if not needs:
        return rows
    turned = [
        NEED_SHARE * needs[0] + (1 - NEED_SHARE) * row if query.angle.cues else row
        for query, row in zip(queries, rows, strict=True)
    ]
    lengths = [max(float(np.linalg.norm(row)), 1e-9) for row in turned]
    return np.asarray([row / n for row, n in zip(turned, lengths, strict=True)], dtype=np.float32)


def shorten(text: str, chars_max: int) -> str:
    """Shorten a text to its start and its end."""
    if len(text) <= chars_max:
        return text
    half = chars_max // 2
    return f"{text[:half]} {text[len(text) - half :]}"


def _fit(words: str, embedder: Embedder) -> str:
    room = embedder.piece_tokens_max
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
            words=query.words,
            word_weight=WORD_WEIGHTS.get(embedder.name, WORD_WEIGHT),
            limit=wanted,
        )
        for query, row in zip(queries, turn_rows(queries, rows), strict=True)
    ]

    async def look(connection: Connection) -> list[list[Match]]:
        return [await memory.match_chunks(connection, scope, asked) for asked in questions]

    answers = await db.transact(tenant_id, look)
    # In a thread: comparing hundreds of pieces would block the event loop.
    return await asyncio.to_thread(choose, answers, limit)


def choose(answers: Sequence[Sequence[Match]], limit: int) -> list[Match]:
    """Merge the results, and choose the best pieces that differ. Pure.

    The first result is that of the need, which decides the scores; the others are angles on it,
    which get their own places.
    """
    import numpy as np

    matches = {match.id: match for answer in reversed(answers) for match in answer}
    if not matches:
        return []
    scores = dict.fromkeys(matches, 0.0) | {match.id: match.score for match in answers[0]}
    best = max(scores.values()) or 1.0
    ids = sorted(matches, key=lambda key: (-scores[key], key))
    relevance = np.asarray([scores[key] / best for key in ids])
    rows = np.asarray([matches[key].vector for key in ids], dtype=np.float32)
    worth = dict(zip(ids, relevance, strict=True))
    best_first = [ids[place] for place in choose_diverse(relevance, rows, limit)]
    angles = [[match.id for match in answer] for answer in answers[1:]]
    return [
        replace(matches[key], score=float(worth[key]))
        for key in share_places(best_first, angles, limit)
    ]


def share_places(
    best_first: Sequence[int], angles: Sequence[Sequence[int]], limit: int
) -> list[int]:
    """Give every fifth place after the first ones to the best unused piece of an angle, in turn."""
    chosen: dict[int, None] = {}
    best, turns = iter(best_first), cycle(map(iter, angles))
    while len(chosen) < limit:
        is_angles = bool(angles) and len(chosen) >= FIRST_PLACES
        is_angles = is_angles and len(chosen) % ANGLE_EVERY == ANGLE_EVERY - 1
        found = _find_unused(next(turns), chosen) if is_angles else None
        found = _find_unused(best, chosen) if found is None else found
        if found is None:
            break
        chosen[found] = None
    return list(chosen)


def _find_unused(keys: Iterator[int], used: Container[int]) -> int | None:
    return next((key for key in keys if key not in used), None)


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
