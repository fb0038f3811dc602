"""Who lives keeps what they hold; who leaves gives it back; nothing is run or counted twice."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.db.pool import WORKER_ROLE, connect
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.worker.worker import Worker
from tests.database.job_table import AdminConnection, Machine, working
from tests.database.running_worker import Gates, Workshop, finish
from tests.waiting import PATIENCE_S, until, until_someone_waits

ABANDON = """
    update dialectic_generation_jobs
    set lease_until = dialectic.now() - interval '1 hour',
      suspect_at = dialectic.now() - interval '1 hour'
    where id = $1 and attempt_count = 1
"""
OF_THESE = " from dialectic_generation_jobs where id = any ($1)"


@pytest.fixture
async def shop(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> Workshop:
    return await Workshop.open(engine, worker_engine, admin)


async def before_each_update(shop: Workshop, statement: str) -> None:
    """Let the server do something before a row of a job is updated."""
    await shop.admin.execute(
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


async def test_a_row_that_someone_locks_costs_no_job_its_lease(shop: Workshop) -> None:
    gates = Gates()
    async with (
        working(shop.worker_engine, gates.run, concurrency=8),
        working(shop.worker_engine, gates.run, concurrency=8),
    ):
        ids = await shop.insert(6)
        for _ in ids:
            await gates.next_begun()
        locked = "select lease_until from dialectic_generation_jobs where id = $1 for update"
        async with shop.admin.transaction():
            lease_until = await shop.admin.fetchval(locked, ids[0])

            async def others_are_kept() -> bool:
                # Two leases: time enough for suspicion, grace and another worker's claim.
                query = "select min(lease_until) > $2::timestamptz + interval '2.4 s'" + OF_THESE
                return bool(await shop.admin.fetchval(query, ids[1:], lease_until))

            await until(shop.engine.address, others_are_kept)
            leases = await shop.admin.fetch(
                "select lease_until > clock_timestamp() as runs from dialectic_generation_jobs"
                " where id = any ($1)",
                ids[1:],
            )
            assert all(row["runs"] for row in leases)
        gates.gate(1).set()
        await shop.until_status("completed", *ids)
    assert sorted(gates.attempts) == sorted((job_id, 1) for job_id in ids)


async def test_a_beat_passes_over_a_locked_row_and_still_counts_it_as_held(
    shop: Workshop,
) -> None:
    terms = jobs.LeaseTerms(60.0)
    ids = await shop.insert(2)
    keys = [(shop.account.tenant_id, job_id) for job_id in ids]
    claimed = await jobs.claim(shop.worker_engine.db, keys, worker="one", terms=terms, lost_max=10)
    before = {job_id: (await shop.look(job_id))["lease_until"] for job_id in ids}
    connection = await connect(shop.engine.address, WORKER_ROLE)
    async with shop.admin.transaction():
        await shop.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", ids[0]
        )
        beat = jobs.extend_leases(connection, list(claimed.values()), terms)
        assert await asyncio.wait_for(beat, PATIENCE_S) == set(keys)
    await connection.close()
    after = {job_id: (await shop.look(job_id))["lease_until"] for job_id in ids}
    assert after[ids[0]] == before[ids[0]]
    assert after[ids[1]] > before[ids[1]]


async def test_a_lease_begins_when_it_is_given_however_long_that_took(shop: Workshop) -> None:
    """A trigger stands for whatever holds the statement up."""
    await before_each_update(shop, "perform pg_sleep(0.5);")
    terms = jobs.LeaseTerms(0.4)
    ids = await shop.insert(2)
    keys = [(shop.account.tenant_id, job_id) for job_id in ids]
    claimed = await jobs.claim(shop.worker_engine.db, keys, worker="one", terms=terms, lost_max=10)
    assert len(claimed) == 2
    connection = await connect(shop.engine.address, WORKER_ROLE)
    for statement in ("claim", "beat"):
        if statement == "beat":
            await jobs.extend_leases(connection, list(claimed.values()), terms)
        given = await shop.admin.fetch(
            "select lease_until from dialectic_generation_jobs where id = any ($1) order by 1", ids
        )
        # Two rows, half a second each: by the statement's own time both leases would be one.
        assert (given[1][0] - given[0][0]).total_seconds() > 0.4, statement
    await connection.close()


# -- one's own lost job ----------------------------------------------------------------------------


async def test_a_worker_that_claims_its_own_lost_job_lets_go_of_the_old_attempt_and_keeps_the_new(
    shop: Workshop,
) -> None:
    gates = Gates()
    async with working(shop.worker_engine, gates.run):
        (job_id,) = await shop.insert()
        assert (await gates.next_begun()).attempt == 1

        async def given_away() -> bool:
            await shop.admin.execute(ABANDON, job_id)
            await shop.admin.execute("select dialectic.sweep_jobs(interval '0', 100)")
            return len(gates.attempts) > 1

        await until(shop.engine.address, given_away)
        lease_until = (await shop.look(job_id))["lease_until"]

        async def outlived() -> bool:
            # The lease that the second attempt began with, its suspicion and its grace are over.
            query = "select min(lease_until) > $2::timestamptz + interval '1.5 s'" + OF_THESE
            return bool(await shop.admin.fetchval(query, [job_id], lease_until))

        await until(shop.engine.address, outlived)
        assert gates.cancelled == [(job_id, 1)]
        gates.gate(2).set()
        await shop.until_status("completed", job_id)
    assert gates.attempts == [(job_id, 1), (job_id, 2)]
    assert (await shop.look(job_id))["lost_count"] == 1


# -- losses ----------------------------------------------------------------------------------------


async def test_a_lost_worker_is_booked_by_the_claim_and_by_nobody_who_passes_by(
    shop: Workshop,
) -> None:
    lost, other = await shop.insert(2)
    await shop.admin.execute(
        "update dialectic_generation_jobs set status = 'processing', attempt_count = 1,"
        " worker = 'dead', lease_until = now() - interval '1 hour',"
        " suspect_at = now() - interval '1 hour' where id = $1",
        lost,
    )
    keys = [(shop.account.tenant_id, job_id) for job_id in (lost, other)]
    terms = jobs.LeaseTerms(6.0)
    # Locked while the claim looks and free when the rest of it does: the sweeper does this.
    await before_each_update(shop, "perform pg_advisory_xact_lock(7);")
    await shop.admin.execute("select pg_advisory_lock(7)")
    async with shop.admin.transaction():
        await shop.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for no key update", lost
        )
        claiming = asyncio.create_task(
            jobs.claim(shop.worker_engine.db, keys, worker="two", terms=terms, lost_max=10)
        )

        await until_someone_waits(shop.admin, "locktype = 'advisory'")
    await shop.admin.execute("select pg_advisory_unlock(7)")
    assert set(await claiming) == {keys[1]}
    row = await shop.look(lost)
    assert (row["attempt_count"], row["lost_count"], row["errors"]) == (1, 0, [])

    claimed = await jobs.claim(shop.worker_engine.db, keys, worker="two", terms=terms, lost_max=10)
    assert set(claimed) == {keys[0]}
    row = await shop.look(lost)
    assert (row["attempt_count"], row["lost_count"], len(row["errors"])) == (2, 1, 1)


async def test_what_is_turned_away_waits_for_nobody_and_holds_up_no_claim(
    shop: Workshop,
) -> None:
    """A child whose parent has ended, and is locked: nobody has to be told of the child's end."""
    parent, good = await shop.insert(2)
    (child,) = await shop.insert(parent_job_id=parent, step_number=1)
    await shop.admin.execute("alter table dialectic_generation_jobs disable trigger jobs_moved")
    await shop.admin.execute(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1", parent
    )
    await shop.admin.execute("alter table dialectic_generation_jobs enable trigger jobs_moved")
    keys = [(shop.account.tenant_id, job_id) for job_id in (child, good)]
    terms = jobs.LeaseTerms(6.0)
    async with shop.admin.transaction():
        await shop.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", parent
        )
        claiming = jobs.claim(shop.worker_engine.db, keys, worker="one", terms=terms, lost_max=10)
        assert set(await asyncio.wait_for(claiming, PATIENCE_S)) == {keys[1]}
        assert (await shop.look(child))["status"] == "cancelled"


