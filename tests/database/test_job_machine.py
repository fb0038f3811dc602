"""The life of jobs in the database: sent, claimed, lost, woken, swept. Time is set by the tests."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic import embedded, sessions
from dialectic.domain.job import Job, JobStatus
from dialectic.engine import Engine
from dialectic.errors import Conflict, LeaseLost
from dialectic.store import jobs
from dialectic.store.database import Address, Connection, Database
from tests.database.machine import (
    LOST_MAX,
    STAGE,
    START,
    TERMS,
    AdminConnection,
    Machine,
    build_job,
    database_of_a_module,
    forget_jobs,
    read_moves,
    start_stage,
    until_blocked,
)


@pytest.fixture(scope="module")
def address(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def machine(engine: Engine, admin: AdminConnection) -> AsyncIterator[Machine]:
    async with Machine.open(engine) as opened:
        yield opened
    await forget_jobs(admin)


async def complete(connection: Connection, job: Job) -> None:
    await jobs.complete(connection, job, results={}, finished_units=0)


async def fail(connection: Connection, job: Job) -> None:
    await jobs.fail(connection, job, code="provider_auth", message="It cannot be done.")


# -- a job and its message ------------------------------------------------------------------------


async def test_a_job_that_is_committed_has_one_message_that_names_it_and_its_tenant(
    machine: Machine,
) -> None:
    job_id = await machine.insert()
    messages = await machine.messages()
    assert [row["payload"].decode() for row in messages] == [
        f"{machine.account.tenant_id} {job_id}"
    ]
    assert (messages[0]["entrypoint"], messages[0]["status"]) == ("job", "queued")


async def test_a_job_that_is_rolled_back_has_no_message(machine: Machine) -> None:
    async with machine.begin() as connection:
        new = build_job(machine.session_id)
        assert await jobs.insert_job(connection, machine.account.tenant_id, new)
        await connection.execute("rollback")
    assert await machine.messages() == []


@pytest.mark.slow
async def test_of_a_thousand_transactions_those_that_commit_and_no_others_have_messages(
    machine: Machine,
) -> None:
    chance = random.Random(1)
    fates = [chance.choices(["commit", "rollback", "hang up"], [10, 9, 1])[0] for _ in range(1000)]
    committed: set[UUID] = set()

    async def run(turns: list[str]) -> None:
        while turns:
            async with machine.begin() as connection:
                await connection.execute("rollback")
                while turns:
                    fate = turns.pop()
                    await connection.execute("begin")
                    await connection.fetch(
                        "select set_config('dialectic.tenant', $1, true)",
                        str(machine.account.tenant_id),
                    )
                    new = build_job(machine.session_id)
                    await jobs.insert_job(connection, machine.account.tenant_id, new)
                    if fate == "hang up":
                        break
                    await connection.execute(fate)
                    if fate == "commit":
                        committed.add(new.id)

    await asyncio.gather(*(run(fates[n::4]) for n in range(4)))
    rows = await machine.fetch("select id from dialectic_generation_jobs")
    assert {row["id"] for row in rows} == committed
    sent = [UUID(row["payload"].decode().split()[1]) for row in await machine.messages()]
    assert Counter(sent) == Counter(committed)


async def test_a_job_that_runs_later_has_a_message_that_comes_no_earlier(machine: Machine) -> None:
    job = await machine.take(await machine.insert())
    await machine.forget_messages()
    sent_at = await machine.db.fetch("select clock_timestamp()")
    await machine.retry(job, delay_s=100.0)
    (message,) = await machine.messages(job.id)
    assert message["execute_after"] >= sent_at[0][0] + timedelta(seconds=100)
    assert message["execute_after"] <= sent_at[0][0] + timedelta(seconds=110)


# -- claims ---------------------------------------------------------------------------------------


async def test_each_claim_has_a_new_token(machine: Machine) -> None:
    job_id = await machine.insert()
    tokens = []
    for _ in range(4):
        job = await machine.take(job_id)
        tokens.append(job.attempt)
        await machine.release(job)
    assert tokens == [1, 2, 3, 4]


async def test_a_job_that_is_held_is_not_to_be_had(machine: Machine) -> None:
    job_id = await machine.insert()
    await machine.take(job_id, worker="first")
    assert await machine.claim(job_id, worker="second") is None
    assert (await machine.look(job_id))["worker"] == "first"


async def test_of_many_that_claim_at_once_one_gets_the_job(machine: Machine) -> None:
    job_ids = [await machine.insert() for _ in range(20)]

    async def claim(db: Database, job_id: UUID, start: asyncio.Barrier) -> Job | None:
        key = (machine.account.tenant_id, job_id)
        await start.wait()
        claimed = await jobs.claim(db, [key], worker="w", terms=TERMS, lost_max=LOST_MAX)
        return claimed.get(key)

    async with machine.others(8) as db:
        for job_id in job_ids:
            start = asyncio.Barrier(8)
            found = await asyncio.gather(*(claim(db, job_id, start) for _ in range(8)))
            assert [job.attempt for job in found if job is not None] == [1]


async def test_a_claim_of_several_returns_those_that_are_to_be_had(machine: Machine) -> None:
    free, held, later = [await machine.insert() for _ in range(3)]
    await machine.take(held)
    await machine.retry(await machine.take(later))
    claimed = await machine.claim_all([held, uuid4(), free, later])
    assert [job_id for _, job_id in claimed] == [free]


async def test_a_job_is_not_to_be_had_before_its_time(machine: Machine) -> None:
    job_id = await machine.insert()
    await machine.retry(await machine.take(job_id), delay_s=10.0)
    await machine.advance(9.9)
    assert await machine.claim(job_id) is None
    await machine.advance(0.1)
    assert (await machine.take(job_id)).retry_count == 1


async def test_a_retry_keeps_its_error_and_counts_only_where_it_should(machine: Machine) -> None:
    job_id = await machine.insert()
    for counts in (True, False, True):
        await machine.retry(await machine.take(job_id), delay_s=0.0, counts=counts)
    row = await machine.look(job_id)
    assert (row["retry_count"], row["attempt_count"]) == (2, 3)
    assert [(error["attempt"], error["code"]) for error in row["error_details"]] == [
        (1, "provider_transient"),
        (2, "provider_transient"),
        (3, "provider_transient"),
    ]


async def test_a_job_of_another_tenant_is_found_only_under_its_own(machine: Machine) -> None:
    job_id = await machine.insert()
    stranger = (uuid4(), job_id)
    assert (
        await jobs.claim(machine.db, [stranger], worker="w", terms=TERMS, lost_max=LOST_MAX) == {}
    )


# -- leases ---------------------------------------------------------------------------------------


async def test_a_silent_worker_is_suspected_first_and_loses_the_job_after_a_grace(
    machine: Machine,
) -> None:
    job_id = await machine.insert()
    await machine.take(job_id, worker="silent")
    await machine.advance(TERMS.lease_s + 0.1)
    assert await machine.claim(job_id, worker="other") is None
    await machine.sweep()
    assert (await machine.look(job_id))["suspect_at"] == machine.clock
    await machine.advance(TERMS.grace_s - 0.1)
    assert await machine.claim(job_id, worker="other") is None
    await machine.advance(0.1)
    job = await machine.take(job_id, worker="other")
    row = await machine.look(job_id)
    assert (job.attempt, row["worker"], row["lost_count"], row["suspect_at"]) == (
        2,
        "other",
        1,
        None,
    )
    (error,) = row["error_details"]
    assert (error["attempt"], error["code"]) == (1, "worker_lost")
    assert "silent" in error["message"]


async def test_a_worker_that_beats_is_never_suspected(machine: Machine) -> None:
    job = await machine.take(await machine.insert())
    for _ in range(20):
        await machine.advance(TERMS.lease_s * 0.9)
        assert await machine.beat(job) == {job.id}
        await machine.sweep()
        assert (await machine.look(job.id))["suspect_at"] is None


async def test_a_heartbeat_takes_the_suspicion_back(machine: Machine) -> None:
    job = await machine.take(await machine.insert())
    await machine.advance(TERMS.lease_s + 1)
    await machine.sweep()
    assert await machine.beat(job) == {job.id}
    await machine.advance(TERMS.grace_s + 1)
    await machine.sweep()
    assert await machine.claim(job.id, worker="other") is None
    await machine.complete(job)


async def test_a_job_that_takes_down_worker_after_worker_is_given_up(machine: Machine) -> None:
    job_id = await machine.insert()
    for lost in range(LOST_MAX + 1):
        job = await machine.take(job_id, worker=f"worker {lost}")
        await machine.lose_lease(job)
    assert await machine.claim(job_id, worker="last") is None
    row = await machine.look(job_id)
    assert row["status"] == JobStatus.RETRY_LOOP_FAILED
    assert [error["code"] for error in row["error_details"]] == ["worker_lost"] * (LOST_MAX + 1)
    assert row["lost_count"] == LOST_MAX + 1


ENDS: dict[str, Callable[[Connection, Job], Awaitable[None]]] = {
    "complete": complete,
    "fail": fail,
    "fail after all retries": partial(
        jobs.fail, code="provider_transient", message="Busy.", retries_used_up=True
    ),
    "retry": partial(jobs.retry, code="x", message="Busy.", delay_s=0.0, counts=True),
    "pause": partial(jobs.pause, code="insufficient_funds", message="No money."),
    "release": jobs.release,
    "wait for children": partial(jobs.wait_for_children, total_steps=1),
    "hold the lease": jobs.hold_lease,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_worker_that_lost_its_job_writes_nothing_more(machine: Machine, end: str) -> None:
    zombie = await machine.take(await machine.insert(), worker="zombie")
    await machine.lose_lease(zombie)
    await machine.take(zombie.id, worker="other")
    before = await machine.look(zombie.id)
    follow_up = build_job(machine.session_id)

    async def work(connection: Connection) -> None:
        await jobs.insert_job(connection, zombie.tenant_id, follow_up)
        await ENDS[end](connection, zombie)

    with pytest.raises(LeaseLost, match=f"{zombie.id} is no longer held by attempt 1"):
        await machine.transact(work)
    assert await machine.look(zombie.id) == before
    assert await machine.messages(follow_up.id) == []
    assert await machine.beat(zombie) == set()


async def test_an_attempt_ends_once(machine: Machine) -> None:
    job = await machine.take(await machine.insert())
    await machine.complete(job)
    for end in ENDS.values():
        with pytest.raises(LeaseLost):
            await machine.transact(
                partial(end, job=job) if end is not fail else lambda c: fail(c, job)
            )
    assert await machine.status(job.id) == JobStatus.COMPLETED


async def test_of_a_worker_and_its_successor_that_end_a_job_together_only_one_does(
    machine: Machine, admin: AdminConnection
) -> None:
    slow = await machine.take(await machine.insert(), worker="slow")
    await machine.lose_lease(slow)
    async with machine.begin() as connection:
        await complete(connection, slow)
        # The row is locked by the one that ends it: a claim passes it by instead of waiting.
        assert await machine.claim(slow.id, worker="other") is None
        await connection.execute("commit")
    assert await machine.claim(slow.id, worker="other") is None
    assert (await read_moves(admin, slow.id))[-1] == "completed"
