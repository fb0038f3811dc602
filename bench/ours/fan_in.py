"""A parent of many: how soon it goes on when the last of its children has ended."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid5

import asyncpg

from bench.child import Options
from bench.ours.engine import create_sessions, open_engine, working
from bench.ours.queue import complete_at_once
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.documents.file_paths import Relation
from dialectic.core.job import ExecutePayload, Input, Job
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.records import open_account
from dialectic.engine import Engine
from dialectic.worker.worker import Worker


async def fan_in(options: Options) -> dict[str, list[float]]:
    """Time from the end of the last of many children until their parent runs again."""
    resumed: asyncio.Queue[tuple[Job, float]] = asyncio.Queue()

    async def plan_or_complete(engine: Engine, job: Job) -> None:
        if job.payload_json["job_type"] != "plan":
            await complete_at_once(engine, job)
        elif job.current_step == 1:
            await _wait_for_children(engine, job, options["children"])
        else:
            resumed.put_nowait((job, time.time()))
            await complete_at_once(engine, job)

    samples_ms = []
    admin = await asyncpg.connect(options["url"])
    async with (
        open_engine(options, APP_ROLE) as desk,
        open_engine(options, WORKER_ROLE) as engine,
        working(Worker(engine, concurrency=16, run_job=plan_or_complete)),
    ):
        account = await open_account(desk.db, "fan-in")
        for session_id in await create_sessions(desk, account, count=options["times"], models=1):
            await Tenant(desk, account).run(sessions.generate, session_id)
            parent, resumed_at = await resumed.get()
            last = await admin.fetchval(
                "select extract(epoch from max(completed_at))::float8"
                " from dialectic.dialectic_generation_jobs where parent_job_id = $1",
                parent.id,
            )
            samples_ms.append((resumed_at - last) * 1000)
    await admin.close()
    return {"woken_ms": samples_ms}


async def _wait_for_children(engine: Engine, parent: Job, count: int) -> None:
    payload = parent.payload_json
    source = uuid5(parent.id, "source")

    async def plan(connection: Connection) -> None:
        for number in range(1, count + 1):
            child = jobs.NewJob(
                id=uuid5(parent.id, str(number)),
                session_id=parent.session_id,
                stage_slug=parent.stage_slug,
                iteration_number=parent.iteration_number,
                parent_job_id=parent.id,
                step_number=1,
                payload=ExecutePayload(
                    model_id=payload["model_id"],
                    model_name=payload["model_name"],
                    model_index=1,
                    ordinal=number,
                    output_type="thesis",
                    step_name="child",
                    inputs=(Input(contribution_id=source, rule=0),),
                    rank=number,
                    origin=1,
                    source_group=None,
                    target_contribution_id=None,
                    naming=Relation(),
                ),
                max_retries=0,
            )
            await jobs.insert_job(connection, parent.tenant_id, child)
        await jobs.wait(connection, parent, jobs.Wait(total_steps=2))

    await engine.db.transact(parent.tenant_id, plan)
