"""A project leaves in one file, and comes back the same, here or elsewhere, as often as wanted."""

from __future__ import annotations

import asyncio
import json
import zipfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast
from uuid import UUID, uuid4

import asyncpg
import pytest

from dialectic.app import lookup, sessions, transfer
from dialectic.app.transaction import Tenant
from dialectic.contract.projects import Kind
from dialectic.core.session_state import Phase, SessionState
from dialectic.core.transfer.bundle_format import Manifest, readme_path, settings_path
from dialectic.core.transfer.row_conversion import Renaming, parse_rows, rename_rows
from dialectic.core.transfer.rows import OWNERS, READ_BY_PEOPLE, ROW_TYPES, ProjectRows
from dialectic.db.pool import Connection
from dialectic.db.tables import records
from dialectic.db.tables.records import Account, open_account
from dialectic.db.tables.transfer import SQL
from dialectic.engine import Engine
from dialectic.errors import Conflict, InvalidBundle, NotFound, StorageUnavailable, UsageError
from dialectic.publishing import publish
from dialectic.publishing.publish import publish_project
from dialectic.publishing.snapshot import TRIES
from dialectic.storage.archive import open_archive, write_archive
from dialectic.storage.file_store import FileStore, open_store
from dialectic.storage.keys import Keys
from tests.database.full_project import MODELS, NAME, SLUG, Project, make_project
from tests.problems import refusing

Admin: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

OWN_TABLES = (
    "dialectic_projects",
    "dialectic_sessions",
    "dialectic_stage_runs",
    "dialectic_contributions",
    "dialectic_chunks",
    "dialectic_feedback",
    "dialectic_project_resources",
    "dialectic_files",
)


@pytest.fixture
async def other_account(engine: Engine) -> Account:
    return await open_account(engine.db, "other")


@pytest.fixture
async def made(engine: Engine, admin: Admin, account: Account) -> Project:
    return await make_project(engine, admin, account)


async def export(
    engine: Engine, account: Account, project: UUID, out: Path, *, finished: bool = False
) -> dict[str, bytes]:
    """Export, and read every file of the archive back."""
    await transfer.export_project(engine, account, project, out, finished=finished)
    return read_zip(out)


