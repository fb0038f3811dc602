"""Documents in a bucket, from the first start on, also while its server is gone."""

from __future__ import annotations

import asyncio
import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dialectic.app import sessions
from dialectic.app.transaction import Tenant
from dialectic.core.session_state import Phase, SessionState
from dialectic.engine import open_engine
from dialectic.errors import DialecticError, ExitCode
from dialectic.postgres import embedded
from dialectic.providers.catalog import build_catalog
from dialectic.publishing.publish import publish_project
from dialectic.settings import Settings
from dialectic.storage.file_store import open_store
from tests.command_pool import CommandResult
from tests.conftest import execute_as_superuser
from tests.s3_server import BUCKET, KEY, S3Server, serving_objects
from tests.scenario.test_run import Home, read_tree
from tests.scenario.whole_session import ARCHITECT, PROMPT, SKEPTIC, open_installation

NAME = "bakeries"


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with serving_objects(tmp_path_factory.mktemp("objects")) as server:
        yield server


def make_database(server: embedded.Server, bare_template: str, name: str) -> str:
    create = f"create database {name} template {bare_template} strategy file_copy"
    asyncio.run(execute_as_superuser(server, create, "postgres"))
    return server.url(user="postgres", database=name)


def test_a_run_keeps_its_documents_in_a_bucket(
    tmp_path: Path, server: embedded.Server, bare_template: str, s3: S3Server
) -> None:
    home, out = Home(tmp_path / "home"), tmp_path / "out"
    ours = make_database(server, bare_template, "objects_ours")
    theirs = make_database(server, bare_template, "objects_theirs")
    there = s3.build_settings("ours")

    def tell(*words: str, **changes: str) -> CommandResult:
        result = home.tell(*words, **{"database_url": ours, **there, **changes})
        assert KEY not in result.stdout + result.stderr
        return result

    models = f"{ARCHITECT},{SKEPTIC}"
    ran = tell(
        *("run", "--until", "antithesis", "--models", models, "--name", NAME, "--out", str(out)),
        PROMPT,
    )
    assert ran.code == 0, ran.stderr
    # The copies are named, since they are what a person can open; the bucket holds the same.
    assert len(ran.stdout.splitlines()) == 6
    assert all(Path(line).is_relative_to(out) for line in ran.stdout.splitlines())
    (tenant,) = (path for path in (s3.bucket / "ours").iterdir() if path.is_dir())
    kept = read_tree(tenant)
    assert kept == read_tree(out)
    assert len(kept) > 20
    assert not (home.path / "storage").exists()

    thesis = Path(ran.stdout.splitlines()[0])
    document = thesis.read_text().partition("id: ")[2].splitlines()[0].strip("'")
    shown = tell("show", document)
    assert shown.code == 0, shown.stderr
    assert len(shown.stdout) > 1_000
    assert shown.stdout.strip() in thesis.read_text()

    exported = tell("export", NAME, "--out", str(tmp_path / "all.zip"))
    assert exported.code == 0, exported.stderr
    with zipfile.ZipFile(tmp_path / "all.zip") as archive:
        assert {name for name in archive.namelist() if name in kept} >= {
            name for name in kept if name.endswith("thesis.md")
        }

    examined = tell("doctor")
    assert examined.code == 0, examined.stdout
    assert f"writable: s3://{BUCKET}/ours at {s3.endpoint}" in examined.stdout
    assert read_tree(tenant) == kept, "the probe is gone"

    for changes, words in (
        ({"storage_url": "s3://elsewhere/ours"}, "NoSuchBucket"),
        ({"storage_secret_access_key": "wrong"}, "SignatureDoesNotMatch"),
        ({"storage_url": f"s3://{BUCKET}/empty"}, "not a store yet"),
        ({"database_url": theirs}, "documents of another database"),
    ):
        given = {"home": str(home.path), "database_url": ours, **there, **changes}
        settings = Settings.load({f"DIALECTIC_{key.upper()}": text for key, text in given.items()})
        error = asyncio.run(find_refusal(settings))
        assert words in error.message
        assert error.exit_code is ExitCode.CONFIGURATION


async def find_refusal(settings: Settings) -> DialecticError:
    with pytest.raises(DialecticError) as caught:
        async with open_engine(settings, build_catalog(settings)):
            pass
    return caught.value


async def test_documents_wait_while_the_server_is_gone_and_arrive_when_it_is_back(
    tmp_path: Path, server: embedded.Server, template: str
) -> None:
    with serving_objects(tmp_path / "objects") as s3:
        files = open_store(f"s3://{BUCKET}", s3.access)
        async with open_installation(server, template, tmp_path / "home") as opened:
            installation = replace(
                opened,
                engine=replace(opened.engine, files=files),
                worker_engine=replace(opened.worker_engine, files=files),
            )

            async def is_one_written() -> bool:
                rows = await installation.fetch("select written_at from dialectic_files")
                return any(row["written_at"] is not None for row in rows)

            session_id = await installation.create([ARCHITECT, SKEPTIC], until="antithesis")
            await Tenant(installation.engine, installation.account).run(
                sessions.generate, session_id
            )
            async with installation.working():
                await installation.until(is_one_written)
                await asyncio.to_thread(s3.stop)
                await installation.until(lambda: installation.rests(session_id))
            (session,) = await installation.fetch("select * from dialectic_sessions")
            assert SessionState.from_row(session) == SessionState(
                "antithesis", Phase.STAGE_COMPLETE
            )
            waiting = "select * from dialectic_files where content is not null"
            assert len(await installation.fetch(waiting)) > 5

            await asyncio.to_thread(s3.start)
            left = await publish_project(
                installation.engine, installation.account.tenant_id, session["project_id"]
            )
            assert left == []
            for row in await installation.fetch(
                "select * from dialectic_files where written_at < now()"
            ):
                data = await files.read(f"{installation.account.tenant_id}/{row['path']}")
                assert hashlib.sha256(data).hexdigest() == row["sha256"], row["path"]
