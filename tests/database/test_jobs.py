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
from tests.database.running_worker import GatedJobs, RunningSession, finish
from tests.problems import refusing
from tests.waiting import until


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


async def run(session: RunningSession, use_case: Any, *args: Any, **kwargs: Any) -> None:
    await Tenant(session.engine, session.account).run(use_case, *args, **kwargs)


async def test_a_paused_job_waits_until_it_is_resumed_and_the_others_go_on(
    session: RunningSession,
) -> None:
    paused, other = await session.insert(2)
    for _ in range(2):  # asked again it changes nothing
        await run(session, jobs.pause, session.session_id, paused)
    async with working(session.worker_engine, finish):
        await session.until_status("completed", other)
        row = await session.look(paused)
        assert (row["status"], row["status_reason"]) == ("paused", "job paused")
        (told,) = await session.events_of("contribution_generation_paused")
        assert (told["job_id"], told["error"]["code"]) == (str(paused), "job_paused")
        await run(session, jobs.resume, session.session_id, paused, approves_spend=False)
        await session.until_status("completed", paused)


async def test_a_job_that_runs_is_cancelled_and_its_worker_hangs_up(
    session: RunningSession,
) -> None:
    gated_jobs = GatedJobs()
    async with working(session.worker_engine, gated_jobs.run):
        job_id, other = await session.insert(2)
        await gated_jobs.next_begun()
        await gated_jobs.next_begun()
        await run(session, jobs.cancel, session.session_id, job_id)

        async def hung_up() -> bool:
            return gated_jobs.cancelled == [(job_id, 1)]

        await until(session.engine.address, hung_up)
        gated_jobs.gate(1).set()
        await session.until_status("completed", other)
    assert (await session.look(job_id))["status_reason"] == "job cancelled"


async def test_what_cannot_be_asked_of_a_job_is_said(session: RunningSession) -> None:
    session_id = session.session_id
    (done,) = await session.insert()
    async with working(session.worker_engine, finish):
        await session.until_status("completed", done)

    resume = partial(jobs.resume, approves_spend=True)
    for deed in (jobs.pause, resume, jobs.cancel):
        with refusing(Conflict, "completed", subject=str(done)):
            await run(session, deed, session_id=session_id, job_id=done)
        with refusing(NotFound, reason="no_job", action=RemedyAction.LIST_JOBS):
            await run(session, deed, session_id=session_id, job_id=uuid4())
    (late,) = await session.insert()
    await Tenant(session.engine, session.account).run(sessions.pause, session_id)
    with refusing(Conflict, reason="session_paused", action=RemedyAction.RESUME):
        await run(session, resume, session_id=session_id, job_id=late)