def read_zip(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(source: Path, target: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """The same archive with other rows, and hashes to match."""
    files = read_zip(source)
    slug = json.loads(files.pop("manifest.json"))["project"]
    rows = json.loads(files[settings_path(slug)])
    change(rows)
    files[settings_path(slug)] = json.dumps(rows).encode()
    with write_archive(target) as writer:
        for name, data in files.items():
            writer.add(name, data)
        writer.finish(contents="all", project=slug)
    return target


async def count_rows(admin: Admin) -> dict[str, int]:
    return {table: await admin.fetchval(f"select count(*) from {table}") for table in OWN_TABLES}


# -- out -------------------------------------------------------------------------------------------


async def test_an_export_holds_every_file_with_its_bytes_and_names_it_in_the_manifest(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    manifest = Manifest.model_validate_json(files.pop("manifest.json"))
    assert {entry.path for entry in manifest.files} == set(files)
    stored = {row["path"]: bytes.fromhex(row["content"][2:]) for row in made.files}
    assert files.items() >= stored.items()
    assert files.keys() - stored.keys() == {settings_path(SLUG), readme_path(SLUG)}


async def test_two_exports_of_the_same_state_are_the_same_bytes(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "1.zip")
    # Where a file stands, in its row or in storage, is not part of the state.
    await publish_project(engine, account.tenant_id, made.id)
    await export(engine, account, made.id, tmp_path / "2.zip")
    assert (tmp_path / "1.zip").read_bytes() == (tmp_path / "2.zip").read_bytes()


async def test_finished_documents_come_without_drafts_raw_answers_and_rows(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    everything = await export(engine, account, made.id, tmp_path / "all.zip")
    finished = await export(engine, account, made.id, tmp_path / "done.zip", finished=True)
    left_out = everything.keys() - finished.keys()
    assert settings_path(SLUG) in left_out
    assert len(left_out) == 11
    assert all(
        "/_work/" in path or "/raw_responses/" in path for path in left_out - {settings_path(SLUG)}
    )
    with refusing(InvalidBundle, reason="finished_only"):
        await transfer.import_project(engine, account, tmp_path / "done.zip")


async def test_nothing_in_an_export_tells_whose_it_was(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    for secret in (account.tenant_id, account.user_id, account.wallet_id, "somebody's key"):
        assert [name for name, data in files.items() if str(secret).encode() in data] == []


async def test_the_settings_are_keyed_by_table_and_the_readme_leads_to_the_documents(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    settings = json.loads(files[settings_path(SLUG)])
    assert settings.keys() == {kind.table for kind in ROW_TYPES} | set(READ_BY_PEOPLE)
    assert len(settings["dialectic_stages"]) == 5
    assert len(settings["dialectic_stage_transitions"]) == 4
    assert settings["system_prompts"]
    (process,) = settings["dialectic_process_templates"]
    assert {row["process_template_id"] for row in settings["dialectic_stages"]} == {process["id"]}
    assert {row["process_template_id"] for row in settings["dialectic_sessions"]} == {process["id"]}
    readme = files[readme_path(SLUG)].decode()
    links = [line.partition("](")[2].partition(")")[0] for line in readme.splitlines()]
    named = {f"{SLUG}/{link}" for link in links if link}
    assert len(named) == 7
    assert named <= files.keys()
    assert r"# Bäckerei & Co. \[draft\] \<today\>" in readme


@pytest.mark.parametrize("damage", ["missing", "damaged"])
async def test_a_stored_file_that_is_not_what_was_written_is_named_and_nothing_is_left(
    engine: Engine, account: Account, made: Project, tmp_path: Path, damage: str
) -> None:
    await publish_project(engine, account.tenant_id, made.id)
    path = made.files[3]["path"]
    if damage == "missing":
        await engine.files.delete(f"{account.tenant_id}/{path}")
    else:
        await engine.files.write(f"{account.tenant_id}/{path}", b"something else")
    out = tmp_path / "out"
    out.mkdir()
    with refusing(StorageUnavailable, reason=damage, subject=path):
        await transfer.export_project(engine, account, made.id, out / "all.zip")
    assert list(out.iterdir()) == []


@dataclass
class Restless:
    """Real storage in which a file is rewritten whenever another one is read."""

    store: FileStore
    admin: Admin
    path: str
    times: int

    async def read(self, key: str) -> bytes:
        if self.times:
            self.times -= 1
            text = f"version {self.times}"
            await self.admin.execute(
                "update dialectic_files set content = $2, written_at = null, size_bytes = $3,"
                " sha256 = encode(sha256($2), 'hex') where path = $1",
                self.path,
                text.encode(),
                len(text),
            )
        return await self.store.read(key)

    async def list(self, prefix: str) -> Keys:
        return await self.store.list(prefix)

    def stream(self, key: str) -> AsyncIterator[bytes]:
        return self.store.stream(key)

    def locate(self, key: str) -> str:
        return self.store.locate(key)


async def test_a_file_rewritten_during_an_export_is_exported_in_its_new_form(
    engine: Engine, account: Account, made: Project, admin: Admin, tmp_path: Path
) -> None:
    await publish_project(engine, account.tenant_id, made.id)
    last = max(row["path"] for row in made.files)
    restless = Restless(engine.files, admin, last, times=TRIES - 1)
    moving = replace(engine, files=cast("FileStore", restless))
    files = await export(moving, account, made.id, tmp_path / "all.zip")
    assert files[last] == b"version 0"
    with open_archive(tmp_path / "all.zip") as archive:
        archive.verify()

    restless.times = 1000
    with refusing(Conflict, reason="changed"):
        await transfer.export_project(moving, account, made.id, tmp_path / "never.zip")


async def test_without_a_path_the_archive_is_in_the_projects_folder(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    inside = await export(engine, account, made.id, tmp_path / "all.zip")
    key = f"{account.tenant_id}/{SLUG}/{SLUG}.zip"
    for _ in range(2):
        exported = await transfer.export_into_storage(engine, account, made.id)
        assert exported.path == engine.files.locate(key)
        # The archive in the folder is not packed into the next one.
        assert await engine.files.read(key) == (tmp_path / "all.zip").read_bytes()
    await publish.describe_project(engine, account.tenant_id, made.id)
    for path in (settings_path(SLUG), readme_path(SLUG)):
        assert await engine.files.read(f"{account.tenant_id}/{path}") == inside[path]


async def test_work_in_flight_is_written_down_as_ended(
    engine: Engine, admin: Admin, account: Account, other_account: Account, tmp_path: Path
) -> None:
    made = await make_project(engine, admin, account, in_flight=True)
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    rows = parse_rows(files[settings_path(SLUG)])
    assert [row.status for row in rows.dialectic_sessions] == [
        "thesis_generation_failed",
        "pending_thesis",
    ]
    assert rows.dialectic_stage_runs[-1].status == "cancelled"
    await transfer.import_project(engine, other_account, tmp_path / "all.zip")
    again = await export(engine, other_account, made.id, tmp_path / "again.zip")
    assert again == files


async def test_a_session_comes_back_in_the_state_that_the_bundle_shows(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "all.zip")
    for phase in frozenset(Phase) - {Phase.GENERATING, Phase.PAUSED}:
        state = SessionState("synthesis", phase)

        def show(rows: dict[str, Any], state: SessionState = state) -> None:
            first = rows["dialectic_sessions"][0]
            first.update(current_stage_slug=state.stage, status=state.status)

        bundle = rewrite(tmp_path / "all.zip", tmp_path / f"{phase}.zip", show)
        copy = await transfer.import_project(engine, account, bundle)
        files = await export(engine, account, copy.project_id, tmp_path / f"again-{phase}.zip")
        first, _ = parse_rows(files[settings_path(copy.slug)]).dialectic_sessions
        assert first.status == state.status
        row = await engine.db.transact(
            account.tenant_id, partial(records.load_session, session_id=first.id)
        )
        assert SessionState.from_row(row) == state


# -- in --------------------------------------------------------------------------------------------


async def test_a_project_that_moves_elsewhere_is_exported_again_to_the_same_bytes(
    engine: Engine, account: Account, other_account: Account, made: Project, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.zip", tmp_path / "after.zip"
    await export(engine, account, made.id, before)
    taken = await transfer.import_project(engine, other_account, before)
    assert (taken.project_id, taken.slug, taken.name) == (made.id, SLUG, NAME)
    assert taken.session_ids == [made.session_id, made.second_session_id]
    assert (taken.is_copy, taken.waiting) == (False, 0)
    await export(engine, other_account, taken.project_id, after)
    assert after.read_bytes() == before.read_bytes()


def normalise(files: dict[str, bytes], like: ProjectRows) -> dict[str, bytes]:
    """A copy's export under the ids and in the folder of the original."""
    slug = json.loads(files["manifest.json"])["project"]
    rows = parse_rows(files[settings_path(slug)])
    ids: dict[UUID, UUID] = {}
    for table in OWN_TABLES:
        for row, wanted in zip(getattr(rows, table), getattr(like, table), strict=True):
            if hasattr(row, "id"):
                ids[row.id] = wanted.id
    for chunk, other in zip(rows.dialectic_chunks, like.dialectic_chunks, strict=True):
        ids[chunk.root_contribution_id] = other.root_contribution_id
    moved = rename_rows(rows, Renaming(ids, like.project.slug))
    moved = moved.model_copy(
        update={"dialectic_files": tuple(sorted(moved.dialectic_files, key=lambda row: row.path))}
    )
    names = {
        row.path: other.path
        for row, other in zip(
            rows.dialectic_files,
            rename_rows(rows, Renaming(ids, like.project.slug)).dialectic_files,
            strict=True,
        )
    }
    result = {names[path]: data for path, data in files.items() if path in names}
    result[settings_path(like.project.slug)] = moved.as_bytes()
    return result


async def test_a_project_imported_next_to_itself_is_an_equal_copy_with_new_names(
    engine: Engine, account: Account, made: Project, admin: Admin, tmp_path: Path
) -> None:
    original = await export(engine, account, made.id, tmp_path / "original.zip")
    like = parse_rows(original[settings_path(SLUG)])
    counted = await count_rows(admin)
    copies = [
        await transfer.import_project(engine, account, tmp_path / "original.zip") for _ in range(2)
    ]
    assert all(copy.is_copy and copy.slug.startswith(f"{SLUG}-") for copy in copies)
    assert len({SLUG, *(copy.slug for copy in copies)}) == 3
    assert len({made.id, *(copy.project_id for copy in copies)}) == 3
    sessions = {str(each)[:8] for copy in copies for each in copy.session_ids}
    assert len(sessions) == 4, "a session is called by its first digits"
    assert await count_rows(admin) == {table: 3 * n for table, n in counted.items()}
    wanted = {path: data for path, data in original.items() if path != "manifest.json"}
    del wanted[readme_path(SLUG)]
    for copy in copies:
        again = await export(engine, account, copy.project_id, tmp_path / "copy.zip")
        assert normalise(again, like) == wanted
    # The original was not touched.
    assert await export(engine, account, made.id, tmp_path / "later.zip") == original


async def test_rows_of_a_copy_are_consistent_and_belong_to_the_user_who_imported_it(
    engine: Engine,
    account: Account,
    other_account: Account,
    made: Project,
    admin: Admin,
    tmp_path: Path,
) -> None:
    await export(engine, account, made.id, tmp_path / "all.zip")
    await transfer.import_project(engine, other_account, tmp_path / "all.zip")
    copy = await transfer.import_project(engine, other_account, tmp_path / "all.zip")
    for table in ("dialectic_projects", "dialectic_sessions", "dialectic_feedback"):
        owners = await admin.fetch(
            f"select distinct user_id from {table} where tenant_id = $1", other_account.tenant_id
        )
        assert [row["user_id"] for row in owners] == [other_account.user_id]
    critique = await admin.fetchrow(
        """
        select c.*, t.storage_path as target_path, t.session_id as target_session
        from dialectic_contributions c
        join dialectic_contributions t
          on t.tenant_id = c.tenant_id and t.id = c.target_contribution_id
        where c.session_id = $1
        """,
        copy.session_ids[0],
    )
    assert critique is not None
    assert critique["source_contribution_ids"] == [critique["target_contribution_id"]]
    assert critique["target_session"] == copy.session_ids[0]
    assert critique["target_path"].startswith(
        f"{copy.slug}/session_{str(copy.session_ids[0])[:8]}/iteration_1/1_thesis/"
    )
    edits = await admin.fetch(
        "select user_id, edit_version from dialectic_contributions where session_id = $1"
        " and user_id is not null",
        copy.session_ids[0],
    )
    assert [tuple(row) for row in edits] == [(other_account.user_id, 2)]


async def test_files_of_an_imported_project_are_in_storage_and_its_rows_let_go_of_them(
    engine: Engine,
    account: Account,
    other_account: Account,
    made: Project,
    admin: Admin,
    tmp_path: Path,
) -> None:
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    await transfer.import_project(engine, other_account, tmp_path / "all.zip")
    stored = await engine.files.list(f"{other_account.tenant_id}/{SLUG}")
    assert len(stored) == len(made.files)
    for key in stored:
        assert await engine.files.read(key) == files[key.partition("/")[2]]
    waiting = "select count(*) from dialectic_files where tenant_id = $1 and content is not null"
    assert await admin.fetchval(waiting, other_account.tenant_id) == 0


async def test_without_storage_an_import_is_whole_and_its_files_wait(
    engine: Engine, account: Account, other_account: Account, made: Project, tmp_path: Path
) -> None:
    files = await export(engine, account, made.id, tmp_path / "all.zip")
    (tmp_path / "nowhere").write_text("a file where a folder belongs")
    broken = replace(engine, files=open_store((tmp_path / "nowhere").as_uri()))
    taken = await transfer.import_project(broken, other_account, tmp_path / "all.zip")
    assert taken.waiting == len(made.files)
    assert await export(engine, other_account, made.id, tmp_path / "waiting.zip") == files
    assert await publish_project(engine, other_account.tenant_id, made.id) == []
    assert await export(engine, other_account, made.id, tmp_path / "there.zip") == files


async def test_two_imports_at_the_same_moment_make_two_projects(
    engine: Engine, account: Account, other_account: Account, made: Project, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "all.zip")
    taken = await asyncio.gather(
        *(transfer.import_project(engine, other_account, tmp_path / "all.zip") for _ in range(3))
    )
    assert len({each.project_id for each in taken}) == 3
    assert len({each.slug for each in taken}) == 3
    assert sorted(each.is_copy for each in taken) == [False, True, True]


async def test_what_is_known_here_of_a_model_is_not_replaced_by_what_a_bundle_says(
    engine: Engine, account: Account, made: Project, admin: Admin, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "all.zip")

    def cheapen(rows: dict[str, Any]) -> None:
        for model in rows["ai_providers"]:
            model["config"] = {"input_token_cost_rate": 0}

    facts = await admin.fetch("select * from ai_providers order by id")
    assert len(facts) == len(MODELS)
    changed = rewrite(tmp_path / "all.zip", tmp_path / "changed.zip", cheapen)
    await transfer.import_project(engine, account, changed)
    assert await admin.fetch("select * from ai_providers order by id") == facts


def _set(table: str, column: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(rows: dict[str, Any]) -> None:
        rows[table][0][column] = value

    return change


def _swap_files(rows: dict[str, Any]) -> None:
    rows["dialectic_files"].pop()


@pytest.mark.parametrize(
    ("change", "reason", "name"),
    [
        (_set("dialectic_feedback", "rating", None), "broken_rule", ""),
        (_set("dialectic_projects", "initial_user_prompt", "a\0b"), "broken_rule", ""),
        (_set("dialectic_projects", "owner", "me"), "bad_form", "owner"),
        (_set("dialectic_projects", "tenant_id", str(uuid4())), "bad_form", "tenant_id"),
        (_set("dialectic_projects", "slug", "../up"), "bad_form", "slug"),
        (_set("dialectic_projects", "domain_id", str(uuid4())), "no_row", "dialectic_domains"),
        (_set("dialectic_contributions", "session_id", str(uuid4())), "no_row", "session_id"),
        (_set("dialectic_contributions", "storage_path", "x/y.md"), "no_file", "x/y.md"),
        (
            _set("dialectic_contributions", "tokens_used_input", 2**31),
            "bad_form",
            "tokens_used_input",
        ),
        (
            _set("dialectic_contributions", "tokens_used_input", 2**80),
            "bad_form",
            "tokens_used_input",
        ),
        (_set("dialectic_contributions", "content_in", "elsewhere"), "bad_form", "content_in"),
        (_set("dialectic_contributions", "content_in", "row"), "other_text", ""),
        (_set("dialectic_sessions", "status", "generating_thesis"), "bad_form", "status"),
        (_set("dialectic_sessions", "status", "paused"), "bad_form", "status"),
        (_set("dialectic_sessions", "status", "asleep"), "bad_form", "status"),
        (_set("dialectic_sessions", "until_stage_slug", "asleep"), "broken_rule", ""),
        (_set("dialectic_sessions", "selected_model_ids", []), "bad_form", "selected_model_ids"),
        (_set("dialectic_sessions", "lead_model_index", 3), "broken_rule", ""),
        (_set("dialectic_sessions", "created_at", "2026-05-01T10:00:00"), "bad_form", "created_at"),
        (_set("dialectic_process_templates", "definition", {}), "bad_form", ""),
        (
            _set("dialectic_process_templates", "definition", {"file": [0] * 10_001}),
            "too_many_values",
            "",
        ),
        (_set("dialectic_process_templates", "content_hash", "0" * 64), "other_hash", ""),
        (_set("dialectic_files", "sha256", "0" * 64), "other_files", ""),
        (_swap_files, "no_file", "dialectic_files"),
    ],
)
async def test_a_bundle_that_breaks_a_rule_is_refused_and_leaves_no_trace(
    engine: Engine,
    account: Account,
    made: Project,
    admin: Admin,
    tmp_path: Path,
    change: Callable[[dict[str, Any]], None],
    reason: str,
    name: str,
) -> None:
    await export(engine, account, made.id, tmp_path / "good.zip")
    bad = rewrite(tmp_path / "good.zip", tmp_path / "bad.zip", change)
    before, files = await count_rows(admin), await engine.files.list("")
    with refusing(InvalidBundle, name, reason=reason) as refusal:
        await transfer.import_project(engine, account, bad)
    assert "\n" not in refusal.value.message, "a server's details repeat the row"
    assert await count_rows(admin) == before
    assert await engine.files.list("") == files


async def test_a_bundle_of_version_0_1_is_imported_whole_and_can_go_on(
    engine: Engine, account: Account, admin: Admin
) -> None:
    """It has no seats, no versions read, columns that are gone and an older form of process."""
    old = Path(__file__).parent / "bundles" / "version_0_1.zip"
    await transfer.import_project(engine, account, old)
    session = await admin.fetchrow("select * from dialectic.dialectic_sessions")
    runs = await admin.fetch("select * from dialectic.dialectic_stage_runs order by position")
    assert session is not None
    assert (session["phase"], session["dropped_seats"]) == ("stage_complete", [])
    assert [(run["stage_slug"], run["seats"], run["lost_seats"]) for run in runs] == [
        ("thesis", [1, 2], []),
        ("antithesis", [1, 2], []),
    ]
    started = await Tenant(engine, account).run(sessions.start_next, session["id"])
    assert started == "synthesis"


async def test_a_rewritten_archive_that_breaks_nothing_is_taken_in(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "good.zip")
    same = rewrite(tmp_path / "good.zip", tmp_path / "same.zip", lambda rows: None)
    assert (await transfer.import_project(engine, account, same)).is_copy
    with open_archive(same) as archive:
        archive.verify()


async def test_columns_that_earlier_versions_had_are_left_out_and_unknown_ones_refused(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    def add_retired(rows: dict[str, Any]) -> None:
        for row in rows["dialectic_contributions"]:
            row |= {"root_contribution_id": row["id"], "turn_index": 0}

    await export(engine, account, made.id, tmp_path / "good.zip")
    earlier = rewrite(tmp_path / "good.zip", tmp_path / "earlier.zip", add_retired)
    taken = await transfer.import_project(engine, account, earlier)
    await export(engine, account, taken.project_id, tmp_path / "again.zip")
    files = read_zip(tmp_path / "again.zip")
    slug = json.loads(files["manifest.json"])["project"]
    rows = json.loads(files[settings_path(slug)])["dialectic_contributions"]
    assert rows
    assert all(row.keys().isdisjoint({"root_contribution_id", "turn_index"}) for row in rows)
    unknown = _set("dialectic_contributions", "turn_number", 0)
    odd = rewrite(tmp_path / "good.zip", tmp_path / "odd.zip", unknown)
    with refusing(InvalidBundle, "turn_number", reason="bad_form"):
        await transfer.import_project(engine, account, odd)


async def test_an_import_may_take_longer_than_other_transactions(
    engine: Engine, account: Account
) -> None:
    async def work(connection: Connection) -> str | None:
        await connection.execute(SQL["allow_long_transaction"])
        limit: str | None = await connection.fetchval(
            "select current_setting('transaction_timeout', true)"
        )
        return limit

    async def ask(connection: Connection) -> str | None:
        limit: str | None = await connection.fetchval(
            "select current_setting('transaction_timeout', true)"
        )
        return limit

    assert await engine.db.transact(account.tenant_id, work) in ("0", None)
    assert await engine.db.transact(account.tenant_id, ask) in ("10s", None)


# -- which project ---------------------------------------------------------------------------------


async def test_a_project_is_found_by_folder_name_and_ids(
    engine: Engine, account: Account, other_account: Account, made: Project
) -> None:
    words = [
        SLUG,
        NAME,
        str(made.id),
        str(made.id)[:8],
        str(made.session_id)[:8].upper(),
        str(made.second_session_id),
        made.id.hex[:12],
        SLUG[:4],
        NAME[:5],
        SLUG[:4].upper(),
    ]
    for word in words:
        assert await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, word) == made.id
        with pytest.raises(NotFound):
            await Tenant(engine, other_account).run(lookup.get_id, Kind.PROJECT, word)
    for word in ("nothing", "zzz", "%", "-", "' or true --", SLUG[1:]):
        with refusing(NotFound, reason="no_project", subject=word):
            await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, word)
    with refusing(UsageError, reason="no_name"):
        await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, " ")


async def test_a_word_that_means_several_projects_is_answered_with_their_folders(
    engine: Engine, account: Account, made: Project, tmp_path: Path
) -> None:
    await export(engine, account, made.id, tmp_path / "all.zip")
    copy = await transfer.import_project(engine, account, tmp_path / "all.zip")
    with refusing(UsageError, copy.slug, reason="ambiguous_name", subject=NAME):
        await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, NAME)
    assert await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, SLUG) == made.id
    assert (
        await Tenant(engine, account).run(lookup.get_id, Kind.PROJECT, copy.slug) == copy.project_id
    )


async def test_somebody_elses_project_is_not_there(
    engine: Engine, other_account: Account, made: Project, tmp_path: Path
) -> None:
    with pytest.raises(NotFound):
        await transfer.export_project(engine, other_account, made.id, tmp_path / "theirs.zip")


# -- nothing forgotten -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ROW_TYPES, ids=lambda kind: kind.table)
async def test_every_column_travels_or_is_left_behind_on_purpose(admin: Admin, kind: Any) -> None:
    columns = await admin.fetch(
        "select column_name from information_schema.columns"
        " where table_schema = 'dialectic' and table_name = $1",
        kind.table,
    )
    there = {row["column_name"] for row in columns} - OWNERS
    assert set(kind.model_fields) - kind.added == there - kind.left_behind
