"""Plan jobs in the database: a job that waits for a document is woken, whenever it comes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any
from uuid import UUID, uuid4

import pytest
from pydantic import BaseModel

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.job import Job, JobKey, JobStatus
from dialectic.core.session_state import Phase, show_status
from dialectic.db.pool import Address, Connection
from dialectic.db.tables import jobs
from dialectic.db.tables.records import SQL
from dialectic.engine import Engine
from dialectic.processes.loader import load_process
from tests.database.job_table import (
    STAGE,
    TERMS,
    AdminConnection,
    JobTable,
    build_job,
    insert_jobs,
    make_session,
    read_moves,
    start_stage,
)
from tests.waiting import PATIENCE_S, until, until_blocked, until_someone_waits

ORDER = [stage.slug for stage in load_process("standard").order]


class Making(BaseModel):
    """A job of a test that makes one kind of document."""

    job_type: str = "work"
    output_type: str
    model_index: int = 1


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


def making(kind: str, **changes: Any) -> dict[str, Any]:
    return {"payload": Making(output_type=kind), **changes}


async def wait(job_table: JobTable, job: Job, *awaits: str, **changes: Any) -> None:
    """Let a plan job wait as it does after it has planned."""
    given = {"total_steps": 1, "has_children": False, "awaits": awaits, **changes}

    async def work(connection: Connection) -> None:
        await jobs.hold_plan(connection, job)
        await jobs.wait(connection, job, jobs.Wait(**given))

    await job_table.transact(work)


async def insert_planner(job_table: JobTable, *awaits: str, **changes: Any) -> UUID:
    """A plan job that looked once and waits."""
    planner_id = await job_table.insert(**making("plan", **changes))
    await wait(job_table, await job_table.take(planner_id), *awaits)
    return planner_id


async def finish_one(job_table: JobTable, kind: str, **changes: Any) -> None:
    await job_table.complete(
        await job_table.take(await job_table.insert(**making(kind, **changes)))
    )


# -- pokes ----------------------------------------------------------------------------------------


async def test_a_plan_job_without_children_waits_and_says_for_what(job_table: JobTable) -> None:
    planner_id = await insert_planner(job_table, "thesis", "antithesis")
    row = await job_table.look(planner_id)
    assert row["status"] == JobStatus.WAITING_FOR_PREREQUISITE
    assert row["status_reason"] == "waits for thesis, antithesis"
    assert row["awaits"] == ["thesis", "antithesis"]
    assert await job_table.claim(planner_id) is None


async def test_a_document_wakes_the_jobs_that_await_it_and_no_others(
    job_table: JobTable, engine: Engine
) -> None:
    hungry = await insert_planner(job_table, "critique", "thesis")
    other_type = await insert_planner(job_table, "critique")
    other_iteration = await insert_planner(job_table, "thesis", iteration_number=2)
    begun = await make_session(engine, job_table.account)
    elsewhere = build_job(
        begun.session_id,
        **making(
            "plan",
            awaits=("thesis",),
            status=JobStatus.WAITING_FOR_PREREQUISITE,
            status_reason="waits for thesis",
        ),
    )
    (other_session,) = await insert_jobs(engine.db, job_table.account.tenant_id, [elsewhere])
    await finish_one(job_table, "thesis")
    row = await job_table.look(hungry)
    assert (row["status"], row["status_reason"]) == ("pending", None)
    assert len(await job_table.messages(hungry)) == 2, "a message when it was made, and one now"
    others = [other_type, other_iteration, other_session]
    assert await job_table.statuses(others) == ["waiting_for_prerequisite"] * 3


async def test_who_awaits_what_its_own_model_makes_is_not_woken_by_another_s(
    job_table: JobTable,
) -> None:
    own = await insert_planner(job_table, "thesis@2")
    anyone = await insert_planner(job_table, "thesis")
    assert (await job_table.look(own))["status_reason"] == "waits for thesis"
    await finish_one(job_table, "thesis")
    assert await job_table.statuses([own, anyone]) == ["waiting_for_prerequisite", "pending"]
    await finish_one(job_table, "thesis", payload=Making(output_type="thesis", model_index=2))
    assert await job_table.status(own) == "pending"


async def test_a_part_that_failed_wakes_those_of_other_models_too(job_table: JobTable) -> None:
    own = await insert_planner(job_table, "thesis@2")
    other = await job_table.take(await job_table.insert(**making("critique")))
    await job_table.fail(other)
    assert await job_table.status(own) == "pending", "what it awaits may never come"


async def test_a_plan_job_that_waits_for_children_too_looks_again_at_the_same_step(
    job_table: JobTable,
) -> None:
    planner = await job_table.take(await job_table.insert(**making("plan")))
    (child_id,) = await job_table.insert_plan(
        planner, 1, total_steps=2, awaits=("thesis",), is_step_open=True
    )
    await finish_one(job_table, "thesis")
    row = await job_table.look(planner.id)
    assert (row["status"], row["current_step"]) == ("pending_next_step", 1)
    assert await job_table.status(child_id) == JobStatus.PENDING


@pytest.mark.parametrize("has_children", [True, False])
async def test_what_comes_while_a_plan_job_looks_lets_it_look_again_at_once(
    job_table: JobTable, has_children: bool
) -> None:
    planner_id = await insert_planner(job_table, "thesis")
    await finish_one(job_table, "thesis")
    planner = await job_table.take(planner_id)
    await finish_one(job_table, "thesis")
    assert (await job_table.look(planner_id))["is_poked"]
    if has_children:
        await job_table.insert_plan(
            planner, 1, total_steps=1, awaits=("thesis",), is_step_open=True
        )
    else:
        await wait(job_table, planner, "thesis")
    row = await job_table.look(planner_id)
    assert row["status"] == ("pending_next_step" if has_children else "pending")
    assert (row["is_poked"], row["status_reason"]) == (False, None)


async def test_what_came_before_a_plan_job_looked_does_not_make_it_look_twice(
    job_table: JobTable,
) -> None:
    planner_id = await insert_planner(job_table, "thesis")
    await finish_one(job_table, "thesis")
    await finish_one(job_table, "thesis")
    assert (await job_table.look(planner_id))["is_poked"]
    await wait(job_table, await job_table.take(planner_id), "thesis")
    assert await job_table.status(planner_id) == JobStatus.WAITING_FOR_PREREQUISITE


async def test_what_comes_while_a_plan_job_commits_its_wait_is_not_lost(
    job_table: JobTable, admin: AdminConnection
) -> None:
    planner_id = await insert_planner(job_table, "thesis")
    await finish_one(job_table, "thesis")
    planner = await job_table.take(planner_id)
    maker = await job_table.take(await job_table.insert(**making("thesis")))
    async with job_table.begin() as connection:
        await jobs.hold_plan(connection, planner)
        await jobs.wait(
            connection, planner, jobs.Wait(total_steps=1, has_children=False, awaits=("thesis",))
        )
        finishing = asyncio.create_task(job_table.complete(maker))
        await until_someone_waits(admin)
        await connection.execute("commit")
        await finishing
    assert await job_table.status(planner_id) == JobStatus.PENDING


async def test_a_document_that_failed_wakes_the_jobs_that_await_it(job_table: JobTable) -> None:
    planner_id = await insert_planner(job_table, "critique")
    parent = await job_table.take(await job_table.insert(**making("stage")))
    (child_id,) = await job_table.insert_plan(parent, 1, total_steps=1, on_child_failure="any")
    await job_table.fail(await job_table.take(child_id))
    # The child makes nothing that is awaited, but with it all of its plan job has failed.
    assert await job_table.status(parent.id) == JobStatus.FAILED
    assert await job_table.status(planner_id) == JobStatus.PENDING


async def test_the_end_of_a_plan_job_wakes_the_jobs_that_await_its_childrens_documents(
    job_table: JobTable,
) -> None:
    planner_id = await insert_planner(job_table, "draft")
    parent = await job_table.take(await job_table.insert(**making("final")))
    child = build_job(
        job_table.session_id, **making("draft", parent_job_id=parent.id, step_number=1)
    )

    async def plan(connection: Connection) -> None:
        await jobs.insert_job(connection, parent.tenant_id, child)
        await jobs.wait(connection, parent, jobs.Wait(total_steps=2))

    await job_table.transact(plan)
    await job_table.complete(await job_table.take(child.id))
    await wait(job_table, await job_table.take(planner_id), "draft")
    last = await job_table.take(parent.id)
    await job_table.complete(last)
    assert await job_table.status(planner_id) == JobStatus.PENDING


@pytest.mark.parametrize("planners", [1, 4])
async def test_of_many_that_come_at_once_the_last_is_seen_by_everyone_who_waits(
    job_table: JobTable, planners: int
) -> None:
    """Plan jobs check until they have seen all, without a sweeper."""
    total = 24
    planner_ids = [await insert_planner(job_table, "thesis") for _ in range(planners)]
    makers = await job_table.take_all(
        await job_table.insert_all([making("thesis") for _ in range(total)])
    )
    tenant_id = job_table.account.tenant_id
    async with job_table.others(8) as db:

        async def finish(maker: Job) -> None:
            async def work(connection: Connection) -> None:
                await jobs.hold_lease(connection, maker)
                await jobs.complete(connection, maker, results={}, finished_units=0)

            await db.transact(tenant_id, work)

        async def look_until_all_are_there(planner_id: UUID) -> int:
            looks = 0
            claimed: dict[JobKey, Job] = {}

            async def claim() -> bool:
                claimed.update(
                    await jobs.claim(
                        db, [(tenant_id, planner_id)], worker="one", terms=TERMS, lost_max=9
                    )
                )
                return bool(claimed)

            while True:
                await until(job_table.address, claim)
                _, job = claimed.popitem()
                looks += 1
                seen = await db.transact(
                    tenant_id,
                    lambda c: c.fetchval(
                        "select count(*) from dialectic_generation_jobs"
                        " where output_type = 'thesis' and status = 'completed'"
                    ),
                )

                async def save(connection: Connection) -> None:
                    await jobs.hold_plan(connection, job)  # noqa: B023  awaited in this turn
                    if seen == total:  # noqa: B023
                        await jobs.complete(connection, job, results={}, finished_units=0)  # noqa: B023
                    else:
                        await jobs.wait(
                            connection,
                            job,  # noqa: B023
                            jobs.Wait(total_steps=1, has_children=False, awaits=("thesis",)),
                        )

                await db.transact(tenant_id, save)
                if seen == total:
                    return looks

        async with asyncio.timeout(PATIENCE_S):
            finishing = asyncio.gather(*map(finish, makers))
            looks = await asyncio.gather(*map(look_until_all_are_there, planner_ids))
            await finishing
    assert all(1 <= count <= total for count in looks)
    assert await job_table.statuses(planner_ids) == ["completed"] * planners


# -- steps ----------------------------------------------------------------------------------------


async def insert_parent(job_table: JobTable) -> tuple[Job, UUID]:
    """A plan job in its first step, which has one child left and awaits more."""
    planner = await job_table.take(await job_table.insert(**making("plan")))
    child = build_job(
        job_table.session_id, **making("part", parent_job_id=planner.id, step_number=1)
    )

    async def plan(connection: Connection) -> None:
        await jobs.insert_job(connection, planner.tenant_id, child)
        await jobs.wait(
            connection,
            planner,
            jobs.Wait(total_steps=2, awaits=("thesis", "part"), is_step_open=False),
        )

    await job_table.transact(plan)
    return planner, child.id


async def insert_two_planners(job_table: JobTable) -> tuple[Job, UUID, UUID]:
    """One in its first step with one child left; another one that waits for that step."""
    return *await insert_parent(job_table), await insert_planner(job_table, "part")


async def test_who_waits_for_all_models_looks_again_when_the_last_one_passes_the_step(
    job_table: JobTable,
) -> None:
    first, child_id, beside_id = await insert_two_planners(job_table)
    await job_table.complete(await job_table.take(child_id))
    row = await job_table.look(first.id)
    assert (row["status"], row["current_step"]) == ("pending_next_step", 2)
    assert await job_table.status(beside_id) == JobStatus.PENDING


async def test_a_step_that_ends_while_its_plan_job_plans_again_wakes_the_other_plan_jobs(
    job_table: JobTable,
) -> None:
    first, child_id, beside_id = await insert_two_planners(job_table)
    await finish_one(job_table, "thesis")
    again = await job_table.take(first.id)
    await job_table.complete(await job_table.take(child_id))
    # The child's end let the other one look: the step is not passed yet, so it waits once more.
    assert (await job_table.look(first.id))["current_step"] == 1
    await wait(job_table, await job_table.take(beside_id), "part")
    assert await job_table.status(beside_id) == JobStatus.WAITING_FOR_PREREQUISITE
    await wait(job_table, again, "part", total_steps=2, has_children=True)
    row = await job_table.look(first.id)
    assert row["status"] == JobStatus.PENDING_NEXT_STEP
    if row["current_step"] == 1:  # it was poked meanwhile, and passes the step when it looks
        await wait(
            job_table, await job_table.take(first.id), "part", total_steps=2, has_children=True
        )
    assert (await job_table.look(first.id))["current_step"] == 2
    assert await job_table.status(beside_id) == JobStatus.PENDING


async def test_plan_jobs_that_pass_a_step_at_the_same_moment_do_not_stop_each_other(
    job_table: JobTable,
) -> None:
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(job_table.begin()) for _ in range(4)]
        for connection in connections:
            await connection.execute("rollback")
        for _ in range(10):
            planners = [await insert_parent(job_table) for _ in connections]
            await finish_one(job_table, "thesis")
            again = [await job_table.take(planner.id) for planner, _ in planners]
            for _, child_id in planners:
                await job_table.complete(await job_table.take(child_id))
            start = asyncio.Barrier(len(connections))
            await asyncio.gather(
                *(
                    pass_step(job_table, connection, planner, start)
                    for connection, planner in zip(connections, again, strict=True)
                )
            )
            for planner in again:
                assert await job_table.status(planner.id) == JobStatus.PENDING_NEXT_STEP


async def pass_step(
    job_table: JobTable, connection: AdminConnection, planner: Job, start: asyncio.Barrier
) -> None:
    await start.wait()
    async with connection.transaction():
        await connection.fetch(
            "select set_config('dialectic.tenant', $1, true)", str(planner.tenant_id)
        )
        await jobs.hold_plan(connection, planner)
        await jobs.wait(connection, planner, jobs.Wait(total_steps=2, awaits=("part",)))


@pytest.mark.parametrize("is_done", [True, False], ids=["complete", "fail"])
async def test_plan_jobs_that_end_together_do_not_stop_those_who_await_one_model_s(
    job_table: JobTable, engine: Engine, admin: AdminConnection, *, is_done: bool
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=2)
    makers = [await insert_maker(job_table, model_index) for model_index in (1, 2)]
    readers = [
        await insert_planner(job_table, f"part@{model_index}", stage_slug="antithesis")
        for model_index in (1, 2)
    ]
    async with job_table.begin() as busy, job_table.begin() as one, job_table.begin() as two:
        # What is told of a session waits for it: both have locked by then whom they may move.
        await busy.execute(
            "select from dialectic_sessions where id = $1 for update", job_table.session_id
        )
        ending = []
        for connection, job in zip((one, two), makers, strict=True):
            ending.append(asyncio.create_task(end_in(connection, job, is_done=is_done)))
            await until_blocked(admin, connection)
        await busy.execute("rollback")
        await asyncio.gather(*ending)
    assert await job_table.statuses(readers) == ["pending", "pending"]


async def test_a_stage_that_fails_does_not_stop_a_later_one_whose_children_end(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=1)
    await begin_later_stage(job_table)
    failing = await job_table.take(await job_table.insert(**making("thesis")))
    parent_id, awaiting_id = sorted((uuid4(), uuid4()))
    child = await insert_maker(job_table, 1, id=parent_id, stage_slug="antithesis")
    await insert_planner(job_table, "part", id=awaiting_id, stage_slug="antithesis")
    async with job_table.begin() as busy, job_table.begin() as one, job_table.begin() as two:
        # What is told of a session waits for it: by then whom a failure may move is locked.
        await busy.execute(
            "select from dialectic_sessions where id = $1 for update", job_table.session_id
        )
        failure = asyncio.create_task(end_in(one, failing, is_done=False))
        await until_blocked(admin, one)
        success = asyncio.create_task(end_in(two, child, is_done=True))
        await until_blocked(admin, two)
        await busy.execute("rollback")
        await asyncio.gather(failure, success)
    assert await job_table.status(child.id) == JobStatus.COMPLETED
    assert await job_table.statuses([parent_id, awaiting_id]) == ["cancelled", "cancelled"]


async def begin_later_stage(job_table: JobTable) -> None:
    await job_table.transact(
        lambda connection: connection.execute(
            SQL["insert_stage_run"],
            job_table.account.tenant_id,
            job_table.session_id,
            1,
            "antithesis",
            2,
            False,
            2,
            None,
            [1, 2],
        )
    )


async def end_in(connection: AdminConnection, job: Job, *, is_done: bool) -> None:
    if is_done:
        await jobs.complete(connection, job, results={}, finished_units=1)
    else:
        await jobs.fail(connection, job, jobs.AttemptError("provider_auth", "It cannot be done."))
    await connection.execute("commit")


async def insert_maker(job_table: JobTable, model_index: int, **changes: Any) -> Job:
    """The only child of the only step of a model's plan job, at work."""
    planner = await job_table.take(await job_table.insert(**making("plan", **changes)))
    child = build_job(
        job_table.session_id,
        payload=Making(output_type="part", model_index=model_index),
        stage_slug=planner.stage_slug,
        parent_job_id=planner.id,
        step_number=1,
    )

    async def plan(connection: Connection) -> None:
        await jobs.insert_job(connection, planner.tenant_id, child)
        await jobs.wait(connection, planner, jobs.Wait(total_steps=1))

    await job_table.transact(plan)
    return await job_table.take(child.id)


