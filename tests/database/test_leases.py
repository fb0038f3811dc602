"""Who lives keeps what they hold; who leaves gives it back; nothing is run or counted twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.db.pool import WORKER_ROLE, connect
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.worker.worker import Worker
from tests.database.job_table import AdminConnection, JobTable, working
from tests.database.running_worker import GatedJobs, RunningSession, finish
from tests.waiting import PATIENCE_S, until, until_someone_waits

ABANDON = """
    update dialectic_generation_jobs
    set lease_until = dialectic.now() - interval '1 hour',
      suspect_at = dialectic.now() - interval '1 hour'
    where id = $1 and attempt_count = 1
"""
OF_THESE = " from dialectic_generation_jobs where id = any ($1)"


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


async def before_each_update(session: RunningSession, statement: str) -> None:
    """Let the server do something before a row of a job is updated."""
    await session.admin.execute(
        f"""
        create function public.before_update() returns trigger language plpgsql as $$
        begin
          {statement}
          return new;
        end $$;
        create trigger a_first before update on dialectic.dialectic_generation_jobs
          for each row execute function public.before_update();
        """
    )


# -- heartbeats ------------------------------------------------------------------------------------


async def test_a_row_that_someone_locks_costs_no_job_its_lease(session: RunningSession) -> None:
    gated_jobs = GatedJobs()
    async with (
        working(session.worker_engine, gated_jobs.run, concurrency=8),
        working(session.worker_engine, gated_jobs.run, concurrency=8),
    ):
        ids = await session.insert(6)
        for _ in ids:
            await gated_jobs.next_begun()
        locked = "select lease_until from dialectic_generation_jobs where id = $1 for update"
        async with session.admin.transaction():
            lease_until = await session.admin.fetchval(locked, ids[0])

            async def others_are_kept() -> bool:
                # Two leases: time enough for suspicion, grace and another worker's claim.
                query = "select min(lease_until) > $2::timestamptz + interval '2.4 s'" + OF_THESE
                return bool(await session.admin.fetchval(query, ids[1:], lease_until))

            await until(session.engine.address, others_are_kept)
            leases = await session.admin.fetch(
                "select lease_until > clock_timestamp() as runs from dialectic_generation_jobs"
                " where id = any ($1)",
                ids[1:],
            )
            assert all(row["runs"] for row in leases)
        gated_jobs.gate(1).set()
        await session.until_status("completed", *ids)
    assert sorted(gated_jobs.attempts) == sorted((job_id, 1) for job_id in ids)


async def test_a_beat_passes_over_a_locked_row_and_still_counts_it_as_held(
    session: RunningSession,
) -> None:
    terms = jobs.LeaseTerms(60.0)
    ids = await session.insert(2)
    keys = [(session.account.tenant_id, job_id) for job_id in ids]
    claimed = await jobs.claim(
        session.worker_engine.db, keys, worker="one", terms=terms, lost_max=10
    )
    before = {job_id: (await session.look(job_id))["lease_until"] for job_id in ids}
    connection = await connect(session.engine.address, WORKER_ROLE)
    async with session.admin.transaction():
        await session.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", ids[0]
        )
        beat = jobs.extend_leases(connection, list(claimed.values()), terms)
        assert await asyncio.wait_for(beat, PATIENCE_S) == set(keys)
    await connection.close()
    after = {job_id: (await session.look(job_id))["lease_until"] for job_id in ids}
    assert after[ids[0]] == before[ids[0]]
    assert after[ids[1]] > before[ids[1]]


async def test_a_lease_begins_when_it_is_given_however_long_that_took(
    session: RunningSession,
) -> None:
    """A trigger stands for whatever holds the statement up."""
    await before_each_update(session, "perform pg_sleep(0.5);")
    terms = jobs.LeaseTerms(0.4)
    ids = await session.insert(2)
    keys = [(session.account.tenant_id, job_id) for job_id in ids]
    claimed = await jobs.claim(
        session.worker_engine.db, keys, worker="one", terms=terms, lost_max=10
    )
    assert len(claimed) == 2
    connection = await connect(session.engine.address, WORKER_ROLE)
    for statement in ("claim", "beat"):
        if statement == "beat":
            await jobs.extend_leases(connection, list(claimed.values()), terms)
        given = await session.admin.fetch(
            "select lease_until from dialectic_generation_jobs where id = any ($1) order by 1", ids
        )
        # Two rows, half a second each: by the statement's own time both leases would be one.
        assert (given[1][0] - given[0][0]).total_seconds() > 0.4, statement
    await connection.close()


# -- one's own lost job ----------------------------------------------------------------------------


async def test_a_worker_that_claims_its_own_lost_job_lets_go_of_the_old_attempt_and_keeps_the_new(
    session: RunningSession,
) -> None:
    gated_jobs = GatedJobs()
    async with working(session.worker_engine, gated_jobs.run):
        (job_id,) = await session.insert()
        assert (await gated_jobs.next_begun()).attempt == 1

        async def given_away() -> bool:
            await session.admin.execute(ABANDON, job_id)
            await session.admin.execute("select dialectic.sweep_jobs(interval '0', 100)")
            return len(gated_jobs.attempts) > 1

        await until(session.engine.address, given_away)
        lease_until = (await session.look(job_id))["lease_until"]

        async def outlived() -> bool:
            # The lease that the second attempt began with, its suspicion and its grace are over.
            query = "select min(lease_until) > $2::timestamptz + interval '1.5 s'" + OF_THESE
            is_over = await session.admin.fetchval(query, [job_id], lease_until)
            return bool(is_over and gated_jobs.cancelled)

        await until(session.engine.address, outlived)
        assert gated_jobs.cancelled == [(job_id, 1)]
        gated_jobs.gate(2).set()
        await session.until_status("completed", job_id)
    assert gated_jobs.attempts == [(job_id, 1), (job_id, 2)]
    assert (await session.look(job_id))["lost_count"] == 1


async def test_an_attempt_that_still_returns_while_its_job_goes_on_is_not_cancelled(
    session: RunningSession,
) -> None:
    goes_on, returned = asyncio.Event(), asyncio.Event()

    async def run(engine: Engine, job: Job) -> None:
        if job.attempt == 1:
            await engine.db.transact(job.tenant_id, lambda c: jobs.release(c, job))
            await goes_on.wait()
            returned.set()
        else:
            goes_on.set()
            await asyncio.wait_for(returned.wait(), PATIENCE_S)
            await finish(engine, job)

    async with working(session.worker_engine, run):
        (job_id,) = await session.insert()
        await session.until_status("completed", job_id)
    assert (await session.look(job_id))["lost_count"] == 0


# -- losses ----------------------------------------------------------------------------------------


async def test_a_lost_worker_is_booked_by_the_claim_alone(
    session: RunningSession,
) -> None:
    lost, other = await session.insert(2)
    await session.admin.execute(
        "update dialectic_generation_jobs set status = 'processing', attempt_count = 1,"
        " worker = 'dead', lease_until = now() - interval '1 hour',"
        " suspect_at = now() - interval '1 hour' where id = $1",
        lost,
    )
    keys = [(session.account.tenant_id, job_id) for job_id in (lost, other)]
    terms = jobs.LeaseTerms(6.0)
    # Locked while the claim looks and free when the rest of it does: the sweeper does this.
    await before_each_update(session, "perform pg_advisory_xact_lock(7);")
    await session.admin.execute("select pg_advisory_lock(7)")
    async with session.admin.transaction():
        await session.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for no key update", lost
        )
        claiming = asyncio.create_task(
            jobs.claim(session.worker_engine.db, keys, worker="two", terms=terms, lost_max=10)
        )

        await until_someone_waits(session.admin, "locktype = 'advisory'")
    await session.admin.execute("select pg_advisory_unlock(7)")
    assert set(await claiming) == {keys[1]}
    row = await session.look(lost)
    assert (row["attempt_count"], row["lost_count"], row["errors"]) == (1, 0, [])

    claimed = await jobs.claim(
        session.worker_engine.db, keys, worker="two", terms=terms, lost_max=10
    )
    assert set(claimed) == {keys[0]}
    row = await session.look(lost)
    assert (row["attempt_count"], row["lost_count"], len(row["errors"])) == (2, 1, 1)


async def test_a_job_that_is_turned_away_waits_for_no_lock_and_delays_no_claim(
    session: RunningSession,
) -> None:
    """A child whose parent has ended, and is locked: the child's end wakes no job."""
    parent, good = await session.insert(2)
    (child,) = await session.insert(parent_job_id=parent, step_number=1)
    await session.admin.execute("alter table dialectic_generation_jobs disable trigger jobs_moved")
    await session.admin.execute(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1", parent
    )
    await session.admin.execute("alter table dialectic_generation_jobs enable trigger jobs_moved")
    keys = [(session.account.tenant_id, job_id) for job_id in (child, good)]
    terms = jobs.LeaseTerms(6.0)
    async with session.admin.transaction():
        await session.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", parent
        )
        claiming = jobs.claim(
            session.worker_engine.db, keys, worker="one", terms=terms, lost_max=10
        )
        assert set(await asyncio.wait_for(claiming, PATIENCE_S)) == {keys[1]}
        assert (await session.look(child))["status"] == "cancelled"


