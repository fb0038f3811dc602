"""The life of jobs in the database: sent, claimed, lost, woken, swept. Time is set by the tests."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID, uuid4

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dialectic.app import sessions
from dialectic.app.transaction import Tenant, Transaction
from dialectic.core.job import Job, JobStatus
from dialectic.core.session_state import Phase, show_status
from dialectic.db.pool import WORKER_ROLE, Address, Connection, Database, read_rule
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import Conflict, LeaseLost
from tests.database.job_table import (
    LOST_MAX,
    STAGE,
    START,
    TERMS,
    AdminConnection,
    JobTable,
    build_job,
    forget_jobs,
    read_moves,
    set_clock,
    start_stage,
)
from tests.problems import refusing
from tests.waiting import until_blocked

End: TypeAlias = Callable[[Connection, Job], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


async def complete(connection: Connection, job: Job) -> None:
    await jobs.complete(connection, job, results={}, finished_units=0)


async def fail(connection: Connection, job: Job) -> None:
    await jobs.fail(connection, job, jobs.AttemptError("provider_auth", "It cannot be done."))


async def end_together(
    job_table: JobTable, admin: AdminConnection, end: End, one: Job, other: Job
) -> None:
    """End two jobs at once: the second cannot see the first, which has not committed."""
    async with job_table.begin() as first, job_table.begin() as second:
        await end(first, one)
        ending = asyncio.create_task(end(second, other))
        await until_blocked(admin, second)
        await first.execute("commit")
        await ending
        await second.execute("commit")


# -- a job and its message ------------------------------------------------------------------------


async def test_a_job_that_is_committed_has_one_message_that_names_it_and_its_tenant(
    job_table: JobTable,
) -> None:
    job_id = await job_table.insert()
    messages = await job_table.messages()
    assert [row["payload"].decode() for row in messages] == [
        f"{job_table.account.tenant_id} {job_id}"
    ]
    assert (messages[0]["entrypoint"], messages[0]["status"]) == ("job", "queued")


async def test_a_job_that_is_rolled_back_has_no_message(job_table: JobTable) -> None:
    async with job_table.begin() as connection:
        new = build_job(job_table.session_id)
        assert await jobs.insert_job(connection, job_table.account.tenant_id, new)
        await connection.execute("rollback")
    assert await job_table.messages() == []


async def test_of_a_thousand_transactions_those_that_commit_and_no_others_have_messages(
    job_table: JobTable,
) -> None:
    chance = random.Random(1)
    fates = [chance.choices(["commit", "rollback", "hang up"], [10, 9, 1])[0] for _ in range(1000)]
    committed: set[UUID] = set()

    async def run(turns: list[str]) -> None:
        while turns:
            async with job_table.begin() as connection:
                await connection.execute("rollback")
                while turns:
                    fate = turns.pop()
                    await connection.execute("begin")
                    await connection.fetch(
                        "select set_config('dialectic.tenant', $1, true)",
                        str(job_table.account.tenant_id),
                    )
                    new = build_job(job_table.session_id)
                    await jobs.insert_job(connection, job_table.account.tenant_id, new)
                    if fate == "hang up":
                        break
                    await connection.execute(fate)
                    if fate == "commit":
                        committed.add(new.id)

    await asyncio.gather(*(run(fates[n::4]) for n in range(4)))
    rows = await job_table.fetch("select id from dialectic_generation_jobs")
    assert {row["id"] for row in rows} == committed
    sent = [UUID(row["payload"].decode().split()[1]) for row in await job_table.messages()]
    assert Counter(sent) == Counter(committed)


async def test_the_message_of_a_job_that_runs_later_comes_no_earlier(job_table: JobTable) -> None:
    await set_clock(job_table.db.fetch, None)
    (job_id,) = await job_table.insert_all([{}])
    job = await job_table.take(job_id)
    await job_table.forget_messages()
    await job_table.retry(job, delay_s=100.0)
    (message,) = await job_table.messages(job_id)
    run_at = (await job_table.look(job_id))["run_at"]
    assert run_at <= message["execute_after"] < run_at + timedelta(seconds=10)


# -- claims ---------------------------------------------------------------------------------------


async def test_each_claim_has_a_new_token(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    tokens = []
    for _ in range(4):
        job = await job_table.take(job_id)
        tokens.append(job.attempt)
        await job_table.release(job)
    assert tokens == [1, 2, 3, 4]


async def test_a_job_that_is_held_cannot_be_claimed(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.take(job_id, worker="first")
    assert await job_table.claim(job_id, worker="second") is None
    assert (await job_table.look(job_id))["worker"] == "first"


async def test_of_many_that_claim_at_once_one_gets_the_job(job_table: JobTable) -> None:
    job_ids = [await job_table.insert() for _ in range(20)]

    async def claim(db: Database, job_id: UUID, start: asyncio.Barrier) -> Job | None:
        key = (job_table.account.tenant_id, job_id)
        await start.wait()
        claimed = await jobs.claim(db, [key], worker="w", terms=TERMS, lost_max=LOST_MAX)
        return claimed.get(key)

    async with job_table.others(8) as db:
        for job_id in job_ids:
            start = asyncio.Barrier(8)
            found = await asyncio.gather(*(claim(db, job_id, start) for _ in range(8)))
            assert [job.attempt for job in found if job is not None] == [1]


async def test_a_claim_of_several_jobs_returns_those_that_are_free(job_table: JobTable) -> None:
    free, held, later = [await job_table.insert() for _ in range(3)]
    await job_table.take(held)
    await job_table.retry(await job_table.take(later))
    claimed = await job_table.claim_all([held, uuid4(), free, later])
    assert [job_id for _, job_id in claimed] == [free]


async def test_a_job_cannot_be_claimed_before_its_time(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.retry(await job_table.take(job_id), delay_s=10.0)
    await job_table.advance(9.9)
    assert await job_table.claim(job_id) is None
    await job_table.advance(0.1)
    assert (await job_table.take(job_id)).retry_count == 1


async def test_a_retry_keeps_its_error_and_counts_only_where_it_should(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    for counts in (True, False, True):
        await job_table.retry(await job_table.take(job_id), delay_s=0.0, counts=counts)
    row = await job_table.look(job_id)
    assert (row["retry_count"], row["attempt_count"]) == (2, 3)
    assert [(error["attempt"], error["code"]) for error in row["error_details"]] == [
        (1, "provider_transient"),
        (2, "provider_transient"),
        (3, "provider_transient"),
    ]


async def test_a_job_of_another_tenant_is_found_only_under_its_own(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    stranger = (uuid4(), job_id)
    assert (
        await jobs.claim(job_table.db, [stranger], worker="w", terms=TERMS, lost_max=LOST_MAX) == {}
    )


# -- leases ---------------------------------------------------------------------------------------


async def test_a_silent_worker_is_suspected_first_and_loses_the_job_after_a_grace(
    job_table: JobTable,
) -> None:
    job_id = await job_table.insert()
    await job_table.take(job_id, worker="silent")
    await job_table.advance(TERMS.lease_s + 0.1)
    assert await job_table.claim(job_id, worker="other") is None
    await job_table.sweep()
    assert (await job_table.look(job_id))["suspect_at"] == job_table.clock
    await job_table.advance(TERMS.grace_s - 0.1)
    assert await job_table.claim(job_id, worker="other") is None
    await job_table.advance(0.1)
    job = await job_table.take(job_id, worker="other")
    row = await job_table.look(job_id)
    assert (job.attempt, row["worker"], row["lost_count"], row["suspect_at"]) == (
        2,
        "other",
        1,
        None,
    )
    (error,) = row["error_details"]
    assert (error["attempt"], error["code"]) == (1, "worker_lost")
    assert "silent" in error["message"]


async def test_a_worker_that_beats_is_never_suspected(job_table: JobTable) -> None:
    job = await job_table.take(await job_table.insert())
    for _ in range(20):
        await job_table.advance(TERMS.lease_s * 0.9)
        assert await job_table.beat(job) == {job.id}
        await job_table.sweep()
        assert (await job_table.look(job.id))["suspect_at"] is None


async def test_a_heartbeat_takes_the_suspicion_back(job_table: JobTable) -> None:
    job = await job_table.take(await job_table.insert())
    await job_table.advance(TERMS.lease_s + 1)
    await job_table.sweep()
    assert await job_table.beat(job) == {job.id}
    await job_table.advance(TERMS.grace_s + 1)
    await job_table.sweep()
    assert await job_table.claim(job.id, worker="other") is None
    await job_table.complete(job)


async def test_a_job_that_takes_down_worker_after_worker_is_given_up(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    for lost in range(LOST_MAX + 1):
        job = await job_table.take(job_id, worker=f"worker {lost}")
        await job_table.lose_lease(job)
    assert await job_table.claim(job_id, worker="last") is None
    row = await job_table.look(job_id)
    assert row["status"] == JobStatus.RETRY_LOOP_FAILED
    assert [error["code"] for error in row["error_details"]] == ["worker_lost"] * (LOST_MAX + 1)
    assert row["lost_count"] == LOST_MAX + 1


BUSY = jobs.AttemptError("provider_transient", "Busy.")
ENDS: dict[str, End] = {
    "complete": complete,
    "fail": fail,
    "fail after all retries": partial(jobs.fail, error=BUSY, retries_used_up=True),
    "retry": partial(jobs.retry, error=BUSY, delay_s=0.0, counts=True),
    "pause": partial(jobs.pause, error=jobs.AttemptError("insufficient_funds", "No money.")),
    "release": jobs.release,
    "wait for children": partial(jobs.wait, wait=jobs.Wait(total_steps=1)),
    "hold the lease": jobs.hold_lease,
}


@pytest.mark.parametrize("end", ENDS)
async def test_a_worker_that_lost_its_job_writes_nothing_more(
    job_table: JobTable, end: str
) -> None:
    zombie = await job_table.take(await job_table.insert(), worker="zombie")
    await job_table.lose_lease(zombie)
    await job_table.take(zombie.id, worker="other")
    before = await job_table.look(zombie.id)
    follow_up = build_job(job_table.session_id)

    async def work(connection: Connection) -> None:
        await jobs.insert_job(connection, zombie.tenant_id, follow_up)
        await ENDS[end](connection, zombie)

    with refusing(LeaseLost, reason="other_attempt", subject=str(zombie.id)):
        await job_table.transact(work)
    assert await job_table.look(zombie.id) == before
    assert await job_table.messages(follow_up.id) == []
    assert await job_table.beat(zombie) == set()


async def test_an_attempt_ends_once(job_table: JobTable) -> None:
    job = await job_table.take(await job_table.insert())
    await job_table.complete(job)
    for end in ENDS.values():
        with pytest.raises(LeaseLost):
            await job_table.transact(lambda connection, end=end: end(connection, job))  # type: ignore[misc]
    assert await job_table.status(job.id) == JobStatus.COMPLETED


async def test_of_a_worker_and_its_successor_that_end_a_job_together_only_one_does(
    job_table: JobTable, admin: AdminConnection
) -> None:
    slow = await job_table.take(await job_table.insert(), worker="slow")
    await job_table.lose_lease(slow)
    async with job_table.begin() as connection:
        await complete(connection, slow)
        # The row is locked by the one that ends it: a claim passes it by instead of waiting.
        assert await job_table.claim(slow.id, worker="other") is None
        await connection.execute("commit")
    assert await job_table.claim(slow.id, worker="other") is None
    assert (await read_moves(admin, slow.id))[-1] == "completed"


# -- children and their parent --------------------------------------------------------------------


async def test_the_last_child_wakes_the_parent_and_the_earlier_ones_do_not(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent = await job_table.take(await job_table.insert())
    children = await job_table.take_all(await job_table.insert_children(parent, 3))
    for child in children[:2]:
        await job_table.complete(child)
        assert await job_table.status(parent.id) == JobStatus.WAITING_FOR_CHILDREN
    await job_table.complete(children[2])
    assert await read_moves(admin, parent.id) == [
        "pending",
        "processing",
        "waiting_for_children",
        "completed",
    ]


async def test_a_parent_goes_on_step_by_step_until_its_recipe_ends(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent_id = await job_table.insert()
    for step in (1, 2, 3):
        parent = await job_table.take(parent_id)
        assert parent.current_step == step
        for child in await job_table.take_all(
            await job_table.insert_plan(parent, 2, total_steps=3)
        ):
            await job_table.complete(child)
    moves = await read_moves(admin, parent_id)
    assert moves.count("pending_next_step") == 2
    assert moves[-1] == "completed"
    row = await job_table.look(parent_id)
    assert (row["current_step"], row["attempt_count"], row["dispatch_count"]) == (3, 3, 3)


async def test_a_parent_that_wakes_is_sent_to_the_queue(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    (child_id,) = await job_table.insert_plan(parent, 1, total_steps=2)
    await job_table.forget_messages()
    await job_table.complete(await job_table.take(child_id))
    assert await job_table.status(parent.id) == JobStatus.PENDING_NEXT_STEP
    assert len(await job_table.messages(parent.id)) == 1


async def test_a_parent_whose_children_have_all_ended_before_it_waits_is_woken_at_once(
    job_table: JobTable,
) -> None:
    parent = await job_table.take(await job_table.insert())
    child_id = await job_table.insert(parent_job_id=parent.id, step_number=1)
    await job_table.complete(await job_table.take(child_id))
    await job_table.transact(lambda c: jobs.wait(c, parent, jobs.Wait(total_steps=2)))
    assert await job_table.status(parent.id) == JobStatus.PENDING_NEXT_STEP


async def test_the_end_of_a_grandchild_is_felt_all_the_way_up(job_table: JobTable) -> None:
    top = await job_table.take(await job_table.insert())
    (middle_id,) = await job_table.insert_children(top, 1)
    middle = await job_table.take(middle_id)
    (leaf_id,) = await job_table.insert_children(middle, 1)
    await job_table.complete(await job_table.take(leaf_id))
    assert await job_table.statuses([leaf_id, middle_id, top.id]) == ["completed"] * 3


async def test_a_failed_grandchild_fails_all_above_it(job_table: JobTable) -> None:
    top = await job_table.take(await job_table.insert())
    (middle_id,) = await job_table.insert_children(top, 1)
    (leaf_id,) = await job_table.insert_children(await job_table.take(middle_id), 1)
    await job_table.fail(await job_table.take(leaf_id), message="The key is wrong.")
    assert await job_table.statuses([leaf_id, middle_id, top.id]) == ["failed"] * 3
    assert "The key is wrong." in (await job_table.look(top.id))["error_details"][0]["message"]


async def test_two_children_that_end_at_the_same_moment_wake_the_parent_once(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent = await job_table.take(await job_table.insert())
    one, other = await job_table.take_all(await job_table.insert_children(parent, 2))
    await end_together(job_table, admin, complete, one, other)
    assert (await read_moves(admin, parent.id)).count("completed") == 1
    assert await job_table.status(parent.id) == JobStatus.COMPLETED


async def test_two_hundred_parents_of_eight_children_that_end_together_each_wake_once(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parents = await job_table.take_all(await job_table.insert_all([{}] * 200))

    async def end(connection: AdminConnection, child: Job, start: asyncio.Barrier) -> None:
        async with connection.transaction():
            await connection.fetch(
                "select set_config('dialectic.tenant', $1, true)", str(child.tenant_id)
            )
            await jobs.hold_lease(connection, child)
            await start.wait()
            await complete(connection, child)

    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(job_table.begin()) for _ in range(8)]
        for connection in connections:
            await connection.execute("rollback")
        for parent in parents:
            child_ids = await job_table.insert_plan(parent, 8, total_steps=2)
            children, start = await job_table.take_all(child_ids), asyncio.Barrier(8)
            pairs = zip(connections, children, strict=True)
            await asyncio.gather(*(end(connection, child, start) for connection, child in pairs))
    rows = await admin.fetch(
        "select job_id, count(*) as wakes from moves_made where status = 'pending_next_step'"
        " group by job_id"
    )
    assert {row["job_id"]: row["wakes"] for row in rows} == {parent.id: 1 for parent in parents}
    dispatches = [(await job_table.look(parent.id))["dispatch_count"] for parent in parents[:10]]
    assert dispatches == [2] * 10


async def test_one_lost_child_fails_the_parent_and_what_has_not_begun_is_not_begun(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent = await job_table.take(await job_table.insert())
    ids = await job_table.insert_children(parent, 6)
    done, lost, running, retrying, paused, untouched = ids
    waiting = await job_table.insert(
        parent_job_id=parent.id, step_number=1, prerequisite_job_id=untouched
    )
    await job_table.complete(await job_table.take(done))
    runner = await job_table.take(running)
    await job_table.retry(await job_table.take(retrying))
    await job_table.pause(await job_table.take(paused))
    await job_table.fail(await job_table.take(lost), message="The key is wrong.")

    assert await job_table.statuses([*ids, waiting, parent.id]) == [
        "completed",
        "failed",
        "processing",
        "cancelled",
        "cancelled",
        "cancelled",
        "cancelled",
        "failed",
    ]
    row = await job_table.look(parent.id)
    assert row["status_reason"] == "child_failed"
    (error,) = row["error_details"]
    assert error["code"] == "child_failed"
    assert str(lost) in error["message"]
    assert "The key is wrong." in error["message"]
    assert (await job_table.look(untouched))["status_reason"] == "parent ended as failed"

    await job_table.complete(runner)
    assert await job_table.statuses([running, parent.id]) == ["completed", "failed"]
    assert (await read_moves(admin, parent.id)).count("failed") == 1


@pytest.mark.parametrize(
    ("policy", "ends", "status"),
    [
        ({}, "ddd", "completed"),
        ({}, "ddf", "failed"),
        ({"on_child_failure": "any"}, "fdf", "completed"),
        ({"on_child_failure": "any"}, "fff", "failed"),
        ({"on_child_failure": "any"}, "ff", "waiting_for_children"),
        ({"on_child_failure": "quorum", "quorum_min": 2}, "dfd", "completed"),
        ({"on_child_failure": "quorum", "quorum_min": 2}, "dd", "waiting_for_children"),
        ({"on_child_failure": "quorum", "quorum_min": 2}, "df", "waiting_for_children"),
        ({"on_child_failure": "quorum", "quorum_min": 2}, "ff", "failed"),
        ({"on_child_failure": "quorum", "quorum_min": 4}, "", "failed"),
    ],
    ids=str,
)
async def test_a_parent_bears_as_many_losses_as_its_step_allows(
    job_table: JobTable, policy: dict[str, Any], ends: str, status: str
) -> None:
    parent = await job_table.take(await job_table.insert())
    ids = await job_table.insert_plan(parent, 3, total_steps=1, **policy)
    for child_id, end in zip(ids, ends, strict=False):
        child = await job_table.take(child_id)
        await (job_table.complete(child) if end == "d" else job_table.fail(child))
    assert await job_table.status(parent.id) == status


async def test_a_child_that_is_cancelled_counts_as_lost(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    (child_id,) = await job_table.insert_children(parent, 1)
    await job_table.fetch(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1", child_id
    )
    assert await job_table.status(parent.id) == JobStatus.FAILED


async def test_a_parent_that_waits_without_children_fails_with_the_reason(
    job_table: JobTable,
) -> None:
    parent = await job_table.take(await job_table.insert())
    await job_table.transact(lambda c: jobs.wait(c, parent, jobs.Wait(total_steps=2)))
    row = await job_table.look(parent.id)
    assert row["status"] == JobStatus.FAILED
    assert row["error_details"][0]["code"] == "child_failed"


async def test_children_of_another_step_are_not_counted(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    await job_table.insert(parent_job_id=parent.id, step_number=2)
    (child_id,) = await job_table.insert_plan(parent, 1, total_steps=2)
    await job_table.complete(await job_table.take(child_id))
    assert await job_table.status(parent.id) == JobStatus.PENDING_NEXT_STEP


async def test_no_job_moves_under_a_fixed_snapshot(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    (child_id,) = await job_table.insert_children(parent, 1)
    child, root = await job_table.take_all([child_id, await job_table.insert()])
    for isolation in ("repeatable read", "serializable"):
        for job in (child, root):
            async with job_table.begin(isolation) as connection:
                with pytest.raises(asyncpg.PostgresError) as caught:
                    await complete(connection, job)
                assert read_rule(caught.value) == "jobs_move_under_read_committed"
    await job_table.complete(child)
    assert await job_table.status(parent.id) == JobStatus.COMPLETED


# -- prerequisites --------------------------------------------------------------------------------


async def test_all_who_wait_for_a_job_go_on_when_it_completes(job_table: JobTable) -> None:
    first = await job_table.insert()
    waiters = await job_table.insert_all([{"prerequisite_job_id": first}] * 50)
    assert set(await job_table.statuses(waiters)) == {"waiting_for_prerequisite"}
    await job_table.complete(await job_table.take(first))
    assert set(await job_table.statuses(waiters)) == {"pending"}
    assert len(await job_table.messages()) == 1 + 50


async def test_all_who_wait_for_a_job_fail_with_it_and_say_why(job_table: JobTable) -> None:
    first = await job_table.insert()
    waiters = await job_table.insert_all([{"prerequisite_job_id": first}] * 50)
    await job_table.fail(await job_table.take(first))
    rows = [await job_table.look(waiter) for waiter in waiters]
    assert {(row["status"], row["status_reason"]) for row in rows} == {
        ("failed", "prerequisite_failed")
    }
    assert all(str(first) in row["error_details"][0]["message"] for row in rows)


async def test_a_chain_of_waiters_falls_together(job_table: JobTable) -> None:
    chain = [await job_table.insert()]
    for _ in range(5):
        chain.append(await job_table.insert(prerequisite_job_id=chain[-1]))
    await job_table.fail(await job_table.take(chain[0]))
    assert await job_table.statuses(chain) == ["failed"] * 6


async def test_a_job_that_waits_for_one_that_has_ended_does_not_wait(job_table: JobTable) -> None:
    done, lost = [await job_table.insert() for _ in range(2)]
    await job_table.complete(await job_table.take(done))
    await job_table.fail(await job_table.take(lost))
    goes_on = await job_table.insert(prerequisite_job_id=done)
    fails = await job_table.look(await job_table.insert(prerequisite_job_id=lost))
    assert len(await job_table.messages(goes_on)) == 1
    assert (fails["status"], fails["status_reason"]) == ("failed", "prerequisite_failed")
    assert str(lost) in fails["error_details"][0]["message"]
    assert fails["completed_at"] == job_table.clock


async def test_a_child_that_fails_at_its_insertion_fails_its_parent(job_table: JobTable) -> None:
    lost = await job_table.insert()
    await job_table.fail(await job_table.take(lost))
    parent = await job_table.take(await job_table.insert())
    await job_table.insert(parent_job_id=parent.id, step_number=1, prerequisite_job_id=lost)
    await job_table.transact(lambda c: jobs.wait(c, parent, jobs.Wait(total_steps=1)))
    assert await job_table.status(parent.id) == JobStatus.FAILED


@pytest.mark.parametrize(("end", "status"), [(complete, "pending"), (fail, "failed")])
async def test_a_waiter_that_comes_while_its_prerequisite_ends_waits_for_that_end(
    job_table: JobTable,
    admin: AdminConnection,
    end: End,
    status: str,
) -> None:
    first = await job_table.take(await job_table.insert())
    waiter = build_job(job_table.session_id, prerequisite_job_id=first.id)
    async with job_table.begin() as ending, job_table.begin() as coming:
        await end(ending, first)
        inserting = asyncio.create_task(jobs.insert_job(coming, first.tenant_id, waiter))
        await until_blocked(admin, coming)
        await ending.execute("commit")
        await inserting
        await coming.execute("commit")
    assert await job_table.status(waiter.id) == status


@pytest.mark.parametrize(("end", "status"), [(complete, "pending"), (fail, "failed")])
async def test_a_prerequisite_that_ends_while_a_waiter_comes_tells_it(
    job_table: JobTable,
    admin: AdminConnection,
    end: End,
    status: str,
) -> None:
    first = await job_table.take(await job_table.insert())
    waiter = build_job(job_table.session_id, prerequisite_job_id=first.id)
    async with job_table.begin() as coming, job_table.begin() as ending:
        await jobs.insert_job(coming, first.tenant_id, waiter)
        telling = asyncio.create_task(end(ending, first))
        await until_blocked(admin, ending)
        await coming.execute("commit")
        await telling
        await ending.execute("commit")
    assert await job_table.status(waiter.id) == status


async def wait_for(job_table: JobTable, job_id: UUID, prerequisite: UUID) -> None:
    await job_table.fetch(
        "update dialectic_generation_jobs set prerequisite_job_id = $2 where id = $1",
        job_id,
        prerequisite,
    )


CIRCLE = "job_waits_for_itself"


async def test_a_job_cannot_wait_for_itself(job_table: JobTable) -> None:
    job_id = uuid4()
    with refusing(Conflict, reason=CIRCLE):
        await job_table.insert(id=job_id, prerequisite_job_id=job_id)


@pytest.mark.parametrize("length", [2, 3, 8])
async def test_jobs_cannot_wait_for_each_other_in_a_circle(
    job_table: JobTable, length: int
) -> None:
    chain = [await job_table.insert()]
    while len(chain) < length:
        chain.append(await job_table.insert(prerequisite_job_id=chain[-1]))
    with refusing(Conflict, reason=CIRCLE):
        await wait_for(job_table, chain[0], chain[-1])


async def test_a_child_cannot_wait_for_those_who_wait_for_it(job_table: JobTable) -> None:
    before = await job_table.insert()
    top = await job_table.insert(prerequisite_job_id=before)
    middle = await job_table.insert(parent_job_id=top, step_number=1)
    for ancestor in (top, middle):
        with refusing(Conflict, reason=CIRCLE):
            await job_table.insert(
                parent_job_id=middle, step_number=1, prerequisite_job_id=ancestor
            )
    await job_table.insert(parent_job_id=middle, step_number=1, prerequisite_job_id=before)


async def test_the_children_of_two_parents_cannot_wait_for_each_others_parent(
    job_table: JobTable,
) -> None:
    one, other = [await job_table.insert() for _ in range(2)]
    await job_table.insert(parent_job_id=one, step_number=1, prerequisite_job_id=other)
    with refusing(Conflict, reason=CIRCLE):
        await job_table.insert(parent_job_id=other, step_number=1, prerequisite_job_id=one)


async def test_the_child_of_an_ended_parent_is_not_tried_again(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    lost, running = await job_table.insert_children(parent, 2)
    runner = await job_table.take(running)
    await job_table.fail(await job_table.take(lost))
    await job_table.retry(runner, delay_s=0.0)
    assert await job_table.claim(running) is None
    assert (await job_table.look(running))["status"] == "cancelled"


async def test_a_child_may_wait_for_its_sibling(job_table: JobTable) -> None:
    parent = await job_table.take(await job_table.insert())
    (sibling_id,) = await job_table.insert_children(parent, 1)
    child_id = await job_table.insert(
        parent_job_id=parent.id, step_number=1, prerequisite_job_id=sibling_id
    )
    await job_table.complete(await job_table.take(sibling_id))
    assert await job_table.status(parent.id) == JobStatus.WAITING_FOR_CHILDREN
    await job_table.complete(await job_table.take(child_id))
    assert await job_table.status(parent.id) == JobStatus.COMPLETED


# -- the sweeper ----------------------------------------------------------------------------------


async def test_a_lost_message_is_sent_again_once(job_table: JobTable) -> None:
    runnable = [await job_table.insert() for _ in range(3)]
    await job_table.forget_messages()
    assert await job_table.sweep() == 3
    assert await job_table.sweep() == 0
    assert [len(await job_table.messages(job_id)) for job_id in runnable] == [1, 1, 1]


async def test_a_message_is_not_sent_before_its_job_is_due(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.retry(await job_table.take(job_id), delay_s=10.0)
    await job_table.forget_messages()
    assert await job_table.sweep() == 0
    await job_table.advance(10)
    assert await job_table.sweep() == 1


async def pick_messages(job_table: JobTable) -> None:
    """Take all messages from the queue, as a worker does."""
    await job_table.db.fetch("update queue.pgqueuer set status = 'picked', heartbeat = now()")


async def test_a_message_that_someone_has_taken_is_not_doubled(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await pick_messages(job_table)
    assert await job_table.sweep() == 0
    await job_table.take(job_id)
    assert await job_table.sweep() == 0
    await job_table.forget_messages()
    assert await job_table.sweep() == 0, "a job that is held needs no message"


async def test_an_abandoned_job_is_sent_again_although_the_dead_one_has_its_message(
    job_table: JobTable,
) -> None:
    job = await job_table.take(await job_table.insert())
    await pick_messages(job_table)
    await job_table.advance(TERMS.lease_s + 1)
    assert await job_table.sweep() == 0, "suspected, not yet abandoned"
    await job_table.advance(TERMS.grace_s)
    assert await job_table.sweep() == 1
    assert [row["status"] for row in await job_table.messages(job.id)] == ["picked", "queued"]
    assert await job_table.sweep() == 0
    assert (await job_table.take(job.id, worker="other")).attempt == 2


async def test_a_parent_whose_waking_was_lost_is_woken(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent = await job_table.take(await job_table.insert())
    (child_id,) = await job_table.insert_plan(parent, 1, total_steps=2)
    await end_unnoticed(admin, child_id, JobStatus.COMPLETED)
    assert await job_table.status(parent.id) == JobStatus.WAITING_FOR_CHILDREN
    assert await job_table.sweep() == 1
    assert await job_table.status(parent.id) == JobStatus.PENDING_NEXT_STEP
    assert len(await job_table.messages(parent.id)) == 2


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (JobStatus.COMPLETED, "pending"),
        (JobStatus.FAILED, "failed"),
        (JobStatus.CANCELLED, "failed"),
    ],
)
async def test_a_waiter_whose_release_was_lost_is_released(
    job_table: JobTable, admin: AdminConnection, end: JobStatus, status: str
) -> None:
    first = await job_table.insert()
    waiters = await job_table.insert_all([{"prerequisite_job_id": first}] * 3)
    await end_unnoticed(admin, first, end)
    await job_table.sweep()
    assert await job_table.statuses(waiters) == [status] * 3


async def end_unnoticed(admin: AdminConnection, job_id: UUID, status: JobStatus) -> None:
    """End a job without anyone being told, as nothing in the program can."""
    await admin.execute("set session_replication_role = replica")
    await admin.execute(
        "update dialectic_generation_jobs"
        " set status = $2::text::dialectic_job_status, completed_at = $3 where id = $1",
        job_id,
        status,
        START,
    )
    await admin.execute("set session_replication_role = origin")


async def test_a_sweep_where_all_is_well_touches_nothing(
    job_table: JobTable, admin: AdminConnection
) -> None:
    parent = await job_table.take(await job_table.insert())
    await job_table.insert_children(parent, 2)
    held, later, paused, done = [await job_table.insert() for _ in range(4)]
    await job_table.take(held)
    await job_table.retry(await job_table.take(later))
    await job_table.pause(await job_table.take(paused))
    await job_table.complete(await job_table.take(done))
    await job_table.insert(prerequisite_job_id=held)
    versions = "select xmin::text, ctid::text, id from dialectic_generation_jobs order by id"
    before, messages = await admin.fetch(versions), await job_table.messages()
    assert await job_table.sweep() == 0
    assert await admin.fetch(versions) == before
    assert await job_table.messages() == messages


async def test_of_two_sweeps_at_once_one_has_nothing_to_do(job_table: JobTable) -> None:
    await job_table.insert()
    await job_table.forget_messages()
    async with job_table.begin() as connection:
        assert await jobs.sweep(connection, TERMS) == 1
        assert await job_table.sweep() == 0
        await connection.execute("commit")
    assert await job_table.sweep() == 0


async def test_a_sweep_takes_no_more_than_its_limit_and_the_next_takes_the_rest(
    job_table: JobTable,
) -> None:
    await job_table.insert_all([{}] * 5)
    await job_table.forget_messages()
    grace = timedelta(seconds=TERMS.grace_s)
    counts = [(await job_table.db.fetch(jobs.SQL["sweep"], grace, 2))[0][0] for _ in range(4)]
    assert counts == [2, 2, 1, 0]


@pytest.mark.parametrize("jump_s", [3600.0, -3600.0])
async def test_a_jump_of_the_clock_takes_no_job_from_a_live_worker(
    job_table: JobTable, jump_s: float
) -> None:
    held = await job_table.take_all(await job_table.insert_all([{}] * 10))
    await pick_messages(job_table)
    await job_table.advance(jump_s)
    for _ in range(5):
        await job_table.sweep()
        await job_table.advance(TERMS.beat_s)
        assert await job_table.beat(*held) == {job.id for job in held}
    rows = [await job_table.look(job.id) for job in held]
    assert {(row["attempt_count"], row["lost_count"]) for row in rows} == {(1, 0)}
    assert {row["suspect_at"] for row in rows} == {None}
    assert len(await job_table.messages()) == 10


async def test_a_suspicion_from_the_future_is_counted_again(job_table: JobTable) -> None:
    job = await job_table.take(await job_table.insert())
    await job_table.advance(3600)
    await job_table.sweep()
    await job_table.advance(-3600 + TERMS.lease_s + 1)
    await job_table.sweep()
    assert (await job_table.look(job.id))["suspect_at"] == job_table.clock
    await job_table.advance(TERMS.grace_s)
    assert await job_table.claim(job.id, worker="other") is not None


# -- sessions -------------------------------------------------------------------------------------


async def session_row(job_table: JobTable) -> dict[str, Any]:
    rows = await job_table.fetch(
        "select * from dialectic_sessions where id = $1", job_table.session_id
    )
    return show_status(rows[0])


async def test_a_paused_session_starts_nothing_and_what_runs_finishes(
    job_table: JobTable, engine: Engine
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=4)
    fresh, retrying, running, planning = [await job_table.insert() for _ in range(4)]
    await job_table.retry(await job_table.take(retrying))
    runner = await job_table.take(running)
    (child_id,) = await job_table.insert_plan(await job_table.take(planning), 1, total_steps=2)
    child = await job_table.take(child_id)

    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    assert await job_table.statuses([fresh, retrying, running, planning, child_id]) == [
        "paused",
        "paused",
        "processing",
        "waiting_for_children",
        "processing",
    ]
    await job_table.complete(runner)
    await job_table.complete(child)
    assert await job_table.status(planning) == JobStatus.PENDING_NEXT_STEP
    assert await job_table.claim(planning) is None, "what a running job starts is paused in turn"
    row = await job_table.look(planning)
    assert (row["status"], row["status_reason"]) == ("paused", "session paused")

    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    assert await job_table.statuses([fresh, retrying, planning]) == ["pending"] * 3
    assert (await job_table.take(planning)).current_step == 2
    assert (await job_table.take(retrying)).retry_count == 1
    assert (await session_row(job_table))["status"] == f"generating_{STAGE}"


async def test_a_job_whose_worker_died_in_a_paused_session_is_paused(
    job_table: JobTable, engine: Engine
) -> None:
    job = await job_table.take(await job_table.insert())
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    await job_table.lose_lease(job)
    assert await job_table.claim(job.id, worker="other") is None
    row = await job_table.look(job.id)
    assert (row["status"], row["lost_count"]) == ("paused", 1)


async def test_pausing_and_resuming_keep_the_sessions_status(
    job_table: JobTable, engine: Engine
) -> None:
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    row = await session_row(job_table)
    assert (row["status"], row["phase_before_pause"]) == ("paused", Phase.PENDING)
    assert not await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id), (
        "already"
    )
    assert await session_row(job_table) == row
    assert len(await job_table.events("session_paused")) == 1
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    row = await session_row(job_table)
    assert (row["status"], row["phase_before_pause"]) == (f"pending_{STAGE}", None)


async def test_a_cancelled_session_ends_everything_and_takes_what_runs_from_its_worker(
    job_table: JobTable, engine: Engine
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=5)
    fresh, running, paused, planning, done = [await job_table.insert() for _ in range(5)]
    runner = await job_table.take(running)
    await job_table.pause(await job_table.take(paused))
    await job_table.complete(await job_table.take(done))
    child_ids = await job_table.insert_plan(await job_table.take(planning), 2, total_steps=2)
    child = await job_table.take(child_ids[0])
    waiter = await job_table.insert(prerequisite_job_id=fresh)

    await Tenant(engine, job_table.account).run(sessions.cancel, job_table.session_id)
    everything = [fresh, running, paused, planning, *child_ids, waiter]
    assert await job_table.statuses(everything) == ["cancelled"] * len(everything)
    assert await job_table.status(done) == JobStatus.COMPLETED
    assert await job_table.beat(runner, child) == set()
    with pytest.raises(LeaseLost):
        await job_table.complete(runner)
    (run,) = await job_table.fetch("select status from dialectic_stage_runs")
    assert run["status"] == "cancelled"
    (end,) = await job_table.events("contribution_generation_complete")
    assert (end["completed"], end["cancelled"], end["failed"]) == (1, 5, 0)
    assert (await session_row(job_table))["status"] == "cancelled"
    with refusing(Conflict, reason="session_cancelled"):
        await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    assert not await Tenant(engine, job_table.account).run(sessions.cancel, job_table.session_id), (
        "already"
    )
    assert len(await job_table.events("session_cancelled")) == 1
    with refusing(Conflict, reason="session_cancelled"):
        await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)


async def test_a_job_made_in_a_cancelled_session_is_cancelled_when_claimed(
    job_table: JobTable, engine: Engine
) -> None:
    await Tenant(engine, job_table.account).run(sessions.cancel, job_table.session_id)
    job_id = await job_table.insert()
    assert await job_table.claim(job_id) is None
    assert await job_table.status(job_id) == JobStatus.CANCELLED


async def test_a_deleted_project_takes_its_jobs_with_it(
    job_table: JobTable, engine: Engine
) -> None:
    parent = await job_table.take(await job_table.insert())
    child_ids = await job_table.insert_children(parent, 2)
    child = await job_table.take(child_ids[0])
    await job_table.insert(prerequisite_job_id=child_ids[1])
    await engine.db.transact(
        job_table.account.tenant_id,
        lambda c: c.execute("delete from dialectic_projects where id = $1", job_table.project_id),
    )
    for table in ("sessions", "generation_jobs", "project_resources", "files", "stage_runs"):
        assert await job_table.fetch(f"select from dialectic_{table}") == []
    assert await job_table.fetch("select from notifications") == []
    assert await job_table.claim(child_ids[1]) is None, "messages that are left name nothing"
    assert await job_table.beat(child) == set()
    with pytest.raises(LeaseLost):
        await job_table.complete(child)
    await job_table.forget_messages()
    assert await job_table.sweep() == 0


# -- stages ---------------------------------------------------------------------------------------


async def read_stage(job_table: JobTable) -> asyncpg.Record:
    (row,) = await job_table.fetch("select * from dialectic_stage_runs")
    return row


@pytest.mark.parametrize(
    ("ends", "status", "session_status"),
    [
        ("ddd", "complete", f"{STAGE}_generation_complete"),
        ("dfd", "failed", f"{STAGE}_generation_failed"),
        ("fff", "failed", f"{STAGE}_generation_failed"),
        ("dcd", "cancelled", f"{STAGE}_generation_failed"),
        ("fcd", "failed", f"{STAGE}_generation_failed"),
    ],
)
async def test_a_stage_ends_with_its_last_job_and_says_so_once_with_the_counts(
    job_table: JobTable, engine: Engine, ends: str, status: str, session_status: str
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=3)
    roots = await job_table.insert_all([{}] * 3)
    for job_id, end in zip(roots, ends, strict=True):
        assert (await read_stage(job_table))["status"] == "generating"
        assert await job_table.events("contribution_generation_complete") == []
        if end == "c":
            await job_table.fetch(
                "update dialectic_generation_jobs set status = 'cancelled' where id = $1", job_id
            )
        else:
            job = await job_table.take(job_id)
            await (job_table.complete(job, finished_units=1) if end == "d" else job_table.fail(job))
    stage = await read_stage(job_table)
    assert (stage["status"], stage["completed_at"]) == (status, job_table.clock)
    assert (await session_row(job_table))["status"] == session_status
    (event,) = await job_table.events("contribution_generation_complete")
    assert event == {
        "sessionId": str(job_table.session_id),
        "stageSlug": STAGE,
        "iterationNumber": 1,
        "status": status,
        "completed": ends.count("d"),
        "failed": ends.count("f"),
        "cancelled": ends.count("c"),
    }


async def test_a_stage_whose_jobs_all_end_together_ends_once(
    job_table: JobTable, engine: Engine
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=8)
    held = await job_table.take_all(await job_table.insert_all([{}] * 8))
    start = asyncio.Barrier(8)

    async def end(db: Database, job: Job) -> None:
        async def work(connection: Connection) -> None:
            await jobs.hold_lease(connection, job)
            await start.wait()
            await jobs.complete(connection, job, results={}, finished_units=1)

        await db.transact(job.tenant_id, work)

    async with job_table.others(8) as db:
        await asyncio.gather(*(end(db, job) for job in held))
    (event,) = await job_table.events("contribution_generation_complete")
    assert event["completed"] == 8
    steps = [event["current_step"] for event in await job_table.events("dialectic_progress_update")]
    assert steps == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_stage_whose_last_jobs_fail_at_the_same_moment_ends_once(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=2)
    one, other = await job_table.take_all(await job_table.insert_all([{}] * 2))
    await end_together(job_table, admin, fail, one, other)
    (event,) = await job_table.events("contribution_generation_complete")
    assert (event["status"], event["failed"]) == ("failed", 2)


async def test_progress_never_decreases_and_is_the_sum_of_what_is_finished(
    job_table: JobTable, engine: Engine
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=6)
    seen, done = [], 0
    for units in (1, 0, 2, 1, 5):
        job = await job_table.take(await job_table.insert())
        await job_table.retry(job, delay_s=0.0)
        await job_table.complete(await job_table.take(job.id), finished_units=units)
        done += units
        seen.append((await read_stage(job_table))["finished_units"])
        await job_table.insert()
    assert seen == [1, 1, 3, 4, 6], "it stays within the plan"
    events = await job_table.events("dialectic_progress_update")
    assert [event["current_step"] for event in events] == [1, 3, 4, 6]
    assert {event["total_steps"] for event in events} == {6}


@pytest.mark.parametrize("way", ["cancelled by a person", "failed with one of them"])
async def test_thousands_of_jobs_end_together_in_a_moment(
    job_table: JobTable, engine: Engine, admin: AdminConnection, way: str
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=1)
    first, *others = await job_table.take_all([await job_table.insert() for _ in range(40)])
    children = await job_table.insert_plan(first, 6_000, total_steps=1)
    for plan in others:
        await job_table.insert_plan(plan, 1, total_steps=1, awaits=("thesis",), is_step_open=True)
    await admin.execute("analyze dialectic_generation_jobs")
    failing = await job_table.take(children[0])

    async def end(connection: Connection) -> None:
        # A third of what a transaction may take; much less is needed.
        await connection.execute("set local statement_timeout = '3s'")
        if way == "cancelled by a person":
            tx = Transaction(engine, job_table.account, connection)
            await sessions.cancel(tx, job_table.session_id)
        else:
            await jobs.fail(connection, failing, jobs.AttemptError("provider_auth", "No."))

    db = engine.db if way == "cancelled by a person" else job_table.db
    await db.transact(job_table.account.tenant_id, end)
    ended = Counter(await job_table.statuses(children))
    if way == "cancelled by a person":
        assert ended == {"cancelled": 6_000}
    else:
        assert ended == {"failed": 1, "cancelled": 5_999}
        assert await job_table.status(first.id) == "failed"
        # Whoever waits for what will not come looks again, once: it was sent, and is sent again.
        assert set(await job_table.statuses([plan.id for plan in others])) == {"pending_next_step"}
        assert {len(await job_table.messages(plan.id)) for plan in others} == {2}


async def test_a_stage_that_ends_while_its_session_is_paused_is_complete_when_it_goes_on(
    job_table: JobTable, engine: Engine
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=1)
    job = await job_table.take(await job_table.insert())
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    await job_table.complete(job, finished_units=1)
    row = await session_row(job_table)
    assert (row["status"], row["phase_before_pause"]) == ("paused", Phase.STAGE_COMPLETE)
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    row = await session_row(job_table)
    assert (row["status"], row["phase_before_pause"]) == (f"{STAGE}_generation_complete", None)


# -- stories nobody thought of --------------------------------------------------------------------

CHOICE = st.integers(0, 1_000_000)
BROKEN = """
    select
      (select count(*) from dialectic_generation_jobs p
        where p.status = 'waiting_for_children' and not exists (
          select from dialectic_generation_jobs c where c.parent_job_id = p.id
            and c.step_number = p.current_step and not is_ended(c.status))) as parents_asleep,
      (select count(*) from dialectic_generation_jobs w
        join dialectic_generation_jobs p on p.id = w.prerequisite_job_id
        where w.status = 'waiting_for_prerequisite' and is_ended(p.status)) as waiters_asleep,
      (select count(*) from dialectic_generation_jobs c
        join dialectic_generation_jobs p on p.id = c.parent_job_id
        where p.status = 'completed' and not is_ended(c.status)) as children_forgotten
