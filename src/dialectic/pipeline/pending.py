"""Fill Pending/ with another model's checklist if the lead's answer has none.

The lead's own checklist is part of its turn (`write`). Otherwise the first of the other models, in
the order of their seats after the lead, whose answer has a checklist fills Pending/. It is decided
in the commit of each final document, after the stage's row is locked: of two documents that are
saved at once, the second sees the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.contract.events import PlanTakenOver
from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.job import Job, MergePayload
from dialectic.core.process.definition import ExpectedDocument
from dialectic.db.pool import Connection
from dialectic.db.queries import list_rows
from dialectic.db.tables import plan_files, records
from dialectic.db.tables.records import SQL, NewResource
from dialectic.pipeline.gather import Material
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


async def fill_pending(
    connection: Connection, job: Job, material: Material, written: Written
) -> tuple[NewResource, ...]:
    """Save the plan files of the model whose checklist counts, if that is decided now."""
    wanted = [document for document in material.expected if document.fills_pending]
    is_first = not isinstance(material.payload, MergePayload) and material.payload.edition == 1
    if not wanted or not is_first or written.plan:
        return ()
    answers = await list_rows(
        connection,
        Answered,
        SQL["list_plan_answers"],
        job.session_id,
        job.iteration_number,
        job.stage_slug,
        material.payload.output_type,
    )
    source = choose_source(answers, wanted)
    if source is None or source.contribution_id is None:
        return ()
    items = build_items(source, wanted, job, material)
    await plan_files.put_plan(connection, job.tenant_id, material.owner, items)
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


def build_items(
    source: Answered, wanted: Sequence[ExpectedDocument], job: Job, material: Material
) -> tuple[NewResource, ...]:
    """Build the plan files of another model's checklist."""
    assert source.contribution_id is not None, "it was chosen for its document"
    assert source.content is not None, "it was chosen for its text"
    plan = build_plan(
        wanted,
        extract_documents(source.content, wanted).found,
        folder=material.folder,
        is_first_session=material.is_first_session,
        session_id=job.session_id,
        contribution_id=source.contribution_id,
    )
    return tuple(carry_notices(source.content, plan))
