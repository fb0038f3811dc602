"""Load what one job needs, in one transaction. Reads only; decides nothing.

A plan job gets the documents and the plan jobs of its iteration. A turn gets the newest text of
each of its inputs: a version that a person edited replaces the model's own. A later turn of a
document gets its earlier turns and the prompt of the first one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import asyncpg

from dialectic.core.documents.file_paths import ResourceKind, StageFolder
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import (
    AnyPayload,
    CombinePayload,
    ExecutePayload,
    Job,
    MergePayload,
    PlanPayload,
    derive_contribution_id,
)
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process, Stage
from dialectic.core.slug import short_id
from dialectic.db.pool import Connection
from dialectic.db.tables import chunks
from dialectic.db.tables.records import SQL, Owner
from dialectic.engine import Engine
from dialectic.errors import NotFound
from dialectic.pipeline.outline import Outline, build_outline
from dialectic.pipeline.plan import Progress, Situation, list_missing, read_inputs
from dialectic.pipeline.strategies import Document


@dataclass(frozen=True, slots=True)
class Text:
    """A document that a turn reads, with the ids of its first version and of this version."""

    id: UUID
    version_id: UUID
    source_group: UUID | None
    type: str
    stage_slug: str
    model_index: int
    rank: int
    origin: int
    is_origin: bool
    path: str
    content: str


@dataclass(frozen=True, slots=True)
class JobContext:
    """The session's shared data, and what one job reads."""

    session_id: UUID
    iteration: int
    project_id: UUID
    project_slug: str
    project_name: str
    # Whether this is the oldest session of the project: its plan files get no name prefix.
    is_first: bool
    user_id: UUID
    wallet_id: UUID
    request: str
    domain: str
    models: tuple[str, ...]
    model_ids: tuple[UUID, ...]
    lead_model_index: int
    process: Process
    outline: Outline
    is_autopilot: bool
    continues: bool
    max_output_tokens: int | None
    max_retries: int
    # Stages of this iteration that have a seed prompt.
    seeded: frozenset[str]
    feedback: tuple[dict[str, Any], ...]
    context: tuple[dict[str, Any], ...]
    situation: Situation | None = None
    texts: Mapping[UUID, Text] = field(default_factory=dict)
    # The earlier turns of the document that the job writes.
    chunks: tuple[Chunk, ...] = ()

    @property
    def owner(self) -> Owner:
        return Owner(self.user_id, self.project_id)

    def build_folder(self, stage: Stage) -> StageFolder:
        """Build the folder of a stage's files."""
        return StageFolder(
            project=self.project_slug,
            session=short_id(self.session_id),
            iteration=self.iteration,
            position=self.process.position(stage.slug),
            stage=stage.slug,
        )


async def load_job_context(engine: Engine, job: Job, payload: AnyPayload) -> JobContext:
    """Load everything that a claimed job needs."""

    async def work(connection: Connection) -> JobContext:
        context = await load_session_context(
            engine, connection, job.session_id, job.iteration_number
        )
        is_turn = isinstance(payload, ExecutePayload | MergePayload)
        is_turn = is_turn or not context.process.load_stage(job.stage_slug).steps
        if is_turn and job.attempt > 1:  # a first attempt has no saved turns
            said = await chunks.read_chunks(connection, derive_contribution_id(job.id))
            if said:
                return replace(context, chunks=said)
        if isinstance(payload, PlanPayload):
            return await list_siblings(connection, context, job.stage_slug, payload.model_index)
        ids = [given.contribution_id for given in payload.inputs]
        if isinstance(payload, MergePayload | CombinePayload):
            found = await read_versions(connection, context.session_id, ids)
            _require(context, ids, texts := {text.version_id: text for text in found})
            return replace(context, texts=texts)
        return await read_texts(connection, context, ids)

    return await engine.db.transact(job.tenant_id, work)


async def list_siblings(
    connection: Connection, context: JobContext, stage_slug: str, model_index: int
) -> JobContext:
    """Load the planning situation, and the inputs of a stage that can start as one call."""
    stage = context.process.load_stage(stage_slug)
    if not stage.steps and not stage.list_sources():
        ids = await list_outcomes(connection, context) if context.iteration > 1 else []
        return await read_texts(connection, context, ids)
    situation = await read_situation(connection, context)
    context = replace(context, situation=situation)
    if list_missing(stage, stage.inputs_required, model_index, situation):
        return context
    found = read_inputs(stage.inputs_required, stage, model_index, situation)
    return await read_texts(connection, context, [d.id for kind in found for d in kind.documents])


