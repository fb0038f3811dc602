"""Indexing just in time: what is missing is cut, embedded and kept, in that order.

Two phases, so that someone can pay between them: `prepare` finds out what an embedder has not read
yet and how many tokens that is; `index` has it read and keeps it. Doing it again does nothing, and
two who do it at once do it once. A vector that the same words were given before is taken again,
whatever source they stood in. Knows no money.
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
from dialectic.retrieval.base import Embedded, Embedder
from dialectic.retrieval.pieces import CUT_VERSION, build_reading, cut

Pay: TypeAlias = Callable[[Connection], Awaitable[None]]
"""Pays for what was read, in a transaction that keeps it."""


@dataclass(frozen=True, slots=True)
class Source:
    """A text that can be searched: a document, a resource, a turn of a conversation."""

    id: UUID
    project_id: UUID
    # None for what belongs to all sessions of its project.
    session_id: UUID | None
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """What must be done before some sources can be searched."""

    embedding_model: str
    # In pieces that have no vectors yet.
    sources: tuple[NewSource, ...]
    # What the embedder must read, by the hash of it, and how long it is in its own tokens.
    readings: dict[str, str]
    tokens: int
    # Vectors of words that were embedded before.
    known: dict[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Indexed:
    """What was done: how many sources were new, and how many texts and tokens were embedded."""

    sources: int
    texts: int
    tokens: int


async def prepare(
    db: Database, tenant_id: UUID, embedder: Embedder, sources: Sequence[Source]
) -> Missing:
    """Find out what is missing; costs nothing and writes nothing."""
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
    """Have the missing texts read, and keep all of it. Raises what the embedder raises."""
    assert missing.embedding_model == embedder.name, "an embedder reads what was cut for it"
    embedded = await embedder.embed(list(missing.readings.values()))
    return await store(db, tenant_id, missing, embedded)


def split(missing: Missing, embedder: Embedder, tokens_max: int) -> list[Missing]:
    """Split what is missing by sources, so that a part that is read is kept whatever comes next.

    Only a part of a single source has more tokens than this. What two parts share, the first reads.
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
    """Keep each source with its pieces and vectors, in a commit of its own.

    What has a price is paid in the last of them, so that only what is kept is paid for.
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