async def test_a_step_that_is_open_is_not_over_when_its_children_are(job_table: JobTable) -> None:
    planner = await job_table.take(await job_table.insert(**making("plan")))
    (child_id,) = await job_table.insert_plan(
        planner, 1, total_steps=2, awaits=("thesis",), is_step_open=True
    )
    await job_table.complete(await job_table.take(child_id))
    row = await job_table.look(planner.id)
    assert (row["status"], row["current_step"]) == ("waiting_for_children", 1)
    await finish_one(job_table, "thesis")
    again = await job_table.take(planner.id)
    await wait(job_table, again, has_children=True, total_steps=2)
    row = await job_table.look(planner.id)
    assert (row["status"], row["current_step"]) == ("pending_next_step", 2)


@pytest.mark.parametrize(
    ("policy", "status"),
    [("all", "failed"), ("any", "waiting_for_children"), ("quorum", "waiting_for_children")],
)
async def test_a_child_that_is_lost_fails_an_open_step_only_if_all_are_needed(
    job_table: JobTable, policy: str, status: str
) -> None:
    planner = await job_table.take(await job_table.insert(**making("plan")))
    (child_id,) = await job_table.insert_plan(
        planner,
        1,
        total_steps=1,
        awaits=("thesis",),
        is_step_open=True,
        on_child_failure=policy,
        quorum_min=1 if policy == "quorum" else None,
    )
    await job_table.fail(await job_table.take(child_id))
    assert (await job_table.look(planner.id))["status"] == status


