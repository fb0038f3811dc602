"""Which moves a job can make, and what follows from each: the database decides."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.core.job import ENDED, JobStatus
from dialectic.db.pool import WORKER_ROLE, Address, Connection, read_rule
from dialectic.db.tables import jobs
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import IllegalMove
from tests.database.connections import undone
from tests.database.job_table import START, TERMS, AdminConnection, JobTable, build_job, insert_jobs
from tests.problems import refusing, violated

RUNNABLE = {
    JobStatus.PENDING,
    JobStatus.PENDING_NEXT_STEP,
    JobStatus.PENDING_CONTINUATION,
    JobStatus.RETRYING,
}
BEGINNINGS = {
    JobStatus.PENDING,
    JobStatus.PENDING_CONTINUATION,
    JobStatus.WAITING_FOR_PREREQUISITE,
}
ILLEGAL_MOVE = "DJ001"
FORBIDDEN = "DJ002"
PAIRS = [(start, end) for start in JobStatus for end in JobStatus]


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


async def force(admin: AdminConnection, job_id: UUID, status: JobStatus) -> None:
    """Put a job into a status past all triggers, with the columns that the table demands."""
    processing, ended = status is JobStatus.PROCESSING, status in ENDED
    await admin.execute("set session_replication_role = replica")
    await admin.execute(
        "update dialectic_generation_jobs set status = $2::text::dialectic_job_status,"
        " lease_until = $3, worker = $4, completed_at = $5 where id = $1",
        job_id,
        status,
        START if processing else None,
        "someone" if processing else None,
        START if ended else None,
    )
    await admin.execute("set session_replication_role = origin")


async def try_move(connection: Connection, job_id: UUID, end: JobStatus) -> None:
    """Make a move with everything that the target status asks for."""
    claims = end is JobStatus.PROCESSING
    await connection.execute(
        "update dialectic_generation_jobs set status = $2::text::dialectic_job_status,"
        " attempt_count = attempt_count + $3, lease_until = $4, worker = $5 where id = $1",
        job_id,
        end,
        int(claims),
        START if claims else None,
        "worker" if claims else None,
    )


async def become_worker(admin: AdminConnection, account: Account) -> None:
    await admin.execute(f"set local role {WORKER_ROLE}")
    await admin.fetch("select set_config('dialectic.tenant', $1, true)", str(account.tenant_id))


async def list_moves(admin: AdminConnection) -> set[tuple[JobStatus, JobStatus]]:
    rows = await admin.fetch("select from_status, to_status from dialectic_job_moves")
    return {(JobStatus(row[0]), JobStatus(row[1])) for row in rows}


async def test_the_program_and_the_database_know_the_same_statuses(
    admin: AdminConnection,
) -> None:
    rows = await admin.fetch("select unnest(enum_range(null::dialectic_job_status))::text as name")
    assert [row["name"] for row in rows] == [status.value for status in JobStatus]


async def test_the_database_knows_what_runs_and_what_has_ended(admin: AdminConnection) -> None:
    rows = await admin.fetch(
        "select s::text as name, is_runnable(s) as runnable, is_ended(s) as ended"
        " from unnest(enum_range(null::dialectic_job_status)) as s"
    )
    assert {JobStatus(row["name"]) for row in rows if row["runnable"]} == RUNNABLE
    assert {JobStatus(row["name"]) for row in rows if row["ended"]} == ENDED


async def test_of_all_pairs_exactly_the_listed_moves_are_allowed(
    job_table: JobTable, admin: AdminConnection
) -> None:
    prerequisite = await job_table.insert()
    job_id = await job_table.insert(prerequisite_job_id=prerequisite)
    allowed: set[tuple[JobStatus, JobStatus]] = set()
    refused: dict[tuple[JobStatus, JobStatus], bool] = {}
    for start, end in PAIRS:
        async with undone(admin):
            await force(admin, job_id, start)
            await become_worker(admin, job_table.account)
            try:
                await try_move(admin, job_id, end)
                allowed.add((start, end))
            except asyncpg.PostgresError as error:
                words = f"job {job_id} cannot move from {start} to {end}"
                refused[start, end] = (error.sqlstate, str(error)) == (ILLEGAL_MOVE, words)
    stays = {(status, status) for status in JobStatus}
    assert len(allowed) + len(refused) == 144
    assert all(refused.values())
    assert allowed - stays == await list_moves(admin)
    assert stays <= allowed


async def test_no_move_leads_out_of_a_completed_job(admin: AdminConnection) -> None:
    assert [end for start, end in await list_moves(admin) if start is JobStatus.COMPLETED] == []


async def test_every_status_can_be_reached_from_the_beginning_and_every_job_can_end(
    admin: AdminConnection,
) -> None:
    arrows = await list_moves(admin)

    def reach(start: JobStatus) -> set[JobStatus]:
        found = {start}
        while new := {end for begin, end in arrows if begin in found} - found:
            found |= new
        return found

    assert set().union(*(reach(status) for status in BEGINNINGS)) == set(JobStatus)
    assert all(reach(status) & ENDED for status in JobStatus)


async def test_lease_end_time_and_message_follow_from_each_move(
    job_table: JobTable, admin: AdminConnection
) -> None:
    prerequisite = await job_table.insert()
    for start, end in sorted(await list_moves(admin)):
        job_id = await job_table.insert(prerequisite_job_id=prerequisite)
        await job_table.insert(parent_job_id=job_id, step_number=1)
        await force(admin, job_id, start)
        before = await job_table.look(job_id)
        await job_table.advance(5)
        await job_table.transact(partial(try_move, job_id=job_id, end=end))
        after = await job_table.look(job_id)
        move, claimed = f"{start} to {end}", end is JobStatus.PROCESSING
        assert after["status"] == end, move
        assert (after["lease_until"] is not None) == claimed, move
        assert (after["worker"] is not None) == claimed, move
        assert after["suspect_at"] is None, move
        assert after["completed_at"] == (job_table.clock if end in ENDED else None), move
        assert after["dispatch_count"] == before["dispatch_count"] + (end in RUNNABLE), move
        sent = {row["dedupe_key"] for row in await job_table.messages(job_id)}
        assert (f"{after['tenant_id']} {job_id}:{after['dispatch_count']}" in sent) == (
            end in RUNNABLE
        ), move


async def test_a_job_begins_only_as_one_that_can_run_or_must_wait(
    job_table: JobTable, admin: AdminConnection
) -> None:
    prerequisite = await job_table.insert()
    for status in JobStatus:
        waits = status is JobStatus.WAITING_FOR_PREREQUISITE
        new: dict[str, Any] = {
            "status": status,
            "prerequisite_job_id": prerequisite if waits else None,
        }
        if status in BEGINNINGS:
            assert await job_table.status(await job_table.insert(**new)) == status
        else:
            with refusing(IllegalMove, status, reason="first_status_is_allowed"):
                await job_table.insert(**new)


async def test_a_new_job_has_one_message_if_it_can_run_and_none_if_it_must_wait(
    job_table: JobTable,
) -> None:
    running = await job_table.insert()
    waiting = await job_table.insert(prerequisite_job_id=running)
    assert len(await job_table.messages(running)) == 1
    assert await job_table.status(waiting) == JobStatus.WAITING_FOR_PREREQUISITE
    assert await job_table.messages(waiting) == []
    assert (await job_table.look(waiting))["dispatch_count"] == 0


async def test_a_job_that_waits_must_have_something_to_wait_for(job_table: JobTable) -> None:
    with violated("a_waiter_has_something_to_wait_for"):
        await job_table.insert(status=JobStatus.WAITING_FOR_PREREQUISITE)


async def test_what_a_job_is_about_never_changes(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    for change in (
        "payload = '{}'",
        'payload = payload || \'{"word": "other"}\'',
        "session_id = gen_random_uuid()",
        "parent_job_id = gen_random_uuid()",
        "id = gen_random_uuid()",
    ):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await job_table.fetch(f"update dialectic_generation_jobs set {change}")
        assert read_rule(caught.value) == "job_never_changes"
        assert caught.value.sqlstate == FORBIDDEN
    assert (await job_table.look(job_id))["status"] == JobStatus.PENDING


async def test_a_job_cannot_be_given_to_another_tenant(job_table: JobTable) -> None:
    await job_table.insert()
    with pytest.raises(asyncpg.PostgresError) as caught:
        await job_table.fetch("update dialectic_generation_jobs set tenant_id = gen_random_uuid()")
    assert caught.value.sqlstate == FORBIDDEN


async def test_a_claim_takes_exactly_the_next_token(job_table: JobTable) -> None:
    await job_table.release(await job_table.take(await job_table.insert()))
    for step in (0, 2, -1):
        with pytest.raises(asyncpg.PostgresError) as caught:
            await job_table.fetch(
                "update dialectic_generation_jobs set status = 'processing', worker = 'w',"
                " lease_until = now(), attempt_count = attempt_count + $1",
                step,
            )
        assert caught.value.sqlstate == FORBIDDEN
        assert read_rule(caught.value) == "claim_has_a_new_token"


async def test_a_token_is_never_taken_back(job_table: JobTable) -> None:
    await job_table.take(await job_table.insert())
    with pytest.raises(asyncpg.PostgresError) as caught:
        await job_table.fetch("update dialectic_generation_jobs set attempt_count = 0")
    assert read_rule(caught.value) == "claim_has_a_new_token"


async def test_a_job_is_processed_only_under_a_lease(job_table: JobTable) -> None:
    await job_table.insert()
    with violated("a_lease_is_held_while_processing"):
        await job_table.fetch(
            "update dialectic_generation_jobs"
            " set status = 'processing', attempt_count = attempt_count + 1"
        )


async def test_a_claim_writes_who_has_the_job_and_until_when(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.advance(7)
    job = await job_table.take(job_id, worker="host:1")
    row = await job_table.look(job_id)
    assert (job.attempt, row["attempt_count"]) == (1, 1)
    assert row["worker"] == "host:1"
    assert row["started_at"] == job_table.clock
    assert row["lease_until"] == job_table.clock + timedelta(seconds=TERMS.lease_s)


async def test_the_first_start_is_kept_over_later_claims(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.release(await job_table.take(job_id))
    await job_table.advance(60)
    await job_table.take(job_id)
    row = await job_table.look(job_id)
    assert (row["started_at"], row["attempt_count"]) == (START, 2)


async def test_a_job_that_runs_again_loses_its_end_time(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job_id = await job_table.insert()
    await job_table.fail(await job_table.take(job_id))
    assert (await job_table.look(job_id))["completed_at"] == START
    await job_table.fetch("update dialectic_generation_jobs set status = 'pending'")
    row = await job_table.look(job_id)
    assert (row["completed_at"], row["dispatch_count"]) == (None, 2)
    assert len(row["error_details"]) == 1


async def test_a_worker_cannot_delete_a_job_and_no_role_rewrites_the_table_of_moves(
    job_table: JobTable, engine: Engine
) -> None:
    await job_table.insert()
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await job_table.fetch("delete from dialectic_generation_jobs")
    for db in (job_table.db, engine.db):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.fetch("delete from dialectic_job_moves")


async def test_a_job_of_the_same_work_is_inserted_once(job_table: JobTable) -> None:
    new = build_job(job_table.session_id)
    await insert_jobs(job_table.db, job_table.account.tenant_id, [new])
    again = await job_table.transact(lambda c: jobs.insert_job(c, job_table.account.tenant_id, new))
    assert again is False
    assert len(await job_table.messages(new.id)) == 1


async def test_steps_stay_within_the_recipe(job_table: JobTable) -> None:
    await job_table.insert(total_steps=2)
    with violated("steps_stay_within_the_recipe"):
        await job_table.fetch("update dialectic_generation_jobs set current_step = 3")


async def test_no_job_is_its_own_parent(job_table: JobTable) -> None:
    job_id = uuid4()
    with violated("nobody_is_their_own_parent"):
        await job_table.insert(id=job_id, parent_job_id=job_id)
