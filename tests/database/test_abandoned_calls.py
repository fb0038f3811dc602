"""A call that is not wanted any more is aborted at once; one that has ended is left alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from uuid import UUID

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job
from dialectic.core.models.messages import Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.db.pool import Address
from dialectic.engine import Engine
from dialectic.pipeline.run import run_job
from dialectic.providers.base import OnText
from tests.database.job_table import (
    MODELS,
    STAGE,
    AdminConnection,
    Work,
    forget_jobs,
    make_session,
    new_account,
    working,
)
from tests.database.running_worker import GatedJobs, RunningSession, finish
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def session(
    engine: Engine, worker_engine: Engine, admin: AdminConnection
) -> AsyncIterator[RunningSession]:
    account = await new_account(engine)
    begun = await make_session(engine, account, models=MODELS[:2], until=STAGE)
    yield RunningSession(engine, worker_engine, account, begun.session_id, begun.project_id, admin)
    await forget_jobs(admin)


@dataclass(slots=True)
class Silent:
    """A provider that never answers, and notes who hangs up on it."""

    called: asyncio.Queue[str] = field(default_factory=asyncio.Queue)
    left: asyncio.Queue[str] = field(default_factory=asyncio.Queue)

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        await self.called.put(card.name)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await self.left.put(card.name)
            raise
        raise AssertionError("nobody ever wakes it")

    async def next_of(self, queue: asyncio.Queue[str]) -> str:
        return await asyncio.wait_for(queue.get(), PATIENCE_S)


def put_silence(engine: Engine) -> tuple[Engine, Silent]:
    silent = Silent()
    return replace(engine, catalog=replace(engine.catalog, providers={"offline": silent})), silent


async def test_a_cancelled_session_hangs_up_on_every_call_it_makes(session: RunningSession) -> None:
    engine, silent = put_silence(session.worker_engine)
    ids = await Tenant(session.engine, session.account).run(sessions.generate, session.session_id)
    async with working(engine, run_job):
        called = {await silent.next_of(silent.called) for _ in ids}
        await Tenant(session.engine, session.account).run(sessions.cancel, session.session_id)
        assert {await silent.next_of(silent.left) for _ in ids} == called == set(MODELS[:2])
    rows = [await session.look(job_id) for job_id in ids]
    assert {(row["status"], row["attempt_count"]) for row in rows} == {("cancelled", 1)}
    assert all(row["errors"] == [] for row in rows)


async def test_a_deleted_project_hangs_up_on_every_call_it_makes(session: RunningSession) -> None:
    engine, silent = put_silence(session.worker_engine)
    ids = await Tenant(session.engine, session.account).run(sessions.generate, session.session_id)
    async with working(engine, run_job):
        for _ in ids:
            await silent.next_of(silent.called)
        await session.engine.db.transact(
            session.account.tenant_id,
            lambda c: c.execute("delete from dialectic_projects where id = $1", session.project_id),
        )
        for _ in ids:
            await silent.next_of(silent.left)


async def test_a_paused_session_lets_its_calls_end(session: RunningSession) -> None:
    gated_jobs = GatedJobs()
    (job_id,) = await session.insert()
    async with working(session.worker_engine, gated_jobs.run):
        job = await gated_jobs.next_begun()
        await Tenant(session.engine, session.account).run(sessions.pause, session.session_id)
        await until_beaten(session, job.id)
        gated_jobs.gate(1).set()
        await session.until_status("completed", job_id)
    assert gated_jobs.cancelled == []


async def test_a_job_that_has_saved_its_work_is_not_disturbed_while_it_tidies_up(
    session: RunningSession,
) -> None:
    """Its files are copied to storage after the commit: the lease has ended, not lost."""
    gated_jobs = GatedJobs()
    saved: asyncio.Queue[Job] = asyncio.Queue()

    async def run(engine: Engine, job: Job) -> None:
        if job.payload_json["word"] == "saves":
            await finish(engine, job)
            saved.put_nowait(job)
        await gated_jobs.run(engine, job)

    (other,) = await session.insert()
    await session.insert(payload=Work(word="saves"))
    async with working(session.worker_engine, run):
        for _ in range(2):
            await gated_jobs.next_begun()
        held = await asyncio.wait_for(saved.get(), PATIENCE_S)
        assert held.id != other
        for _ in range(3):
            await until_beaten(session, other)
        assert gated_jobs.cancelled == []
        gated_jobs.gate(1).set()
        await session.until_status("completed", other)


async def until_beaten(session: RunningSession, job_id: UUID) -> None:
    """Wait until the job's worker has pushed out its leases once more."""
    before = (await session.look(job_id))["lease_until"]

    async def beaten() -> bool:
        return bool((await session.look(job_id))["lease_until"] > before)

    await until(session.engine.address, beaten)
