"""A follower of a session learns why something failed, before it learns that all is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from dialectic.core.job import Job, JobStatus
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import ProviderAuth
from tests.database.job_table import AdminConnection, JobTable, build_job, insert_jobs, working
from tests.database.running_worker import RunningSession, finish

FAILED, ENDED = "contribution_generation_failed", "contribution_generation_complete"


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


@pytest.fixture
async def job_table(engine: Engine) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        await opened.fetch(
            "insert into dialectic_stage_runs (tenant_id, session_id, iteration_number, stage_slug,"
            " planned_units, status, position) values ($1, $2, 1, 'thesis', 3, 'generating', 1)",
            opened.account.tenant_id,
            opened.session_id,
        )
        yield opened


async def list_told(job_table: JobTable) -> list[tuple[str, str | None]]:
    """What was told of failures and of the end, in order, each with its code or status."""
    rows = await job_table.fetch(
        "select type, data from notifications where session_id = $1 and type in ($2, $3)"
        " order by id",
        job_table.session_id,
        FAILED,
        ENDED,
    )
    return [
        (row["type"], row["data"].get("status") or row["data"]["error"]["code"]) for row in rows
    ]


async def test_the_last_failure_is_told_before_the_end_of_its_stage(job_table: JobTable) -> None:
    first, last = await job_table.take_all(await job_table.insert_all([{}, {}]))
    await job_table.fail(first)
    await job_table.fail(last, message="The key is wrong.")
    assert await list_told(job_table) == [
        (FAILED, "provider_auth"),
        (FAILED, "provider_auth"),
        (ENDED, "failed"),
    ]
    event = (await job_table.events(FAILED))[-1]
    assert event == {
        "sessionId": str(job_table.session_id),
        "stageSlug": "thesis",
        "iterationNumber": 1,
        "job_id": str(last.id),
        "error": {"code": "provider_auth", "message": "The key is wrong.", "remedy": None},
    }


async def test_a_job_that_took_down_too_many_workers_is_told_of(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    while (await job_table.status(job_id)) is not JobStatus.RETRY_LOOP_FAILED:
        if job := await job_table.claim(job_id):
            await job_table.lose_lease(job)
    assert await list_told(job_table) == [(FAILED, "worker_lost"), (ENDED, "failed")]


async def test_a_job_that_fails_with_its_prerequisite_is_told_of(job_table: JobTable) -> None:
    first = await job_table.insert()
    waiter = await job_table.insert(
        prerequisite_job_id=first, status=JobStatus.WAITING_FOR_PREREQUISITE
    )
    await job_table.fail(await job_table.take(first))
    assert await job_table.status(waiter) is JobStatus.FAILED
    assert await list_told(job_table) == [
        (FAILED, "provider_auth"),
        (FAILED, "prerequisite_failed"),
        (ENDED, "failed"),
    ]


async def test_what_is_cancelled_with_its_parent_is_not_told_of(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    children = [
        build_job(job_table.session_id, parent_job_id=parent.id, step_number=1) for _ in range(3)
    ]
    await insert_jobs(job_table.db, parent.tenant_id, children)
    await job_table.transact(lambda c: jobs.wait(c, parent, jobs.Wait(total_steps=1)))
    await job_table.fail(await job_table.take(children[0].id))
    assert await job_table.statuses([child.id for child in children]) == [
        "failed",
        "cancelled",
        "cancelled",
    ]
    assert await list_told(job_table) == [
        (FAILED, "provider_auth"),
        (FAILED, "child_failed"),
        (ENDED, "failed"),
    ]


async def test_a_worker_tells_of_every_failure_once(session: RunningSession) -> None:
    good, bad, buggy = (
        (await session.insert())[0],
        (await session.insert())[0],
        (await session.insert())[0],
    )

    async def run(engine: Engine, job: Job) -> None:
        if job.id == bad:
            raise ProviderAuth("The key is wrong.")
        if job.id == buggy:
            raise ZeroDivisionError
        await finish(engine, job)

    async with working(session.worker_engine, run):
        await session.until_status("completed", good)
        await session.until_status("failed", bad, buggy)
    told = [data for kind, data in await session.events() if kind == FAILED]
    codes = {UUID(data["job_id"]): data["error"]["code"] for data in told}
    assert (len(told), codes) == (2, {bad: "provider_auth", buggy: "internal"})


# -- throttling ------------------------------------------------------------------------------------


async def test_time_in_which_a_job_was_paused_does_not_count_as_throttled(
    job_table: JobTable,
) -> None:
    job_id = await job_table.insert()
    await job_table.retry(await job_table.take(job_id), delay_s=60.0, counts=False)
    await job_table.advance(600)
    throttled = await job_table.take(job_id)
    assert throttled.throttled_s == 600.0
    await job_table.retry(throttled, delay_s=60.0, counts=False)

    await job_table.transact(lambda c: jobs.pause_session(c, job_table.session_id))
    await job_table.advance(12 * 3600)
    await job_table.transact(lambda c: jobs.resume_session(c, job_table.session_id))
    resumed = await job_table.take(job_id)
    assert resumed.throttled_s == 0.0
    await job_table.release(resumed)
    assert (await job_table.look(job_id))["throttled_since"] is None


async def test_another_error_ends_a_spell_of_being_throttled(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.retry(await job_table.take(job_id), delay_s=0.0, counts=False)
    await job_table.advance(600)
    await job_table.retry(await job_table.take(job_id), delay_s=0.0, counts=True)
    assert (await job_table.take(job_id)).throttled_s == 0.0


async def test_a_claimed_job_carries_its_token_and_the_codes_of_its_errors(
    job_table: JobTable,
) -> None:
    job_id = await job_table.insert()
    first = await job_table.take(job_id)
    await job_table.retry(first, delay_s=0.0, counts=True)
    again = await job_table.take(job_id)
    assert (first.attempt, first.error_codes) == (1, ())
    assert (again.attempt, again.error_codes) == (2, ("provider_transient",))
    assert (again.key, again.retry_count) == ((job_table.account.tenant_id, job_id), 1)