# -- stages ---------------------------------------------------------------------------------------


async def order(job_table: JobTable, engine: Engine) -> dict[str, list[UUID]]:
    """Order all stages on autopilot; the plan jobs of each, as they were made."""
    await Tenant(engine, job_table.account).run(sessions.generate, job_table.session_id)
    rows = await job_table.fetch(
        "select id, stage_slug from dialectic_generation_jobs"
        " order by (payload ->> 'model_index')::integer"
    )
    return {slug: [row["id"] for row in rows if row["stage_slug"] == slug] for slug in ORDER}


async def read_session(job_table: JobTable) -> dict[str, Any]:
    rows = await job_table.fetch(
        "select * from dialectic_sessions where id = $1", job_table.session_id
    )
    return show_status(rows[0])


async def read_stages(job_table: JobTable) -> dict[str, str]:
    rows = await job_table.fetch("select stage_slug, status from dialectic_stage_runs")
    return {row["stage_slug"]: row["status"] for row in rows}


async def test_on_autopilot_later_stages_are_ordered_and_wait_for_what_they_read(
    job_table: JobTable, engine: Engine
) -> None:
    ordered = await order(job_table, engine)
    assert [len(ordered[slug]) for slug in ORDER] == [3] * 5
    assert await job_table.statuses(ordered["thesis"]) == ["pending"] * 3
    for slug, awaited in zip(
        ORDER[1:],
        ("thesis", "thesis, antithesis", "synthesis", "parenthesis"),
        strict=True,
    ):
        for planner_id in ordered[slug]:
            row = await job_table.look(planner_id)
            assert row["status"] == JobStatus.WAITING_FOR_PREREQUISITE
            assert row["status_reason"] == f"waits for {awaited}"
    assert await read_stages(job_table) == {"thesis": "generating"} | dict.fromkeys(
        ORDER[1:], "waiting"
    )


