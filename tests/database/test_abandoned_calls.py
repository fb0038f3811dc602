"""A call that nobody wants any more is hung up on at once; one that has ended is left alone."""

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
from tests.database.running_worker import Gates, Workshop, finish
from tests.waiting import PATIENCE_S, until


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def shop(
    engine: Engine, worker_engine: Engine, admin: AdminConnection
) -> AsyncIterator[Workshop]:
    account = await new_account(engine)
    begun = await make_session(engine, account, models=MODELS[:2], until=STAGE)
    yield Workshop(engine, worker_engine, account, begun.session_id, begun.project_id, admin)
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


async def test_a_cancelled_session_hangs_up_on_every_call_it_makes(shop: Workshop) -> None:
    engine, silent = put_silence(shop.worker_engine)
    ids = await Tenant(shop.engine, shop.account).run(sessions.generate, shop.session_id)
    async with working(engine, run_job):
        called = {await silent.next_of(silent.called) for _ in ids}
        await Tenant(shop.engine, shop.account).run(sessions.cancel, shop.session_id)
        assert {await silent.next_of(silent.left) for _ in ids} == called == set(MODELS[:2])
    rows = [await shop.look(job_id) for job_id in ids]
    assert {(row["status"], row["attempt_count"]) for row in rows} == {("cancelled", 1)}
    assert all(row["errors"] == [] for row in rows)


async def test_a_deleted_project_hangs_up_on_every_call_it_makes(shop: Workshop) -> None:
    engine, silent = put_silence(shop.worker_engine)
    ids = await Tenant(shop.engine, shop.account).run(sessions.generate, shop.session_id)
    async with working(engine, run_job):
        for _ in ids:
            await silent.next_of(silent.called)
        await shop.engine.db.transact(
            shop.account.tenant_id,
            lambda c: c.execute("delete from dialectic_projects where id = $1", shop.project_id),
        )
        for _ in ids:
            await silent.next_of(silent.left)


async def test_a_paused_session_lets_its_calls_end(shop: Workshop) -> None:
    gates = Gates()
    (job_id,) = await shop.insert()
    async with working(shop.worker_engine, gates.run):
        job = await gates.next_begun()
        await Tenant(shop.engine, shop.account).run(sessions.pause, shop.session_id)
        await until_beaten(shop, job.id)
        gates.gate(1).set()
        await shop.until_status("completed", job_id)
    assert gates.cancelled == []


async def test_a_job_that_has_saved_its_work_is_not_disturbed_while_it_tidies_up(
    shop: Workshop,
) -> None:
    """Its files are carried to storage after the commit: the lease is gone, and nobody took it."""
    gates = Gates()
    saved: asyncio.Queue[Job] = asyncio.Queue()

    async def run(engine: Engine, job: Job) -> None:
        if job.payload_json["word"] == "saves":
            await finish(engine, job)
            saved.put_nowait(job)
        await gates.run(engine, job)

    (other,) = await shop.insert()
    await shop.insert(payload=Work(word="saves"))
    async with working(shop.worker_engine, run):
        for _ in range(2):
            await gates.next_begun()
        held = await asyncio.wait_for(saved.get(), PATIENCE_S)
        assert held.id != other
        for _ in range(3):
            await until_beaten(shop, other)
        assert gates.cancelled == []
        gates.gate(1).set()
        await shop.until_status("completed", other)


async def until_beaten(shop: Workshop, job_id: UUID) -> None:
    """Wait until the job's worker has pushed out its leases once more."""
    before = (await shop.look(job_id))["lease_until"]

    async def beaten() -> bool:
        return bool((await shop.look(job_id))["lease_until"] > before)

    await until(shop.engine.address, beaten)
