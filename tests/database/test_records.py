"""Processes, models, projects, sessions and files as rows, and the way of files into storage."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeAlias, TypeVar
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app.projects import CreatedSession, create_session
from dialectic.app.sessions import generate
from dialectic.app.transaction import Tenant
from dialectic.contract.sessions import RunRequest
from dialectic.core.models.model import ModelCard
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.db.pool import Connection
from dialectic.db.tables import records
from dialectic.db.tables.files import File, insert_files
from dialectic.db.tables.records import Account, open_account
from dialectic.engine import Engine, Failpoints
from dialectic.errors import (
    NotFound,
    ProviderTransient,
    Remedy,
    RemedyAction,
    StorageUnavailable,
    UsageError,
)
from dialectic.processes.loader import load_process
from dialectic.publishing.publish import (
    LEFT_BEHIND_AFTER,
    publish_files,
    publish_left_behind,
    publish_project,
    require_published,
)
from dialectic.storage.file_store import open_store
from tests.problems import refusing

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
T = TypeVar("T")
MODEL = "offline/skeptic"


@pytest.fixture
async def other_account(engine: Engine) -> Account:
    return await open_account(engine.db, "other")


def build_two_stages(word: str = "Argue.") -> Process:
    stages = [
        {
            "slug": slug,
            "display_name": slug.title(),
            "system_prompt_name": "role",
            "prompt_template_name": slug,
            "output_type": slug,
        }
        for slug in ("thesis", "antithesis")
    ]
    content = {
        "name": "small",
        "title": "Small",
        "starting_stage": "thesis",
        "stages": stages,
        "transitions": [{"source": "thesis", "target": "antithesis"}],
    }
    prompts = {
        "role": "Be brief.",
        "thesis": f"{word} {{{{ request }}}}",
        "antithesis": "Object. {{ request }}",
    }
    return build_process(content, prompts, [], place="small")


def transact(
    engine: Engine, account: Account, work: Callable[[Connection], Awaitable[T]]
) -> Awaitable[T]:
    return engine.db.transact(account.tenant_id, work)


async def count(admin: Admin, table: str) -> int:
    number: int = await admin.fetchval(f"select count(*) from {table}")
    return number


# -- processes and models --------------------------------------------------------------------------


def pin(engine: Engine, account: Account, process: Process) -> Awaitable[UUID]:
    return transact(engine, account, lambda c: records.pin_process(c, account.tenant_id, process))


async def test_a_process_is_pinned_once_with_its_stages_arrows_and_words(
    engine: Engine, account: Account, admin: Admin
) -> None:
    process = build_two_stages()
    ids = {await pin(engine, account, process) for _ in range(2)}
    assert len(ids) == 1
    stored = await admin.fetchrow("select id, content_hash from dialectic_process_templates")
    assert stored is not None
    assert ids == {stored["id"]}
    assert stored["content_hash"] == process.content_hash
    stages = await admin.fetch("select slug, position from dialectic_stages order by position")
    assert [tuple(row) for row in stages] == [("thesis", 1), ("antithesis", 2)]
    assert await count(admin, "dialectic_stage_transitions") == 1
    prompts = await admin.fetch("select name, prompt_text from system_prompts")
    assert {tuple(row) for row in prompts} == set(process.prompts.items())


async def test_a_process_pinned_by_many_at_once_is_there_once(
    engine: Engine, account: Account, admin: Admin
) -> None:
    process = build_two_stages()
    ids = await asyncio.gather(*(pin(engine, account, process) for _ in range(8)))
    assert len(set(ids)) == 1
    assert await count(admin, "dialectic_stages") == 2


async def test_first_sessions_that_begin_at_once_share_process_domain_and_models(
    engine: Engine,
) -> None:
    for number in range(6):
        account = await open_account(engine.db, f"user {number}")
        begun = await asyncio.gather(*(begin(engine, account) for _ in range(10)))
        assert len({one.session_id for one in begun}) == 10


async def test_a_changed_process_is_another_version_next_to_the_first(
    engine: Engine, account: Account, admin: Admin
) -> None:
    first = await pin(engine, account, build_two_stages("Argue."))
    second = await pin(engine, account, build_two_stages("Argue well."))
    assert first != second
    assert await count(admin, "dialectic_process_templates") == 2
    assert await count(admin, "system_prompts") == 4  # those that did not change are shared
    assert await pin(engine, account, build_two_stages("Argue.")) == first


async def test_a_model_keeps_its_id_and_its_facts_follow(
    engine: Engine, account: Account, admin: Admin
) -> None:
    card = engine.catalog.load_card(MODEL)

    async def keep(card: ModelCard) -> tuple[UUID, str, Any]:
        await transact(engine, account, lambda c: records.upsert_model(c, account.tenant_id, card))
        (row,) = await admin.fetch("select id, config, updated_at from ai_providers")
        return row["id"], row["config"], row["updated_at"]

    model_id, config, updated_at = await keep(card)
    assert await keep(card) == (model_id, config, updated_at)
    changed = dataclasses.replace(card, max_output_tokens=card.max_output_tokens + 1)
    same_id, new_config, later = await keep(changed)
    assert same_id == model_id
    assert new_config != config
    assert f'"provider_max_output_tokens": {changed.max_output_tokens}' in new_config
    assert later > updated_at


# -- sessions --------------------------------------------------------------------------------------


def begin(engine: Engine, account: Account, name: str = "A plan") -> Awaitable[CreatedSession]:
    ask = RunRequest(prompt="Why?", models=[MODEL], process=load_process("standard"), name=name)
    return Tenant(engine, account).run(create_session, ask)


def find(engine: Engine, account: Account, text: str) -> Awaitable[UUID]:
    return transact(engine, account, lambda c: records.get_session_id(c, text))


async def rename_session(admin: Admin, begun: CreatedSession, new_id: str) -> UUID:
    """Give a session an id that a test can foresee."""
    async with admin.transaction():
        await admin.execute("set local session_replication_role = replica")
        await admin.execute(
            "update dialectic_sessions set id = $1 where id = $2", UUID(new_id), begun.session_id
        )
    return UUID(new_id)


async def test_a_session_is_found_by_as_much_of_its_id_as_tells_it_from_others(
    engine: Engine, account: Account, admin: Admin
) -> None:
    first = await rename_session(
        admin, await begin(engine, account), "abcdef01-0000-4000-8000-000000000001"
    )
    second = await rename_session(
        admin, await begin(engine, account), "abcdef02-0000-4000-8000-000000000002"
    )
    assert await find(engine, account, str(first)) == first
    assert await find(engine, account, "abcdef01") == first
    assert await find(engine, account, "ABCDEF02") == second
    assert await find(engine, account, "abcdef02-00") == second
    with refusing(UsageError, reason="ambiguous_id", subject="abcdef0"):
        await find(engine, account, "abcdef0")
    with refusing(NotFound, reason="no_session", subject="abcdef03"):
        await find(engine, account, "abcdef03")


async def test_what_cannot_be_an_id_is_refused_before_it_is_looked_for(
    engine: Engine, account: Account
) -> None:
    for text in ("", "latest", "abc%", "abc_", "a b", "';--", "é", "٣"):
        with refusing(UsageError, reason="not_an_id", subject=text) as caught:
            await find(engine, account, text)
        assert not isinstance(caught.value, NotFound), text


async def test_the_session_of_another_tenant_is_not_found(
    engine: Engine, account: Account, other_account: Account
) -> None:
    session_id = (await begin(engine, account)).session_id
    assert await find(engine, account, str(session_id)) == session_id
    with pytest.raises(NotFound):
        await find(engine, other_account, str(session_id))
    with refusing(NotFound, reason="no_session", subject=str(session_id)):
        await transact(engine, other_account, lambda c: records.load_session(c, session_id))


async def test_a_session_is_loaded_with_its_project_process_and_models(
    engine: Engine, account: Account
) -> None:
    begun = await begin(engine, account)
    row = await transact(engine, account, lambda c: records.load_session(c, begun.session_id))
    assert row["project_slug"] == begun.project_slug == "a-plan"
    assert row["process_name"] == "standard"
    assert row["model_names"] == [MODEL]


async def test_a_project_whose_slug_is_taken_gets_a_suffix(
    engine: Engine, account: Account
) -> None:
    first = await begin(engine, account, "A plan")
    second = await begin(engine, account, "a  PLAN!")
    assert first.project_slug == "a-plan"
    assert second.project_slug == f"a-plan-{str(second.project_id)[:8]}"


async def test_another_tenants_projects_take_no_slug_away(
    engine: Engine, account: Account, other_account: Account
) -> None:
    slugs = [(await begin(engine, who)).project_slug for who in (account, other_account)]
    assert slugs == ["a-plan", "a-plan"]


async def test_eight_projects_of_one_name_that_begin_at_once_have_eight_folders(
    engine: Engine, account: Account, admin: Admin
) -> None:
    begun = await asyncio.gather(*(begin(engine, account) for _ in range(8)))
    slugs = sorted(one.project_slug for one in begun)
    assert slugs[0] == "a-plan"
    assert len(set(slugs)) == 8
    assert all(one.project_slug in ("a-plan", f"a-plan-{str(one.project_id)[:8]}") for one in begun)
    paths = await admin.fetch("select path from dialectic_files")
    assert {row["path"].partition("/")[0] for row in paths} == set(slugs)


# -- files -----------------------------------------------------------------------------------------


@pytest.fixture
async def project_id(engine: Engine, account: Account) -> UUID:
    """A project whose files are all in storage."""
    return (await begin(engine, account)).project_id


async def leave_file(
    engine: Engine,
    account: Account,
    project_id: UUID,
    *,
    age: timedelta = timedelta(0),
    path: str = "",
) -> File:
    """Commit a file and die before it is published, some time ago."""
    file = File(path or f"a-plan/{uuid4()}.md", uuid4().bytes, "text/markdown")

    async def work(connection: Connection) -> None:
        back_then = "(clock_timestamp() - $1::interval)::text"
        await connection.execute(f"select set_config('dialectic.fake_now', {back_then}, true)", age)
        await insert_files(connection, account.tenant_id, project_id, [file])

    await transact(engine, account, work)
    return file


async def waiting_bytes(admin: Admin) -> dict[str, bytes]:
    """The bytes that are still in rows, by path."""
    rows = await admin.fetch("select path, content from dialectic_files where written_at is null")
    return {row["path"]: row["content"] for row in rows}


async def test_files_of_a_session_that_begins_are_in_storage_and_their_bytes_nowhere_else(
    engine: Engine, account: Account, admin: Admin
) -> None:
    begun = await begin(engine, account)
    await Tenant(engine, account).run(generate, begun.session_id)
    rows = await admin.fetch("select path, size_bytes, sha256, content from dialectic_files")
    assert {row["path"].rpartition("/")[2] for row in rows} == {"a-plan.md", "seed_prompt.md"}
    for row in rows:
        data = await engine.files.read(f"{account.tenant_id}/{row['path']}")
        assert row["content"] is None
        assert row["size_bytes"] == len(data)
        assert row["sha256"] == hashlib.sha256(data).hexdigest()


async def test_what_a_dead_worker_left_is_published_by_another_for_all_tenants(
    engine: Engine,
    worker_engine: Engine,
    account: Account,
    other_account: Account,
    project_id: UUID,
    admin: Admin,
) -> None:
    other_project = (await begin(engine, other_account)).project_id
    old = LEFT_BEHIND_AFTER + timedelta(seconds=1)
    ours = await leave_file(engine, account, project_id, age=old)
    theirs = await leave_file(engine, other_account, other_project, age=old * 2)
    young = await leave_file(engine, account, project_id)
    assert await publish_left_behind(worker_engine) == 2
    assert await worker_engine.files.read(f"{account.tenant_id}/{ours.path}") == ours.data
    assert await worker_engine.files.read(f"{other_account.tenant_id}/{theirs.path}") == theirs.data
    assert await waiting_bytes(admin) == {young.path: young.data}
    assert await publish_left_behind(worker_engine) == 0


async def test_a_worker_that_dies_between_storage_and_row_loses_nothing(
    engine: Engine, account: Account, project_id: UUID, admin: Admin
) -> None:
    file = await leave_file(engine, account, project_id)
    armed = dataclasses.replace(engine, failpoints=Failpoints.parse("after_files=error"))
    with pytest.raises(ProviderTransient):
        await publish_files(armed, account.tenant_id, [file])
    assert await waiting_bytes(admin) == {file.path: file.data}
    assert await publish_project(engine, account.tenant_id, project_id) == []
    assert await waiting_bytes(admin) == {}
    assert await engine.files.read(f"{account.tenant_id}/{file.path}") == file.data


def without_storage(engine: Engine, tmp_path: Path) -> tuple[Engine, Path]:
    """An engine whose storage is unreachable: a file is in its place."""
    obstacle = tmp_path / "away"
    obstacle.write_bytes(b"")
    store = open_store((obstacle / "storage").as_uri())
    return dataclasses.replace(engine, files=store), obstacle


async def test_a_session_begins_while_storage_is_away_and_its_files_follow(
    engine: Engine,
    account: Account,
    admin: Admin,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cut_off, obstacle = without_storage(engine, tmp_path)
    begun = await begin(cut_off, account)
    kept = await waiting_bytes(admin)
    assert len(kept) == await count(admin, "dialectic_files") > 0
    assert any("storage_unavailable" in message for message in caplog.messages)

    left = await publish_project(cut_off, account.tenant_id, begun.project_id)
    assert left == sorted(kept)
    place = f"{obstacle}/storage/{account.tenant_id}/{left[0]}"
    with pytest.raises(StorageUnavailable) as caught:
        await require_published(cut_off, account.tenant_id, begun.project_id, begun.session_id)
    assert place in caught.value.message
    # The cause is named, and told in the log once, however often it was tried.
    assert "File exists. A file is in the place of a folder" in caught.value.message
    assert len([m for m in caplog.messages if "storage_unavailable" in m]) == 1
    remedy = Remedy(RemedyAction.RESUME, session_id=str(begun.session_id))
    assert caught.value.remedy == remedy

    obstacle.unlink()
    await require_published(cut_off, account.tenant_id, begun.project_id, begun.session_id)
    assert await waiting_bytes(admin) == {}
    for path, data in kept.items():
        assert await cut_off.files.read(f"{account.tenant_id}/{path}") == data


async def test_what_was_left_behind_stays_in_its_row_while_storage_is_away(
    engine: Engine,
    worker_engine: Engine,
    account: Account,
    project_id: UUID,
    admin: Admin,
    tmp_path: Path,
) -> None:
    file = await leave_file(engine, account, project_id, age=LEFT_BEHIND_AFTER * 2)
    cut_off, _ = without_storage(worker_engine, tmp_path)
    assert await publish_left_behind(cut_off) == 0
    assert await waiting_bytes(admin) == {file.path: file.data}


async def test_one_file_that_cannot_be_written_holds_up_no_other(
    engine: Engine, worker_engine: Engine, account: Account, project_id: UUID, admin: Admin
) -> None:
    old = LEFT_BEHIND_AFTER * 2
    stuck = await leave_file(engine, account, project_id, age=old * 2, path="a-plan/stuck.md")
    await leave_file(engine, account, project_id, age=old)
    # A folder stands where the file belongs.
    await worker_engine.files.write(f"{account.tenant_id}/{stuck.path}/inner.md", b"")
    await publish_left_behind(worker_engine)
    assert list(await waiting_bytes(admin)) == [stuck.path]
