"""Chunks as rows: one per turn of a document. The statements are in sql/queries/records.sql.

Independent of how turns are joined. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import asyncpg

from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.db.pool import Connection
from dialectic.db.tables.records import SQL, File, build_record


@dataclass(frozen=True, slots=True, kw_only=True)
class NewChunk:
    """A turn to be inserted, and the document that it is a part of."""

    id: UUID
    contribution_id: UUID
    model_name: str
    said: Chunk
    file: File


async def insert_chunk(connection: Connection, job: Job, new: NewChunk) -> None:
    """Insert one turn; the caller inserts its files in the same commit."""
    said = new.said
    columns = {
        "id": new.id,
        "root_contribution_id": new.contribution_id,
        "turn_index": said.turn,
        "model_name": new.model_name,
        "opening": said.opening,
        "content": said.text,
        "storage_path": new.file.path,
        "raw_response_storage_path": said.raw_path,
        "size_bytes": len(new.file.data),
        "tokens_used_input": said.usage.input_tokens,
        "tokens_used_output": said.usage.output_tokens,
        "usage_source": said.usage.source,
        "finish_reason": said.finish_reason,
        "raw_finish_reason": said.raw_finish_reason,
        "provider_request_id": said.request_id,
        "processing_time_ms": said.elapsed_ms,
        "flags": said.flags,
        "manifest": said.manifest,
    }
    await connection.execute(SQL["insert_chunk"], build_record(job, columns))


async def read_chunks(connection: Connection, contribution_id: UUID) -> tuple[Chunk, ...]:
    """Read the turns of a document so far, in order."""
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
