"""Save what a job came to, in one commit, then put its files into storage.

What is committed with a turn: the chunk, or the contribution with the documents cut out of it, the
bytes of all their files, the job's move, whoever that wakes, the news of it, and the settlement of
what the answer cost. With a plan: its new children, and what it waits for. If the process dies
before the commit, nothing happened; if it dies after it, the bytes are still in their rows and any
worker carries them to storage (see `publish`). So do the files of a chunk wait: for the last turn
of its document, or for whoever comes by.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

from dialectic.core.documents.manifest import Manifest
from dialectic.core.job import ENDED, Job, JobStatus, MergePayload
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Stage
from dialectic.db.pool import Connection
from dialectic.db.tables import chunks, jobs, records
from dialectic.engine import Engine
from dialectic.pipeline.assemble import build_seed_prompt
from dialectic.pipeline.call import Answer
from dialectic.pipeline.fit.combine import Level
from dialectic.pipeline.fit.shortener import Needed
from dialectic.pipeline.gather import Material
from dialectic.pipeline.interpret import Continue, Finish
from dialectic.pipeline.load import JobContext
from dialectic.pipeline.plan import Decision
from dialectic.pipeline.reserve import Reservation, release, settle
from dialectic.pipeline.write import Written, write
from dialectic.publishing.publish import publish_files, publish_waiting


@dataclass(frozen=True, slots=True)
class Paid:
    """An answer, with whose it is and the hold it is paid out of."""

    card: ModelCard
    held: Reservation
    answer: Answer
    # What the prompt was made of.
    manifest: Manifest


async def save_turn(
    engine: Engine,
    job: Job,
    material: Material,
    outcome: Finish | Continue,
    paid: Paid | None = None,
) -> None:
    """Save one turn, whole or not at all: `LeaseLost` if the job was taken over.

    A turn that is cut off leaves a chunk, and its job goes on; the last one leaves the document.
    Without an answer nothing was called, and the document is what was said before.
    """
    answer, manifest = (None, None) if paid is None else (paid.answer, paid.manifest)
    written = write(job, material, answer, outcome, manifest)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        if written.contribution is not None:
            await _end_document(connection, job, material, written)
        else:
            await _go_on(connection, job, material, written)
        if paid is not None:
            reply = paid.answer.reply
            await settle(connection, paid.card, paid.held, reply, written.stored_id)
        else:
            await release(connection, job)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")
    if isinstance(outcome, Continue):
        return  # the job may have its next claim by now, and that one is not to be kept waiting
    files = [*written.files, *(resource.as_file() for resource in written.resources)]
    await publish_files(engine, job.tenant_id, files)
    if earlier := [path for chunk in material.chunks for path in (chunk.path, chunk.raw_path)]:
        await publish_waiting(engine, job.tenant_id, earlier)


async def _end_document(
    connection: Connection, job: Job, material: Material, written: Written
) -> None:
    contribution = written.contribution
    assert contribution is not None, "the last turn leaves the document"
    owner, files = material.owner, written.files
    await records.insert_contribution(connection, job, owner.project_id, contribution, files)
    if written.chunk is not None:
        await chunks.insert_chunk(connection, job, written.chunk)
    await records.put_resources(connection, job.tenant_id, owner, written.resources)
    results = {
        "contribution_id": str(contribution.id),
        "path": contribution.storage_path,
        "read": [
            {"label": item.label, "contribution_id": str(item.source_id)}
            for item in material.words.inputs
        ],
        "manifest": contribution.manifest,
    }
    # What is planned is documents of the process; those that are combined on the way are none.
    is_planned = not isinstance(material.payload, MergePayload)
    units = 1 if is_planned and material.payload.edition == 1 else 0
    await jobs.complete(connection, job, results=results, finished_units=units)


async def _go_on(connection: Connection, job: Job, material: Material, written: Written) -> None:
    new = written.chunk
    assert new is not None, "a turn that is cut off leaves a chunk"
    project_id = material.owner.project_id
    await records.insert_files(connection, job.tenant_id, project_id, written.files)
    await chunks.insert_chunk(connection, job, new)
    await jobs.go_on(connection, job)
    news = {
        "sessionId": str(job.session_id),
        "projectId": str(project_id),
        "stageSlug": job.stage_slug,
        "iterationNumber": job.iteration_number,
        "job_id": str(job.id),
        "modelId": str(material.payload.model_id),
        "continuationNumber": new.said.turn + 1,
        "chunk": {
            "id": str(new.id),
            "root_contribution_id": str(new.contribution_id),
            "turn_index": new.said.turn,
            "model_name": new.model_name,
            "storage_path": new.file.path,
            "size_bytes": len(new.file.data),
            "tokens_used_input": new.said.usage.input_tokens,
            "tokens_used_output": new.said.usage.output_tokens,
        },
    }
    await records.record_event(
        connection, job.session_id, "contribution_generation_continued", news
    )


# -- plans ----------------------------------------------------------------------------------------


async def save_plan(engine: Engine, job: Job, stage: Stage, decision: Decision) -> None:
    """Save the children that are new, and let the plan job wait for what is to come."""
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
        # One that is there stays, also if it was dealt from fewer inputs: a file has one author.
        new = [
            jobs.NewJob(
                id=child.id,
                session_id=job.session_id,
                parent_job_id=job.id,
                target_contribution_id=child.payload.target_contribution_id,
                stage_slug=job.stage_slug,
                iteration_number=job.iteration_number,
                payload=child.payload,
                max_retries=job.max_retries,
                step_number=child.step_number,
            )
            for child in decision.children
            if (child.step_number, child.payload.rank) not in existing
        ]
        await jobs.insert_jobs(connection, job.tenant_id, new)
        await jobs.wait(connection, job, wait)
        engine.failpoints.reach("before_commit")

    try:
        await engine.db.transact(job.tenant_id, functools.partial(work, is_alone=True))
    except _EndsStep:
        await engine.db.transact(job.tenant_id, functools.partial(work, is_alone=False))
    engine.failpoints.reach("after_commit")


class _EndsStep(Exception):
    """A plan job is about to pass a step or to fail: those beside it are locked with it."""


def _ends_step(job: Job, decision: Decision, existing: Mapping[tuple[int, int], JobStatus]) -> bool:
    """Say whether a plan job that comes to wait for its children may find that it need not.

    Those that are open stay so until it has committed: to end they need its row, which is locked.
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
    """Let a job wait for a combine job, which is made unless it is there."""
    combine = jobs.NewJob(
        id=needed.id,
        session_id=job.session_id,
        stage_slug=job.stage_slug,
        iteration_number=job.iteration_number,
        payload=needed.payload,
        max_retries=job.max_retries,
    )

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.wait_for(connection, job, combine, reason="what it reads is combined first")
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")


