"""Files that were left behind reach storage, whatever some of them or the storage do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from dialectic.engine import Engine
from dialectic.errors import StorageUnavailable
from dialectic.publishing import publish
from dialectic.storage.file_store import FileStore
from tests.database.job_table import AdminConnection, build_job, insert_jobs, working
from tests.database.running_worker import RunningSession, finish
from tests.waiting import PATIENCE_S, until


@dataclass(slots=True)
class UnreliableStore:
    """A store on a network: some files it refuses, for some it never answers.

    With none behind it, it takes the others at once, however busy the machine is.
    """

    inner: FileStore | None
    hangs_on: str | None = None
    refuses: str | None = None
    tried: list[str] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    # What it waits for before it takes anything.
    after: asyncio.Event | None = None
    hung: asyncio.Event = field(default_factory=asyncio.Event)
    on_written: Callable[[], object] | None = None

    async def write(self, key: str, data: bytes) -> None:
        self.tried.append(key.partition("/")[2])
        self.begun.set()
        if self.after is not None:
            await self.after.wait()
        if self.hangs_on is not None and self.hangs_on in key:
            self.hung.set()
            await asyncio.Event().wait()
        if self.refuses is not None and self.refuses in key:
            raise StorageUnavailable("No room.")
        if self.inner is not None:
            await self.inner.write(key, data)
        if self.on_written is not None:
            self.on_written()

    def locate(self, key: str) -> str:
        return key if self.inner is None else self.inner.locate(key)


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


def store_of(session: RunningSession, **moods: Any) -> tuple[Engine, UnreliableStore]:
    store = UnreliableStore(**{"inner": session.worker_engine.files, **moods})
    return replace(session.worker_engine, files=store), store  # type: ignore[arg-type]


async def leave_files(session: RunningSession, *names: str) -> None:
    """Leave files in the database as a dead worker does, the first the longest ago."""
    for age, name in enumerate(reversed(names)):
        await session.admin.execute(
            "insert into dialectic_files (tenant_id, path, project_id, mime_type, size_bytes,"
            " sha256, content, created_at)"
            " values ($1, $2, $3, 'text/markdown', 1, encode(sha256('x'), 'hex'), 'x',"
            " now() - $4::interval)",
            session.account.tenant_id,
            name,
            session.project_id,
            timedelta(hours=1, seconds=age),
        )


async def list_waiting(session: RunningSession) -> set[str]:
    rows = await session.admin.fetch("select path from dialectic_files where written_at is null")
    return {row["path"] for row in rows}


async def test_storage_that_hangs_holds_up_no_sweep(session: RunningSession) -> None:
    engine, store = store_of(session, hangs_on="bad")
    await leave_files(session, "bad.md")
    async with working(engine, finish):
        await asyncio.wait_for(store.hung.wait(), PATIENCE_S)
        # A job without a message, which only a sweep can find.
        jobs_begun = "alter table dialectic_generation_jobs {} trigger jobs_begun"
        new = build_job(session.session_id)
        await session.admin.execute(jobs_begun.format("disable"))
        await insert_jobs(session.engine.db, session.account.tenant_id, [new])
        await session.admin.execute(jobs_begun.format("enable"))
        await session.until_status("completed", new.id)


async def test_a_file_that_takes_too_long_is_left_for_later_and_the_others_are_written(
    session: RunningSession,
) -> None:
    engine, _ = store_of(session, inner=None, hangs_on="bad")
    await leave_files(session, "bad.md", *(f"good-{n}.md" for n in range(20)))
    assert await publish.publish_left_behind(engine, write_timeout_s=0.2) == 20
    assert await list_waiting(session) == {"bad.md"}


async def test_who_is_told_to_leave_in_the_moment_at_which_a_file_is_written_leaves(
    session: RunningSession,
) -> None:
    engine, store = store_of(session)
    await leave_files(session, "last.md")
    writing = asyncio.create_task(
        publish.publish_waiting(engine, session.account.tenant_id, ["last.md"])
    )
    store.on_written = writing.cancel
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(asyncio.CancelledError):
            await writing


async def test_files_that_cannot_be_written_go_to_the_back(session: RunningSession) -> None:
    engine, store = store_of(session, refuses="bad", inner=None)
    bad = [f"bad-{n:02}.md" for n in range(2 * publish.AT_ONCE)]
    await leave_files(session, *bad, "good.md")
    assert await publish.publish_left_behind(engine) == 1
    assert sorted(store.tried) == [*bad, "good.md"], "each was tried once"
    # Their next turn has come, and a file that was never tried goes first although it is younger.
    await session.admin.execute(
        "update dialectic_files set tried_at = tried_at - interval '1 hour'"
    )
    await leave_files(session, "new.md")
    store.tried.clear()
    await publish.publish_left_behind(engine)
    assert "new.md" in store.tried[: publish.AT_ONCE]


async def test_workers_share_what_was_left(session: RunningSession) -> None:
    one, first = store_of(session)
    # Neither takes a file before both have been given some.
    two, second = store_of(session, after=first.begun)
    first.after = second.begun
    names = {f"file-{n:02}.md" for n in range(40)}
    await leave_files(session, *names)
    await asyncio.gather(publish.publish_left_behind(one), publish.publish_left_behind(two))
    assert sorted([*first.tried, *second.tried]) == sorted(names)
    assert min(len(first.tried), len(second.tried)) > 0


async def test_what_one_worker_could_not_write_another_one_writes_a_little_later(
    session: RunningSession,
) -> None:
    failing, _ = store_of(session, refuses="left")
    await leave_files(session, "left.md")
    assert await publish.publish_left_behind(failing) == 0
    assert await publish.publish_left_behind(session.worker_engine) == 0, "it was tried just now"
    await session.admin.execute(
        "update dialectic_files set tried_at = tried_at - $1::interval", publish.AGAIN_AFTER
    )
    async with working(session.worker_engine, finish):

        async def is_written() -> bool:
            return await list_waiting(session) == set()

        await until(session.engine.address, is_written)