async def test_the_end_of_each_stage_moves_the_session_to_the_next_and_the_last_to_its_end(
    job_table: JobTable, engine: Engine
) -> None:
    ordered = await order(job_table, engine)
    for slug, following in zip(ORDER, [*ORDER[1:], None], strict=True):
        session = await read_session(job_table)
        assert (session["status"], session["current_stage_slug"]) == (f"generating_{slug}", slug)
        for planner_id in ordered[slug]:
            await job_table.complete(await job_table.take(planner_id))
        assert (await read_stages(job_table))[slug] == "complete"
        if following is not None:
            assert (await read_stages(job_table))[following] == "generating"
    session = await read_session(job_table)
    assert (session["status"], session["current_stage_slug"]) == ("iteration_complete", ORDER[-1])
    ends = await job_table.events("contribution_generation_complete")
    assert [end["stageSlug"] for end in ends] == ORDER


async def test_a_stage_that_fails_cancels_those_after_it_and_says_why(
    job_table: JobTable, engine: Engine
) -> None:
    ordered = await order(job_table, engine)
    first, second, third = ordered["thesis"]
    await job_table.complete(await job_table.take(first))
    await job_table.fail(await job_table.take(second))
    assert (await read_session(job_table))["status"] == "generating_thesis"
    assert await job_table.statuses(ordered["antithesis"]) == ["pending"] * 3
    running = await job_table.take(ordered["antithesis"][0])
    await job_table.complete(await job_table.take(third))
    session = await read_session(job_table)
    assert (session["status"], session["current_stage_slug"]) == (
        "thesis_generation_failed",
        "thesis",
    )
    assert await read_stages(job_table) == {"thesis": "failed"} | dict.fromkeys(
        ORDER[1:], "cancelled"
    )
    for slug in ORDER[1:]:
        for planner_id in ordered[slug]:
            row = await job_table.look(planner_id)
            assert (row["status"], row["status_reason"]) == ("cancelled", "stage thesis failed")
    assert await job_table.beat(running) == set(), (
        "what plans a later stage is taken from its worker"
    )
    ends = await job_table.events("contribution_generation_complete")
    assert (ends[0]["stageSlug"], ends[0]["status"]) == ("thesis", "failed")