async def save_level(engine: Engine, job: Job, level: Level) -> None:
    """Save the merges of a level, and let their combine job wait for them."""
    new = [
        jobs.NewJob(
            id=merge.id,
            session_id=job.session_id,
            parent_job_id=job.id,
            stage_slug=job.stage_slug,
            iteration_number=job.iteration_number,
            payload=merge.payload,
            max_retries=job.max_retries,
            step_number=level.number,
        )
        for merge in level.merges
    ]

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.insert_jobs(connection, job.tenant_id, new)
        # It looks again after every level: how many there are, their lengths tell.
        await jobs.wait(connection, job, jobs.Wait(total_steps=level.number + 1))
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")


async def save_combined(engine: Engine, job: Job, level: Level) -> None:
    """Save what a combine job came to: whoever waits for it goes on."""
    results = {"documents": [str(made) for made in level.documents]}

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.complete(connection, job, results=results, finished_units=0)
        engine.failpoints.reach("before_commit")

    await engine.db.transact(job.tenant_id, work)
    engine.failpoints.reach("after_commit")


async def save_wait(engine: Engine, job: Job, missing: tuple[str, ...]) -> None:
    """Let a job wait for documents that others make."""
    wait = jobs.Wait(total_steps=1, has_children=False, awaits=missing)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await jobs.wait(connection, job, wait)

    await engine.db.transact(job.tenant_id, work)


async def save_seed(engine: Engine, job: Job, scene: JobContext, stage: Stage) -> None:
    """Write the stage's seed prompt, unless another model's job was quicker."""
    seed = build_seed_prompt(scene, stage)

    async def work(connection: Connection) -> None:
        await jobs.hold_lease(connection, job)
        await records.put_resources(connection, job.tenant_id, scene.owner, [seed])

    await engine.db.transact(job.tenant_id, work)
    await publish_files(engine, job.tenant_id, [seed.as_file()])
