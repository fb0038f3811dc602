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
from tests.conftest import execute_as_superuser
from tests.scenario.api_in_process import House, open_house

RESTORED = f"restored_{os.getpid()}"


@asynccontextmanager
async def restored_from(
    server: embedded.Server, address: Address, folder: Path
) -> AsyncIterator[Address]:
    """Dump a database that is in use, and restore it under another name."""
    programs, dump = load_programs(shared=False), folder / "dialectic.dump"
    await run(programs / "pg_dump", "--format=custom", f"--file={dump}", address.url)
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


async def list_files(house: House, project_id: str, out: Path) -> dict[str, str]:
    exported = await transfer.export_project(
        house.engine, house.anna.account, UUID(project_id), out, finished=False
    )
    return {entry.path: entry.sha256 for entry in exported.manifest.files}


async def test_a_restored_pair_has_every_document_and_its_books_are_right(
    server: embedded.Server, address: Address, tmp_path: Path
) -> None:
    stores = {name: (tmp_path / name).as_uri() for name in ("store", "copy", "empty")}
    async with open_house(address, tmp_path / "home", storage_url=stores["store"]) as house:
        await check_storage(house.engine)
        session = await house.anna.make_session()
        await house.anna.post(f"/sessions/{session['id']}/generate")
        await house.work(house.anna, session["id"])
        before = await list_files(house, session["project_id"], tmp_path / "before.zip")
        async with restored_from(server, address, tmp_path) as there:
            shutil.copytree(tmp_path / "store", tmp_path / "copy")
            await migrate(there)
            async with open_house(there, tmp_path / "home2", storage_url=stores["copy"]) as second:
                await check_storage(second.engine)
                guest = second.come_back(house.anna.account, house.anna.token)
                async with guest.client:
                    assert await guest.get(f"/sessions/{session['id']}"), "her token opens it"
                second = replace(second, anna=guest)
                after = await list_files(second, session["project_id"], tmp_path / "after.zip")
                breaches = await second.worker_engine.db.transact(
                    house.anna.account.tenant_id, audit.verify
                )
            async with open_house(there, tmp_path / "home3", storage_url=stores["empty"]) as wrong:
                with pytest.raises(StorageMismatch):
                    await check_storage(wrong.engine)
    assert after == before
    assert len(after) > 5
    assert breaches == []