@pytest.mark.parametrize("status", ["paused", "cancelled"])
async def test_an_abandoned_job_of_a_session_that_stands_still_books_its_loss_once(
    engine: Engine, status: str
) -> None:
    async with Machine.open(engine) as machine:
        job = await machine.take(await machine.insert())
        await machine.lose_lease(job)
        before_pause = "thesis" if status == "paused" else None
        await machine.fetch(
            "update dialectic_sessions set status = $1, status_before_pause = $2",
            status,
            before_pause,
        )
        for _ in range(3):
            assert await machine.claim(job.id, worker="second") is None
        row = await machine.look(job.id)
        assert (row["status"], row["status_reason"]) == (status, f"session {status}")
        assert (row["lost_count"], len(row["error_details"])) == (1, 1)


async def test_a_session_that_is_resumed_while_its_job_is_turned_away_leaves_none_behind(
    shop: Workshop,
) -> None:
    await Tenant(shop.engine, shop.account).run(sessions.pause, shop.session_id)
    (job_id,) = await shop.insert()
    connection = await connect(shop.engine.address, WORKER_ROLE)
    async with connection.transaction():
        asked = [shop.account.tenant_id], [job_id], timedelta(seconds=1), 10
        assert await connection.fetchval(jobs.SQL["turn_away"], *asked) == 1
        resuming = asyncio.create_task(
            Tenant(shop.engine, shop.account).run(sessions.resume, shop.session_id)
        )
        blocked = asyncio.create_task(until_someone_waits(shop.admin))
        await asyncio.wait({resuming, blocked}, return_when=asyncio.FIRST_COMPLETED)
        blocked.cancel()
    await connection.close()
    await resuming
    assert (await shop.look(job_id))["status"] == "pending"


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_job_whose_claim_was_under_way_when_its_worker_left_is_given_back(
    shop: Workshop,
) -> None:
    gates = Gates()
    await before_each_update(
        shop, "if new.status = 'processing' then perform pg_advisory_xact_lock(7); end if;"
    )
    await shop.admin.execute("select pg_advisory_lock(7)")
    worker = Worker(shop.worker_engine, run_job=gates.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await shop.insert()
    await until_someone_waits(shop.admin, "locktype = 'advisory'")
    worker.stop(at_once=True)
    await shop.admin.execute("select pg_advisory_unlock(7)")
    await asyncio.wait_for(running, PATIENCE_S)
    row = await shop.look(job_id)
    assert (row["status"], row["worker"], row["attempt_count"]) == ("pending", None, 1)
    assert gates.attempts == []


async def test_a_worker_that_is_told_to_leave_again_and_again_still_gives_its_job_back(
    shop: Workshop,
) -> None:
    gates = Gates()
    worker = Worker(shop.worker_engine, run_job=gates.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await shop.insert()
    await gates.next_begun()
    async with shop.admin.transaction():
        await shop.admin.execute(
            "select from dialectic_generation_jobs where id = $1 for update", job_id
        )
        worker.stop(at_once=True)
        await until_someone_waits(shop.admin)
        worker.stop(at_once=True)
    await asyncio.wait_for(running, PATIENCE_S)
    assert (await shop.look(job_id))["status"] == "pending"


# -- loops that die --------------------------------------------------------------------------------


class Broken(Exception):
    """A fault that no loop knows."""


async def test_a_worker_whose_heartbeat_dies_ends_loudly_and_gives_back_what_it_holds(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    gates = Gates()
    worker = Worker(shop.worker_engine, run_job=gates.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (job_id,) = await shop.insert()
    await gates.next_begun()
    # A held job that the heartbeat cannot make sense of.
    worker._held[shop.account.tenant_id, shop.session_id] = None  # type: ignore[assignment]
    with pytest.raises(TypeError):
        await asyncio.wait_for(running, PATIENCE_S)
    assert "its heartbeat died" in caplog.text
    assert (await shop.look(job_id))["status"] == "pending"


async def test_a_worker_whose_publisher_dies_ends_loudly(
    shop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    class BrokenStore:
        async def write(self, key: str, data: bytes) -> None:
            raise Broken

    await shop.admin.execute(
        "update dialectic_files set written_at = null, content = 'x',"
        " created_at = now() - interval '1 hour'"
    )
    engine = replace(shop.worker_engine, files=BrokenStore())  # type: ignore[arg-type]
    with pytest.raises(Broken):
        await asyncio.wait_for(Worker(engine, run_job=finish, concurrency=4).run(), PATIENCE_S)
    assert "its publisher died" in caplog.text
