"""Of a user's action and a worker's commit in one session, each waits with nothing that the other
needs: they never deadlock, whichever comes first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from dialectic.app import jobs as single_jobs
from dialectic.app import projects, seats, sessions, wallet
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.sessions import SessionChange, SubmitRequest
from dialectic.core.job import Job, JobStatus
from dialectic.db.pool import Address, Connection
from dialectic.db.tables import jobs
from dialectic.engine import Engine
from dialectic.errors import Conflict, LeaseLost
from tests.cases import each_case
from tests.database.job_table import AdminConnection, JobTable, start_stage
from tests.waiting import until_someone_waits

Act = Callable[[Transaction, JobTable, Job], Awaitable[object]]

ACTIONS: dict[str, Act] = {
    "generate": lambda tx, table, _: sessions.generate(tx, table.session_id),
    "submit": lambda tx, table, _: sessions.submit(
        tx, table.session_id, SubmitRequest(feedback="Shorter.")
    ),
    "iterate": lambda tx, table, _: sessions.iterate(tx, table.session_id),
    "retry": lambda tx, table, _: sessions.retry(tx, table.session_id),
    "pause": lambda tx, table, _: sessions.pause(tx, table.session_id),
    "resume": lambda tx, table, _: sessions.resume(tx, table.session_id, budget_credits=9),
    "cancel": lambda tx, table, _: sessions.cancel(tx, table.session_id),
    "change": lambda tx, table, _: sessions.change(
        tx, table.session_id, SessionChange(wait_for_all=False)
    ),
    "drop a seat": lambda tx, table, _: seats.drop(tx, table.session_id, 2),
    "replace a seat": lambda tx, table, _: seats.replace(
        tx, table.session_id, 2, "offline/architect"
    ),
    "pause a job": lambda tx, table, job: single_jobs.pause(tx, table.session_id, job.id),
    "resume a job": lambda tx, table, job: single_jobs.resume(
        tx, table.session_id, job.id, approves_spend=False
    ),
    "cancel a job": lambda tx, table, job: single_jobs.cancel(tx, table.session_id, job.id),
    "retry a job": lambda tx, table, job: single_jobs.retry(tx, table.session_id, job.id),
    "skip a job": lambda tx, table, job: single_jobs.skip(tx, table.session_id, job.id),
    "top up": lambda tx, _table, _job: wallet.top_up(tx, 5_000),
    "set a limit": lambda tx, _table, _job: wallet.set_limit(tx, 5_000),
    "remove the limit": lambda tx, _table, _job: wallet.set_unlimited(tx, is_unlimited=True),
    "delete the project": lambda tx, table, _: projects.delete(tx, table.project_id),
}
# Everything that the commit of a worker may lock beside its own job.
NEEDED = (
    "select from dialectic_generation_jobs where session_id = $1 and status <> 'processing'"
    " for no key update nowait",
    "select from dialectic_stage_runs where session_id = $1 for no key update nowait",
    "select from dialectic_sessions where id = $1 for no key update nowait",
    "select from token_wallets w where w.id = ("
    " select s.wallet_id from dialectic_sessions s where s.id = $1) for no key update nowait",
)


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


async def begin_work(engine: Engine, table: JobTable) -> Job:
    """A running plan job, the last of its stage, next to one that waits for money."""
    await start_stage(engine, table.account, table.session_id, planned_units=2)
    waiting, running = await table.take_all(await table.insert_all([{}, {}]))
    await table.pause(waiting)
    return running


@each_case("name", ACTIONS)
async def test_an_action_waits_for_a_commit_of_a_worker_without_holding_what_it_needs(
    engine: Engine, admin: AdminConnection, name: str
) -> None:
    async with JobTable.open(engine) as table:
        job = await begin_work(engine, table)
        tenant = Tenant(engine, table.account)

        async def act(tx: Transaction) -> object:
            return await ACTIONS[name](tx, table, job)

        async with table.begin() as connection:
            await jobs.hold_lease(connection, job)
            acting = asyncio.create_task(tenant.run(act))
            waiting = asyncio.create_task(until_someone_waits(admin))
            await asyncio.wait({acting, waiting}, return_when=asyncio.FIRST_COMPLETED)
            assert not acting.done(), "it did not wait"
            for statement in NEEDED:
                await admin.execute(statement, table.session_id)
            await jobs.complete(connection, job, results={}, finished_units=0)
            await connection.execute("commit")
        with contextlib.suppress(Conflict):  # the action found what the commit has changed
            await acting


@each_case("hold", [jobs.hold_lease, jobs.hold_plan])
async def test_a_commit_waits_for_an_action_and_finds_what_it_has_done(
    engine: Engine, admin: AdminConnection, hold: Callable[[Connection, Job], Awaitable[None]]
) -> None:
    async with JobTable.open(engine) as table:
        job = await begin_work(engine, table)
        committing: asyncio.Task[Any]

        async def act(tx: Transaction) -> None:
            nonlocal committing
            await sessions.lock(tx, table.session_id)
            committing = asyncio.create_task(table.transact(lambda c: hold(c, job)))
            await until_someone_waits(admin)
            await sessions.cancel(tx, table.session_id)

        await Tenant(engine, table.account).run(act)
        with pytest.raises(LeaseLost):
            await committing
        assert await table.status(job.id) == JobStatus.CANCELLED


async def test_commits_of_workers_in_one_session_do_not_wait_for_each_other(
    job_table: JobTable,
) -> None:
    first, second = await job_table.take_all(await job_table.insert_all([{}, {}]))
    async with job_table.begin() as connection:
        await jobs.hold_lease(connection, first)
        await job_table.transact(lambda c: jobs.hold_lease(c, second))
