"""A deleted project leaves nothing in storage, whatever process dies and whatever storage does."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from dialectic.app import projects, transfer
from dialectic.app.transaction import Tenant, Transaction
from dialectic.db.tables.files import MARKDOWN, File, insert_files
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, StorageUnavailable
from dialectic.publishing import publish
from dialectic.storage.file_store import FileStore
from dialectic.storage.keys import Keys
from tests.database.job_table import AdminConnection, make_session, working
from tests.database.running_worker import RunningSession, finish
from tests.waiting import until


@dataclass(slots=True)
class ClingingStore:
    """A store on a network that does not give up some files, or never answers.

    All others it gives up at once, however busy the machine is.
    """

    refuses: str | None = None
    hangs_on: str | None = None
    tried: list[str] = field(default_factory=list)

    async def delete(self, key: str) -> None:
        self.tried.append(key)
        if self.hangs_on is not None and self.hangs_on in key:
            await asyncio.Event().wait()
        if self.refuses is not None and self.refuses in key:
            raise StorageUnavailable("No answer.")


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    return await RunningSession.open(engine, worker_engine, admin)


def clinging(session: RunningSession, **moods: Any) -> tuple[Engine, ClingingStore]:
    store = ClingingStore(**moods)
    return replace(session.worker_engine, files=store), store  # type: ignore[arg-type]


async def delete_rows(session: RunningSession) -> list[str]:
    """Delete the project and die right after the commit."""
    await session.transact(
        lambda c: projects.delete(
            Transaction(session.engine, session.account, c), session.project_id
        )
    )
    return [row["path"] for row in await session.rows("dialectic_discarded_files")]


async def list_stored(session: RunningSession) -> list[str]:
    return list(await session.engine.files.list(str(session.account.tenant_id)))


async def pass_time(session: RunningSession, time: timedelta) -> None:
    await session.admin.execute(
        "update dialectic_discarded_files set due_at = due_at - $1::interval,"
        " settled_at = settled_at - $1::interval",
        time,
    )


async def rewrite_prompt(session: RunningSession) -> str:
    """Let the bytes of the project's one file wait for storage again."""
    path: str = await session.admin.fetchval(
        "update dialectic_files set content = 'x', written_at = null where project_id = $1"
        " returning path",
        session.project_id,
    )
    return path


async def test_a_worker_deletes_the_files_that_a_dead_process_left(session: RunningSession) -> None:
    assert await list_stored(session)
    await delete_rows(session)
    assert await publish.delete_left_behind(session.worker_engine) == 0, "its owner may be about it"
    assert await list_stored(session)
    await pass_time(session, publish.LEFT_BEHIND_AFTER)

    async def is_empty() -> bool:
        return await session.rows("dialectic_discarded_files") == []

    async with working(session.worker_engine, finish):
        await until(session.engine.address, is_empty)
    assert await list_stored(session) == []


async def test_deleting_a_project_deletes_its_files_at_once(session: RunningSession) -> None:
    paths = await delete_rows(session)
    await publish.delete_files(session.engine, session.account.tenant_id, paths)
    assert (await list_stored(session), await session.rows("dialectic_discarded_files")) == ([], [])


async def test_a_project_that_is_not_deleted_after_all_keeps_its_files(
    session: RunningSession,
) -> None:
    await session.insert()
    with pytest.raises(Conflict):
        await delete_rows(session)
    assert await session.rows("dialectic_discarded_files") == []


async def test_archives_that_exports_left_go_with_their_project(session: RunningSession) -> None:
    for finished in (False, True):
        await transfer.export_into_storage(
            session.engine, session.account, session.project_id, finished=finished
        )
    assert len(await list_stored(session)) == 3
    await publish.delete_files(
        session.engine, session.account.tenant_id, await delete_rows(session)
    )
    assert await list_stored(session) == []


