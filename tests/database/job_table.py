"""The table of jobs within reach: jobs put in by hand, moves as a worker makes them, a clock that
tests set. Everything goes through the product's own statements, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode
from uuid import UUID, uuid4

import asyncpg
from pydantic import BaseModel

from dialectic.app.projects import CreatedSession, create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.job import Job, JobKey, JobStatus
from dialectic.db.pool import WORKER_ROLE, Address, Connection, Database, connect
from dialectic.db.tables import jobs, records
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process
from dialectic.worker.worker import RunJob, Worker
from tests.sample_events import check_stored
from tests.waiting import PATIENCE_S

STAGE = "thesis"
MODELS = ["offline/architect", "offline/pragmatist", "offline/skeptic"]
PROMPT = "A web service that lets small bakeries sell what is left over at closing time."
START = datetime(2030, 1, 1, tzinfo=UTC)
# A lease of 12 s, and 3 s of grace.
TERMS = jobs.LeaseTerms(12.0)
LOST_MAX = 2

AdminConnection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class Work(BaseModel):
    """What a job of a test is about: a word that the test understands."""

    job_type: Literal["work"] = "work"
    word: str = ""


async def make_session(
    engine: Engine, account: Account, *, models: list[str] | None = None, **wishes: Any
) -> CreatedSession:
    """Create a session as a person does; no job is made yet."""
    ask = RunRequest(
        prompt=PROMPT, models=models or MODELS, process=load_process("standard"), **wishes
    )
    return await Tenant(engine, account).run(create_session, ask)


async def start_stage(
    engine: Engine, account: Account, session_id: UUID, *, planned_units: int
) -> None:
    """Start the first stage without making its jobs."""

    async def work(connection: Connection) -> None:
        sql = records.SQL
        await connection.execute(
            sql["insert_stage_run"],
            account.tenant_id,
            session_id,
            1,
            STAGE,
            1,
            False,
            planned_units,
            None,
            [1, 2, 3],
        )
        await connection.execute(sql["begin_stage_run"], session_id, 1, STAGE)
        await connection.execute(sql["mark_generating"], session_id)

    await engine.db.transact(account.tenant_id, work)


def build_job(session_id: UUID, **changes: Any) -> jobs.NewJob:
    values: dict[str, Any] = {
        "id": uuid4(),
        "session_id": session_id,
        "stage_slug": STAGE,
        "iteration_number": 1,
        "payload": Work(),
        "max_retries": 3,
        **changes,
    }
    return jobs.NewJob(**values)


async def insert_jobs(db: Database, tenant_id: UUID, new: Iterable[jobs.NewJob]) -> list[UUID]:
    """Insert jobs in one commit."""

    async def work(connection: Connection) -> list[UUID]:
        planned = list(new)
        for job in planned:
            assert await jobs.insert_job(connection, tenant_id, job)
        return [job.id for job in planned]

    return await db.transact(tenant_id, work)


@dataclass(slots=True)
class JobTable:
    """One session's jobs, seen and moved as a worker does, at a time that the test sets.

    The pool has a single connection, so that the clock of that connection is the clock of all.
    """

    engine: Engine
    db: Database
    address: Address
    account: Account
    session_id: UUID
    project_id: UUID
    clock: datetime = START

    @classmethod
    @asynccontextmanager
    async def open(cls, engine: Engine) -> AsyncIterator[JobTable]:
        """Open the machine for a session of its own, in an account of its own."""
        account = await new_account(engine)
        # Any failed plan job fails the stage, however many there are.
        begun = await make_session(engine, account, wait_for_all=True)
        async with Database.open(engine.address, WORKER_ROLE, size=1, patience_s=5.0) as db:
            job_table = cls(
                replace(engine, db=db),
                db,
                engine.address,
                account,
                begun.session_id,
                begun.project_id,
            )
            await job_table.advance(0)
            yield job_table

    async def advance(self, seconds: float) -> None:
        """Let time pass, or jump back."""
        self.clock += timedelta(seconds=seconds)
        await set_clock(self.db.fetch, self.clock)

    async def transact(self, work: Callable[[Connection], Awaitable[Any]]) -> Any:
        return await self.db.transact(self.account.tenant_id, work)

    async def fetch(self, query: str, *arguments: Any) -> list[asyncpg.Record]:
        """Ask something as the tenant."""
        rows: list[asyncpg.Record] = await self.transact(lambda c: c.fetch(query, *arguments))
        return rows

    def others(self, count: int, role: str = WORKER_ROLE) -> AbstractAsyncContextManager[Database]:
        """Open further connections; their clock stands where ours is now."""
        clock = urlencode({"dialectic.fake_now": self.clock.isoformat()})
        stopped = replace(self.address, url=f"{self.address.url}&{clock}")
        return Database.open(stopped, role, size=count)

    @asynccontextmanager
    async def begin(self, isolation: str = "read committed") -> AsyncIterator[AdminConnection]:
        """Another worker's transaction; the test commits it, or it never was.

        Its locks are gone afterwards: the server ends the connection before `close` returns.
        """
        connection = await connect(self.address, WORKER_ROLE)
        try:
            await set_clock(connection.fetch, self.clock)
            await connection.execute(f"begin isolation level {isolation}")
            await connection.fetch(
                "select set_config('dialectic.tenant', $1, true)", str(self.account.tenant_id)
            )
            yield connection
        finally:
            await connection.close(timeout=PATIENCE_S)

    # -- jobs in ----------------------------------------------------------------------------------

    async def insert(self, **changes: Any) -> UUID:
        return (await self.insert_all([changes]))[0]

    async def insert_all(self, changes: Iterable[dict[str, Any]]) -> list[UUID]:
        new = [build_job(self.session_id, **each) for each in changes]
        return await insert_jobs(self.db, self.account.tenant_id, new)

    async def insert_children(self, parent: Job, count: int) -> list[UUID]:
        """Plan the children of the parent's current step and let it wait for them: one commit."""
        return await self.insert_plan(parent, count, total_steps=1)

    async def insert_plan(
        self, parent: Job, count: int, *, total_steps: int, **policy: Any
    ) -> list[UUID]:
        children = [
            build_job(self.session_id, parent_job_id=parent.id, step_number=parent.current_step)
            for _ in range(count)
        ]

        async def work(connection: Connection) -> None:
            await jobs.insert_jobs(connection, parent.tenant_id, children)
            await jobs.wait(connection, parent, jobs.Wait(total_steps=total_steps, **policy))

        await self.transact(work)
        return [child.id for child in children]

    # -- moves ------------------------------------------------------------------------------------

    async def claim(self, job_id: UUID, *, worker: str = "first") -> Job | None:
        key = (self.account.tenant_id, job_id)
        return (await self.claim_all([job_id], worker=worker)).get(key)

    async def claim_all(self, job_ids: list[UUID], *, worker: str = "first") -> dict[JobKey, Job]:
        keys = [(self.account.tenant_id, job_id) for job_id in job_ids]
        return await jobs.claim(self.db, keys, worker=worker, terms=TERMS, lost_max=LOST_MAX)

    async def take(self, job_id: UUID, *, worker: str = "first") -> Job:
        job = await self.claim(job_id, worker=worker)
        assert job is not None, f"job {job_id} is not to be had"
        return job

    async def take_all(self, job_ids: list[UUID]) -> list[Job]:
        claimed = await self.claim_all(job_ids)
        return [claimed[self.account.tenant_id, job_id] for job_id in job_ids]

    async def complete(self, job: Job, *, finished_units: int = 0) -> None:
        await self.transact(
            lambda c: jobs.complete(c, job, results={}, finished_units=finished_units)
        )

    async def fail(self, job: Job, *, message: str = "It cannot be done.") -> None:
        await self.transact(
            lambda c: jobs.fail(c, job, jobs.AttemptError("provider_auth", message))
        )

    async def retry(self, job: Job, *, delay_s: float = 10.0, counts: bool = True) -> None:
        await self.transact(
            lambda c: jobs.retry(
                c,
                job,
                jobs.AttemptError("provider_transient", "Busy."),
                delay_s=delay_s,
                counts=counts,
            )
        )

    async def pause(self, job: Job) -> None:
        await self.transact(
            lambda c: jobs.pause(c, job, jobs.AttemptError("insufficient_funds", "No money."))
        )

    async def release(self, job: Job) -> None:
        await self.transact(lambda c: jobs.release(c, job))

    async def beat(self, *held: Job) -> set[UUID]:
        kept = await self.transact(lambda c: jobs.extend_leases(c, list(held), TERMS))
        return {job_id for _, job_id in kept}

    async def sweep(self) -> int:
        count: int = await self.transact(lambda c: jobs.sweep(c, TERMS))
        return count

    async def lose_lease(self, job: Job) -> None:
        """Let the holder be silent for so long that its job may be given away."""
        await self.advance(TERMS.lease_s + 1)
        await self.sweep()
        await self.advance(TERMS.grace_s + 1)

    # -- looks ------------------------------------------------------------------------------------

    async def look(self, job_id: UUID) -> asyncpg.Record:
        rows = await self.fetch("select * from dialectic_generation_jobs where id = $1", job_id)
        return rows[0]

    async def status(self, job_id: UUID) -> JobStatus:
        return JobStatus((await self.look(job_id))["status"])

    async def statuses(self, job_ids: Iterable[UUID]) -> list[str]:
        rows = await self.fetch(
            "select id, status from dialectic_generation_jobs where id = any ($1)", list(job_ids)
        )
        found = {row["id"]: row["status"] for row in rows}
        return [found[job_id] for job_id in job_ids]

    async def messages(self, job_id: UUID | None = None) -> list[asyncpg.Record]:
        """The queue's messages, of one job or of all, oldest first."""
        rows = await self.db.fetch("select * from queue.pgqueuer order by id")
        return [
            row for row in rows if job_id is None or row["payload"].decode().endswith(str(job_id))
        ]

    async def forget_messages(self) -> None:
        """Lose every message, as a frozen worker's late acknowledgement does."""
        await self.db.fetch("delete from queue.pgqueuer")

    async def events(self, kind: str) -> list[dict[str, Any]]:
        rows = await self.fetch(
            "select data from notifications where session_id = $1 and type = $2 order by id",
            self.session_id,
            kind,
        )
        for row in rows:
            check_stored(kind, row["data"])
        return [row["data"] for row in rows]


