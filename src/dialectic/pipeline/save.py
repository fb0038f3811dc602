"""Save a job's outcome in one commit, then copy its files to storage.

A turn commits the chunk, or the contribution with its extracted documents; the bytes of their
files; the job's new state and the jobs it wakes; the events; and the settlement of the call. A plan
commits its new child jobs and what it waits for. If the process dies before the commit, nothing has
changed. If it dies after the commit, the bytes are in the database and any worker copies them to
storage (see `publish`). The files of a chunk are published with the last turn of its document, or
earlier by any worker that publishes pending files.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from dialectic.contract.events import (
    AnswerLimited,
    ContributionContinued,
    DocumentLacking,
    SavedChunk,
)
from dialectic.core.documents.prompts import Manifest
from dialectic.core.documents.shortcomings import COPY, list_missing
from dialectic.core.documents.turns import name_reason
from dialectic.core.job import ENDED, Job, JobStatus, MergePayload
from dialectic.core.models.messages import Reply
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Stage
from dialectic.db.pool import Connection
from dialectic.db.tables import contributions, files, jobs, plan_files, records
from dialectic.db.tables.files import make_due
from dialectic.db.tables.records import NewResource
from dialectic.engine import Engine
from dialectic.errors import ProviderError
from dialectic.pipeline.assemble import build_seed_prompt
from dialectic.pipeline.call import Answer
from dialectic.pipeline.fit.combine import Level, PlannedMerge
from dialectic.pipeline.fit.turn import Needed
from dialectic.pipeline.gather import Material
from dialectic.pipeline.interpret import Continue, Finish
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.pending import fill_pending
from dialectic.pipeline.plan import Decision, PlannedChild
from dialectic.pipeline.reserve import Reservation, release, release_unsent, settle
from dialectic.pipeline.write import Written, write
from dialectic.publishing.publish import publish_files, publish_waiting


@dataclass(frozen=True, slots=True)
class Paid:
    """An answer with its model and the reservation that pays for it."""

    card: ModelCard
    held: Reservation
    answer: Answer
    # What the prompt contained.
    manifest: Manifest

    def replace_reply(self, reply: Reply) -> Paid:
        """Build the same with the answer's text as it is used."""
        return replace(self, answer=replace(self.answer, reply=reply))


async def save_turn(
    engine: Engine,
    job: Job,
    material: Material,
    outcome: Finish | Continue,
    paid: Paid | None = None,
    error: ProviderError | None = None,
) -> None:
    """Save one turn atomically; raises `LeaseLost` if another worker has taken the job over.

    A cut-off turn saves a chunk and its job continues; the last turn saves the document. Without
    an answer, no call was made or it failed with `error`: the document consists of the earlier
    turns.
    """
    answer, manifest = (None, None) if paid is None else (paid.answer, paid.manifest)
    written = write(job, material, answer, outcome, manifest)

    taken: list[NewResource] = []

    async def pay(connection: Connection) -> None:
        if paid is not None:
            await _say_limit(connection, job, material, paid.answer)
            reply = paid.answer.reply
            await settle(connection, paid.card, paid.held, reply, written.stored_id)
        elif error is not None:
            await release_unsent(connection, engine, job, error)
        else:
            await release(connection, job)

    async def store(connection: Connection) -> None:
        if written.contribution is None:
            await jobs.hold_lease(connection, job)
            await _go_on(connection, job, material, written)
            await pay(connection)
            return
        await _insert_document(connection, job, material, written)
        await pay(connection)
        # Last: it locks the stage, for which the other documents of the stage wait.
        taken[:] = await _end_document(connection, job, material, written)

    await _commit(engine, job, store)
    if isinstance(outcome, Continue):
        return  # the job may already be claimed again: do not delay its next turn
    resources = (*written.resources, *written.plan, *taken)
    files = [*written.files, *(resource.as_file() for resource in resources)]
    await publish_files(engine, job.tenant_id, files)
    if earlier := [path for chunk in material.chunks for path in (chunk.path, chunk.raw_path)]:
        await publish_waiting(engine, job.tenant_id, earlier)


async def _commit(engine: Engine, job: Job, store: Callable[[Connection], Awaitable[None]]) -> None:
    """Store what an attempt made in one commit; the first statement locks the job."""

    async def work(connection: Connection) -> None:
        await store(connection)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")


async def _insert_document(
    connection: Connection, job: Job, material: Material, written: Written
) -> None:
    """Store a document with what was cut out of it, and tell what it lacks."""
    contribution = written.contribution
    assert contribution is not None, "the last turn saves the document"
    owner, first_id = material.owner, contribution.original_model_contribution_id
    if first_id is not None:
        await jobs.hold_lease(connection, job)
        await contributions.supersede(connection, first_id)
    await contributions.save_document(
        connection, job, owner, contribution, written.files, written.resources
    )
    if written.chunk is not None:
        await contributions.insert_chunk(connection, job, written.chunk)
    await plan_files.put_plan(connection, job.tenant_id, owner, written.plan)
    if contribution.edit_version > 1:  # the plan page is made of the newest versions
        await make_due(connection, owner.project_id)
    await _tell_shortcomings(connection, job, contribution)


