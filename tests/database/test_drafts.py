"""Drafts as rows: written for those who watch, by the newest attempt, and gone with it."""

from __future__ import annotations

from typing import Any

import pytest

from dialectic.core.job import Job
from dialectic.db.pool import APP_ROLE, Address
from dialectic.db.tables import drafts
from dialectic.db.tables.drafts import DraftPiece, NewDraft
from dialectic.engine import Engine
from tests.database.job_table import AdminConnection, JobTable, new_account


@pytest.fixture
def address(module_address: Address) -> Address:
    return module_address


def draft_of(job: Job, text: str = "", at: int = 0, **changes: Any) -> NewDraft:
    values: dict[str, Any] = {
        "key": job.key,
        "attempt": job.attempt,
        "turn": 0,
        "phase": "writing",
        "at": at,
        "text": text,
        "words": len(text.split()),
        "text_age_s": 1.0,
        **changes,
    }
    return NewDraft(**values)


async def begin(job_table: JobTable, *, is_watched: bool = True) -> Job:
    job = await job_table.take(await job_table.insert())
    if is_watched:
        await watch(job_table)
    return job


async def watch(job_table: JobTable) -> None:
    """Watch the session, as a process of the app does."""
    key = job_table.account.tenant_id, job_table.session_id
    async with job_table.others(1, APP_ROLE) as db:
        await drafts.watch(db, [key])


async def list_texts(admin: AdminConnection) -> list[tuple[int, int, str]]:
    rows = await admin.fetch("select attempt, turn, text from dialectic_drafts order by job_id")
    return [(row["attempt"], row["turn"], row["text"]) for row in rows]


async def test_nothing_is_written_for_a_session_without_a_watcher(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table, is_watched=False)
    assert await drafts.write(job_table.db, [draft_of(job, "Some text")]) == {}
    assert await list_texts(admin) == []


async def test_a_draft_grows_by_what_is_new_and_says_how_much_it_has(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    assert await drafts.write(job_table.db, [draft_of(job, "Grüße ")]) == {job.key: 6}
    assert await drafts.write(job_table.db, [draft_of(job, "an 漢字", at=6)]) == {job.key: 11}
    # A piece that does not fit changes nothing; the answer says where to go on.
    assert await drafts.write(job_table.db, [draft_of(job, "gap", at=99)]) == {job.key: 11}
    assert await list_texts(admin) == [(1, 0, "Grüße an 漢字")]


async def test_a_row_that_was_lost_is_written_again_from_its_beginning(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    assert await drafts.write(job_table.db, [draft_of(job, "tail", at=50)]) == {job.key: 0}
    assert await drafts.write(job_table.db, [draft_of(job, "whole")]) == {job.key: 5}
    assert await list_texts(admin) == [(1, 0, "whole")]


async def test_an_older_attempt_or_turn_never_replaces_a_newer_one(
    job_table: JobTable, admin: AdminConnection
) -> None:
    first = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(first, "turn one", turn=1)])
    assert await drafts.write(job_table.db, [draft_of(first, "turn zero")]) == {}
    await job_table.release(first)
    second = await job_table.take(first.id)
    assert await drafts.write(job_table.db, [draft_of(second, "new")]) == {second.key: 3}
    assert await drafts.write(job_table.db, [draft_of(first, "old", turn=9)]) == {}
    assert await list_texts(admin) == [(2, 0, "new")]


async def test_the_statement_that_ends_an_attempt_removes_its_draft(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "text")])
    await job_table.release(job)
    assert await list_texts(admin) == []


async def test_a_draft_of_a_lost_worker_is_swept_and_so_is_an_ended_watch(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "text")])
    await job_table.transact(drafts.sweep)
    assert await list_texts(admin) == [(1, 0, "text")]
    await admin.execute("update dialectic_draft_watches set watched_until = '2000-01-01'")
    await admin.execute(
        "update dialectic_generation_jobs set lease_until = '2000-01-01', suspect_at = '2000-01-01'"
    )
    await job_table.transact(drafts.sweep)
    assert await list_texts(admin) == []
    assert await admin.fetchval("select count(*) from dialectic_draft_watches") == 0


async def read(job_table: JobTable, *known: DraftPiece, chars_max: int = 100) -> list[DraftPiece]:
    key = job_table.account.tenant_id, job_table.session_id
    seen = {piece.job_id: piece for piece in known}
    async with job_table.others(1, APP_ROLE) as db:
        return await drafts.read(db, [key], seen, chars_max=chars_max)


async def test_a_reader_gets_what_is_new_to_it(job_table: JobTable) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "0123456789")])
    (first,) = await read(job_table, chars_max=4)
    assert (first.at, first.text) == (6, "6789")
    assert await read(job_table, first) == []
    await drafts.write(job_table.db, [draft_of(job, at=10, phase="saving", words=1)])
    (only_phase,) = await read(job_table, first)
    assert (only_phase.phase, only_phase.at, only_phase.text) == ("saving", 10, "")
    await drafts.write(job_table.db, [draft_of(job, at=10, words=1)])
    await drafts.write(job_table.db, [draft_of(job, "abc", at=10)])
    (second,) = await read(job_table, first)
    assert (second.at, second.text, second.job_id) == (10, "abc", job.id)
    await drafts.write(job_table.db, [draft_of(job, "x" * 100, at=13)])
    (late,) = await read(job_table, second, chars_max=10)
    assert (late.at, late.text) == (103, "x" * 10)


async def test_an_attempt_that_has_ended_is_not_shown_even_if_its_row_is_left(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "text")])
    await job_table.release(job)
    await admin.execute(
        "insert into dialectic_drafts (tenant_id, job_id, session_id, attempt, turn, phase, text,"
        " chars) values ($1, $2, $3, 1, 0, 'saving', 'text', 4)",
        *job.key,
        job.session_id,
    )
    assert await read(job_table) == []


async def test_a_session_of_another_tenant_is_neither_watched_nor_read(
    job_table: JobTable, engine: Engine, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "text")])
    stranger = await new_account(engine)
    foreign = (stranger.tenant_id, job_table.session_id)
    await admin.execute("delete from dialectic_draft_watches")
    await drafts.watch(engine.db, [foreign])
    assert await admin.fetchval("select count(*) from dialectic_draft_watches") == 0
    assert await drafts.read(engine.db, [foreign], {}, chars_max=10) == []


async def test_a_deleted_job_takes_its_draft_along(
    job_table: JobTable, admin: AdminConnection
) -> None:
    job = await begin(job_table)
    await drafts.write(job_table.db, [draft_of(job, "text")])
    await admin.execute("delete from dialectic_generation_jobs where id = $1", job.id)
    assert await list_texts(admin) == []
