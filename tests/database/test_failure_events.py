"""Whoever follows a session learns why something failed, and before they learn that all is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID

import pytest

from dialectic.core.job import Job, JobStatus
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import ProviderAuth
from tests.database.job_table import AdminConnection, Machine, build_job, insert_jobs, working
from tests.database.running_worker import Workshop, finish

FAILED, ENDED = "contribution_generation_failed", "contribution_generation_complete"


@pytest.fixture
async def shop(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> Workshop:
    return await Workshop.open(engine, worker_engine, admin)


@pytest.fixture
async def machine(engine: Engine) -> AsyncIterator[Machine]:
    async with Machine.open(engine) as opened:
        await opened.fetch(
            "insert into dialectic_stage_runs (tenant_id, session_id, iteration_number, stage_slug,"
            " planned_units, status, position) values ($1, $2, 1, 'thesis', 3, 'generating', 1)",
            opened.account.tenant_id,
            opened.session_id,
        )
        yield opened


async def list_told(machine: Machine) -> list[tuple[str, str | None]]:
    """What was told of failures and of the end, in order, each with its code or status."""
    rows = await machine.fetch(
        "select type, data from notifications where session_id = $1 and type in ($2, $3)"
        " order by id",
        machine.session_id,
        FAILED,
        ENDED,
    )
    return [
        (row["type"], row["data"].get("status") or row["data"]["error"]["code"]) for row in rows
    ]


async def test_the_last_failure_is_told_before_the_end_of_its_stage(machine: Machine) -> None:
    first, last = await machine.take_all(await machine.insert_all([{}, {}]))
    await machine.fail(first)
    await machine.fail(last, message="The key is wrong.")
    assert await list_told(machine) == [
        (FAILED, "provider_auth"),
        (FAILED, "provider_auth"),
        (ENDED, "failed"),
    ]
    event = (await machine.events(FAILED))[-1]
    assert event == {
        "sessionId": str(machine.session_id),
        "stageSlug": "thesis",
        "iterationNumber": 1,
        "job_id": str(last.id),
        "error": {"code": "provider_auth", "message": "The key is wrong.", "remedy": None},
    }


async def test_a_job_that_took_down_too_many_workers_is_told_of(machine: Machine) -> None:
    job_id = await machine.insert()
    while (await machine.status(job_id)) is not JobStatus.RETRY_LOOP_FAILED:
        if job := await machine.claim(job_id):
            await machine.lose_lease(job)
    assert await list_told(machine) == [(FAILED, "worker_lost"), (ENDED, "failed")]


async def test_a_job_that_fails_with_its_prerequisite_is_told_of(machine: Machine) -> None:
    first = await machine.insert()
    waiter = await machine.insert(
        prerequisite_job_id=first, status=JobStatus.WAITING_FOR_PREREQUISITE
    )
    await machine.fail(await machine.take(first))
    assert await machine.status(waiter) is JobStatus.FAILED
    assert await list_told(machine) == [
        (FAILED, "provider_auth"),
        (FAILED, "prerequisite_failed"),
        (ENDED, "failed"),
    ]


async def test_what_is_cancelled_with_its_parent_is_not_told_of(machine: Machine) -> None:
    parent = await machine.take(await machine.insert())
    children = [
        build_job(machine.session_id, parent_job_id=parent.id, step_number=1) for _ in range(3)
    ]
    await insert_jobs(machine.db, parent.tenant_id, children)
    await machine.transact(lambda c: jobs.wait(c, parent, jobs.Wait(total_steps=1)))
    await machine.fail(await machine.take(children[0].id))
    assert await machine.statuses([child.id for child in children]) == [
        "failed",
        "cancelled",
        "cancelled",
    ]
    assert await list_told(machine) == [
        (FAILED, "provider_auth"),
        (FAILED, "child_failed"),
        (ENDED, "failed"),
    ]


async def test_a_worker_tells_of_every_failure_once(shop: Workshop) -> None:
    good, bad, buggy = (await shop.insert())[0], (await shop.insert())[0], (await shop.insert())[0]

    async def run(engine: Engine, job: Job) -> None:
        if job.id == bad:
            raise ProviderAuth("The key is wrong.")
        if job.id == buggy:
            raise ZeroDivisionError
        await finish(engine, job)

    async with working(shop.worker_engine, run):
        await shop.until_status("completed", good)
        await shop.until_status("failed", bad, buggy)
    told = [data for kind, data in await shop.events() if kind == FAILED]
    codes = {UUID(data["job_id"]): data["error"]["code"] for data in told}
    assert (len(told), codes) == (2, {bad: "provider_auth", buggy: "internal"})


# -- throttling ------------------------------------------------------------------------------------


async def test_time_in_which_a_job_stood_still_is_no_time_of_being_throttled(
    machine: Machine,
) -> None:
    job_id = await machine.insert()
    await machine.retry(await machine.take(job_id), delay_s=60.0, counts=False)
    await machine.advance(600)
    throttled = await machine.take(job_id)
    assert throttled.throttled_s == 600.0
    await machine.retry(throttled, delay_s=60.0, counts=False)

    await machine.transact(lambda c: jobs.pause_session(c, machine.session_id))
    await machine.advance(12 * 3600)
    await machine.transact(lambda c: jobs.resume_session(c, machine.session_id))
    resumed = await machine.take(job_id)
    assert resumed.throttled_s == 0.0
    await machine.release(resumed)
    assert (await machine.look(job_id))["throttled_since"] is None


async def test_another_error_ends_a_spell_of_being_throttled(machine: Machine) -> None:
    job_id = await machine.insert()
    await machine.retry(await machine.take(job_id), delay_s=0.0, counts=False)
    await machine.advance(600)
    await machine.retry(await machine.take(job_id), delay_s=0.0, counts=True)
    assert (await machine.take(job_id)).throttled_s == 0.0
