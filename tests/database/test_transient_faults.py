"""What the server refuses today and grants tomorrow costs no job and no answer."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.core.job import Job
from dialectic.db.pool import (
    APP_ROLE,
    COLLISION_TRIES,
    WORKER_ROLE,
    Address,
    Connection,
    Database,
    connect,
)
from dialectic.db.tables.records import open_account
from dialectic.engine import Engine
from dialectic.errors import DatabaseBusy, DatabaseFull, DatabaseUnreachable
from dialectic.postgres import embedded
from dialectic.worker.maintenance import repeat
from tests.database.job_table import AdminConnection, working
from tests.database.running_worker import RunningSession, finish
from tests.problems import refusing
from tests.waiting import PATIENCE_S, until_someone_waits

INSERT_DOMAIN = "insert into dialectic_domains (tenant_id, id, name) values ($1, $2, 'any')"
PASSING = {
    "40P01": "a deadlock",
    "40001": "a serialization failure",
    "55P03": "a lock that is not to be had",
    "53100": "a full disk",
    "53200": "no memory",
    "57014": "a cancelled statement",
    "25006": "a server that may not write after a failover",
    "58030": "a failed read or write",
}


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


async def insert_domain(session: RunningSession, db: Database) -> None:
    tenant_id = session.account.tenant_id
    await db.transact(tenant_id, lambda c: c.execute(INSERT_DOMAIN, tenant_id, uuid4()))


# -- one transaction -------------------------------------------------------------------------------


@pytest.mark.parametrize("code", PASSING)
async def test_a_refusal_that_passes_is_outlived(session: RunningSession, code: str) -> None:
    async with session.refusing("dialectic_domains", code, times=3):
        await insert_domain(session, session.engine.db)
        assert await session.count_refusals() == 4


@pytest.mark.parametrize("code", ["40P01", "40001", "55P03"])
async def test_collisions_are_tried_a_few_times_and_then_left_to_a_later_attempt(
    session: RunningSession, code: str
) -> None:
    async with session.refusing("dialectic_domains", code, times=10**9):
        with pytest.raises(DatabaseBusy):
            await insert_domain(session, session.engine.db)
        assert await session.count_refusals() == COLLISION_TRIES


@pytest.mark.parametrize(
    ("code", "error"),
    [("53100", DatabaseFull), ("54000", DatabaseFull), ("57014", DatabaseBusy)],
)
async def test_a_refusal_that_does_not_pass_leaves_as_an_error_with_a_fate(
    session: RunningSession, code: str, error: type[Exception]
) -> None:
    async with (
        session.refusing("dialectic_domains", code, times=10**9),
        Database.open(session.engine.address, APP_ROLE, patience_s=0.2) as db,
    ):
        with pytest.raises(error, match="the server refuses"):
            await insert_domain(session, db)


@pytest.mark.parametrize("code", ["21000", "23514"], ids=["cardinality", "check"])
async def test_a_broken_rule_is_not_tried_again(session: RunningSession, code: str) -> None:
    async with session.refusing("dialectic_domains", code, times=10**9):
        with pytest.raises((asyncpg.CardinalityViolationError, asyncpg.CheckViolationError)):
            await insert_domain(session, session.engine.db)
        assert await session.count_refusals() == 1


async def test_two_transactions_that_lock_each_other_out_both_succeed(
    session: RunningSession,
) -> None:
    one, other = await session.insert(2)
    met = asyncio.Barrier(2)

    def touch(first: UUID, second: UUID) -> asyncio.Task[None]:
        is_first_try = True

        async def work(connection: Connection) -> None:
            nonlocal is_first_try
            touching = "update dialectic_generation_jobs set priority = priority + 1 where id = $1"
            await connection.execute(touching, first)
            if is_first_try:
                is_first_try = False
                await met.wait()
            await connection.execute(touching, second)

        return asyncio.create_task(session.engine.db.transact(session.account.tenant_id, work))

    await asyncio.gather(touch(one, other), touch(other, one))
    assert [(await session.look(job_id))["priority"] for job_id in (one, other)] == [2, 2]


async def test_a_full_pool_is_waited_for_a_while_and_then_named(session: RunningSession) -> None:
    held, left = asyncio.Event(), asyncio.Event()

    async def stay(_connection: Connection) -> None:
        held.set()
        await left.wait()

    async with Database.open(session.engine.address, APP_ROLE, size=1, patience_s=0.2) as db:
        staying = asyncio.create_task(db.transact(session.account.tenant_id, stay))
        await held.wait()
        with refusing(DatabaseBusy, reason="pool_used_up", limit=1):
            await insert_domain(session, db)
        left.set()
        await staying
        await insert_domain(session, db)


async def test_a_line_that_moves_is_waited_in_longer_than_for_a_dead_server(
    session: RunningSession,
) -> None:
    """Eight calls of 0.1 s on one connection: the last waits far longer than its patience."""

    async def stay(connection: Connection) -> None:
        await connection.execute("select pg_sleep(0.1)")

    async with Database.open(session.engine.address, APP_ROLE, size=1, patience_s=0.4) as db:
        calls = [db.transact(session.account.tenant_id, stay) for _ in range(8)]
        await asyncio.gather(*calls)


# -- jobs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", PASSING)
async def test_an_answer_is_kept_while_its_save_is_refused(
    session: RunningSession, code: str
) -> None:
    calls: list[Job] = []

    async def run(engine: Engine, job: Job) -> None:
        calls.append(job)
        await insert_domain(session, engine.db)
        await finish(engine, job)

    async with (
        session.refusing("dialectic_domains", code, times=3),
        working(session.worker_engine, run),
    ):
        (job_id,) = await session.insert()
        await session.until_status("completed", job_id)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("code", "status", "reason"),
    [
        ("53100", "paused", "database_full"),
        ("40P01", "retrying", "database_busy"),
        ("57014", "retrying", "database_busy"),
        ("25006", "retrying", "database_busy"),
        ("23514", "failed", "internal"),
    ],
)
async def test_what_a_job_meets_in_the_database_decides_its_fate(
    session: RunningSession, code: str, status: str, reason: str
) -> None:
    async def run(engine: Engine, job: Job) -> None:
        await insert_domain(session, engine.db)

    async with Database.open(session.engine.address, WORKER_ROLE, patience_s=0.3) as db:
        hasty = replace(session.worker_engine, db=db)
        async with (
            session.refusing("dialectic_domains", code, times=10**9),
            working(hasty, run),
        ):
            (job_id,) = await session.insert()
            await session.until_status(status, job_id)
    row = await session.look(job_id)
    assert (row["status_reason"], row["errors"][0]["code"]) == (reason, reason)


# -- a server out of reach -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SocketRelay:
    """Another way to the server's socket, which a test can close."""

    path: Path
    socket_dir: str

    def build(self) -> None:
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(self.socket_dir)

    def close(self) -> None:
        self.path.unlink()
        self.path.write_text("A file stands where the socket's directory was.")

    def lead_to(self, address: Address) -> Address:
        old, new = (quote(str(way), safe="") for way in (self.socket_dir, self.path))
        return replace(address, url=address.url.replace(old, new))


