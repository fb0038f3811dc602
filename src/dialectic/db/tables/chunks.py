"""Chunks as rows: what was said turn by turn. Statements stand in sql/queries/records.sql.

Knows nothing of how turns are joined. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.db.pool import Connection
from dialectic.db.tables.records import SQL, File


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A turn that is about to be saved, and the document that it is a part of."""

    id: UUID
    contribution_id: UUID
    model_name: str
    said: Chunk
    file: File


async def insert_chunk(connection: Connection, job: Job, new: NewChunk) -> None:
    """Insert one turn; its files are inserted beside it, in the caller's commit."""
    said = new.said
    await connection.execute(
        SQL["insert_chunk"],
        job.tenant_id,
        new.id,
        job.session_id,
        job.id,
        new.contribution_id,
        said.turn,
        job.stage_slug,
        job.iteration_number,
        new.model_name,
        said.opening,
        said.text,
        new.file.path,
        said.raw_path,
        len(new.file.data),
        said.usage.input_tokens,
        said.usage.output_tokens,
        said.usage.source,
        said.finish_reason,
        said.raw_finish_reason,
        said.request_id,
        said.elapsed_ms,
        list(said.flags),
        said.manifest,
    )


async def read_chunks(connection: Connection, contribution_id: UUID) -> tuple[Chunk, ...]:
    """Read what was said so far of a document, in order."""
    rows = await connection.fetch(SQL["list_chunks"], contribution_id)
    return tuple(_build_chunk(row) for row in rows)


def _build_chunk(row: asyncpg.Record) -> Chunk:
    return Chunk(
        turn=row["turn_index"],
        text=row["content"],
        usage=Usage(
            row["tokens_used_input"],
            row["tokens_used_output"],
            UsageSource(row["usage_source"]),
        ),
        finish_reason=FinishReason(row["finish_reason"]),
        raw_finish_reason=row["raw_finish_reason"],
        request_id=row["provider_request_id"],
        elapsed_ms=row["processing_time_ms"],
        flags=tuple(row["flags"]),
        path=row["storage_path"],
        raw_path=row["raw_response_storage_path"],
        opening=row["opening"],
        manifest=row["manifest"],
    )
