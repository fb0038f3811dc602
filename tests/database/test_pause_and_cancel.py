"""Pausing and cancelling: asked twice it is done once, also if the first answer was lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar
from uuid import UUID

import asyncpg
import pytest

from dialectic.app import sessions
from dialectic.app.projects import create_session
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.sessions import RunRequest
from dialectic.db.pool import Connection, Database
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.ledger import wallets
from dialectic.processes.loader import load_process
from tests.waiting import until_someone_waits

T = TypeVar("T")
Steer = Callable[[Transaction, UUID], Awaitable[bool]]


@dataclass(slots=True)
class Forgetful(Database):
    """A database whose first answer to a commit is lost on its way: the line broke after it."""

    inner: Database
    answers_lost: int = 0

    async def transact(
        self,
        tenant_id: UUID,
        work: Callable[[Connection], Awaitable[T]],
        *,
        patience_s: float | None = None,
    ) -> T:
        async def once(connection: Connection) -> T:
            if not self.answers_lost:
                self.answers_lost += 1
                await self.inner.transact(tenant_id, work)
                raise ConnectionResetError
            return await work(connection)

        return await self.inner.transact(tenant_id, once, patience_s=patience_s)


@pytest.fixture
async def session_id(engine: Engine, account: Account) -> UUID:
    ask = RunRequest(
        prompt="A bakery.", models=["offline/skeptic"], process=load_process("standard")
    )
    begun = await Tenant(engine, account).run(create_session, ask)
    await Tenant(engine, account).run(sessions.generate, begun.session_id)
    return begun.session_id


@pytest.mark.parametrize(
    ("steer", "status"), [(sessions.pause, "paused"), (sessions.cancel, "cancelled")]
)
async def test_a_lost_answer_is_not_taken_for_a_refusal(
    engine: Engine,
    account: Account,
    session_id: UUID,
    admin: asyncpg.Connection[asyncpg.Record],
    steer: Steer,
    status: str,
) -> None:
    forgetful = Forgetful(engine.db)
    tenant = Tenant(replace(engine, db=forgetful), account)
    assert not await tenant.run(steer, session_id), "done already"
    assert forgetful.answers_lost == 1
    assert (
        await Tenant(engine, account).run(sessions.get_detail, session_id)
    ).session.status == status
    told = await admin.fetchval(
        "select count(*) from notifications where type = $1", f"session_{status}"
    )
    assert told == 1


async def test_a_new_budget_does_not_stop_the_worker_who_ends_a_stage(
    engine: Engine,
    account: Account,
    session_id: UUID,
    admin: asyncpg.Connection[asyncpg.Record],
) -> None:
    await Tenant(engine, account).run(sessions.pause, session_id)
    await engine.db.transact(account.tenant_id, lambda c: wallets.set_budget(c, session_id, 1))
    async with admin.transaction():
        # As a commit does that ends a stage and is paid for.
        await admin.execute(
            "select from dialectic_sessions where id = $1 for no key update", session_id
        )
        resuming = asyncio.create_task(
            Tenant(engine, account).run(sessions.resume, session_id, budget_credits=2)
        )
        await until_someone_waits(admin)
        await admin.execute(
            "select from dialectic_session_spending where session_id = $1 for no key update nowait",
            session_id,
        )
    await resuming
    assert (
        await Tenant(engine, account).run(sessions.get_detail, session_id)
    ).session.status != "paused"