async def test_what_failed_runs_again_and_the_stages_after_it_wait_again(
    job_table: JobTable, engine: Engine
) -> None:
    ordered = await order(job_table, engine)
    first, second, third = ordered["thesis"]
    await job_table.complete(await job_table.take(first), finished_units=1)
    await job_table.complete(await job_table.take(third), finished_units=1)
    await job_table.fail(await job_table.take(second))
    stages = await Tenant(engine, job_table.account).run(sessions.retry, job_table.session_id)
    assert stages == sorted(ORDER)
    assert (await read_session(job_table))["status"] == "generating_thesis"
    assert await read_stages(job_table) == {"thesis": "generating"} | dict.fromkeys(
        ORDER[1:], "waiting"
    )
    assert await job_table.statuses(ordered["thesis"]) == ["completed", "pending", "completed"]
    await job_table.complete(await job_table.take(second), finished_units=1)
    assert (await read_session(job_table))["status"] == "generating_antithesis"
    (run,) = await job_table.fetch(
        "select finished_units, planned_units from dialectic_stage_runs where stage_slug = 'thesis'"
    )
    assert tuple(run) == (3, 3)


async def test_a_stage_that_ends_behind_a_pause_moves_the_session_when_it_goes_on(
    job_table: JobTable, engine: Engine
) -> None:
    ordered = await order(job_table, engine)
    held = [await job_table.take(planner_id) for planner_id in ordered["thesis"]]
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    for job in held:
        await job_table.complete(job)
    session = await read_session(job_table)
    assert (session["status"], session["phase_before_pause"], session["current_stage_slug"]) == (
        "paused",
        Phase.GENERATING,
        "antithesis",
    )
    # They were let go and found the session paused.
    for planner_id in ordered["antithesis"]:
        assert await job_table.claim(planner_id) is None
    assert await job_table.statuses(ordered["antithesis"]) == ["paused"] * 3
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    session = await read_session(job_table)
    assert (session["status"], session["current_stage_slug"]) == (
        "generating_antithesis",
        "antithesis",
    )
    assert await job_table.statuses(ordered["antithesis"]) == ["pending"] * 3


