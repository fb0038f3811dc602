"""Index on demand: cut, embed and store what is missing, in that order.

Two phases, so that the caller can pay in between: `prepare` finds what an embedder has not read yet
and how many tokens that is; `index` embeds and stores it. Indexing is idempotent, and concurrent
callers do the work once. Texts embedded before reuse their vectors, whatever their source. Knows
no money.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.tables import memory
from dialectic.db.tables.memory import NewPiece, NewSource
from dialectic.retrieval.embedders import Embedded, Embedder
from dialectic.retrieval.pieces import CUT_VERSION, build_reading, cut

Pay: TypeAlias = Callable[[Connection], Awaitable[None]]
"""Pays for the embedding, in the transaction that stores it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that can be searched: a document, a resource, a turn of a conversation."""

    id: UUID
    project_id: UUID
    # None if it belongs to all sessions of its project.
    session_id: UUID | None
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What must be done before some sources can be searched."""

    embedding_model: str
    # Cut into pieces that have no vectors yet.
    sources: tuple[NewSource, ...]
    # The texts to embed, by hash, with their length in the embedder's tokens.
    readings: dict[str, str]
    tokens: int
    # Vectors of texts that were embedded before.
    known: dict[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Indexed:
    """The result: how many sources were new, and how many texts and tokens were embedded."""

    sources: int
    texts: int
    tokens: int


async def prepare(
    db: Database, tenant_id: UUID, embedder: Embedder, sources: Sequence[Source]
) -> Missing:
    """Find what is missing; free and read-only."""
    hashes = await asyncio.to_thread(lambda: {s.id: hash_source(s.text) for s in sources})

    async def look(connection: Connection) -> set[UUID]:
        return await memory.list_indexed(connection, embedder.name, embedder.dimensions, hashes)

    there = await db.transact(tenant_id, look)
    new = {source.id: source for source in sources if source.id not in there}
    cuts, readings = await asyncio.to_thread(_cut_all, list(new.values()), hashes, embedder)

    async def look_up(connection: Connection) -> dict[str, list[float]]:
        return await memory.load_vectors(
            connection, embedder.name, embedder.dimensions, list(readings)
        )

    known = await db.transact(tenant_id, look_up) if readings else {}
    unread = {key: text for key, text in readings.items() if key not in known}
    tokens = await asyncio.to_thread(lambda: sum(map(embedder.count, unread.values())))
    return Missing(embedder.name, tuple(cuts), unread, tokens, dict(known))


async def index(db: Database, tenant_id: UUID, embedder: Embedder, missing: Missing) -> Indexed:
    """Embed the missing texts and store everything. Raises the embedder's errors."""
    assert missing.embedding_model == embedder.name, "the pieces were cut for this embedder"
    embedded = await embedder.embed(list(missing.readings.values()))
    return await store(db, tenant_id, missing, embedded)


def split(missing: Missing, embedder: Embedder, tokens_max: int) -> list[Missing]:
    """Split the missing work by sources, so that each finished part is stored at once.

    Only a part with a single source exceeds this limit. The first part embeds shared texts.
    """
    parts: list[Missing] = []
    read: set[str] = set()
    for entry in missing.sources:
        hashes = dict.fromkeys(piece.content_hash for piece in entry.pieces)
        new = [key for key in hashes if key in missing.readings and key not in read]
        own = {key: missing.readings[key] for key in new}
        tokens = sum(map(embedder.count, own.values()))
        read |= own.keys()
        if parts and parts[-1].tokens + tokens <= tokens_max:
            last = parts[-1]
            parts[-1] = replace(
                last,
                sources=(*last.sources, entry),
                readings=last.readings | own,
                tokens=last.tokens + tokens,
            )
        else:
            parts.append(replace(missing, sources=(entry,), readings=own, tokens=tokens))
    return parts


async def store(
    db: Database,
    tenant_id: UUID,
    missing: Missing,
    embedded: Embedded,
    pay: Pay | None = None,
) -> Indexed:
    """Store each source with its pieces and vectors, in its own transaction.

    Payment is part of the last one, so that only stored work is paid for.
    """
    vectors = dict(missing.known)
    vectors |= {key: row.tolist() for key, row in zip(missing.readings, embedded.rows, strict=True)}
    kept = 0
    for entry in missing.sources:
        pieces = (replace(piece, vector=vectors[piece.content_hash]) for piece in entry.pieces)
        new = replace(entry, pieces=tuple(pieces))
        paying = pay if entry is missing.sources[-1] else None

        async def work(
            connection: Connection, new: NewSource = new, paying: Pay | None = paying
        ) -> bool:
            is_new = await memory.put_source(connection, new)
            if paying is not None:
                await paying(connection)
            return is_new

        kept += await db.transact(tenant_id, work)
    return Indexed(kept, len(missing.readings), embedded.tokens)


def hash_source(text: str) -> str:
    """Derive the hash of a text and of the way it is cut."""
    return hashlib.sha256(f"{CUT_VERSION}\n{text}".encode("utf-8", "replace")).hexdigest()


def _cut_all(
    sources: list[Source], hashes: dict[UUID, str], embedder: Embedder
) -> tuple[list[NewSource], dict[str, str]]:
    cuts: list[NewSource] = []
    readings: dict[str, str] = {}
    for source in sources:
        pieces = []
        for piece in cut(source.text, embedder):
            reading = build_reading(piece, embedder)
            key = hashlib.sha256(reading.encode("utf-8", "replace")).hexdigest()
            readings[key] = reading
            pieces.append(
                NewPiece(
                    position=piece.position,
                    start=piece.start,
                    end=piece.end,
                    heading_path=piece.heading_path,
                    text=piece.text,
                    tokens=piece.tokens,
                    content_hash=key,
                    vector=(),
                )
            )
        cuts.append(
            NewSource(
                id=source.id,
                project_id=source.project_id,
                session_id=source.session_id,
                source_hash=hashes[source.id],
                embedding_model=embedder.name,
                dimensions=embedder.dimensions,
                pieces=tuple(pieces),
            )
        )
    return cuts, readings