"""
UNSENT = """
    select count(*) from dialectic_generation_jobs j
    where is_runnable(j.status) and j.run_at <= dialectic.now() and not exists (
      select from queue.pgqueuer q
      where q.dedupe_key = j.tenant_id || ' ' || j.id || ':' || j.dispatch_count
        and q.status in ('queued', 'picked'))
"""


class JobStateMachine(RuleBasedStateMachine):
    """Workers do what workers do, in any order; whatever happens, these things hold."""

    def __init__(self, runner: asyncio.Runner, job_table: JobTable, admin: AdminConnection) -> None:
        super().__init__()
        self.run, self.machine, self.admin = runner.run, job_table, admin
        self.job_ids: list[UUID] = []
        self.claimed: list[Job] = []
        self.attempts: dict[UUID, int] = {}
        self.run(forget_jobs(admin))
        self.run(job_table.advance(0))

    async def _look(self, job_id: UUID) -> asyncpg.Record:
        # As no worker does, for it is asked at every step.
        query = "select status, attempt_count from dialectic_generation_jobs where id = $1"
        (row,) = await self.admin.fetch(query, job_id)
        return row

    def _choose(self, choice: int) -> Job:
        return self.claimed[choice % len(self.claimed)]

    def _end(self, job: Job, ending: Coroutine[Any, Any, Any]) -> None:
        """End an attempt: that succeeds exactly when the job is still held by it."""
        row = self.run(self._look(job.id))
        held = row["status"] == "processing" and row["attempt_count"] == job.attempt
        try:
            self.run(ending)
            assert held, "an attempt that had lost its job could write"
        except LeaseLost:
            assert not held, "an attempt that had its job could not write"

    @rule(waits=st.booleans(), choice=CHOICE)
    def insert(self, *, waits: bool, choice: int) -> None:
        prerequisite = self.job_ids[choice % len(self.job_ids)] if waits and self.job_ids else None
        self.job_ids.append(self.run(self.machine.insert(prerequisite_job_id=prerequisite)))

    @precondition(lambda self: self.job_ids)
    @rule(choice=CHOICE, worker=st.sampled_from(["first", "second"]))
    def claim(self, choice: int, worker: str) -> None:
        job_id = self.job_ids[choice % len(self.job_ids)]
        job = self.run(self.machine.claim(job_id, worker=worker))
        if job is not None:
            assert job.attempt > self.attempts.get(job_id, 0)
            self.claimed.append(job)

    @precondition(lambda self: self.claimed)
    @rule(
        choice=CHOICE,
        count=st.integers(0, 3),
        steps=st.integers(0, 2),
        policy=st.sampled_from(
            [{}, {"on_child_failure": "any"}, {"on_child_failure": "quorum", "quorum_min": 2}]
        ),
    )
    def plan(self, choice: int, count: int, steps: int, policy: dict[str, Any]) -> None:
        job = self._choose(choice)
        total = job.current_step + steps
        row = self.run(self._look(job.id))
        ending = self.machine.insert_plan(job, count, total_steps=total, **policy)
        self._end(job, ending)
        if row["status"] == "processing" and row["attempt_count"] == job.attempt:
            rows = self.run(
                self.admin.fetch(
                    "select id from dialectic_generation_jobs where parent_job_id = $1", job.id
                )
            )
            self.job_ids += sorted({row["id"] for row in rows} - set(self.job_ids))

    @precondition(lambda self: self.claimed)
    @rule(choice=CHOICE)
    def complete(self, choice: int) -> None:
        self._end(self._choose(choice), self.machine.complete(self._choose(choice)))

    @precondition(lambda self: self.claimed)
    @rule(choice=CHOICE, delay_s=st.sampled_from([0.0, 4.0]))
    def retry(self, choice: int, delay_s: float) -> None:
        self._end(self._choose(choice), self.machine.retry(self._choose(choice), delay_s=delay_s))

    @precondition(lambda self: self.claimed)
    @rule(choice=CHOICE)
    def fail(self, choice: int) -> None:
        self._end(self._choose(choice), self.machine.fail(self._choose(choice)))

    @precondition(lambda self: self.claimed)
    @rule(choice=CHOICE)
    def pause(self, choice: int) -> None:
        self._end(self._choose(choice), self.machine.pause(self._choose(choice)))

    @precondition(lambda self: self.claimed)
    @rule(choice=CHOICE)
    def release(self, choice: int) -> None:
        self._end(self._choose(choice), self.machine.release(self._choose(choice)))

    @precondition(lambda self: self.claimed)
    @rule()
    def beat(self) -> None:
        self.run(self.machine.beat(*self.claimed))

    @rule()
    def resume(self) -> None:
        session_id = self.machine.session_id
        self.run(self.machine.transact(lambda c: jobs.resume_session(c, session_id)))

    @rule(seconds=st.sampled_from([0.5, 4.0, 13.0, -3600.0, 3600.0]))
    def let_time_pass(self, seconds: float) -> None:
        self.run(self.machine.advance(seconds))

    @rule()
    def lose_all_messages(self) -> None:
        self.run(self.machine.forget_messages())

    @rule()
    def sweep(self) -> None:
        self.run(self.machine.sweep())
        assert self.run(self.machine.fetch(UNSENT))[0][0] == 0, "a job is due and has no message"

    @invariant()
    def no_job_sleeps_that_should_be_awake(self) -> None:
        (row,) = self.run(self.admin.fetch(BROKEN))
        assert dict(row) == {"parents_asleep": 0, "waiters_asleep": 0, "children_forgotten": 0}

    @invariant()
    def tokens_only_grow(self) -> None:
        rows = self.run(self.admin.fetch("select id, attempt_count from dialectic_generation_jobs"))
        for job_id, attempt in rows:
            assert attempt >= self.attempts.get(job_id, 0)
            self.attempts[job_id] = attempt

    def teardown(self) -> None:
        """However it went, a worker that simply works brings everything to its end, once."""
        self.run(self._finish())
        rows = self.run(
            self.admin.fetch(
                "select job_id from moves_made where status = 'completed'"
                " group by job_id having count(*) > 1"
            )
        )
        assert rows == [], "a job completed twice"

    async def _finish(self) -> None:
        job_table = self.machine
        await job_table.advance(30 * 86_400)
        for _ in range(100):
            await job_table.transact(lambda c: jobs.resume_session(c, job_table.session_id))
            await job_table.advance(7200)
            await job_table.sweep()
            await job_table.advance(TERMS.grace_s)
            await job_table.sweep()
            messages = await job_table.messages()
            if not messages:
                break
            await job_table.forget_messages()
            named = {UUID(row["payload"].decode().split()[1]) for row in messages}
            for job in (await job_table.claim_all(sorted(named), worker="last")).values():
                await job_table.complete(job)
        rows = await job_table.fetch(
            "select status from dialectic_generation_jobs where not is_ended(status)"
        )
        assert rows == [], "a job never ends"


async def test_whatever_workers_do_in_whatever_order_every_job_ends_once(
    job_table: JobTable, address: Address
) -> None:
    bounds = settings(
        max_examples=40,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )

    def tell_stories() -> None:
        with asyncio.Runner() as runner:
            admin = runner.run(
                asyncpg.connect(address.url, server_settings={"search_path": "dialectic"})
            )
            opened = Database.open(address, WORKER_ROLE, size=1)
            db = runner.run(opened.__aenter__())

            class BoundJobStateMachine(JobStateMachine):
                def __init__(self) -> None:
                    super().__init__(runner, replace(job_table, db=db, clock=START), admin)

            try:
                run_state_machine_as_test(BoundJobStateMachine, settings=bounds)
            finally:
                runner.run(opened.__aexit__(None, None, None))
                runner.run(admin.close())

    await asyncio.to_thread(tell_stories)
