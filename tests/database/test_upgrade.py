"""The schema changes while others work: no process is refused, and an old worker exits in time."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from chaos.later import make_later_version
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.db import migrate as migration
from dialectic.db.migrate import BINDINGS_ROW, DIGEST_ROW, find_upgrade, list_migrations, migrate
from dialectic.db.pool import WORKER_ROLE
from dialectic.engine import Engine
from dialectic.errors import ConfigurationError, DatabaseBusy, SchemaChanged
from dialectic.pipeline.run import run_job
from dialectic.worker.worker import Worker
from tests.database.job_table import AdminConnection, make_session, working
from tests.database.running_worker import GatedJobs, RunningSession, finish
from tests.waiting import PATIENCE_S, until_someone_waits

FORGET_DIGEST = f"update schema_migrations set sha256 = 'old' where name = '{DIGEST_ROW}'"


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


# -- a later version -------------------------------------------------------------------------------

PETS = "0901_pets.sql"
TOYS = "0902_toys.sql"
MAKE_PETS = """
create table pets (tenant_id uuid not null references tenants (id), name text primary key);
alter table chats add column mood text not null default 'calm';
"""
MAKE_TOYS = "create table toys (name text references pets (name));"
BREAK_TOYS = f"{MAKE_TOYS} insert into toys values ('a ball for a pet that does not exist');"


async def migrate_later(
    session: RunningSession, folder: Path, migrations: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Run `db migrate` of a version with these migrations; return how it ended, and what it did."""
    later = make_later_version(folder, migrations)
    settings = {
        "PYTHONPATH": str(later),
        "DIALECTIC_HOME": str(folder / "home"),
        "DIALECTIC_DATABASE_URL": session.engine.address.url,
    }
    told = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "dialectic", "db", "migrate"],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = told.stderr.splitlines()
    return told.returncode, [line.split()[1] for line in lines if line.startswith("applied ")]


async def list_applied(session: RunningSession) -> list[str]:
    rows = await session.admin.fetch("select name from schema_migrations order by name")
    return [row["name"] for row in rows if row["name"] not in (BINDINGS_ROW, DIGEST_ROW)]


async def test_a_later_version_adds_its_migrations_once_and_keeps_what_is_there(
    session: RunningSession, tmp_path: Path
) -> None:
    known = [script.name for script in list_migrations()]
    (job_id,) = await session.insert()
    later = {PETS: MAKE_PETS, TOYS: MAKE_TOYS}
    assert await migrate_later(session, tmp_path / "first", later) == (0, [PETS, TOYS])
    assert await migrate_later(session, tmp_path / "second", later) == (0, [])
    assert await list_applied(session) == [*known, PETS, TOYS]
    assert (await session.look(job_id))["status"] == "pending"
    policies = "select count(*) from pg_policies where tablename = 'pets'"
    assert await session.admin.fetchval(policies) == 4, (
        "a new table of a tenant is closed to others"
    )
    with pytest.raises(ConfigurationError, match=TOYS):
        await migrate(session.engine.address)


async def test_a_later_migration_that_fails_leaves_nothing_and_is_completed_when_it_is_mended(
    session: RunningSession, tmp_path: Path
) -> None:
    broken = {PETS: MAKE_PETS, TOYS: BREAK_TOYS}
    code, applied = await migrate_later(session, tmp_path / "broken", broken)
    assert (code, applied) == (1, [])
    assert (await list_applied(session))[-1] == PETS
    assert await session.admin.fetchval("select to_regclass('toys')") is None
    mended = {PETS: MAKE_PETS, TOYS: MAKE_TOYS}
    assert await migrate_later(session, tmp_path / "mended", mended) == (0, [TOYS])


async def test_a_worker_saves_what_it_holds_in_a_schema_that_has_more_columns(
    session: RunningSession,
) -> None:
    begun = await make_session(session.engine, session.account, until="thesis")
    tables = ("dialectic_contributions", "dialectic_project_resources", "dialectic_files")
    for table in (*tables, "dialectic_chunks"):
        add_column = f"alter table {table} add column mood text not null default 'calm'"
        await session.admin.execute(add_column)
    job_ids = await Tenant(session.engine, session.account).run(sessions.generate, begun.session_id)
    async with working(session.worker_engine, run_job):
        await session.until_status("completed", *job_ids)
    for table in tables:
        assert {row["mood"] for row in await session.rows(table)} == {"calm"}


# -- under load ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_weakened", [False, True], ids=["functions", "functions and policies"])
async def test_the_schema_is_applied_again_and_again_while_others_work(
    session: RunningSession, is_weakened: bool
) -> None:
    is_over = False
    made: list[UUID] = []

    async def ask_for_work() -> None:
        while not is_over:
            made.extend(await session.insert())

    async def look() -> None:
        while not is_over:
            await Tenant(session.engine, session.account).run(
                sessions.get_detail, session.session_id
            )

    async def apply_again() -> None:
        connection = await asyncpg.connect(session.engine.address.url)
        for _ in range(5):
            if is_weakened:
                await connection.execute("drop policy tenant_select on dialectic.chats")
            assert await migration._apply_all(connection, session.engine.address) == []
        await connection.close()

    async with working(session.worker_engine, finish, concurrency=4):
        others = [asyncio.create_task(each) for each in (ask_for_work(), look())]
        try:
            await apply_again()
        finally:
            is_over = True
        await asyncio.gather(*others)
        await session.until_status("completed", *made)