@dataclass(slots=True)
class SlowStore:
    """A store during whose writing a project is deleted."""

    inner: FileStore
    session: RunningSession
    is_deleted: bool = False

    async def write_file(self, key: str, source: Path) -> None:
        await self._delete_project()
        await self.inner.write_file(key, source)

    async def write(self, key: str, data: bytes) -> None:
        if not self.is_deleted:
            self.is_deleted = True
            await self._delete_project()
        await self.inner.write(key, data)

    async def _delete_project(self) -> None:
        paths = await delete_rows(self.session)
        await publish.delete_files(self.session.engine, self.session.account.tenant_id, paths)

    async def read(self, key: str) -> bytes:
        return await self.inner.read(key)

    async def list(self, prefix: str) -> Keys:
        return await self.inner.list(prefix)

    async def delete(self, key: str) -> None:
        await self.inner.delete(key)


async def test_an_export_of_a_project_that_is_deleted_meanwhile_leaves_nothing(
    session: RunningSession,
) -> None:
    engine = replace(session.engine, files=SlowStore(session.engine.files, session))  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        await transfer.export_into_storage(engine, session.account, session.project_id)
    assert await list_stored(session) == []


async def test_of_many_files_only_those_are_written_late_whose_write_had_begun(
    session: RunningSession,
) -> None:
    files = [File(f"many/{n:02}.md", b"x", MARKDOWN) for n in range(3 * publish.AT_ONCE)]
    tenant_id = session.account.tenant_id
    await session.transact(lambda c: insert_files(c, tenant_id, session.project_id, files))
    engine = replace(session.engine, files=SlowStore(session.engine.files, session))  # type: ignore[arg-type]
    assert await publish.publish_files(engine, tenant_id, files)
    late = {f"{tenant_id}/{file.path}" for file in files[: publish.AT_ONCE]}
    assert set(await list_stored(session)) <= late
    await pass_time(session, publish.AGAIN_AFTER)
    await publish.delete_left_behind(session.worker_engine)
    assert (await list_stored(session), await session.rows("dialectic_discarded_files")) == ([], [])


async def test_a_file_that_is_still_being_written_is_deleted_once_more(
    session: RunningSession,
) -> None:
    path = await rewrite_prompt(session)
    paths = await delete_rows(session)
    await publish.delete_files(session.engine, session.account.tenant_id, paths)
    # Whoever had taken the bytes before they were deleted comes to his end.
    await session.engine.files.write(f"{session.account.tenant_id}/{path}", b"x")
    await pass_time(session, publish.AGAIN_AFTER)
    assert await publish.delete_left_behind(session.worker_engine) == 1
    assert (await list_stored(session), await session.rows("dialectic_discarded_files")) == ([], [])


async def test_a_file_that_storage_does_not_give_up_holds_up_no_other_and_goes_later(
    session: RunningSession,
) -> None:
    engine, store = clinging(session, refuses="000.md", hangs_on="001.md")
    names = [f"left/{n:03}.md" for n in range(2 * publish.DELETIONS_AT_ONCE + 1)]
    await session.admin.execute(
        "insert into dialectic_discarded_files (tenant_id, path) select $1, unnest($2::text[])",
        session.account.tenant_id,
        names,
    )
    done = await publish.delete_left_behind(engine, delete_timeout_s=0.1)
    assert (done, len(store.tried)) == (len(names) - 2, len(names)), "each was tried once"
    assert [row["path"] for row in await session.rows("dialectic_discarded_files")] == names[:2]
    await pass_time(session, publish.AGAIN_AFTER)
    assert await publish.delete_left_behind(session.worker_engine) == 2


async def test_a_folder_is_not_reused_until_the_files_in_it_are_gone(
    session: RunningSession,
) -> None:
    async def find_slug(project_id: UUID) -> str:
        found = await Tenant(session.engine, session.account).run(projects.get, project_id)
        return found.slug

    before = await find_slug(session.project_id)
    paths = await delete_rows(session)
    during = (await make_session(session.engine, session.account)).project_slug
    assert during != before
    await publish.delete_files(session.engine, session.account.tenant_id, paths)
    assert (await make_session(session.engine, session.account)).project_slug == before
