"""A session whose jobs real workers run, and ways to disturb them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import asyncpg

from dialectic.core.job import Job
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from tests.database.job_table import (
    AdminConnection,
    build_job,
    insert_jobs,
    make_session,
    new_account,
)
from tests.sample_events import check_stored
from tests.waiting import PATIENCE_S, until

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RunningSession:
    """A session whose jobs are run, and the engines of its person and of its worker."""

    engine: Engine
    worker_engine: Engine
    account: Account
    session_id: UUID
    project_id: UUID
    admin: AdminConnection

    @classmethod
    async def open(
        cls, engine: Engine, worker_engine: Engine, admin: AdminConnection
    ) -> RunningSession:
        account = await new_account(engine)
        begun = await make_session(engine, account)
        return cls(engine, worker_engine, account, begun.session_id, begun.project_id, admin)

    async def insert(self, count: int = 1, **changes: Any) -> list[UUID]:
        new = [build_job(self.session_id, **changes) for _ in range(count)]
        return await insert_jobs(self.engine.db, self.account.tenant_id, new)

    async def transact(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Do something in the name of the person whose session it is."""
        return await self.engine.db.transact(self.account.tenant_id, work)

    async def look(self, job_id: UUID) -> dict[str, Any]:
        row = await self.admin.fetchrow(
            "select *, error_details::text as errors from dialectic_generation_jobs where id = $1",
            job_id,
        )
        assert row is not None
        return {**row, "errors": json.loads(row["errors"])}

    async def until_status(self, status: str, *job_ids: UUID) -> None:
        async def reached() -> bool:
            rows = await self.admin.fetch(
                "select status from dialectic_generation_jobs where id = any ($1)", list(job_ids)
            )
            return [row["status"] for row in rows] == [status] * len(job_ids)

        await until(self.engine.address, reached, patience_s=PATIENCE_S)

    async def events_of(self, kind: str) -> list[dict[str, Any]]:
        """What was told of the session under one name, in order."""
        return [data for found, data in await self.events() if found == kind]

    async def rows(self, table: str) -> list[asyncpg.Record]:
        """The tenant's rows of a table."""
        return await self.admin.fetch(
            f"select * from {table} where tenant_id = $1", self.account.tenant_id
        )

    async def hang_up_on_everyone(self) -> None:
        """Break every connection to this database but the test's own."""
        await self.admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and pid <> pg_backend_pid()"
        )

    async def events(self) -> list[tuple[str, dict[str, Any]]]:
        """All that was told of the session, in order."""
        rows = await self.admin.fetch(
            "select type, data::text from notifications"
            " where session_id = $1 and is_internal_event order by id",
            self.session_id,
        )
        events = [(row["type"], json.loads(row["data"])) for row in rows]
        for kind, data in events:
            check_stored(kind, data)
        return events

    def refusing(self, table: str, code: str, *, times: int) -> AbstractAsyncContextManager[None]:
        return refusing(self.admin, table, code, times=times)

    async def count_refusals(self) -> int:
        count: int = await self.admin.fetchval("select last_value from public.refused")
        return count


@asynccontextmanager
async def refusing(
    admin: AdminConnection, table: str, code: str, *, times: int
) -> AsyncIterator[None]:
    """Let the server refuse inserts into a table with a code, a number of times.

    A sequence keeps count: what it has counted stays counted when the transaction does not.
    """
    await admin.execute(
        f"""
        create sequence public.refused;
        create function public.refuse() returns trigger language plpgsql security definer as $$
        begin
          if nextval('public.refused') <= {times} then
            raise exception 'the server refuses' using errcode = '{code}';
          end if;
          return new;
        end $$;
        create trigger a_refusal before insert or update on dialectic.{table}
          for each row execute function public.refuse();
        """
    )
    try:
        yield
    finally:
        await admin.execute(
            f"drop trigger a_refusal on dialectic.{table};"
            "drop function public.refuse(); drop sequence public.refused"
        )


async def finish(engine: Engine, job: Job) -> None:
    """What a job of these tests does, if nothing else is said: it completes."""
    await engine.db.transact(
        job.tenant_id, lambda c: jobs.complete(c, job, results={}, finished_units=0)
    )


@dataclass(slots=True)
class GatedJobs:
    """Jobs that say when an attempt has begun, and go on when they are let through."""

    begun: asyncio.Queue[Job] = field(default_factory=asyncio.Queue)
    attempts: list[tuple[UUID, int]] = field(default_factory=list)
    opened: dict[int, asyncio.Event] = field(default_factory=dict)
    cancelled: list[tuple[UUID, int]] = field(default_factory=list)

    def gate(self, attempt: int) -> asyncio.Event:
        """The gate in front of every job's so-manieth attempt."""
        return self.opened.setdefault(attempt, asyncio.Event())

    async def run(self, engine: Engine, job: Job) -> None:
        self.attempts.append((job.id, job.attempt))
        await self.begun.put(job)
        try:
            await self.gate(job.attempt).wait()
        except asyncio.CancelledError:
            self.cancelled.append((job.id, job.attempt))
            raise
        await finish(engine, job)

    async def next_begun(self) -> Job:
        return await asyncio.wait_for(self.begun.get(), PATIENCE_S)
