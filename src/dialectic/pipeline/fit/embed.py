"""Embed: the vectors of a text, found or made once and paid for. Knows nothing of prompts.

A text is known by what stands in it. Whoever needs its vectors finds them in the database; else one
job makes them, and others who need the same wait for it. What costs money is held, made and saved
in the commit that settles it; the built-in embedders cost nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from dialectic.core.job import Job
from dialectic.core.models.model import ModelCard
from dialectic.core.models.usage import Actual, Counted, judge_usage
from dialectic.core.money.price import Rates
from dialectic.db.pool import Connection
from dialectic.db.tables import compressions, jobs, memory
from dialectic.db.tables.compressions import Paid, StoredVectors, VectorsKey, hash_text
from dialectic.engine import Engine
from dialectic.errors import TextBusy
from dialectic.ledger import holds
from dialectic.ledger.holds import HoldState, Purpose, derive_side_key
from dialectic.limits.admission import Outcome, Report
from dialectic.pipeline.call import attempt
from dialectic.pipeline.reserve import build_hold
from dialectic.retrieval.base import Embedded, Embedder, Piece
from dialectic.retrieval.pieces import CUT_VERSION, build_reading, cut, cut_evenly

if TYPE_CHECKING:
    from dialectic.retrieval.base import Matrix

# When to look again whether another job has made what this one needs.
BUSY_S = 1.0


@dataclass(frozen=True, slots=True)
class Vectors:
    """The pieces of a text and their vectors; what they cost if they were made just now."""

    pieces: tuple[Piece, ...]
    rows: Matrix
    cost_credits: int = 0


@dataclass(frozen=True, slots=True)
class Library:
    """The vectors that one job needs."""

    engine: Engine
    job: Job
    wallet_id: UUID
    _known: dict[str, Vectors] = field(default_factory=dict)

    async def estimate(self, texts: Sequence[str]) -> int:
        """Estimate what the vectors of these texts cost that are not there yet, at most."""
        card = self.engine.embedder.card
        if card is None:
            return 0
        missing = await self._list_missing(texts)
        tokens = await asyncio.to_thread(lambda: sum(map(self._bound_tokens, missing)))
        rates = Rates.of(card)
        # Each text is a call of its own, and rounded up by itself.
        return rates.cost(tokens, 0) + len(missing) if tokens else 0

    def _bound_tokens(self, text: str) -> int:
        # Headings are read once more with each piece, and may take a quarter of it.
        return self.engine.embedder.count(text) * 4 // 3 + 1

    async def _list_missing(self, texts: Sequence[str]) -> list[str]:
        by_hash = {hash_text(text): text for text in texts}

        async def work(connection: Connection) -> set[str]:
            return await compressions.list_known_vectors(
                connection, by_hash, name_reading(self.engine.embedder)
            )

        known = await self.engine.db.transact(self.job.tenant_id, work)
        return [text for name, text in by_hash.items() if name not in known]

    async def load(self, text: str) -> Vectors:
        """Load the vectors of a text; those that nobody has made are made now, and say their cost.

        Raises `TextBusy` if a job elsewhere is making them.
        """
        name = hash_text(text)
        if (known := self._known.get(name)) is not None:
            return known
        async with self.engine.turns.lock((self.job.tenant_id, self.engine.embedder.name, name)):
            made = await self._find(text, name) or await self._make(text, name)
        # They are told as paid for once, however often they are needed.
        self._known[name] = replace(made, cost_credits=0)
        return made

    async def _find(self, text: str, name: str) -> Vectors | None:
        embedder = self.engine.embedder

        async def work(connection: Connection) -> dict[str, StoredVectors]:
            return await compressions.load_vectors(connection, [name], name_reading(embedder))

        stored = (await self.engine.db.transact(self.job.tenant_id, work)).get(name)
        return None if stored is None else unpack(stored, text, embedder.dimensions)

    async def _make(self, text: str, name: str) -> Vectors:
        embedder = self.engine.embedder
        key = VectorsKey(name, name_reading(embedder))
        if embedder.card is not None and (found := await self._claim(text, key)) is not None:
            return found

        def read() -> tuple[tuple[Piece, ...], list[str]]:
            # What costs money is cut as the index cuts it: neither reads what the other has read.
            pieces = (cut if embedder.card is not None else cut_evenly)(text, embedder)
            return pieces, [build_reading(piece, embedder) for piece in pieces]

        pieces, readings = await asyncio.to_thread(read)
        if embedder.card is None:
            rows = (await embedder.embed(readings)).rows if readings else _no_rows()
            await self._save_free(key, pack(pieces, rows, 0))
            return Vectors(pieces, rows)
        indexed = await self._find_indexed(readings)
        unread = list(dict.fromkeys(each for each in readings if each not in indexed))
        if not unread:
            rows = _stack(readings, indexed)
            await self._save_free(key, pack(pieces, rows, 0))
            return Vectors(pieces, rows)

        def collect(got: Embedded) -> Matrix:
            return _stack(readings, indexed | dict(zip(unread, got.rows, strict=True)))

        return await self._buy(embedder.card, key, pieces, unread, collect)

    async def _find_indexed(self, readings: Sequence[str]) -> dict[str, Any]:
        """Find the vectors of words that stand in the index of a search already."""
        by_hash = {hash_text(each): each for each in readings}
        embedder = self.engine.embedder

        async def work(connection: Connection) -> dict[str, list[float]]:
            return await memory.load_vectors(
                connection, embedder.name, embedder.dimensions, list(by_hash)
            )

        found = await self.engine.db.transact(self.job.tenant_id, work)
        return {by_hash[name]: vector for name, vector in found.items()}

    async def _claim(self, text: str, key: VectorsKey) -> Vectors | None:
        """Claim the making of vectors that cost money, or find them made."""

        async def work(connection: Connection) -> bool:
            return await compressions.claim_vectors(connection, self.job, key)

        if await self.engine.db.transact(self.job.tenant_id, work):
            return None
        found = await self._find(text, key.content_hash)
        if found is None:
            raise TextBusy("Another job is reading a text that this one needs.", wait_s=BUSY_S)
        return found

    async def _save_free(self, key: VectorsKey, made: StoredVectors) -> None:
        async def work(connection: Connection) -> None:
            await compressions.save_vectors(connection, self.job, key, made, Paid())

        await self.engine.db.transact(self.job.tenant_id, work)

    async def _buy(
        self,
        card: ModelCard,
        key: VectorsKey,
        pieces: tuple[Piece, ...],
        readings: list[str],
        collect: Callable[[Embedded], Matrix],
    ) -> Vectors:
        """Hold, ask, and save with the settlement: one commit before, one after."""
        engine, job, embedder = self.engine, self.job, self.engine.embedder
        counted = await asyncio.to_thread(lambda: sum(map(embedder.count, readings)))
        hold_key = derive_side_key(
            job.id, attempt=job.attempt, what=f"embed:{key.content_hash[:32]}"
        )
        new = build_hold(hold_key, job, card, self.wallet_id, counted, 0, purpose=Purpose.EMBEDDING)

        async def reserve(connection: Connection) -> None:
            if job.attempt > 1:
                await holds.give_up_earlier(connection, job.id, job.attempt)
            await holds.reserve(connection, new)

        _, got, _ = await attempt(
            engine,
            job,
            card,
            hold=lambda: engine.db.transact(job.tenant_id, reserve),
            ask=lambda _: embedder.embed(readings),
            count=lambda: counted,
            tell=lambda got: Report(Outcome.ANSWERED, got.tokens),
        )
        actual = judge_usage((got.tokens, 0), Counted(counted, 0, 0))
        rows = collect(got)
        cost = await self._save_paid(key, pack(pieces, rows, got.tokens), hold_key, actual)
        return Vectors(pieces, rows, cost)

    async def _save_paid(
        self, key: VectorsKey, made: StoredVectors, hold_key: str, actual: Actual
    ) -> int:
        engine, job = self.engine, self.job

        async def save(connection: Connection) -> int:
            await jobs.hold_lease(connection, job)
            hold = await holds.load_hold(connection, hold_key)
            if hold.state is HoldState.POSTED:
                # The commit of a moment ago went through although we were not told.
                return hold.charged_credits or 0
            cost = hold.rates.cost(actual.input_tokens, 0)
            row_id = await compressions.save_vectors(
                connection, job, key, made, Paid(min(cost, hold.amount_credits), hold_key)
            )
            assert row_id is not None, "the claim is ours as long as the lease is"
            settled = await holds.settle(connection, hold_key, actual, row_id)
            engine.failpoints.reach("before_commit")
            return settled.charged_credits or 0

        return await engine.db.transact(job.tenant_id, save)


# -- as they are kept -----------------------------------------------------------------------------


def name_reading(embedder: Embedder) -> str:
    """Name what vectors depend on beside the text: who makes them, their size, how it is cut."""
    way = f"cut/{CUT_VERSION}" if embedder.card is not None else f"even/{CUT_VERSION}"
    return f"{embedder.name} {embedder.dimensions} {way}"


def pack(pieces: Sequence[Piece], rows: Matrix, tokens: int) -> StoredVectors:
    """Pack vectors for the database: all numbers as bytes, the pieces by their places."""
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
    """Put vectors into the order of what was read."""
    import numpy as np

    rows = [vectors[each] for each in readings]
    return np.array(rows, dtype=np.float32) if rows else _no_rows()


def _no_rows() -> Matrix:
    import numpy as np

    return np.zeros((0, 0), dtype=np.float32)


def score_likeness(one: Matrix, other: Matrix) -> float:
    """Score how much two texts are about the same, from 0 to 1, by the vectors of their pieces."""
    import numpy as np

    if not len(one) or not len(other):
        return 0.0
    left, right = one.mean(axis=0), other.mean(axis=0)
    lengths = float(np.linalg.norm(left) * np.linalg.norm(right))
    likeness = float(left @ right) / lengths if lengths else 0.0
    return min(1.0, max(0.0, likeness))