async def _end_document(
    connection: Connection, job: Job, material: Material, written: Written
) -> tuple[NewResource, ...]:
    """End the job of a document and wake others; return plan files of another model."""
    contribution = written.contribution
    assert contribution is not None, "the last turn saves the document"
    results = {
        "contribution_id": str(contribution.id),
        "path": contribution.storage_path,
        "read": [
            {
                "label": item.label,
                "contribution_id": str(item.source_id),
                "version_id": str(item.version_id),
            }
            for item in material.words.inputs
        ],
        "manifest": contribution.manifest,
    }
    # Progress counts only planned documents: merges are not part of the plan.
    is_planned = not isinstance(material.payload, MergePayload)
    units = 1 if is_planned and material.payload.edition == 1 else 0
    await jobs.complete(connection, job, results=results, finished_units=units)
    return await fill_pending(connection, job, material, written)


async def _tell_shortcomings(
    connection: Connection, job: Job, contribution: contributions.NewContribution
) -> None:
    missing, is_copy = list_missing(contribution.flags), COPY in contribution.flags
    if not missing and not is_copy and not contribution.is_incomplete:
        return
    event = DocumentLacking(
        session_id=job.session_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        job_id=job.id,
        contribution_id=contribution.id,
        model_name=contribution.model_name,
        missing=missing,
        is_incomplete=contribution.is_incomplete,
        is_copy=is_copy,
    )
    await records.record_event(connection, event)


async def _say_limit(connection: Connection, job: Job, material: Material, answer: Answer) -> None:
    """Announce that the available money allowed only a shorter answer."""
    if answer.limited_from is None:
        return
    event = AnswerLimited(
        session_id=job.session_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        job_id=job.id,
        model_id=material.payload.model_id,
        model_name=material.payload.model_name,
        turn_index=len(material.chunks),
        max_output_tokens=answer.request.max_output_tokens,
        limited_from_tokens=answer.limited_from,
    )
    await records.record_event(connection, event)


async def _go_on(connection: Connection, job: Job, material: Material, written: Written) -> None:
    new = written.chunk
    assert new is not None, "a cut-off turn saves a chunk"
    project_id = material.owner.project_id
    await files.insert_files(connection, job.tenant_id, project_id, written.files)
    await contributions.insert_chunk(connection, job, new)
    await jobs.go_on(connection, job)
    event = ContributionContinued(
        session_id=job.session_id,
        project_id=project_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        job_id=job.id,
        model_id=material.payload.model_id,
        continuation_number=new.said.turn + 1,
        reason=name_reason(new.said),
        chunk=SavedChunk(
            id=new.id,
            root_contribution_id=new.contribution_id,
            turn_index=new.said.turn,
            model_name=new.model_name,
            storage_path=new.file.path,
            size_bytes=len(new.file.data),
            tokens_used_input=new.said.usage.input_tokens,
            tokens_used_output=new.said.usage.output_tokens,
        ),
    )
    await records.record_event(connection, event)


# -- plans ----------------------------------------------------------------------------------------


async def save_plan(
    engine: Engine, job: Job, stage: Stage, decision: Decision, *, begins: bool
) -> None:
    """Save the new child jobs and let the plan job wait for the rest.

    The first child of a stage begins it.
    """
    step = stage.steps[job.current_step - 1]
    has_children = any(c.step_number == job.current_step for c in decision.children)
    wait = jobs.Wait(
        total_steps=len(stage.steps),
        has_children=has_children,
        on_child_failure=step.on_child_failure,
        quorum_min=step.quorum_min,
        awaits=decision.awaits,
        is_step_open=decision.is_step_open,
    )

    async def work(connection: Connection, *, is_alone: bool) -> None:
        await (jobs.hold_lease if is_alone else jobs.hold_plan)(connection, job)
        existing = await jobs.list_children(connection, job.id)
        if is_alone and _ends_step(job, decision, existing):
            raise _EndsStep
        # Keep an existing child even if it was planned from fewer inputs: a file has one author.
        new = [
            _build_job(
                job,
                child,
                parent_job_id=job.id,
                step_number=child.step_number,
                target_contribution_id=child.payload.target_contribution_id,
            )
            for child in decision.children
            if (child.step_number, child.payload.rank) not in existing
        ]
        await jobs.insert_jobs(connection, job.tenant_id, new)
        await jobs.wait(connection, job, wait)
        if new and begins:
            await _begin_stage(connection, job)
        engine.failpoints.reach("before_commit")

    try:
        await engine.db.transact(job.tenant_id, functools.partial(work, is_alone=True))
    except _EndsStep:
        await engine.db.transact(job.tenant_id, functools.partial(work, is_alone=False))
    engine.failpoints.reach("after_commit")