@pytest.mark.parametrize("status", ["paused", "cancelled"])
async def test_an_abandoned_job_of_a_session_that_stands_still_books_its_loss_once(
    engine: Engine, status: str
) -> None:
    async with JobTable.open(engine) as job_table:
        job = await job_table.take(await job_table.insert())
        await job_table.lose_lease(job)
        before_pause = "pending" if status == "paused" else None
        await job_table.fetch(
            "update dialectic_sessions set phase = $1, phase_before_pause = $2",
            status,
            before_pause,
        )
        for _ in range(3):
            assert await job_table.claim(job.id, worker="second") is None
        row = await job_table.look(job.id)
        assert (row["status"], row["status_reason"]) == (status, f"session {status}")
        assert (row["lost_count"], len(row["error_details"])) == (1, 1)


async def test_a_session_that_is_resumed_while_its_job_is_turned_away_leaves_none_behind(
    session: RunningSession,
) -> None:
    await Tenant(session.engine, session.account).run(sessions.pause, session.session_id)
    (job_id,) = await session.insert()
    connection = await connect(session.engine.address, WORKER_ROLE)
    async with connection.transaction():
        asked = [session.account.tenant_id], [job_id], timedelta(seconds=1), 10
        assert await connection.fetchval(jobs.SQL["turn_away"], *asked) == 1
        resuming = asyncio.create_task(
            Tenant(session.engine, session.account).run(sessions.resume, session.session_id)
        )
        blocked = asyncio.create_task(until_someone_waits(session.admin))
        await asyncio.wait({resuming, blocked}, return_when=asyncio.FIRST_COMPLETED)
        blocked.cancel()
    await connection.close()
    await resuming
    assert (await session.look(job_id))["status"] == "pending"


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_job_whose_claim_was_under_way_when_its_worker_left_is_given_back(
    session: RunningSession,
) -> None:
    gated_jobs = GatedJobs()
    await before_each_update(
        session, "if new.status = 'processing' then perform pg_advisory_xact_lock(7); end if;"
    )
    await session.admin.execute("select pg_advisory_lock(7)")
    worker = Worker(session.worker_engine, run_job=gated_jobs.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await session.insert()
    await until_someone_waits(session.admin, "locktype = 'advisory'")
    worker.stop(at_once=True)
    await session.admin.execute("select pg_advisory_unlock(7)")
    await asyncio.wait_for(running, PATIENCE_S)
    row = await session.look(job_id)
    assert (row["status"], row["worker"], row["attempt_count"]) == ("pending", None, 1)
    assert gated_jobs.attempts == []


async def test_a_worker_that_is_told_to_leave_again_and_again_still_gives_its_job_back(
    session: RunningSession,
) -> None:
    gated_jobs = GatedJobs()
    worker = Worker(session.worker_engine, run_job=gated_jobs.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await session.insert()
    await gated_jobs.next_begun()
    async with session.admin.transaction():
        await session.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", job_id
        )
        worker.stop(at_once=True)
        await until_someone_waits(session.admin)
        worker.stop(at_once=True)
    await asyncio.wait_for(running, PATIENCE_S)
    assert (await session.look(job_id))["status"] == "pending"


# -- loops that die --------------------------------------------------------------------------------


class Broken(Exception):
    """A fault that no loop knows."""


async def test_a_worker_whose_heartbeat_dies_ends_loudly_and_gives_back_what_it_holds(
    session: RunningSession, caplog: pytest.LogCaptureFixture
) -> None:
    gated_jobs = GatedJobs()
    worker = Worker(session.worker_engine, run_job=gated_jobs.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await session.insert()
    await gated_jobs.next_begun()
    # A held job that the heartbeat cannot make sense of.
    worker._held[session.account.tenant_id, session.session_id] = None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        await asyncio.wait_for(running, PATIENCE_S)
    assert "heartbeat" in caplog.text
    assert (await session.look(job_id))["status"] == "pending"


async def test_a_worker_whose_publisher_dies_ends_loudly(
    session: RunningSession, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenStore:
        async def write(self, key: str, data: bytes) -> None:
            raise Broken

    await session.admin.execute(
        "update dialectic_files set written_at = null, content = 'x',"
        " created_at = now() - interval '1 hour'"
    )
    engine = replace(session.worker_engine, files=BrokenStore())  # type: ignore[arg-type]
    with pytest.raises(Broken):
        await asyncio.wait_for(Worker(engine, run_job=finish, concurrency=4).run(), PATIENCE_S)
    assert "publisher" in caplog.text