async def test_functions_alone_are_applied_without_locking_a_table(session: RunningSession) -> None:
    await session.admin.execute(FORGET_DIGEST)
    async with session.admin.transaction():
        await session.admin.execute("lock table dialectic_generation_jobs in row exclusive mode")
        assert await migrate(session.engine.address) == []


async def test_a_migration_lets_those_go_first_who_hold_what_it_needs(
    session: RunningSession,
) -> None:
    """Another holds the last table and then wants the first: it gets it without a deadlock."""
    await session.admin.execute(FORGET_DIGEST)
    await session.admin.execute("drop policy tenant_select on chats")
    other = await asyncpg.connect(session.engine.address.url)
    await other.execute("set search_path = dialectic; set deadlock_timeout = '1s'; begin")
    await other.execute("select from users limit 1")
    migrating = asyncio.create_task(migrate(session.engine.address))
    await until_someone_waits(session.admin, "mode = 'AccessExclusiveLock'")
    await other.execute("select from dialectic_generation_jobs limit 1")
    await other.execute("commit")
    await other.close()
    assert await asyncio.wait_for(migrating, PATIENCE_S) == []
    assert await find_upgrade(session.admin.fetch) is None


async def test_a_migration_that_never_gets_its_turn_says_what_blocks_it(
    session: RunningSession,
) -> None:
    await session.admin.execute(FORGET_DIGEST)
    await session.admin.execute("drop policy tenant_select on chats")
    async with session.admin.transaction():
        await session.admin.execute("select from dialectic_generation_jobs limit 1")
        with pytest.raises(DatabaseBusy, match="keeps its tables locked"):
            await migrate(session.engine.address, lock_tries=2)
    assert await migrate(session.engine.address) == []


# -- an old worker ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("upgrade", "what"),
    [
        (FORGET_DIGEST, "its functions"),
        ("insert into schema_migrations values ('9999_wings.sql', 'x')", r"9999_wings\.sql"),
    ],
)
async def test_a_worker_that_sees_an_upgrade_finishes_what_it_holds_and_takes_no_more(
    session: RunningSession, upgrade: str, what: str
) -> None:
    gated_jobs = GatedJobs()
    worker = Worker(session.worker_engine, run_job=gated_jobs.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    (held,) = await session.insert()
    await gated_jobs.next_begun()
    await session.admin.execute(upgrade)
    await asyncio.wait_for(worker._stopping.wait(), PATIENCE_S)
    (later,) = await session.insert()
    gated_jobs.gate(1).set()
    with pytest.raises(SchemaChanged, match=what):
        await asyncio.wait_for(running, PATIENCE_S)
    assert (await session.look(held))["status"] == "completed"
    assert (await session.look(later))["status"] == "pending"


@pytest.mark.parametrize(
    "change",
    [
        f"revoke update on dialectic_domains from {WORKER_ROLE}",
        "alter table dialectic_domains rename column name to title",
        "alter table dialectic_domains rename to domains",
    ],
)
async def test_a_job_that_meets_an_upgraded_database_is_given_back_and_not_failed(
    session: RunningSession, change: str
) -> None:
    async def run(engine: Engine, job: Job) -> None:
        await session.admin.execute(change)
        await session.admin.execute(FORGET_DIGEST)
        await engine.db.transact(
            job.tenant_id, lambda c: c.execute("update dialectic_domains set name = 'other'")
        )

    (job_id,) = await session.insert()
    worker = Worker(session.worker_engine, run_job=run, concurrency=4)
    with pytest.raises(SchemaChanged):
        await asyncio.wait_for(worker.run(), PATIENCE_S)
    row = await session.look(job_id)
    assert (row["status"], row["attempt_count"], row["errors"]) == ("pending", 1, [])


async def test_a_claim_that_meets_an_upgraded_database_ends_the_worker(
    session: RunningSession,
) -> None:
    gated_jobs = GatedJobs()
    worker = Worker(session.worker_engine, run_job=gated_jobs.run, concurrency=4)
    running = asyncio.create_task(worker.run())
    await asyncio.wait_for(worker.wait_until_listening(), PATIENCE_S)
    async with session.admin.transaction():
        await session.admin.execute("alter function claim_jobs rename to take_jobs")
        await session.admin.execute(FORGET_DIGEST)
    (job_id,) = await session.insert()
    with pytest.raises(SchemaChanged):
        await asyncio.wait_for(running, PATIENCE_S)
    assert (await session.look(job_id))["status"] == "pending"


async def test_a_wrong_statement_in_a_database_that_is_ours_is_a_fault_of_the_program(
    session: RunningSession,
) -> None:
    async def run(engine: Engine, job: Job) -> None:
        await engine.db.transact(job.tenant_id, lambda c: c.execute("select from nowhere"))

    async with working(session.worker_engine, run):
        (job_id,) = await session.insert()
        await session.until_status("failed", job_id)
    assert (await session.look(job_id))["status_reason"] == "internal"
