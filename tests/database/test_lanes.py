"""Jobs of one endpoint do not block those of another, although one queue carries all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Literal
from uuid import UUID

import pytest

from dialectic.core.job import Job
from dialectic.db.pool import Address
from dialectic.engine import Engine
from dialectic.errors import EndpointBusy, TextBusy
from dialectic.providers.catalog import Catalog
from tests.database.endpoint_fixture import build_endpoint
from tests.database.job_table import (
    AdminConnection,
    JobTable,
    Work,
    forget_jobs,
    make_session,
    new_account,
    working,
)
from tests.database.running_worker import RunningSession, finish
from tests.waiting import PATIENCE_S

HANGING, HEALTHY = "hanging", "healthy"
PLACES = 6


class Call(Work):
    """A job that calls a model."""

    model_name: str


class Plan(Work):
    """A job that plans for a model."""

    job_type: Literal["plan"] = "plan"  # type: ignore[assignment]
    model_name: str


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def session(
    engine: Engine, worker_engine: Engine, admin: AdminConnection
) -> AsyncIterator[RunningSession]:
    account = await new_account(engine)
    begun = await make_session(engine, account)
    yield RunningSession(engine, worker_engine, account, begun.session_id, begun.project_id, admin)
    await forget_jobs(admin)


@dataclass(slots=True)
class Scene:
    """An endpoint that never answers, and one that answers when all its places are taken."""

    hanging: set[UUID] = field(default_factory=set)
    has_all: asyncio.Event = field(default_factory=asyncio.Event)
    rounds: asyncio.Barrier = field(default_factory=lambda: asyncio.Barrier(PLACES))
    rounds_done: int = 0

    async def run(self, engine: Engine, job: Job) -> None:
        name = job.payload_json.get("model_name", "").split("/")[0]
        if name == HANGING:
            self.hanging.add(job.id)
            if len(self.hanging) == PLACES:
                self.has_all.set()
            await asyncio.Event().wait()
        if name == HEALTHY and await self.rounds.wait() == 0:
            self.rounds_done += 1
        await finish(engine, job)


# -- which lane ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("payload", "stage_slug", "lane"),
    [
        (Work(), "thesis", "job"),
        (Call(model_name="openai/some-model"), "thesis", "call:openai"),
        (Call(model_name="openai/some/model"), "synthesis", "call:openai"),
        (Plan(model_name="openai/some-model"), "thesis", "call:openai"),
        (Plan(model_name="openai/some-model"), "antithesis", "plan"),
        (Plan(model_name="openai/some-model"), "synthesis", "plan"),
        (Plan(model_name="openai/some-model"), "no-such-stage", "call:openai"),
    ],
)
async def test_a_job_takes_the_lane_of_whom_it_calls_and_one_that_only_plans_its_own(
    engine: Engine, payload: Work, stage_slug: str, lane: str
) -> None:
    async with JobTable.open(engine) as job_table:
        job_id = await job_table.insert(payload=payload, stage_slug=stage_slug)
        (message,) = await job_table.messages(job_id)
        assert message["entrypoint"] == lane
        assert message["payload"].decode() == f"{job_table.account.tenant_id} {job_id}"
        await job_table.forget_messages()
        await job_table.sweep()
        (again,) = await job_table.messages(job_id)
        assert again["entrypoint"] == lane


# -- one that hangs --------------------------------------------------------------------------------


async def count_rounds(session: RunningSession, *, beside: int) -> int:
    """Count how often all places of a healthy endpoint are filled, behind jobs of one that hangs.

    If it had fewer places than without the other, its jobs would wait for each other for ever.
    """
    scene = Scene()
    await session.insert(beside, payload=Call(model_name=f"{HANGING}/model"))
    healthy = await session.insert(10 * PLACES, payload=Call(model_name=f"{HEALTHY}/model"))
    plain = await session.insert(PLACES)
    async with working(session.worker_engine, scene.run, concurrency=PLACES):
        if beside:
            await asyncio.wait_for(scene.has_all.wait(), PATIENCE_S)
        await session.until_status("completed", *healthy, *plain)
    assert len(scene.hanging) == (PLACES if beside else 0)
    return scene.rounds_done


async def test_an_endpoint_that_hangs_costs_the_others_nothing(session: RunningSession) -> None:
    alone = await count_rounds(session, beside=0)
    assert alone == 10
    assert await count_rounds(session, beside=5 * PLACES) >= 0.95 * alone


async def test_what_waits_for_a_place_stays_in_the_queue_for_other_workers(
    session: RunningSession,
) -> None:
    first, second = Scene(), Scene()
    await session.insert(3 * PLACES, payload=Call(model_name=f"{HANGING}/model"))
    async with working(session.worker_engine, first.run, concurrency=PLACES):
        await asyncio.wait_for(first.has_all.wait(), PATIENCE_S)
        async with working(session.worker_engine, second.run, concurrency=PLACES):
            await asyncio.wait_for(second.has_all.wait(), PATIENCE_S)
            queued = await session.admin.fetchval(
                "select count(*) from queue.pgqueuer where status = 'queued'"
            )
            assert queued == PLACES


# -- limits ----------------------------------------------------------------------------------------


async def test_an_endpoint_that_bears_few_calls_gets_no_more_from_all_workers_together(
    session: RunningSession,
) -> None:
    endpoint = replace(build_endpoint(max_concurrency=3), name="small")
    catalog = Catalog(cards={}, providers={}, endpoints={"small": endpoint})
    engine = replace(session.worker_engine, catalog=catalog)
    running = peak = 0
    three = asyncio.Event()

    async def run(engine: Engine, job: Job) -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        if running == 3:
            three.set()
        await three.wait()
        await finish(engine, job)
        running -= 1

    ids = await session.insert(20, payload=Call(model_name="small/model"))
    async with working(engine, run, concurrency=8), working(engine, run, concurrency=8):
        await session.until_status("completed", *ids)
    assert peak == 3


async def test_a_job_that_is_turned_away_comes_back_and_is_done_without_an_error(
    session: RunningSession,
) -> None:
    turned_away: set[UUID] = set()

    async def run(engine: Engine, job: Job) -> None:
        if job.attempt == 1:
            turned_away.add(job.id)
            raise EndpointBusy("Not yet.", wait_s=0.05, closed_s=0.05)
        await finish(engine, job)

    ids = await session.insert(12, payload=Call(model_name="busy/model"), max_retries=0)
    async with working(session.worker_engine, run, concurrency=PLACES):
        await session.until_status("completed", *ids)
    assert turned_away == set(ids)
    rows = [await session.look(job_id) for job_id in ids]
    assert {(row["attempt_count"], row["retry_count"]) for row in rows} == {(2, 0)}
    assert all(row["errors"] == [] for row in rows)


async def test_jobs_that_wait_for_a_text_of_another_leave_their_endpoint_all_its_places(
    session: RunningSession,
) -> None:
    scene = Scene()

    async def run(engine: Engine, job: Job) -> None:
        if job.attempt == 1:
            raise TextBusy("Another job reads it.", wait_s=0.01)
        await scene.run(engine, job)  # which takes all places at once

    ids = await session.insert(PLACES, payload=Call(model_name=f"{HEALTHY}/model"))
    async with working(session.worker_engine, run, concurrency=PLACES):
        await session.until_status("completed", *ids)
    assert scene.rounds_done == 1


# -- messages of other versions --------------------------------------------------------------------


async def test_a_message_without_a_lane_of_its_own_is_still_taken(
    session: RunningSession,
) -> None:
    (job_id,) = await session.insert(payload=Call(model_name="unknown/model"))
    await session.admin.execute("update queue.pgqueuer set entrypoint = 'job'")
    async with working(session.worker_engine, finish):
        await session.until_status("completed", job_id)


async def test_a_lane_that_a_worker_has_never_heard_of_is_found(session: RunningSession) -> None:
    async with working(session.worker_engine, finish):
        (job_id,) = await session.insert(payload=Call(model_name="added-later/model"))
        await session.until_status("completed", job_id)