async def test_what_comes_for_a_paused_plan_job_is_there_when_it_goes_on(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    planner_id = await insert_planner(job_table, "thesis")
    maker = await job_table.take(await job_table.insert(**making("thesis")))
    await finish_one(job_table, "thesis")
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    assert await job_table.status(planner_id) == JobStatus.PAUSED
    await job_table.complete(maker)
    assert await job_table.status(planner_id) == JobStatus.PAUSED
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    await wait(job_table, await job_table.take(planner_id), "thesis")
    assert await job_table.status(planner_id) == JobStatus.WAITING_FOR_PREREQUISITE
    assert (await read_moves(admin, planner_id)).count("paused") == 1


async def test_a_stage_counts_no_more_than_was_planned(job_table: JobTable, engine: Engine) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=2)
    keeper = await job_table.insert()
    for _ in range(3):
        await job_table.complete(await job_table.take(await job_table.insert()), finished_units=1)
    (run,) = await job_table.fetch("select finished_units, stage_slug from dialectic_stage_runs")
    assert tuple(run) == (2, STAGE)
    steps = [event["current_step"] for event in await job_table.events("dialectic_progress_update")]
    assert steps == sorted(steps)
    assert await job_table.status(keeper) == JobStatus.PENDING


# -- the sweep ------------------------------------------------------------------------------------


