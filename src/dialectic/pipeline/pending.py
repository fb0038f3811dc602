"""Fill Pending/ with another model's checklist if the lead's answer has none.

The lead's own checklist is part of its turn (`write`). Otherwise the first of the other models, in
the order of their seats after the lead, whose answer has a checklist fills Pending/. It is decided
in the commit of each final document, and in the commit in which a seat fails for good, after the
stage's row is locked: of two that end at once, the second sees the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.contract.events import PlanTakenOver
from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.file_paths import StageFolder
from dialectic.core.job import Job, MergePayload
from dialectic.core.process.definition import ExpectedDocument
from dialectic.db.pool import Connection
from dialectic.db.queries import list_rows
from dialectic.db.tables import plan_files, records
from dialectic.db.tables.records import SQL, NewResource, Owner
from dialectic.engine import Engine
from dialectic.pipeline.gather import Material
from dialectic.pipeline.load import load_session_context
from dialectic.pipeline.write import Written, build_plan, carry_notices


@dataclass(frozen=True, slots=True)
class Answered:
    """The part of one model in a stage: its document, or whether one may still come."""

    model_index: int
    model_name: str | None
    contribution_id: UUID | None
    content: str | None
    is_awaited: bool
    has_filled: bool


@dataclass(frozen=True, slots=True)
class PromisedPlan:
    """The plan that a stage promises: which sections, and where its files belong."""

    wanted: tuple[ExpectedDocument, ...]
    output_type: str
    owner: Owner
    folder: StageFolder
    is_first_session: bool


async def fill_without_seat(engine: Engine, connection: Connection, job: Job) -> None:
    """Save the plan of another model after a seat has left, if no other document will decide it.

    The seat that left may have been the lead, and all others may have written already.
    """
    context = await load_session_context(engine, connection, job.session_id, job.iteration_number)
    if job.payload_json.get("model_index") not in context.dropped_seats:
        return  # the stage fails, or the job was not a seat's whole part in it
    stage = context.process.load_stage(job.stage_slug)
    promise = PromisedPlan(
        wanted=tuple(one for one in stage.expected_output_artifacts if one.fills_pending),
        output_type=stage.output_type,
        owner=context.owner,
        folder=context.build_folder(stage),
        is_first_session=context.is_first,
    )
    await _fill(connection, job, promise)


async def fill_pending(
    connection: Connection, job: Job, material: Material, written: Written
) -> tuple[NewResource, ...]:
    """Save the plan files of the model whose checklist counts, if that is decided now."""
    wanted = [document for document in material.expected if document.fills_pending]
    is_first = not isinstance(material.payload, MergePayload) and material.payload.edition == 1
    if not wanted or not is_first or written.plan:
        return ()
    promise = PromisedPlan(
        wanted=tuple(wanted),
        output_type=material.payload.output_type,
        owner=material.owner,
        folder=material.folder,
        is_first_session=material.is_first_session,
    )
    return await _fill(connection, job, promise)


async def _fill(connection: Connection, job: Job, promise: PromisedPlan) -> tuple[NewResource, ...]:
    if not promise.wanted:
        return ()
    answers = await list_rows(
        connection,
        Answered,
        SQL["list_plan_answers"],
        job.session_id,
        job.iteration_number,
        job.stage_slug,
        promise.output_type,
    )
    source = choose_source(answers, promise.wanted)
    if source is None or source.contribution_id is None:
        return ()
    items = build_items(source, job, promise)
    await plan_files.put_plan(connection, job.tenant_id, promise.owner, items)
    event = PlanTakenOver(
        session_id=job.session_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        job_id=job.id,
        contribution_id=source.contribution_id,
        model_name=source.model_name or "",
    )
    await records.record_event(connection, event)
    return items


def choose_source(
    answers: Sequence[Answered], wanted: Sequence[ExpectedDocument]
) -> Answered | None:
    """Choose the first model in order that has a checklist; None while an earlier one may come."""
    if any(answer.has_filled for answer in answers):
        return None
    for answer in answers:
        if answer.content is not None and extract_documents(answer.content, wanted).found:
            return answer
        if answer.is_awaited:
            return None
    return None


def build_items(source: Answered, job: Job, promise: PromisedPlan) -> tuple[NewResource, ...]:
    """Build the plan files of another model's checklist."""
    assert source.contribution_id is not None, "it was chosen for its document"
    assert source.content is not None, "it was chosen for its text"
    plan = build_plan(
        promise.wanted,
        extract_documents(source.content, promise.wanted).found,
        folder=promise.folder,
        is_first_session=promise.is_first_session,
        session_id=job.session_id,
        contribution_id=source.contribution_id,
    )
    return tuple(carry_notices(source.content, plan))