@asynccontextmanager
async def working(engine: Engine, run_job: RunJob, **options: Any) -> AsyncIterator[Worker]:
    """A worker that works; what it holds at the end is given back."""
    worker = Worker(engine, run_job=run_job, **{"concurrency": 4, **options})
    task = asyncio.create_task(worker.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            await worker.wait_until_listening()
        yield worker
    finally:
        worker.stop(at_once=True)
        await asyncio.wait_for(task, PATIENCE_S)


async def set_clock(fetch: Callable[..., Awaitable[Any]], clock: datetime | None) -> None:
    """Set the clock of one connection; None gives it the real one back."""
    await fetch(
        "select set_config('dialectic.fake_now', $1, false)", clock.isoformat() if clock else ""
    )


MOVES_MADE = """
    create table dialectic.moves_made (
      id bigint generated always as identity, job_id uuid, attempt integer, status text);
    create function dialectic.note_move() returns trigger language plpgsql security definer as $$
    begin
      if tg_op = 'INSERT' or new.status <> old.status then
        insert into dialectic.moves_made (job_id, attempt, status)
        values (new.id, new.attempt_count, new.status);
      end if;
      return null;
    end $$;
    create trigger a_move_is_noted after insert or update on dialectic.dialectic_generation_jobs
      for each row execute function dialectic.note_move();
"""


@contextmanager
def database_of_a_module(server: embedded.Server, template: str) -> Iterator[Address]:
    """A database for all tests of a module, which writes down every status that a job enters.

    Tests are kept apart by `forget_jobs`, which costs far less than a database each.
    """
    name = f"module_{uuid4().hex}"

    async def execute(statement: str, *, database: str = "postgres") -> None:
        connection = await asyncpg.connect(server.url(user="postgres", database=database))
        try:
            await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(execute(f"create database {name} template {template} strategy file_copy"))
    try:
        asyncio.run(execute(MOVES_MADE, database=name))
        yield Address(server.url(user="postgres", database=name), is_embedded=True)
    finally:
        asyncio.run(execute(f"drop database {name} with (force)"))


async def forget_jobs(admin: AdminConnection) -> None:
    """Remove what a test left, because the sweeper looks at the jobs of everyone."""
    await admin.execute("delete from dialectic_generation_jobs")
    await admin.execute("delete from queue.pgqueuer")
    await admin.execute("delete from dialectic_files where written_at is null")
    await admin.execute("delete from moves_made")


async def new_account(engine: Engine) -> Account:
    return await records.open_account(engine.db, f"user {uuid4()}")


async def read_moves(admin: AdminConnection, job_id: UUID) -> list[str]:
    """The statuses a job entered in order."""
    rows = await admin.fetch("select status from moves_made where job_id = $1 order by id", job_id)
    return [row["status"] for row in rows]
