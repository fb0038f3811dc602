"""Carry files from their rows into storage. Writing the same bytes twice is harmless, so any worker
may finish what another one began. Knows nothing of what the files are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from dialectic.engine import Engine
from dialectic.errors import StorageUnavailable
from dialectic.store.database import Connection
from dialectic.store.records import SQL, File

logger = logging.getLogger(__name__)

# A committing worker writes its own files at once; only what is left after this is someone else's.
LEFT_BEHIND_AFTER = timedelta(seconds=5)
# How many left files are written at a time, how long one may take, and when one that could not be
# written has its next turn. The last is longer: nobody takes a file that is still being written.
TAKEN_AT_ONCE = 8
WRITE_TIMEOUT_S = 10.0
AGAIN_AFTER = timedelta(seconds=15)


async def publish_files(engine: Engine, tenant_id: UUID, files: Sequence[File]) -> bool:
    """Write files to storage and let go of their bytes in the database; say whether that worked.

    Storage that is full or away loses nothing: the bytes stay in their rows and are tried again.
    """
    try:
        for file in files:
            await _write(engine, f"{tenant_id}/{file.path}", file.data)
    except StorageUnavailable as error:
        logger.warning("files wait in the database: %s", error.message)
        return False
    engine.failpoints.reach("after_files")
    paths, hashes = [file.path for file in files], [file.sha256 for file in files]

    async def mark(connection: Connection) -> list[str]:
        await connection.execute(SQL["mark_files_written"], paths, hashes)
        return [row["path"] for row in await connection.fetch(SQL["rearm_files"], paths, hashes)]

    left = await engine.db.transact(tenant_id, mark)
    return await publish_waiting(engine, tenant_id, left) if left else True


async def _write(engine: Engine, key: str, data: bytes) -> None:
    """Write one file within its time: storage on a network may never answer."""
    try:
        await asyncio.wait_for(engine.files.write(key, data), timeout=WRITE_TIMEOUT_S)
    except TimeoutError as error:
        raise StorageUnavailable(
            f"{engine.files.locate(key)} could not be written within {WRITE_TIMEOUT_S:g} s."
        ) from error


async def publish_waiting(engine: Engine, tenant_id: UUID, paths: Sequence[str]) -> bool:
    """Write files whose bytes still wait in the database."""

    async def read(connection: Connection) -> list[File]:
        found = [
            (path, await connection.fetchval(SQL["read_waiting_file"], path)) for path in paths
        ]
        return [File(path, data, "") for path, data in found if data is not None]

    return await publish_files(engine, tenant_id, await engine.db.transact(tenant_id, read))


async def publish_project(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[str]:
    """Write every file of a project that still waits; return those that could not be written."""

    async def waiting(connection: Connection) -> list[str]:
        rows = await connection.fetch(SQL["list_waiting_files_of_project"], project_id)
        return [row["path"] for row in rows]

    await publish_waiting(engine, tenant_id, await engine.db.transact(tenant_id, waiting))
    return await engine.db.transact(tenant_id, waiting)


async def require_published(
    engine: Engine, tenant_id: UUID, project_id: UUID, session_id: UUID
) -> None:
    """Make sure that every file of a session's project is in storage, or raise."""
    if left := await publish_project(engine, tenant_id, project_id):
        place = engine.files.locate(f"{tenant_id}/{left[0]}")
        raise StorageUnavailable(
            f"{len(left)} file(s) could not be written to {place}. "
            "Their content is safe in the database; make room and run "
            f"`dialectic resume {str(session_id)[:8]}`."
        )


async def publish_left_behind(engine: Engine) -> int:
    """Write what workers that died left in the database, of all tenants; return how many files."""
    done = 0
    while True:
        rows = await engine.db.fetch(
            SQL["take_waiting_files"], LEFT_BEHIND_AFTER, AGAIN_AFTER, TAKEN_AT_ONCE
        )
        # Each by itself: a file that cannot be written must not hold up the others.
        done += sum(
            await asyncio.gather(
                *(publish_waiting(engine, row["tenant_id"], [row["path"]]) for row in rows)
            )
        )
        if len(rows) < TAKEN_AT_ONCE:
            return done
