"""One engine while its tables fill: what a job and a look at a session cost then."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg

from bench.child import Options
from bench.ours.dialectic import is_over
from bench.ours.engine import PROMPT, create_sessions, open_engine, working
from bench.ours.queue import complete_at_once
from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.job import Job
from dialectic.db.pool import APP_ROLE, WORKER_ROLE
from dialectic.db.tables import lists
from dialectic.db.tables.lists import PageQuery
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine
from dialectic.pipeline.run import run_job
from dialectic.processes.loader import load_process
from dialectic.worker.worker import RunJob, Worker

# What a session consists of, and which of its columns are names of its own: a copy has others.
TABLES = {
    "dialectic_sessions": ("id",),
    "dialectic_stage_runs": ("session_id",),
    "dialectic_generation_jobs": (
        "id",
        "session_id",
        "parent_job_id",
        "prerequisite_job_id",
        "target_contribution_id",
    ),
    "dialectic_contributions": (
        "id",
        "session_id",
        "job_id",
        "source_group",
        "target_contribution_id",
        "original_model_contribution_id",
    ),
    "dialectic_files": (),
    "dialectic_project_resources": ("id", "session_id", "source_contribution_id"),
    "token_wallet_holds": ("session_id", "job_id", "answer_id"),
    "dialectic_session_spending": ("session_id",),
}
# Names that are words.
WORDS = ("storage_path", "path", "hold_key")
VIEWS = 40
PAGE = 10


async def growth(options: Options) -> dict[str, list[float]]:
    """Finish one session, copy it until there are so many jobs, and time at each size."""
    found: dict[str, list[float]] = {}
    admin = await asyncpg.connect(options["url"])
    try:
        async with open_engine(options, APP_ROLE) as desk:
            account = await open_account(desk.db, "growth")
            session_id = await run_one(desk, options, account)
            for jobs in options["sizes"]:
                await fill(admin, session_id, jobs=jobs)
                found[f"job_ms_{jobs}"] = await time_jobs(desk, options, account, complete_at_once)
                found[f"turn_ms_{jobs}"] = await time_jobs(desk, options, account, run_job)
                found[f"view_ms_{jobs}"] = await time_views(desk, account, session_id)
    finally:
        await admin.close()
    return found


async def run_one(desk: Engine, options: Options, account: Account) -> UUID:
    """Let three offline models argue to the end; return the session."""
    names = [name for name in desk.catalog.cards if name.startswith("offline/")][:3]
    ask = RunRequest(prompt=PROMPT, models=names, process=load_process("standard"))
    session_id = (await Tenant(desk, account).run(create_session, ask)).session_id
    done = asyncio.Event()

    async def carry_out(engine: Engine, job: Job) -> None:
        await run_job(engine, job)
        done.set()

    async with (
        open_engine(options, WORKER_ROLE) as engine,
        working(Worker(engine, concurrency=16, run_job=carry_out)),
    ):
        await Tenant(desk, account).run(sessions.generate, session_id)
        while not await is_over(desk, account, session_id):
            await done.wait()
            done.clear()
    return session_id


async def fill(admin: asyncpg.Connection[asyncpg.Record], session_id: UUID, *, jobs: int) -> None:
    """Copy a session, row by row under other names, until there are so many jobs."""
    count = "select count(*) from dialectic.dialectic_generation_jobs"
    there = await admin.fetchval(count)
    of_one = await admin.fetchval(f"{count} where session_id = $1", session_id)
    copies = max(0, (jobs - there) // of_one)
    async with admin.transaction():
        # Copies are rows alone: no trigger sets them going, and what they point to is not asked.
        await admin.execute("set local session_replication_role = replica")
        for table, own in TABLES.items():
            await admin.execute(await build_copy(admin, table, own, session_id, there, copies))
    for table in TABLES:
        await admin.execute(f"vacuum analyze dialectic.{table}")


async def build_copy(
    admin: asyncpg.Connection[asyncpg.Record],
    table: str,
    own: tuple[str, ...],
    session_id: UUID,
    first: int,
    copies: int,
) -> str:
    """Build the statement that copies one session's rows of a table so many times."""
    rows = await admin.fetch(
        "select column_name from information_schema.columns where table_schema = 'dialectic'"
        " and table_name = $1 and is_generated = 'NEVER' order by ordinal_position",
        table,
    )
    columns = [row["column_name"] for row in rows]

    def name(column: str) -> str:
        if column in own:
            return f"md5({column}::text || n)::uuid"
        return f"{column} || n" if column in WORDS else column

    source = f"session_id = '{session_id}'"
    if table == "dialectic_sessions":
        source = f"id = '{session_id}'"
    elif table == "dialectic_files":  # those of the first are named before any others
        source = (
            "(tenant_id, path) in (select tenant_id, storage_path from"
            f" dialectic.dialectic_project_resources where {source})"
        )
    return (
        f"insert into dialectic.{table} ({', '.join(columns)})"
        f" select {', '.join(map(name, columns))} from dialectic.{table},"
        f" generate_series({first}, {first + copies - 1}) n where {source}"
    )


async def time_jobs(
    desk: Engine, options: Options, account: Account, carry_out: RunJob
) -> list[float]:
    """Time jobs one by one, from the wish to the recorded end."""
    finished = asyncio.Event()

    async def end(engine: Engine, job: Job) -> None:
        await carry_out(engine, job)
        finished.set()

    taken_ms = []
    made = await create_sessions(desk, account, count=options["jobs"], models=1)
    async with (
        open_engine(options, WORKER_ROLE) as engine,
        working(Worker(engine, concurrency=1, run_job=end)),
    ):
        for session_id in made:
            finished.clear()
            started = time.perf_counter()
            await Tenant(desk, account).run(sessions.generate, session_id)
            await finished.wait()
            taken_ms.append((time.perf_counter() - started) * 1000)
    return taken_ms[len(taken_ms) // 4 :]  # the first ones find nothing planned yet


async def time_views(desk: Engine, account: Account, session_id: UUID) -> list[float]:
    """Time what a person's look at a session and at the list of sessions takes."""

    async def list_them() -> None:
        await desk.db.transact(
            account.tenant_id, lambda c: lists.list_sessions(c, PageQuery(PAGE), None)
        )

    async def look() -> None:
        await Tenant(desk, account).run(sessions.get_detail, session_id)

    taken_ms = [await _time(look) + await _time(list_them) for _ in range(VIEWS)]
    return taken_ms[VIEWS // 4 :]


async def _time(act: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await act()
    return (time.perf_counter() - started) * 1000