@pytest.fixture
def relay(server: embedded.Server) -> Iterator[SocketRelay]:
    # Not below the test's own folder: the name of a socket must be short.
    with tempfile.TemporaryDirectory() as folder:
        made = SocketRelay(Path(folder) / "s", str(server.socket_dir))
        made.build()
        yield made


async def test_a_server_without_a_way_to_it_is_waited_for(
    session: RunningSession, relay: SocketRelay
) -> None:
    """The faces of a failover: not refused, but no name, no route, or here no directory."""
    address = relay.lead_to(session.engine.address)
    async with Database.open(address, APP_ROLE, patience_s=10.0) as db:
        relay.close()
        await hang_up_on_everyone(session)
        with pytest.raises(ConnectionError, match="Not a directory"):
            await connect(address, APP_ROLE)
        inserting = asyncio.create_task(insert_domain(session, db))
        asking = asyncio.create_task(db.fetch("select 1"))
        done, _ = await asyncio.wait({inserting, asking}, timeout=0.3)
        assert not done
        relay.build()
        await asyncio.gather(inserting, asking)


async def test_a_server_that_stays_away_is_named_unreachable(
    session: RunningSession, relay: SocketRelay
) -> None:
    async with Database.open(relay.lead_to(session.engine.address), APP_ROLE, patience_s=0.2) as db:
        relay.close()
        await hang_up_on_everyone(session)
        with pytest.raises(DatabaseUnreachable):
            await insert_domain(session, db)
        with pytest.raises(DatabaseUnreachable):
            await open_account(db, "local")


async def hang_up_on_everyone(session: RunningSession) -> None:
    """Break every connection to this database but the test's own."""
    await session.admin.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and pid <> pg_backend_pid()"
    )


async def test_an_account_is_opened_although_the_server_hangs_up_in_the_middle(
    session: RunningSession, admin: AdminConnection
) -> None:
    async with Database.open(session.engine.address, APP_ROLE, size=1, patience_s=10.0) as db:
        pid = (await db.fetch("select pg_backend_pid() as pid"))[0]["pid"]
        async with admin.transaction():
            await admin.execute("lock table users in access exclusive mode")
            opening = asyncio.create_task(open_account(db, "newcomer"))
            await until_someone_waits(admin)
            await admin.execute("select pg_terminate_backend($1)", pid)
        assert (await opening) == await open_account(db, "newcomer")


# -- what is done again and again ------------------------------------------------------------------


async def test_what_goes_on_failing_is_soon_tried_again_but_not_without_a_rest(
    worker_engine: Engine,
) -> None:
    began: list[float] = []
    clock = asyncio.get_running_loop().time
    enough = asyncio.Event()

    async def look(connection: Connection) -> None:
        began.append(clock())
        if len(began) == 5:
            enough.set()
        await connection.execute("select no_such_column")

    task = asyncio.create_task(repeat(worker_engine.address, look, interval_s=0.2, patience_s=60.0))
    async with asyncio.timeout(PATIENCE_S):
        await enough.wait()
    task.cancel()
    rests = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert all(rest >= wait for rest, wait in zip(rests, (0.05, 0.1, 0.2, 0.2), strict=True))