async def test_clients_that_wait_without_a_worker_look_again(job_table: JobTable) -> None:
    planner_ids = [await insert_planner(job_table, "thesis") for _ in range(2)]
    await job_table.forget_messages()
    assert await job_table.sweep() == 2
    assert await job_table.statuses(planner_ids) == ["pending"] * 2
    assert len(await job_table.messages()) == 2


@pytest.mark.parametrize("state", ["pending", "processing", "paused"])
async def test_those_who_wait_while_somebody_works_are_left_alone(
    job_table: JobTable, state: str
) -> None:
    planner_id = await insert_planner(job_table, "thesis")
    maker_id = await job_table.insert(**making("thesis"))
    if state != "pending":
        maker = await job_table.take(maker_id)
        if state == "paused":
            await job_table.pause(maker)
    assert await job_table.sweep() == 0
    assert await job_table.status(planner_id) == JobStatus.WAITING_FOR_PREREQUISITE


async def test_an_open_step_whose_children_have_ended_is_nothing_to_sweep(
    job_table: JobTable,
) -> None:
    planner = await job_table.take(await job_table.insert(**making("plan")))
    (child_id,) = await job_table.insert_plan(
        planner, 1, total_steps=1, awaits=("thesis",), is_step_open=True
    )
    await job_table.complete(await job_table.take(child_id))
    await job_table.insert(**making("thesis"))
    assert await job_table.sweep() == 0
    assert await job_table.status(planner.id) == JobStatus.WAITING_FOR_CHILDREN


# -- heartbeats -----------------------------------------------------------------------------------


async def test_a_heartbeat_does_not_wait_for_locks_and_keeps_busy_jobs(job_table: JobTable) -> None:
    busy, idle = await job_table.take_all([await job_table.insert() for _ in range(2)])
    before = {job.id: (await job_table.look(job.id))["lease_until"] for job in (busy, idle)}
    await job_table.advance(1)
    async with job_table.begin() as connection:
        await jobs.hold_lease(connection, busy)
        assert await job_table.beat(busy, idle) == {busy.id, idle.id}
    assert (await job_table.look(busy.id))["lease_until"] == before[busy.id]
    assert (await job_table.look(idle.id))["lease_until"] > before[idle.id]
    assert await job_table.beat(busy, idle) == {busy.id, idle.id}
    assert (await job_table.look(busy.id))["lease_until"] > before[busy.id]
