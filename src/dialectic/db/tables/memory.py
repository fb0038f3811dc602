"""Pieces of documents as rows: indexed, embedded, matched. Statements: sql/queries/memory.sql.

The only module that accesses these tables. Independent of embedders and of money. Functions take
the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dialectic.db.pool import Connection
from dialectic.db.queries import list_rows, load_queries

SQL = load_queries("memory")

# From this number of pieces on, the vector index is faster than an exact search. Only the pieces of
# a project beyond this number are indexed.
INDEX_FROM_PIECES = 2_000
# Enough to write a document of ten million characters on an overloaded server. Its row locks block
# only a process that indexes the same document.
WRITE_S = 600.0
BATCH_PIECES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPiece:
    """A piece with its vector, to be inserted."""

    position: int
    start: int
    end: int
    heading_path: tuple[str, ...]
    text: str
    tokens: int
    content_hash: str
    vector: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSource:
    """A text that was split and embedded, to be inserted."""

    id: UUID
    project_id: UUID
    # None if the source belongs to all sessions of its project.
    session_id: UUID | None
    source_hash: str
    embedding_model: str
    dimensions: int
    pieces: tuple[NewPiece, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to search: a project, optionally one session or some sources of it."""

    project_id: UUID
    session_id: UUID | None = None
    source_ids: tuple[UUID, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to search for, as a vector of an embedder and as words."""

    embedding_model: str
    vector: Sequence[float]
    words: str
    # From 0 (vectors only) to 2 (words only); 1 weighs both equally.
    word_weight: float
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A piece that was found, and its scores."""

    id: int
    source_id: UUID
    position: int
    start: int
    end: int
    heading_path: tuple[str, ...]
    text: str
    tokens: int
    vector: tuple[float, ...]
    score: float
    # Similarity to the question's vector, if among the nearest; and the BM25 score.
    likeness: float | None
    word_score: float


async def list_indexed(
    connection: Connection, embedding_model: str, dimensions: int, hashes: Mapping[UUID, str]
) -> set[UUID]:
    """List the sources whose current text, by its hash, this embedder has indexed."""
    rows = await connection.fetch(
        SQL["list_indexed"], embedding_model, list(hashes), list(hashes.values()), dimensions
    )
    return {row["source_id"] for row in rows}


async def load_vectors(
    connection: Connection, embedding_model: str, dimensions: int, content_hashes: Sequence[str]
) -> dict[str, list[float]]:
    """Load the vectors of pieces that were embedded before, by their hashes."""
    rows = await connection.fetch(
        SQL["find_vectors"], embedding_model, list(content_hashes), dimensions
    )
    return {row["content_hash"]: row["embedding"] for row in rows}


async def put_source(
    connection: Connection, new: NewSource, *, index_from: int = INDEX_FROM_PIECES
) -> bool:
    """Insert a source and replace its pieces; False if this text is indexed already."""
    claimed = await connection.fetchval(
        SQL["claim_source"],
        new.id,
        new.embedding_model,
        new.project_id,
        new.session_id,
        new.source_hash,
        new.dimensions,
        len(new.pieces),
    )
    if claimed is None:
        return False
    await connection.execute(SQL["be_patient"], f"{WRITE_S * 1000:.0f}")
    others = await connection.fetchval(
        SQL["count_others"], new.project_id, new.embedding_model, new.id
    )
    key = (new.id, new.embedding_model)
    await connection.execute(SQL["forget_words"], *key)
    await connection.execute(SQL["forget_pieces"], *key)
    for begin in range(0, len(new.pieces), BATCH_PIECES):
        batch = new.pieces[begin : begin + BATCH_PIECES]
        is_graphed = others + begin >= index_from
        await connection.executemany(
            SQL["insert_piece"], [(*_build_arguments(new, piece), is_graphed) for piece in batch]
        )
    await connection.execute(SQL["insert_words"], *key)
    await connection.execute(SQL["note_words"], *key)
    return True


def _build_arguments(new: NewSource, piece: NewPiece) -> tuple[Any, ...]:
    return (
        new.project_id,
        new.id,
        new.embedding_model,
        piece.position,
        piece.start,
        piece.end,
        list(piece.heading_path),
        piece.text,
        piece.tokens,
        piece.content_hash,
        new.dimensions,
        piece.vector,
    )


async def match_chunks(
    connection: Connection,
    scope: Scope,
    question: Question,
    *,
    index_from: int = INDEX_FROM_PIECES,
) -> list[Match]:
    """Find the pieces in a scope that match a question, best first."""
    return await list_rows(
        connection,
        Match,
        SQL["match_chunks"],
        scope.project_id,
        scope.session_id,
        None if scope.source_ids is None else list(scope.source_ids),
        question.embedding_model,
        question.vector,
        question.words,
        question.word_weight,
        question.limit,
        index_from,
    )


@dataclass(frozen=True, slots=True)
class Document:
    """A document that can be searched."""

    id: UUID
    session_id: UUID | None
    text: str
    path: str


async def list_searchable(connection: Connection, project_id: UUID) -> list[Document]:
    """List the documents of a project that users can search."""
    return await list_rows(connection, Document, SQL["list_searchable"], project_id)
