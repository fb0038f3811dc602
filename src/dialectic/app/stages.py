"""Start stages of a session: the stage runs, their seed prompt, and one plan job per model.

The caller checks whether a stage may start.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from dialectic.app.transaction import Transaction
from dialectic.contract.events import StageAdvanced
from dialectic.core.job import JobStatus, PlanPayload, derive_root_job_id
from dialectic.core.process.definition import Stage
from dialectic.core.seats import name_seats, number_slots, slugify_model
from dialectic.core.strict_json import Json
from dialectic.db.tables import jobs, records
from dialectic.db.tables.records import SQL
from dialectic.pipeline.assemble import build_seed_prompt
from dialectic.pipeline.load import JobContext, list_siblings, load_session_context


async def begin_stages(tx: Transaction, session: asyncpg.Record) -> list[UUID]:
    """Create the stage that is due and, on autopilot, the stages after it."""
    connection, tenant_id = tx.connection, tx.account.tenant_id
    context = await load_session_context(
        tx.engine, connection, session["id"], session["iteration_count"]
    )
    process, stage_slug = context.process, session["current_stage_slug"]
    first = process.load_stage(stage_slug)
    last = process.load_stage(session["until_stage_slug"]) if context.is_autopilot else first
    stages = process.order[process.position(first.slug) - 1 : process.position(last.slug)]
    roots = {stage.slug: _plan_roots(context, stage, is_due=stage is first) for stage in stages}
    for stage in stages:
        is_new = await _insert_stage_run(tx, context, stage, is_due=stage is first)
        if not is_new:
            break
        if stage is first:
            await connection.execute(SQL["mark_generating"], context.session_id)
            first_seat = context.get_seats(stage.slug)[0]
            siblings = await list_siblings(connection, context, stage.slug, model_index=first_seat)
            seed = build_seed_prompt(siblings, stage)
            await records.put_resources(connection, tenant_id, context.owner, [seed])
        await jobs.insert_jobs(connection, tenant_id, roots[stage.slug])
    return [job.id for job in roots[first.slug]]


async def begin_at(
    tx: Transaction, session_id: UUID, stage: Stage, *, until: str, iteration: int
) -> None:
    """Move a session to a stage; create it and, on autopilot, the stages after it."""
    await tx.connection.execute(SQL["begin_stage"], session_id, stage.slug, until, iteration)
    session = await records.load_session(tx.connection, session_id)
    await begin_stages(tx, session)


async def _insert_stage_run(
    tx: Transaction, context: JobContext, stage: Stage, *, is_due: bool
) -> bool:
    """Create a stage; only one that is due begins, the others are planned."""
    connection, session_id, iteration = tx.connection, context.session_id, context.iteration
    calls = context.count_calls(stage.slug)
    steps = {
        part.output_type: {
            "label": part.label,
            "planned": calls[part.output_type],
            "finished": 0,
        }
        for part in stage.parts
    }
    planned = calls.total()
    is_new = await connection.fetchval(
        SQL["insert_stage_run"],
        tx.account.tenant_id,
        session_id,
        iteration,
        stage.slug,
        context.process.position(stage.slug),
        stage is context.process.order[-1],
        planned,
        steps,
        list(context.get_seats(stage.slug)),
    )
    if is_new is None:
        return False
    first = steps[stage.parts[0].output_type]
    message = f"{planned} document{'' if planned == 1 else 's'} planned"
    if is_due:
        await records.begin_stage_run(
            connection, session_id, iteration=iteration, stage_slug=stage.slug
        )
        message = f"{first['label']}: 0 of {first['planned']}"
    advanced = StageAdvanced(
        session_id=session_id,
        stage_slug=stage.slug,
        iteration_number=iteration,
        current_step=0,
        total_steps=planned,
        message=message,
    )
    await records.record_event(connection, advanced)
    return True


def describe_occupant(models: Sequence[str], model_ids: Sequence[object], seat: int) -> Json:
    """Build the fields of a job's payload that tell who sits on a seat."""
    name = name_seats(models)[seat - 1]
    return {
        "model_id": model_ids[seat - 1],
        "model_name": models[seat - 1],
        "slot": number_slots(models)[seat - 1],
        "seat_name": "" if name == slugify_model(models[seat - 1]) else name,
    }


def _plan_roots(context: JobContext, stage: Stage, *, is_due: bool) -> list[jobs.NewJob]:
    """Build the plan jobs of a stage, one per maker; one without inputs yet waits for the first."""
    planned = []
    for index in context.get_seats(stage.slug):
        awaits = () if is_due else stage.list_awaited(index)
        planned.append(
            jobs.NewJob(
                id=derive_root_job_id(
                    context.session_id,
                    iteration=context.iteration,
                    stage_slug=stage.slug,
                    model_index=index,
                ),
                session_id=context.session_id,
                stage_slug=stage.slug,
                iteration_number=context.iteration,
                payload=PlanPayload(
                    **describe_occupant(context.models, context.model_ids, index),
                    model_index=index,
                    ordinal=1,
                    output_type=stage.output_type,
                ),
                max_retries=context.max_retries,
                total_steps=max(1, len(stage.steps)),
                status=JobStatus.WAITING_FOR_PREREQUISITE if awaits else JobStatus.PENDING,
                status_reason=jobs.describe_awaited(awaits) if awaits else None,
                awaits=awaits,
            )
        )
    return planned
