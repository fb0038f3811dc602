"""A job whose turn is saved is runnable again, and what was said is kept once and for all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.documents.stitching import Chunk
from dialectic.core.job import Job, JobStatus, derive_chunk_id, derive_contribution_id
from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.db.pool import Address, Connection
from dialectic.db.tables import contributions, jobs
from dialectic.db.tables.files import MARKDOWN, File, insert_files
from dialectic.engine import Engine
from dialectic.errors import LeaseLost
from tests.database.job_table import AdminConnection, JobTable, forget_jobs, read_moves


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def job_table(engine: Engine, admin: AdminConnection) -> AsyncIterator[JobTable]:
    async with JobTable.open(engine) as opened:
        yield opened
    await forget_jobs(admin)


def build_said(job: Job, turn: int) -> Chunk:
    return Chunk(
        turn=turn,
        text=f"Turn {turn}.",
        usage=Usage(10, 5 + turn, UsageSource.COUNTED),
        finish_reason=FinishReason.LENGTH,
        raw_finish_reason="max_tokens",
        request_id=f"request {turn}",
        elapsed_ms=7,
        flags=("self_critique",),
        path=f"p/{job.id}_{turn}.md",
        raw_path=f"p/{job.id}_{turn}_raw.json",
        opening={"request": {"label": "Original request", "text": "Why?"}} if turn == 0 else None,
        model_name="offline/skeptic",
    )


async def save(job_table: JobTable, job: Job, turn: int) -> Chunk:
    """Save a turn as the pipeline does, and let the job go on."""
    said = build_said(job, turn)
    file = File(said.path, said.text.encode(), MARKDOWN)
    new = contributions.NewChunk(
        id=derive_chunk_id(job.id, turn=turn),
        contribution_id=derive_contribution_id(job.id),
        model_name="offline/skeptic",
        said=said,
        file=file,
    )

    async def work(connection: Connection) -> None:
        raw = File(said.raw_path, b"{}", "application/json")
        await insert_files(connection, job.tenant_id, job_table.project_id, [file, raw])
        await contributions.insert_chunk(connection, job, new)
        await jobs.go_on(connection, job)

    await job_table.transact(work)
    return said


async def read(job_table: JobTable, job_id: UUID) -> tuple[Chunk, ...]:
    found: tuple[Chunk, ...] = await job_table.transact(
        lambda c: contributions.read_chunks(c, derive_contribution_id(job_id))
    )
    return found


async def test_a_job_whose_turn_is_saved_is_claimed_again_and_finds_what_was_said(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job_id = await job_table.insert()
    said: list[Chunk] = []
    for turn in range(3):
        job = await job_table.take(job_id)
        assert job.attempt == turn + 1
        assert await read(job_table, job_id) == tuple(said)
        said.append(await save(job_table, job, turn))
        row = await job_table.look(job_id)
        assert (row["status"], row["lease_until"], row["worker"]) == (
            "pending_continuation",
            None,
            None,
        )
        assert len(await job_table.messages(job_id)) == turn + 2
    await job_table.complete(await job_table.take(job_id))
    turns = ["processing", "pending_continuation"] * 3
    assert await read_moves(admin, job_id) == ["pending", *turns, "processing", "completed"]


async def test_a_turn_that_is_saved_gives_the_next_one_all_its_tries(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await job_table.retry(await job_table.take(job_id), delay_s=0)
    await job_table.lose_lease(await job_table.take(job_id))
    job = await job_table.take(job_id)
    row = await job_table.look(job_id)
    assert (row["retry_count"], row["lost_count"]) == (1, 1)
    await save(job_table, job, 0)
    row = await job_table.look(job_id)
    assert (row["retry_count"], row["lost_count"], row["run_at"]) == (0, 0, job_table.clock)
    assert row["throttled_since"] is None
    assert len(row["error_details"]) == 2, "what went wrong is not forgotten"


async def test_a_worker_that_lost_its_lease_saves_no_turn(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    slow = await job_table.take(job_id)
    await job_table.lose_lease(slow)
    quick = await job_table.take(job_id, worker="second")
    with pytest.raises(LeaseLost):
        await save(job_table, slow, 0)
    assert await read(job_table, job_id) == ()
    await save(job_table, quick, 0)
    with pytest.raises((LeaseLost, asyncpg.UniqueViolationError)):
        await save(job_table, slow, 0)
    assert len(await read(job_table, job_id)) == 1


async def test_a_turn_is_kept_once(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await save(job_table, await job_table.take(job_id), 0)
    again = await job_table.take(job_id)
    with pytest.raises(asyncpg.UniqueViolationError):
        await save(job_table, again, 0)
    await save(job_table, again, 1)
    assert [chunk.turn for chunk in await read(job_table, job_id)] == [0, 1]


async def test_what_was_said_is_never_changed(job_table: JobTable, engine: Engine) -> None:
    job_id = await job_table.insert()
    await save(job_table, await job_table.take(job_id), 0)
    for db in (job_table.db, engine.db):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.transact(
                job_table.account.tenant_id,
                lambda c: c.execute("update dialectic_chunks set content = 'Other.'"),
            )


async def test_a_job_between_two_turns_stands_still_with_its_session(
    job_table: JobTable, engine: Engine
) -> None:
    job_id = await job_table.insert()
    await save(job_table, await job_table.take(job_id), 0)
    await Tenant(engine, job_table.account).run(sessions.pause, job_table.session_id)
    assert await job_table.status(job_id) == JobStatus.PAUSED
    assert await job_table.claim(job_id) is None
    await Tenant(engine, job_table.account).run(sessions.resume, job_table.session_id)
    assert await job_table.status(job_id) == JobStatus.PENDING
    await Tenant(engine, job_table.account).run(sessions.cancel, job_table.session_id)
    assert await job_table.status(job_id) == JobStatus.CANCELLED
    assert len(await read(job_table, job_id)) == 1


async def test_a_lost_message_between_two_turns_is_sent_again(job_table: JobTable) -> None:
    job_id = await job_table.insert()
    await save(job_table, await job_table.take(job_id), 0)
    await job_table.forget_messages()
    assert await job_table.sweep() == 1
    assert len(await job_table.messages(job_id)) == 1


async def test_chunks_go_with_their_project(job_table: JobTable, admin: AdminConnection) -> None:
    job_id = await job_table.insert()
    await save(job_table, await job_table.take(job_id), 0)
    await job_table.fetch("delete from dialectic_sessions where id = $1", job_table.session_id)
    count = await admin.fetchval(
        "select count(*) from dialectic_chunks where session_id = $1", job_table.session_id
    )
    assert count == 0


async def test_a_chunk_of_nobodys_job_is_refused(job_table: JobTable) -> None:
    stranger = await job_table.take(await job_table.insert())
    made_up = Job(**{**{f: getattr(stranger, f) for f in Job.__slots__}, "id": uuid4()})
    with pytest.raises((LeaseLost, asyncpg.ForeignKeyViolationError)):
        await save(job_table, made_up, 0)
