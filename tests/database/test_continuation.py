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
from dialectic.db.tables import chunks, jobs, records
from dialectic.db.tables.records import MARKDOWN, File
from dialectic.engine import Engine
from dialectic.errors import LeaseLost
from tests.database.job_table import AdminConnection, Machine, forget_jobs, read_moves


@pytest.fixture(scope="module")
def address(module_address: Address) -> Address:
    return module_address


@pytest.fixture
async def machine(engine: Engine, admin: AdminConnection) -> AsyncIterator[Machine]:
    async with Machine.open(engine) as opened:
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
    )


async def save(machine: Machine, job: Job, turn: int) -> Chunk:
    """Save a turn as the pipeline does, and let the job go on."""
    said = build_said(job, turn)
    file = File(said.path, said.text.encode(), MARKDOWN)
    new = chunks.NewChunk(
        id=derive_chunk_id(job.id, turn=turn),
        contribution_id=derive_contribution_id(job.id),
        model_name="offline/skeptic",
        said=said,
        file=file,
    )

    async def work(connection: Connection) -> None:
        raw = File(said.raw_path, b"{}", "application/json")
        await records.insert_files(connection, job.tenant_id, machine.project_id, [file, raw])
        await chunks.insert_chunk(connection, job, new)
        await jobs.go_on(connection, job)

    await machine.transact(work)
    return said


async def read(machine: Machine, job_id: UUID) -> tuple[Chunk, ...]:
    found: tuple[Chunk, ...] = await machine.transact(
        lambda c: chunks.read_chunks(c, derive_contribution_id(job_id))
    )
    return found


async def test_a_job_whose_turn_is_saved_is_claimed_again_and_finds_what_was_said(
    machine: Machine, admin: AdminConnection
) -> None:
    job_id = await machine.insert()
    said: list[Chunk] = []
    for turn in range(3):
        job = await machine.take(job_id)
        assert job.attempt == turn + 1
        assert await read(machine, job_id) == tuple(said)
        said.append(await save(machine, job, turn))
        row = await machine.look(job_id)
        assert (row["status"], row["lease_until"], row["worker"]) == (
            "pending_continuation",
            None,
            None,
        )
        assert len(await machine.messages(job_id)) == turn + 2
    await machine.complete(await machine.take(job_id))
    turns = ["processing", "pending_continuation"] * 3
    assert await read_moves(admin, job_id) == ["pending", *turns, "processing", "completed"]


async def test_a_turn_that_is_saved_gives_the_next_one_all_its_tries(machine: Machine) -> None:
    job_id = await machine.insert()
    await machine.retry(await machine.take(job_id), delay_s=0)
    await machine.lose_lease(await machine.take(job_id))
    job = await machine.take(job_id)
    row = await machine.look(job_id)
    assert (row["retry_count"], row["lost_count"]) == (1, 1)
    await save(machine, job, 0)
    row = await machine.look(job_id)
    assert (row["retry_count"], row["lost_count"], row["run_at"]) == (0, 0, machine.clock)
    assert row["throttled_since"] is None
    assert len(row["error_details"]) == 2, "what went wrong is not forgotten"


async def test_a_worker_that_lost_its_lease_saves_no_turn(machine: Machine) -> None:
    job_id = await machine.insert()
    slow = await machine.take(job_id)
    await machine.lose_lease(slow)
    quick = await machine.take(job_id, worker="second")
    with pytest.raises(LeaseLost):
        await save(machine, slow, 0)
    assert await read(machine, job_id) == ()
    await save(machine, quick, 0)
    with pytest.raises((LeaseLost, asyncpg.UniqueViolationError)):
        await save(machine, slow, 0)
    assert len(await read(machine, job_id)) == 1


async def test_a_turn_is_kept_once(machine: Machine) -> None:
    job_id = await machine.insert()
    await save(machine, await machine.take(job_id), 0)
    again = await machine.take(job_id)
    with pytest.raises(asyncpg.UniqueViolationError):
        await save(machine, again, 0)
    await save(machine, again, 1)
    assert [chunk.turn for chunk in await read(machine, job_id)] == [0, 1]


async def test_what_was_said_is_never_changed(machine: Machine, engine: Engine) -> None:
    job_id = await machine.insert()
    await save(machine, await machine.take(job_id), 0)
    for db in (machine.db, engine.db):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await db.transact(
                machine.account.tenant_id,
                lambda c: c.execute("update dialectic_chunks set content = 'Other.'"),
            )


async def test_a_job_between_two_turns_stands_still_with_its_session(
    machine: Machine, engine: Engine
) -> None:
    job_id = await machine.insert()
    await save(machine, await machine.take(job_id), 0)
    await Tenant(engine, machine.account).run(sessions.pause, machine.session_id)
    assert await machine.status(job_id) == JobStatus.PAUSED
    assert await machine.claim(job_id) is None
    await Tenant(engine, machine.account).run(sessions.resume, machine.session_id)
    assert await machine.status(job_id) == JobStatus.PENDING
    await Tenant(engine, machine.account).run(sessions.cancel, machine.session_id)
    assert await machine.status(job_id) == JobStatus.CANCELLED
    assert len(await read(machine, job_id)) == 1


async def test_a_lost_message_between_two_turns_is_sent_again(machine: Machine) -> None:
    job_id = await machine.insert()
    await save(machine, await machine.take(job_id), 0)
    await machine.forget_messages()
    assert await machine.sweep() == 1
    assert len(await machine.messages(job_id)) == 1


async def test_chunks_go_with_their_project(machine: Machine, admin: AdminConnection) -> None:
    job_id = await machine.insert()
    await save(machine, await machine.take(job_id), 0)
    await machine.fetch("delete from dialectic_sessions where id = $1", machine.session_id)
    count = await admin.fetchval(
        "select count(*) from dialectic_chunks where session_id = $1", machine.session_id
    )
    assert count == 0


async def test_a_chunk_of_nobodys_job_is_refused(machine: Machine) -> None:
    stranger = await machine.take(await machine.insert())
    made_up = Job(**{**{f: getattr(stranger, f) for f in Job.__slots__}, "id": uuid4()})
    with pytest.raises((LeaseLost, asyncpg.ForeignKeyViolationError)):
        await save(machine, made_up, 0)
