"""Contributions as rows, and chunks: one per turn of a document. See sql/queries/records.sql.

Independent of how turns are joined. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from pydantic_core import to_jsonable_python

from dialectic.core.documents.excerpt import build_excerpt
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, UsageSource
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import list_rows, load_queries
from dialectic.db.tables.files import File, bind_files
from dialectic.db.tables.jobs import build_lease_lost
from dialectic.db.tables.records import NewResource, Owner, bind_resources

SQL = load_queries("records")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewContribution:
    """A document that a job wrote. The fields are columns; `build_record` adds the job's."""

    id: UUID
    model_id: UUID
    model_name: str
    model_index: int
    contribution_type: str
    rank: int
    origin: int
    source_group: UUID | None
    target_contribution_id: UUID | None
    source_contribution_ids: tuple[UUID, ...]
    # The version that was read of each of them, and a hash of what the model was asked.
    read_version_ids: tuple[UUID, ...]
    words_hash: str | None
    # The first version, if this is a later one: readers refer to the document by that id.
    original_model_contribution_id: UUID | None
    edit_version: int
    is_incomplete: bool
    is_intermediate: bool
    flags: tuple[str, ...]
    content: str
    storage_path: str
    raw_response_storage_path: str
    size_bytes: int
    prompt_template_name: str
    tokens_used_input: int
    tokens_used_output: int
    usage_source: UsageSource
    finish_reason: FinishReason
    raw_finish_reason: str | None
    provider_request_id: str | None
    processing_time_ms: int
    # The parts of its last turn's prompt.
    manifest: Json | None = None
    # What a card shows of it.
    title: str = ""
    excerpt: str = ""
    words: int = 0


async def save_document(
    connection: Connection,
    job: Job,
    owner: Owner,
    new: NewContribution,
    files: Sequence[File],
    resources: Sequence[NewResource],
) -> None:
    """Insert a job's document with all its files and the documents that were cut out of it.

    Followers of the session are told. Locks the job first; raises `LeaseLost` if it is lost.
    """
    is_held = await connection.fetchval(
        SQL["save_document"],
        job.id,
        job.attempt,
        job.tenant_id,
        owner.project_id,
        owner.user_id,
        build_record(job, new),
        build_excerpt(new.content),
        *bind_files(files),
        bind_resources(owner, resources),
    )
    if not is_held:
        raise build_lease_lost(job)


def build_record(job: Job, new: Any) -> Json:
    """Build the JSON of a row that a job writes: the columns of `new` and those of the job."""
    columns: Json = to_jsonable_python(new)
    return {
        **columns,
        "tenant_id": str(job.tenant_id),
        "session_id": str(job.session_id),
        "job_id": str(job.id),
        "stage": job.stage_slug,
        "iteration_number": job.iteration_number,
    }


async def supersede(connection: Connection, first_id: UUID) -> int:
    """Mark the latest version as superseded; return how many derived documents became stale."""
    await connection.execute(SQL["supersede"], first_id)
    return len(await connection.fetch(SQL["mark_stale"], first_id))


# -- chunks ----------------------------------------------------------------------------------------


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


async def read_begun(connection: Connection, version_ids: Sequence[UUID]) -> tuple[Chunk, ...]:
    """Read the turns of versions that another document goes on with.

    Their tokens and their time belong to those versions.
    """
    begun = []
    for version_id in version_ids:
        for chunk in await read_chunks(connection, version_id):
            usage = replace(chunk.usage, input_tokens=0, output_tokens=0)
            begun.append(replace(chunk, usage=usage, elapsed_ms=0))
    return tuple(begun)


async def read_chunks(connection: Connection, contribution_id: UUID) -> tuple[Chunk, ...]:
    """Read the turns of a document so far, in order."""
    return tuple(await list_rows(connection, Chunk, SQL["read_chunks"], contribution_id))
