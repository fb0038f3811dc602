"""Compressed texts, and vectors of texts, as rows. Statements: sql/queries/compressions.sql.

Independent of how they are made and of money. Paid work is claimed first: while the attempt that
claimed it lives, no other attempt makes the same. Functions take the connection of a tenant's
transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import astuple, dataclass
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.job import Job
from dialectic.db.pool import Connection
from dialectic.db.queries import build_row, find_row, load_queries

SQL = load_queries("compressions")


def hash_text(text: str) -> str:
    """Hash a text; the hash is its key."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class VectorsKey:
    """The key of the vectors of one text by one embedder."""

    content_hash: str
    embedder: str

    def derive_id(self, tenant_id: UUID) -> UUID:
        return uuid5(tenant_id, f"vectors:{self.embedder}:{self.content_hash}")


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a text as stored: the positions of its pieces, and the bytes."""

    pieces: list[Any]
    data: bytes
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionKey:
    """Everything that a compressed text depends on."""

    content_hash: str
    purpose_hash: str
    compressor: str
    tokenizer: str
    budget_tokens: int

    def derive_id(self, tenant_id: UUID) -> UUID:
        parts = (self.content_hash, self.purpose_hash, self.compressor, self.tokenizer)
        return uuid5(tenant_id, f"compression:{':'.join(parts)}:{self.budget_tokens}")


@dataclass(frozen=True, slots=True)
class Paid:
    """What a result cost, and the hold that paid for it; None if it was free."""

    cost_credits: int = 0
    hold_key: str | None = None


async def load_vectors(
    connection: Connection, hashes: Collection[str], embedder: str
) -> dict[str, StoredVectors]:
    """Load the stored vectors of texts, by the hashes of the texts."""
    rows = await connection.fetch(SQL["find_vectors"], list(hashes), embedder)
    return {row["content_hash"]: build_row(StoredVectors, row) for row in rows}


async def list_known_vectors(
    connection: Connection, hashes: Collection[str], embedder: str
) -> set[str]:
    """List the hashes of those texts whose vectors are stored."""
    rows = await connection.fetch(SQL["list_known_vectors"], list(hashes), embedder)
    return {row["content_hash"] for row in rows}


async def claim_vectors(connection: Connection, job: Job, key: VectorsKey) -> bool:
    """Claim the vectors of a text for a job; False if they exist or another job has the claim."""
    return bool(await connection.fetchval(SQL["claim_vectors"], *_bind(job, key)))


async def save_vectors(
    connection: Connection, job: Job, key: VectorsKey, made: StoredVectors, paid: Paid
) -> UUID | None:
    """Save the vectors of a text; return the row's id, or None if another job saved them."""
    found: UUID | None = await connection.fetchval(
        SQL["save_vectors"], *_bind(job, key), *astuple(made), *astuple(paid)
    )
    return found


@dataclass(frozen=True, slots=True)
class Compressed:
    """A compressed text as stored."""

    text: str
    tokens_before: int
    tokens_after: int


async def find_compression(
    connection: Connection, tenant_id: UUID, key: CompressionKey
) -> Compressed | None:
    """Find a compressed text; None if it does not exist."""
    row_id = key.derive_id(tenant_id)
    return await find_row(connection, Compressed, SQL["find_compression"], row_id)


async def list_known_compressions(
    connection: Connection,
    hashes: Collection[str],
    *,
    purpose_hash: str,
    compressor: str,
    tokenizer: str,
) -> set[str]:
    """List the hashes of those texts that were compressed for this purpose, to any length."""
    rows = await connection.fetch(
        SQL["list_known_compressions"], list(hashes), purpose_hash, compressor, tokenizer
    )
    return {row["content_hash"] for row in rows}


async def claim_compression(connection: Connection, job: Job, key: CompressionKey) -> bool:
    """Claim a compression for a job; False if it exists or another job has the claim."""
    return bool(await connection.fetchval(SQL["claim_compression"], *_bind(job, key)))


async def save_compression(
    connection: Connection, job: Job, key: CompressionKey, made: Compressed, paid: Paid
) -> UUID | None:
    """Save a compressed text; return the row's id, or None if another job saved it."""
    found: UUID | None = await connection.fetchval(
        SQL["save_compression"], *_bind(job, key), *astuple(made), *astuple(paid)
    )
    return found


def _bind(job: Job, key: VectorsKey | CompressionKey) -> tuple[Any, ...]:
    """Bind the columns both tables share: tenant, id, session, key, job and attempt."""
    row_id = key.derive_id(job.tenant_id)
    return job.tenant_id, row_id, job.session_id, *astuple(key), job.id, job.attempt
