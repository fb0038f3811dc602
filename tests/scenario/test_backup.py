"""A database that was dumped and a store that was copied after it are the same elsewhere."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from dialectic.app import transfer
from dialectic.db.migrate import migrate
from dialectic.db.pool import Address
from dialectic.engine import check_storage
from dialectic.errors import StorageMismatch
from dialectic.ledger import audit
from dialectic.postgres import embedded
from dialectic.postgres.programs import load_programs
from dialectic.storage.archive import open_archive
from tests.conftest import execute_as_superuser
from tests.scenario.api_in_process import Api, open_api

RESTORED = f"restored_{os.getpid()}"


@asynccontextmanager
async def restored_from(
    server: embedded.Server, address: Address, folder: Path
) -> AsyncIterator[Address]:
    """Dump a database that is in use, and restore it under another name."""
    programs, dump = load_programs(shared=False), folder / "dialectic.dump"
    await run(
        programs / "pg_dump",
        "--format=custom",
        "--no-unlogged-table-data",
        f"--file={dump}",
        address.url,
    )
    await execute_as_superuser(server, f"create database {RESTORED}", "postgres")
    try:
        url = server.url(user="postgres", database=RESTORED)
        await run(programs / "pg_restore", "--exit-on-error", f"--dbname={url}", dump)
        yield Address(url, is_embedded=True)
    finally:
        drop = f"drop database {RESTORED} with (force)"
        await execute_as_superuser(server, drop, "postgres")


async def run(*words: object) -> None:
    command = [str(word) for word in words]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


async def list_files(api: Api, project_id: str, out: Path) -> dict[str, str]:
    await transfer.export_project(
        api.engine, api.anna.account, UUID(project_id), out, finished=False
    )
    with open_archive(out) as archive:
        return {entry.path: entry.sha256 for entry in archive.manifest.files}


async def test_a_restored_pair_has_every_document_and_its_books_are_right(
    server: embedded.Server, address: Address, tmp_path: Path
) -> None:
    stores = {name: (tmp_path / name).as_uri() for name in ("store", "copy", "empty")}
    async with open_api(address, tmp_path / "home", storage_url=stores["store"]) as api:
        await check_storage(api.engine)
        session = await api.anna.make_session()
        await api.anna.post(f"/sessions/{session['id']}/generate")
        await api.work(api.anna, session["id"])
        before = await list_files(api, session["project_id"], tmp_path / "before.zip")
        async with restored_from(server, address, tmp_path) as there:
            shutil.copytree(tmp_path / "store", tmp_path / "copy")
            await migrate(there)
            async with open_api(there, tmp_path / "home2", storage_url=stores["copy"]) as second:
                await check_storage(second.engine)
                returned_user = second.come_back(api.anna.account, api.anna.token)
                async with returned_user.client:
                    assert await returned_user.get(f"/sessions/{session['id']}"), (
                        "her token opens it"
                    )
                second = replace(second, anna=returned_user)
                after = await list_files(second, session["project_id"], tmp_path / "after.zip")
                breaches = await second.worker_engine.db.transact(
                    api.anna.account.tenant_id, audit.verify
                )
            async with open_api(there, tmp_path / "home3", storage_url=stores["empty"]) as wrong:
                with pytest.raises(StorageMismatch):
                    await check_storage(wrong.engine)
    assert after == before
    assert len(after) > 5
    assert breaches == []
