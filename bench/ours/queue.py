"""Many jobs that do nothing: how fast they go, and how soon a dead worker's are taken over."""

from __future__ import annotations

import asyncio
import time

from bench.child import Options, say, stopping_event, wait_for_go
from bench.ours.engine import create_sessions, open_engine, working
from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.db.migrate import migrate
from dialectic.db.pool import APP_ROLE, WORKER_ROLE, Address, Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.records import open_account
from dialectic.engine import Engine
from dialectic.worker.worker import Worker

HOLD_S = 600.0

# The shape of real work: a session asks several models at once.
MODELS_PER_SESSION = 10
SESSIONS = 200
TENANTS = 100


async def prepare(options: Options) -> None:
    """Migrate, and create the sessions that throughput and recovery are measured with."""
    await migrate(Address(options["url"], is_embedded=True))
    async with open_engine(options, APP_ROLE) as engine:
        one = await open_account(engine.db, "one")
        await create_sessions(engine, one, count=SESSIONS, models=MODELS_PER_SESSION)
        for number in range(TENANTS):
            account = await open_account(engine.db, f"tenant {number}")
            each = SESSIONS // TENANTS
            await create_sessions(engine, account, count=each, models=MODELS_PER_SESSION)


async def generate_jobs(options: Options) -> None:
    """Start prepared sessions, of one tenant or of many, until there are so many jobs."""
    tenants = options.get("tenants", 1)
    names = ["one"] if tenants == 1 else [f"tenant {number}" for number in range(tenants)]
    wanted = options["jobs"] // MODELS_PER_SESSION
    async with open_engine(options, APP_ROLE) as engine:
        for name in names:
            account = await open_account(engine.db, name)
            found = await engine.db.transact(
                account.tenant_id,
                lambda c: c.fetch("select id from dialectic_sessions order by id"),
            )
            for row in found[: wanted // tenants]:
                await Tenant(engine, account).run(sessions.generate, row["id"])


async def complete_at_once(engine: Engine, job: Job) -> None:
    """Do nothing, and say that it is done."""

    async def work(connection: Connection) -> None:
        await jobs.complete(connection, job, results={}, finished_units=0)

    await engine.db.transact(job.tenant_id, work)


async def work(options: Options) -> None:
    """Take jobs that do nothing, until told to stop."""
    async with open_engine(options, WORKER_ROLE) as engine:
        await asyncio.to_thread(wait_for_go)
        worker = Worker(engine, concurrency=options["concurrency"], run_job=complete_at_once)
        async with working(worker):
            await stopping_event().wait()


async def hold(options: Options) -> None:
    """Keep jobs, or report those that come and end them."""

    async def keep_or_report(engine: Engine, job: Job) -> None:
        say({"job": str(job.id), "at": time.time()})
        if options["keeps"]:
            await asyncio.sleep(HOLD_S)
        await complete_at_once(engine, job)

    async with open_engine(options, WORKER_ROLE) as engine:
        worker = Worker(engine, concurrency=50, run_job=keep_or_report)
        async with working(worker):
            await worker.wait_until_listening()
            say({"ready": True})
            await stopping_event().wait()
