"""Embed texts: load their vectors, or make and pay for them once. Independent of prompts.

The hash of a text is its key. If its vectors are not in the database, one job makes them and other
jobs wait for it. Vectors that cost money are saved in the commit that settles their hold; the
built-in embedders are free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dialectic.core.models.messages import Actual, Counted, judge_usage
from dialectic.core.models.model import ModelCard
from dialectic.core.money.price import Rates
from dialectic.db.pool import Connection
from dialectic.db.tables import compressions, memory
from dialectic.db.tables.compressions import Paid, StoredVectors, VectorsKey, hash_text
from dialectic.ledger import holds
from dialectic.ledger.holds import Purpose
from dialectic.pipeline.call import call_embedder
from dialectic.pipeline.fit.turn import Turn, claim_or_find, save_paid
from dialectic.pipeline.reserve import build_hold
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.retrieval.pieces import CUT_VERSION, Piece, build_reading, cut, cut_evenly

if TYPE_CHECKING:
    from dialectic.retrieval.embedders import Matrix


@dataclass(frozen=True, slots=True)
class Vectors:
    """The pieces of a text and their vectors, with their cost if they are new."""

    pieces: tuple[Piece, ...]
    rows: Matrix
    cost_credits: int = 0


@dataclass(frozen=True, slots=True)
class Library:
    """The vectors that one turn needs."""

    turn: Turn
    _known: dict[str, Vectors] = field(default_factory=dict)

    @property
    def embedder(self) -> Embedder:
        return self.turn.engine.embedder

    async def estimate(self, texts: Sequence[str]) -> int:
        """Estimate the maximum cost of the vectors that do not exist yet."""
        embedder = self.embedder
        if embedder.card is None:
            return 0
        by_hash = {hash_text(text): text for text in texts}
        known = await self.turn.transact(
            lambda c: compressions.list_known_vectors(c, by_hash, name_reading(embedder))
        )
        missing = [text for name, text in by_hash.items() if name not in known]

        def bound(text: str) -> int:
            # Headings are embedded again with each piece, and may be a quarter of it.
            return embedder.count(text) * 4 // 3 + 1

        tokens = await asyncio.to_thread(lambda: sum(map(bound, missing)))
        # Each text is a separate call, and its cost is rounded up.
        return Rates.of(embedder.card).cost(tokens, 0) + len(missing) if tokens else 0

    async def load(self, text: str) -> Vectors:
        """Load the vectors of a text, or make them and return their cost.

        Raises `TextBusy` if another job is making them.
        """
        name = hash_text(text)
        if (known := self._known.get(name)) is not None:
            return known
        key = VectorsKey(name, name_reading(self.embedder))
        tenant_id = self.turn.job.tenant_id
        async with self.turn.engine.turns.lock((tenant_id, self.embedder.name, name)):
            made = await self._find(text, key) or await self._make(text, key)
        # Report the cost only once.
        self._known[name] = replace(made, cost_credits=0)
        return made

    async def _find(self, text: str, key: VectorsKey) -> Vectors | None:
        name = key.content_hash
        found = await self.turn.transact(
            lambda c: compressions.load_vectors(c, [name], key.embedder)
        )
        return unpack(found[name], text, self.embedder.dimensions) if name in found else None

    async def _make(self, text: str, key: VectorsKey) -> Vectors:
        turn, embedder, card = self.turn, self.embedder, self.embedder.card
        if card is not None:
            found = await claim_or_find(
                turn,
                lambda c: compressions.claim_vectors(c, turn.job, key),
                lambda: self._find(text, key),
            )
            if found is not None:
                return found

        def read() -> tuple[tuple[Piece, ...], list[str]]:
            # Cut paid texts as the search index does, so that each can reuse the other's vectors.
            pieces = (cut if card is not None else cut_evenly)(text, embedder)
            return pieces, [build_reading(piece, embedder) for piece in pieces]

        pieces, readings = await asyncio.to_thread(read)
        known = await self._find_indexed(readings) if card is not None else {}
        unread = list(dict.fromkeys(each for each in readings if each not in known))

        def collect(got: Embedded) -> Matrix:
            return _stack(readings, known | dict(zip(unread, got.rows, strict=True)))

        if card is not None and unread:
            got, hold_key, actual = await self._buy(card, key, unread)
            rows = collect(got)

            async def save(connection: Connection, paid: Paid) -> UUID:
                made = pack(pieces, rows, got.tokens)
                row_id = await compressions.save_vectors(connection, turn.job, key, made, paid)
                assert row_id is not None, "we hold the claim while we hold the lease"
                return row_id

            return Vectors(pieces, rows, await save_paid(turn, hold_key, actual, save))
        rows = collect(await embedder.embed(unread) if unread else Embedded(_no_rows(), 0))
        free = pack(pieces, rows, 0)
        await turn.transact(lambda c: compressions.save_vectors(c, turn.job, key, free, Paid()))
        return Vectors(pieces, rows)

    async def _find_indexed(self, readings: Sequence[str]) -> dict[str, list[float]]:
        """Find the vectors that the search index already has."""
        by_hash = {hash_text(each): each for each in readings}
        name, dimensions = self.embedder.name, self.embedder.dimensions
        found = await self.turn.transact(
            lambda c: memory.load_vectors(c, name, dimensions, list(by_hash))
        )
        return {by_hash[name]: vector for name, vector in found.items()}

    async def _buy(
        self, card: ModelCard, key: VectorsKey, readings: list[str]
    ) -> tuple[Embedded, str, Actual]:
        """Reserve money and embed; return the vectors, the hold's key and the usage to settle."""
        turn, embedder = self.turn, self.embedder
        job = turn.job
        counted = await asyncio.to_thread(lambda: sum(map(embedder.count, readings)))
        payment = turn.build_payment(Purpose.EMBEDDING, f"embed:{key.content_hash[:32]}")
        new = build_hold(payment, job, card, counted, 0)

        async def reserve(connection: Connection) -> None:
            if job.attempt > 1:
                await holds.give_up_earlier(connection, job.id, job.attempt)
            await holds.reserve(connection, new)

        got = await call_embedder(
            turn.engine,
            job,
            embedder,
            readings,
            counted_tokens=counted,
            hold=lambda: turn.transact(reserve),
        )
        return got, payment.key, judge_usage((got.tokens, 0), Counted(counted, 0, 0))