def _build_job(
    job: Job,
    planned: PlannedChild | PlannedMerge | Needed,
    *,
    parent_job_id: UUID | None = None,
    step_number: int = 0,
    target_contribution_id: UUID | None = None,
) -> jobs.NewJob:
    """Build a new job that a job needs, in the same stage."""
    return jobs.NewJob(
        id=planned.id,
        session_id=job.session_id,
        parent_job_id=parent_job_id,
        target_contribution_id=target_contribution_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        payload=planned.payload,
        max_retries=job.max_retries,
        step_number=step_number,
    )


class _EndsStep(Exception):
    """A plan job is about to end a step or fail, so its sibling plan jobs must be locked too."""


def _ends_step(job: Job, decision: Decision, existing: Mapping[tuple[int, int], JobStatus]) -> bool:
    """Tell whether the current step may end in this commit, without waiting for children.

    Open children cannot end before this commit: to end, they need the plan job's locked row.
    """
    made = [status for (step, _), status in existing.items() if step == job.current_step]
    dealt = {
        (child.step_number, child.payload.rank)
        for child in decision.children
        if child.step_number == job.current_step
    }
    if any(status in ENDED and status is not JobStatus.COMPLETED for status in made):
        return True
    is_waiting = decision.is_step_open or not dealt <= existing.keys()
    return not is_waiting and all(status in ENDED for status in made)


async def save_need(engine: Engine, job: Job, needed: Needed) -> None:
    """Let a job wait for a combine job; create that job unless it exists."""
    combine = _build_job(job, needed)  # without a parent: other jobs may wait for it too
    reason = "waiting for its inputs to be combined"

    async def store(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.wait_for(connection, job, combine, reason=reason)

    await _commit(engine, job, store)


async def save_wait_for_others(engine: Engine, job: Job, others: Sequence[UUID]) -> bool:
    """Let a job wait for the first of these jobs that has not completed; say whether there is one.

    If that job has failed, this one fails too.
    """

    async def find(connection: Connection) -> UUID | None:
        return await jobs.find_incomplete(connection, others)

    needed = await engine.db.transact(job.tenant_id, find)
    if needed is None:
        return False
    reason = "waiting for the documents it reads"
    await _commit(engine, job, lambda c: jobs.wait_for_job(c, job, needed, reason=reason))
    return True


async def save_level(engine: Engine, job: Job, level: Level) -> None:
    """Save the merge jobs of a level and let their combine job wait for them."""
    new = [
        _build_job(job, merge, parent_job_id=job.id, step_number=level.number)
        for merge in level.merges
    ]

    async def store(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.insert_jobs(connection, job.tenant_id, new)
        # The number of levels depends on the lengths of the merged texts: plan after each level.
        await jobs.wait(connection, job, jobs.Wait(total_steps=level.number + 1))

    await _commit(engine, job, store)


async def save_combined(engine: Engine, job: Job, level: Level) -> None:
    """Save the result of a combine job and wake the jobs that wait for it."""
    results = {"documents": [str(made) for made in level.documents]}
    await _commit(engine, job, lambda c: jobs.complete(c, job, results=results, finished_units=0))


async def save_begin(engine: Engine, job: Job) -> None:
    """Announce that a stage without steps begins, unless another job has done so."""

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await _begin_stage(connection, job)

    await engine.db.transact(job.tenant_id, work)


async def _begin_stage(connection: Connection, job: Job) -> None:
    await records.begin_stage_run(
        connection, job.session_id, iteration=job.iteration_number, stage_slug=job.stage_slug
    )


async def save_wait(engine: Engine, job: Job, missing: tuple[str, ...]) -> None:
    """Let a job wait for documents that other jobs write."""
    wait = jobs.Wait(total_steps=1, has_children=False, awaits=missing)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.wait(connection, job, wait)

    await engine.db.transact(job.tenant_id, work)


async def save_total(engine: Engine, job: Job, context: JobContext) -> None:
    """Correct the number of planned documents of a stage after a seat was lost or joined."""
    calls = context.count_calls(job.stage_slug)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.change_total(connection, job, calls)

    await engine.db.transact(job.tenant_id, work)


async def save_seed(engine: Engine, job: Job, context: JobContext, stage: Stage) -> None:
    """Write the stage's seed prompt, unless another job has already written it."""
    seed = build_seed_prompt(context, stage)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.put_resources(connection, job.tenant_id, context.owner, [seed])

    await engine.db.transact(job.tenant_id, work)
    await publish_files(engine, job.tenant_id, [seed.as_file()])
