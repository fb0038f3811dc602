"""Jobs that need documents combined wait for one job: all continue or fail with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest

from dialectic.core.job import (
    COMBINED,
    CombinePayload,
    Input,
    Job,
    Labelled,
    MergePayload,
    derive_merge_job_id,
)
from dialectic.db.pool import Address
from dialectic.db.tables import jobs, records
from dialectic.engine import Engine, Failpoints
from dialectic.errors import ProviderTransient
from dialectic.pipeline.fit.combine import Level, PlannedMerge
from dialectic.pipeline.fit.turn import Needed
from dialectic.pipeline.save import save_combined, save_level, save_need
from tests.database.job_table import (
    STAGE,
    TERMS,
    AdminConnection,
    JobTable,
    Work,
    forget_jobs,
    read_moves,
    start_stage,
)
from tests.waiting import until_blocked

MODEL: dict[str, Any] = {
    "model_id": UUID(int=1),
    "model_name": "offline/skeptic",
    "model_index": 1,
    "output_type": COMBINED,
    "step_name": "final",
}


class Rewriting(Work):
    """A document that someone wants written again."""

    edition: int = 2
    replaces: UUID = UUID(int=9)


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine, admin: AdminConnection) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened
    await forget_jobs(admin)


def build_need() -> Needed:
    inputs = tuple(Input(contribution_id=uuid4(), rule=0) for _ in range(4))
    return Needed(uuid4(), CombinePayload(**MODEL, ordinal=1, inputs=inputs, room_tokens=700))


def build_level(combine_id: UUID, number: int, merges: int) -> Level:
    planned = []
    for ordinal in range(1, merges + 1):
        versions = [UUID(int=ordinal), UUID(int=100 + ordinal)]
        payload = MergePayload(
            **MODEL,
            ordinal=ordinal,
            inputs=tuple(Labelled(contribution_id=v, label="Thesis A") for v in versions),
            combine_id=combine_id,
            budget_tokens=100,
            source_group=None,
        )
        merge_id = derive_merge_job_id(combine_id, level=number, versions=versions)
        planned.append(PlannedMerge(merge_id, payload))
    return Level(number, tuple(planned))


async def need(job_table: JobTable, needed: Needed, readers: int) -> list[UUID]:
    """Let readers find out that they need documents combined."""
    ids = await job_table.insert_all([{}] * readers)
    for job in await job_table.take_all(ids):
        await save_need(job_table.engine, job, needed)
    return ids


async def list_merges(job_table: JobTable, combine_id: UUID) -> dict[UUID, str]:
    rows = await job_table.fetch(
        "select id, status from dialectic_generation_jobs where parent_job_id = $1", combine_id
    )
    return {row["id"]: row["status"] for row in rows}


async def take_merge(job_table: JobTable, level: Level, nth: int) -> Job:
    return await job_table.take(level.merges[nth].id)


async def test_all_who_need_the_same_wait_for_one_job_and_go_on_with_it(
    job_table: JobTable, admin: AdminConnection
) -> None:
    needed = build_need()
    readers = await need(job_table, needed, 3)
    assert await job_table.statuses(readers) == ["waiting_for_prerequisite"] * 3
    assert (await job_table.look(readers[0]))[
        "status_reason"
    ] == "waiting for its inputs to be combined"
    assert [row["entrypoint"] for row in await job_table.messages(needed.id)] == ["plan"]
    await save_combined(
        job_table.engine, await job_table.take(needed.id), Level(1, (), (UUID(int=7),))
    )
    assert (await job_table.look(needed.id))["results"] == {"documents": [str(UUID(int=7))]}
    assert await job_table.statuses(readers) == ["pending"] * 3
    assert (await job_table.look(readers[0]))["status_reason"] is None
    for reader in readers:
        assert len(await job_table.messages(reader)) == 2
        waited = ["pending", "processing", "waiting_for_prerequisite", "pending"]
        assert await read_moves(admin, reader) == waited
    assert await job_table.sweep() == 0, "nothing was left for the sweeper"


async def test_all_who_wait_fail_with_it(job_table: JobTable) -> None:
    needed = build_need()
    readers = await need(job_table, needed, 3)
    await job_table.fail(await job_table.take(needed.id))
    assert await job_table.statuses(readers) == ["failed"] * 3
    for reader in readers:
        row = await job_table.look(reader)
        assert row["status_reason"] == "prerequisite_failed"
        assert str(needed.id) in row["error_details"][-1]["message"]


async def test_who_comes_when_it_is_done_does_not_wait(job_table: JobTable) -> None:
    needed = build_need()
    await need(job_table, needed, 1)
    await save_combined(job_table.engine, await job_table.take(needed.id), Level(1, ()))
    (late,) = await need(job_table, needed, 1)
    row = await job_table.look(late)
    assert (row["status"], row["status_reason"]) == ("pending", None)
    assert row["prerequisite_job_id"] == needed.id


async def fail_one_of_three(job_table: JobTable, needed: Needed) -> Level:
    """Deal out three merges: one completes, one fails, and one is cancelled with it."""
    level = build_level(needed.id, 1, 3)
    await save_level(job_table.engine, await job_table.take(needed.id), level)
    await job_table.complete(await take_merge(job_table, level, 0))
    await job_table.fail(await take_merge(job_table, level, 1))
    assert await job_table.status(needed.id) == "failed"
    ids = [merge.id for merge in level.merges]
    assert await job_table.statuses(ids) == ["completed", "failed", "cancelled"]
    return level


async def test_who_comes_late_to_one_that_failed_fails_with_it_and_sets_nothing_going(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (reader,) = await need(job_table, needed, 1)
    # It was there before the failure, or was dealt out afterwards in the same stage.
    (late,) = await job_table.insert_all([{}])
    await job_table.advance(1)
    level = await fail_one_of_three(job_table, needed)
    await job_table.advance(1)
    later = await job_table.insert()
    for job in await job_table.take_all([late, later]):
        await save_need(job_table.engine, job, needed)
    assert await job_table.statuses([reader, late, later, needed.id]) == ["failed"] * 4
    row = await job_table.look(late)
    assert row["status_reason"] == "prerequisite_failed"
    ids = [merge.id for merge in level.merges]
    assert await job_table.statuses(ids) == ["completed", "failed", "cancelled"]


async def test_who_is_asked_for_after_it_failed_sets_it_going_again_with_what_failed_of_it(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (reader,) = await need(job_table, needed, 1)
    level = await fail_one_of_three(job_table, needed)
    await job_table.advance(1)
    anew = await job_table.insert(payload=Rewriting())
    await save_need(job_table.engine, await job_table.take(anew), needed)
    ids = [merge.id for merge in level.merges]
    assert await job_table.statuses([needed.id, *ids, anew, reader]) == [
        "pending",
        "completed",
        "pending",
        "pending",
        "waiting_for_prerequisite",
        "failed",
    ]
    await save_level(job_table.engine, await job_table.take(needed.id), level)
    assert len(await list_merges(job_table, needed.id)) == 3
    for nth in (1, 2):
        await job_table.complete(await take_merge(job_table, level, nth))
    assert await job_table.status(needed.id) == "pending_next_step"


async def test_one_that_lost_its_last_reader_is_continued_when_a_job_needs_it(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (reader,) = await need(job_table, needed, 1)
    await job_table.fetch(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1", reader
    )
    assert await job_table.status(needed.id) == "cancelled"
    (late,) = await need(job_table, needed, 1)
    assert await job_table.statuses([needed.id, late]) == ["pending", "waiting_for_prerequisite"]


async def test_a_reader_that_comes_while_the_last_one_leaves_still_waits_for_it(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (left,) = await need(job_table, needed, 1)
    coming = await job_table.take(await job_table.insert())
    async with job_table.begin() as connection:
        # As `wait_for` does, with someone who leaves between two of its statements.
        await jobs.hold_lease(connection, coming)
        await connection.execute(jobs.SQL["rerun_job"], needed.id, coming.id)
        await job_table.fetch(
            "update dialectic_generation_jobs set status = 'cancelled' where id = $1", left
        )
        said = (coming.id, coming.attempt, needed.id, "it reads too much")
        await connection.fetchval(jobs.SQL["wait_for"], *said)
        await connection.execute("commit")
    statuses = await job_table.statuses([coming.id, needed.id])
    assert statuses == ["waiting_for_prerequisite", "pending"]


async def test_merges_that_were_dealt_out_when_the_last_reader_left_are_swept_away(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (reader,) = await need(job_table, needed, 1)
    combine = await job_table.take(needed.id)
    await job_table.fetch(
        "update dialectic_generation_jobs set status = 'cancelled' where id = $1", reader
    )
    level = build_level(needed.id, 1, 2)
    await save_level(job_table.engine, combine, level)
    await job_table.sweep()
    ids = [merge.id for merge in level.merges]
    assert await job_table.statuses([needed.id, *ids]) == ["cancelled"] * 3
    assert (await job_table.look(needed.id))["status_reason"] == "no job waits for it any more"


async def test_a_sweep_leaves_what_somebody_came_to_need_while_it_swept(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    await start_stage(engine, job_table.account, job_table.session_id, planned_units=1)
    # The server looks at ten rows at a time: the last of these is locked when the others are swept.
    left = sorted([build_need() for _ in range(11)], key=lambda needed: needed.id)
    for needed in left:
        (reader,) = await need(job_table, needed, 1)
        combine = await job_table.take(needed.id)
        await job_table.fetch(
            "update dialectic_generation_jobs set status = 'cancelled' where id = $1", reader
        )
        await save_level(job_table.engine, combine, build_level(needed.id, 1, 1))
    async with job_table.begin() as busy, job_table.begin() as sweeper:
        await busy.execute(
            "select from dialectic_stage_runs where session_id = $1 for update",
            job_table.session_id,
        )
        sweeping = asyncio.create_task(jobs.sweep(sweeper, TERMS))
        await until_blocked(admin, sweeper)
        (reader,) = await need(job_table, left[-1], 1)
        await busy.execute("rollback")
        await sweeping
        await sweeper.execute("commit")
    assert await job_table.status(left[0].id) == "cancelled"
    statuses = await job_table.statuses([reader, left[-1].id])
    assert statuses == ["waiting_for_prerequisite", "waiting_for_children"]


async def test_each_level_lets_it_look_again_and_a_level_that_was_saved_is_not_saved_twice(
    job_table: JobTable,
) -> None:
    needed = build_need()
    (reader,) = await need(job_table, needed, 1)
    for number, merges in ((1, 3), (2, 2)):
        level = build_level(needed.id, number, merges)
        job = await job_table.take(needed.id)
        assert job.current_step == number
        dying = replace(job_table.engine, failpoints=Failpoints.parse("before_commit=error"))
        with pytest.raises(ProviderTransient):
            await save_level(dying, job, level)
        known = await list_merges(job_table, needed.id)
        assert not known.keys() & {merge.id for merge in level.merges}
        await save_level(job_table.engine, job, level)
        for nth in range(merges):
            assert await job_table.status(needed.id) == "waiting_for_children"
            await job_table.complete(await take_merge(job_table, level, nth))
        assert await job_table.status(needed.id) == "pending_next_step"
    assert await job_table.status(reader) == "waiting_for_prerequisite"
    await save_combined(job_table.engine, await job_table.take(needed.id), Level(3, ()))
    assert await job_table.status(reader) == "pending"


async def test_one_that_lost_its_last_reader_is_not_continued(job_table: JobTable) -> None:
    needed = build_need()
    parents = await job_table.take_all(await job_table.insert_all([{}] * 2))
    readers = []
    for parent in parents:
        (reader,) = await job_table.insert_children(parent, 1)
        await save_need(job_table.engine, await job_table.take(reader), needed)
        readers.append(reader)
    level = build_level(needed.id, 1, 2)
    await save_level(job_table.engine, await job_table.take(needed.id), level)
    running = await take_merge(job_table, level, 0)

    async def cancel(parent: Job) -> None:
        await job_table.fetch(
            "update dialectic_generation_jobs set status = 'cancelled' where id = $1", parent.id
        )

    await cancel(parents[0])
    assert await job_table.statuses([*readers, needed.id]) == [
        "cancelled",
        "waiting_for_prerequisite",
        "waiting_for_children",
    ]
    await cancel(parents[1])
    assert await job_table.statuses([*readers, needed.id]) == ["cancelled"] * 3
    merges = [merge.id for merge in level.merges]
    assert await job_table.statuses(merges) == ["processing", "cancelled"]
    await job_table.complete(running)  # it was paid for, and is kept for whoever needs it again


async def test_it_is_not_a_plan_job_of_its_stage(job_table: JobTable) -> None:
    await start_stage(job_table.engine, job_table.account, job_table.session_id, planned_units=1)
    plan_id = await job_table.insert()
    plan = await job_table.take(plan_id)
    (reader,) = await job_table.insert_children(plan, 1)
    needed = build_need()
    await save_need(job_table.engine, await job_table.take(reader), needed)
    situation = await job_table.transact(
        lambda c: c.fetchrow(records.SQL["read_situation"], job_table.session_id, 1)
    )
    assert [plan["stage_slug"] for plan in situation["progress"]] == [STAGE]
    await job_table.fail(await job_table.take(needed.id))
    (told,) = await job_table.events("contribution_generation_complete")
    assert (told["status"], told["completed"], told["failed"]) == ("failed", 0, 1)


async def test_readers_and_the_end_of_what_they_need_may_meet_and_no_wake_up_is_lost(
    job_table: JobTable,
) -> None:
    needed = build_need()
    await need(job_table, needed, 1)
    combine = await job_table.take(needed.id)
    late = await job_table.take_all(await job_table.insert_all([{}] * 6))
    async with job_table.others(8) as others:
        engine = replace(job_table.engine, db=others)
        await asyncio.gather(
            save_combined(engine, combine, Level(1, ())),
            *(save_need(engine, job, needed) for job in late),
        )
    assert set(await job_table.statuses([job.id for job in late])) == {"pending"}