# -- storage format -------------------------------------------------------------------------------


def name_reading(embedder: Embedder) -> str:
    """Name what vectors depend on besides the text: embedder, dimensions, cutting method."""
    way = f"cut/{CUT_VERSION}" if embedder.card is not None else f"even/{CUT_VERSION}"
    return f"{embedder.name} {embedder.dimensions} {way}"


def pack(pieces: Sequence[Piece], rows: Matrix, tokens: int) -> StoredVectors:
    """Pack vectors for the database: floats as bytes, pieces as offsets."""
    places: list[Any] = [[p.start, p.end, list(p.heading_path), p.tokens] for p in pieces]
    return StoredVectors(places, rows.astype("<f4").tobytes(), tokens)


def unpack(stored: StoredVectors, text: str, dimensions: int) -> Vectors:
    """Unpack the vectors of a text."""
    import numpy as np

    pieces = tuple(
        Piece(position, start, end, text[start:end], tuple(path), tokens)
        for position, (start, end, path, tokens) in enumerate(stored.pieces)
    )
    rows = np.frombuffer(stored.data, dtype="<f4").astype(np.float32)
    return Vectors(pieces, rows.reshape(len(pieces), dimensions) if pieces else _no_rows())


def _stack(readings: Sequence[str], vectors: Mapping[str, Any]) -> Matrix:
    """Stack vectors in the order of the readings."""
    import numpy as np

    rows = [vectors[each] for each in readings]
    return np.array(rows, dtype=np.float32) if rows else _no_rows()


def _no_rows() -> Matrix:
    import numpy as np

    return np.zeros((0, 0), dtype=np.float32)


def score_likeness(one: Matrix, other: Matrix) -> float:
    """Score the similarity of two texts, from 0 to 1, by the mean vectors of their pieces."""
    import numpy as np

    if not len(one) or not len(other):
        return 0.0
    left, right = one.mean(axis=0), other.mean(axis=0)
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    likeness = float(left @ right) / lengths if lengths else 0.0
    return min(1.0, max(0.0, likeness))
