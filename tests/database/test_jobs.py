"""One job of a session is paused, resumed and cancelled; the others do not notice."""

from __future__ import annotations

from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from dialectic.app import jobs, sessions
from dialectic.app.transaction import Tenant
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, RemedyAction
from tests.database.job_table import AdminConnection, working
from tests.database.running_worker import Gates, Workshop, finish
from tests.problems import refusing
from tests.waiting import until


@pytest.fixture
async def shop(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> Workshop:
    return await Workshop.open(engine, worker_engine, admin)


async def run(shop: Workshop, use_case: Any, *args: Any, **kwargs: Any) -> None:
    await Tenant(shop.engine, shop.account).run(use_case, *args, **kwargs)


async def test_a_paused_job_waits_until_it_is_resumed_and_the_others_go_on(shop: Workshop) -> None:
    paused, other = await shop.insert(2)
    for _ in range(2):  # asked again it changes nothing
        await run(shop, jobs.pause, shop.session_id, paused)
    async with working(shop.worker_engine, finish):
        await shop.until_status("completed", other)
        row = await shop.look(paused)
        assert (row["status"], row["status_reason"]) == ("paused", "job paused")
        (told,) = await shop.events_of("contribution_generation_paused")
        assert (told["job_id"], told["error"]["code"]) == (str(paused), "job_paused")
        await run(shop, jobs.resume, shop.session_id, paused, approves_spend=False)
        await shop.until_status("completed", paused)


async def test_a_job_that_runs_is_cancelled_and_its_worker_hangs_up(shop: Workshop) -> None:
    gates = Gates()
    async with working(shop.worker_engine, gates.run):
        job_id, other = await shop.insert(2)
        await gates.next_begun()
        await gates.next_begun()
        await run(shop, jobs.cancel, shop.session_id, job_id)

        async def hung_up() -> bool:
            return gates.cancelled == [(job_id, 1)]

        await until(shop.engine.address, hung_up)
        gates.gate(1).set()
        await shop.until_status("completed", other)
    assert (await shop.look(job_id))["status_reason"] == "job cancelled"


async def test_what_cannot_be_asked_of_a_job_is_said(shop: Workshop) -> None:
    session_id = shop.session_id
    (done,) = await shop.insert()
    async with working(shop.worker_engine, finish):
        await shop.until_status("completed", done)

    resume = partial(jobs.resume, approves_spend=True)
    for deed in (jobs.pause, resume, jobs.cancel):
        with refusing(Conflict, "completed", subject=str(done)):
            await run(shop, deed, session_id=session_id, job_id=done)
        with refusing(NotFound, reason="no_job", action=RemedyAction.LIST_JOBS):
            await run(shop, deed, session_id=session_id, job_id=uuid4())
    (late,) = await shop.insert()
    await Tenant(shop.engine, shop.account).run(sessions.pause, session_id)
    with refusing(Conflict, reason="session_paused", action=RemedyAction.RESUME):
        await run(shop, resume, session_id=session_id, job_id=late)