async def load_session_context(
    engine: Engine, connection: Connection, session_id: UUID, iteration: int
) -> JobContext:
    """Load the data that all jobs of an iteration share."""
    kinds = [kind.value for kind in ResourceKind]
    row = await connection.fetchrow(SQL["load_scene"], session_id, iteration, kinds)
    if row is None:
        raise NotFound(f"Session {session_id} does not exist.")
    process = await load_pinned(engine, connection, row["process_template_id"])
    return JobContext(
        session_id=session_id,
        iteration=iteration,
        project_id=row["project_id"],
        project_slug=row["project_slug"],
        project_name=row["project_name"],
        is_first=row["is_first"],
        user_id=row["user_id"],
        wallet_id=row["wallet_id"],
        request=row["request"],
        domain=row["domain"],
        models=tuple(row["model_names"]),
        model_ids=tuple(row["selected_model_ids"]),
        lead_model_index=row["lead_model_index"],
        process=process,
        outline=build_outline(process, models=len(row["model_names"])),
        is_autopilot=row["is_autopilot"],
        continues=row["continue_until_complete"],
        max_output_tokens=row["max_output_tokens"],
        max_retries=row["max_retries"],
        seeded=frozenset(row["seeded"]),
        feedback=tuple(row["feedback"]),
        context=tuple(row["context"]),
    )


async def load_pinned(engine: Engine, connection: Connection, process_id: UUID) -> Process:
    """Load a pinned process. A version never changes, so it is cached after the first read.

    Sessions that pin the same content under different ids share one object.
    """
    if process_id not in engine.processes:
        row = await connection.fetchrow(SQL["load_process"], process_id)
        assert row is not None, "a session's process is never deleted"
        known = {process.content_hash: process for process in engine.processes.values()}
        engine.processes[process_id] = known.get(row["content_hash"]) or build_process(
            row["definition"]["file"],
            row["definition"]["prompts"],
            list(row["definition"]["overlays"].values()),
            place=f"pinned process {process_id}",
        )
    return engine.processes[process_id]


async def read_situation(connection: Connection, context: JobContext) -> Situation:
    """Read the documents and plan jobs of an iteration, in one snapshot."""
    row = await connection.fetchrow(SQL["read_situation"], context.session_id, context.iteration)
    assert row is not None, "the query returns one row of lists"
    progress = [Progress(**each) for each in row["progress"]]
    documents = [
        Document(
            id=UUID(each["id"]),
            type=each["type"],
            model_index=each["model_index"],
            rank=each["rank"],
            source_group=UUID(each["source_group"]) if each["source_group"] else None,
            origin=each["origin"],
        )
        for each in row["documents"]
    ]
    stages = [each["stage"] for each in row["documents"]]
    return Situation(
        documents=documents,
        made_in={d.id: stage for d, stage in zip(documents, stages, strict=True)},
        progress=[*progress, *_list_imported(context, progress, row["over"])],
        models=context.models,
        outline=context.outline,
    )


def _list_imported(
    context: JobContext, progress: Sequence[Progress], over: Sequence[str]
) -> Iterator[Progress]:
    """List the ended stages of an imported project: they have stage runs, but no jobs."""
    planned = {each.stage_slug for each in progress}
    for stage_slug in over:
        if stage_slug not in planned:
            for model_index in range(1, len(context.models) + 1):
                yield Progress(stage_slug, model_index, current_step=1, has_ended=True)


async def list_outcomes(connection: Connection, context: JobContext) -> list[UUID]:
    """List the final documents of the previous iteration."""
    rows = await connection.fetch(SQL["list_outcomes"], context.session_id, context.iteration - 1)
    return [row["id"] for row in rows]


async def read_texts(
    connection: Connection, context: JobContext, ids: Collection[UUID]
) -> JobContext:
    """Read the newest text of each of these documents."""
    if not ids:
        return context
    rows = await connection.fetch(SQL["read_documents"], context.session_id, list(ids))
    texts = {row["id"]: _build_text(row) for row in rows}
    _require(context, ids, texts)
    return replace(context, texts=texts)


def _require(context: JobContext, ids: Collection[UUID], texts: Mapping[UUID, Text]) -> None:
    if missing := [str(wanted) for wanted in ids if wanted not in texts]:
        raise NotFound(
            f"Document(s) {', '.join(missing)} of session {context.session_id} do not exist."
        )


async def read_versions(
    connection: Connection, session_id: UUID, ids: Collection[UUID]
) -> list[Text]:
    """Read exactly these versions of documents, in this order; missing ones are left out."""
    rows = await connection.fetch(SQL["read_versions"], session_id, list(ids))
    texts = {row["version_id"]: _build_text(row) for row in rows}
    return [texts[wanted] for wanted in ids if wanted in texts]


def _build_text(row: asyncpg.Record) -> Text:
    return Text(
        id=row["id"],
        version_id=row["version_id"],
        source_group=row["source_group"],
        type=row["contribution_type"],
        stage_slug=row["stage"],
        model_index=row["model_index"],
        rank=row["rank"],
        origin=row["origin"],
        is_origin=row["source_group"] is None,
        path=row["storage_path"],
        content=row["content"],
    )
