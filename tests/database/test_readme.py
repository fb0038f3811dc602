"""A project is described when a stage has ended, whatever process ran it or died."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.app.transfer import export_project
from dialectic.core.transfer.bundle_format import readme_path, settings_path
from dialectic.engine import Engine
from dialectic.errors import NotFound, StorageUnavailable
from dialectic.pipeline.run import run_job
from dialectic.publishing import publish
from dialectic.storage.archive import open_archive
from dialectic.storage.file_store import FileStore
from dialectic.storage.keys import Keys
from tests.database.job_table import AdminConnection, make_session, new_account, working
from tests.database.running_worker import RunningSession
from tests.waiting import until

DESCRIPTIONS = [readme_path("hall"), settings_path("hall")]
AGE = "update dialectic_files set created_at = created_at - interval '1 hour', tried_at = null"


@pytest.fixture
async def session(engine: Engine, worker_engine: Engine, admin: AdminConnection) -> RunningSession:
    """A session of one stage, which has ended; its files were not copied since."""
    account = await new_account(engine)
    begun = await make_session(engine, account, until="thesis", name="Hall")
    session = RunningSession(
        engine, worker_engine, account, begun.session_id, begun.project_id, admin
    )
    job_ids = await Tenant(engine, account).run(sessions.generate, begun.session_id)

    async def all_is_written() -> bool:
        return await list_due(session) == DESCRIPTIONS

    async with working(worker_engine, run_job):
        await session.until_status("completed", *job_ids)
        await until(engine.address, all_is_written)
    return session


async def read(session: RunningSession) -> dict[str, bytes]:
    """The two files as they are in storage."""
    found = {}
    for path in DESCRIPTIONS:
        try:
            found[path] = await session.engine.files.read(f"{session.account.tenant_id}/{path}")
        except NotFound:
            continue
    return found


async def list_due(session: RunningSession) -> list[str]:
    rows = await session.admin.fetch("select path from dialectic_files where written_at is null")
    return sorted(row["path"] for row in rows)


async def test_the_end_of_a_stage_makes_the_description_due_and_any_worker_makes_it(
    session: RunningSession, tmp_path: Path
) -> None:
    assert await list_due(session) == DESCRIPTIONS
    assert await publish.publish_left_behind(session.worker_engine) == 0, "more may be going on"
    assert await read(session) == {}
    await session.admin.execute(AGE)
    assert await publish.publish_left_behind(session.worker_engine) == 2
    await export_project(session.engine, session.account, session.project_id, tmp_path / "all.zip")
    with open_archive(tmp_path / "all.zip") as archive:
        assert await read(session) == {path: archive.read(path) for path in DESCRIPTIONS}
    assert await list_due(session) == []
    assert await publish.publish_left_behind(session.worker_engine) == 0


async def test_a_project_whose_rows_contradict_each_other_ends_no_worker(
    session: RunningSession, caplog: pytest.LogCaptureFixture
) -> None:
    await session.admin.execute(AGE)
    async with session.admin.transaction():
        await session.admin.execute("set local session_replication_role = replica")
        await session.admin.execute("delete from dialectic_files where path like '%thesis%'")
    assert await publish.publish_left_behind(session.worker_engine) == 0
    assert "cannot be described" in caplog.text
    assert await list_due(session) == DESCRIPTIONS, "it is tried again"


async def test_rows_of_a_description_tell_the_truth_about_its_files(
    session: RunningSession,
) -> None:
    await publish.describe_project(session.engine, session.account.tenant_id, session.project_id)
    rows = await session.admin.fetch(
        "select path, size_bytes, sha256 from dialectic_files where path = any ($1)",
        DESCRIPTIONS,
    )
    files = await read(session)
    assert {row["path"]: row["size_bytes"] for row in rows} == {
        path: len(data) for path, data in files.items()
    }
    hashes = {row["sha256"] for row in rows}
    await publish.describe_project(session.engine, session.account.tenant_id, session.project_id)
    assert await read(session) == files, "the same rows make the same bytes"
    assert hashes == {
        row["sha256"]
        for row in await session.admin.fetch(
            "select sha256 from dialectic_files where path = any ($1)", list(files)
        )
    }


@dataclass(slots=True)
class Disturbed:
    """A store in which a description does not go smoothly."""

    inner: FileStore
    session: RunningSession
    refuses: bool = False
    makes_due_again: bool = False
    is_described_meanwhile: bool = False
    read_keys: list[str] = field(default_factory=list)

    async def write(self, key: str, data: bytes) -> None:
        if self.refuses:
            raise StorageUnavailable("No room.")
        if self.makes_due_again:
            await self.session.admin.execute(
                "select make_description_due($1, $2)",
                self.session.account.tenant_id,
                self.session.project_id,
            )
        if self.is_described_meanwhile:
            self.is_described_meanwhile = False
            account = self.session.account
            await publish.describe_project(
                self.session.engine, account.tenant_id, self.session.project_id
            )
        await self.inner.write(key, data)

    async def read(self, key: str) -> bytes:
        self.read_keys.append(key)
        return await self.inner.read(key)

    async def list(self, prefix: str) -> Keys:
        return await self.inner.list(prefix)

    def locate(self, key: str) -> str:
        return self.inner.locate(key)


async def test_a_description_reads_no_file_that_is_the_text_of_its_row(
    session: RunningSession,
) -> None:
    await session.admin.execute(AGE)
    store = Disturbed(session.worker_engine.files, session)
    engine = replace(session.worker_engine, files=store)  # type: ignore[arg-type]
    assert await publish.publish_left_behind(engine) == 2
    whole = await session.admin.fetch("select storage_path from dialectic_project_resources")
    parted = await session.admin.fetch("select storage_path from dialectic_contributions")
    assert len(whole) > len(parted)
    assert sorted(store.read_keys) == sorted(
        f"{session.account.tenant_id}/{row['storage_path']}" for row in parted
    )


async def test_a_description_that_became_due_while_it_was_written_stays_due(
    session: RunningSession,
) -> None:
    await session.admin.execute(AGE)
    store = Disturbed(session.worker_engine.files, session, makes_due_again=True)
    engine = replace(session.worker_engine, files=store)  # type: ignore[arg-type]
    assert await publish.publish_left_behind(engine) == 0
    assert len(await read(session)) == 2, "what was made is there meanwhile"
    assert await list_due(session) == DESCRIPTIONS
    await session.admin.execute(AGE)
    assert await publish.publish_left_behind(session.worker_engine) == 2


async def test_one_that_may_have_replaced_a_newer_description_makes_it_due_again(
    session: RunningSession,
) -> None:
    await session.admin.execute(AGE)
    store = Disturbed(session.worker_engine.files, session, is_described_meanwhile=True)
    engine = replace(session.worker_engine, files=store)  # type: ignore[arg-type]
    assert await publish.publish_left_behind(engine) == 0
    assert await list_due(session) == DESCRIPTIONS
    await session.admin.execute(AGE)
    assert await publish.publish_left_behind(session.worker_engine) == 2
    assert await list_due(session) == []


async def test_a_description_that_cannot_be_written_is_tried_again_later(
    session: RunningSession, caplog: pytest.LogCaptureFixture
) -> None:
    await session.admin.execute(AGE)
    store = Disturbed(session.worker_engine.files, session, refuses=True)
    engine = replace(session.worker_engine, files=store)  # type: ignore[arg-type]
    assert await publish.publish_left_behind(engine) == 0
    assert "storage_unavailable" in caplog.text
    assert await publish.publish_left_behind(session.worker_engine) == 0, "it was tried just now"
    await session.admin.execute(AGE)
    assert await publish.publish_left_behind(session.worker_engine) == 2
