"""Write the files of a plan where a person works on them, and read what they made of them.

Storage holds the truth about the work folders and about `PLAN.md`: a person changes, moves, deletes
and adds files there at any time. A file that we wrote is replaced or deleted only while it is as we
wrote it; else its newer version is written next to it. Rules: `core.documents.plan_files`.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import mimetypes
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import assert_never
from uuid import UUID

from dialectic.contract.events import PlanFileKept
from dialectic.core.documents.plan_files import (
    Settlement,
    decide_settlement,
    list_work_folders,
    name_entries,
)
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.core.transfer.rows import FileRow
from dialectic.db.pool import Connection
from dialectic.db.tables import plan_files as rows
from dialectic.db.tables.files import MARKDOWN
from dialectic.db.tables.plan_files import WaitingPlanFile
from dialectic.db.tables.records import record_event
from dialectic.engine import Engine
from dialectic.errors import NotFound, StorageUnavailable

logger = logging.getLogger(__name__)

TIMEOUT_S = 10.0
# A newer version may arrive while one is written, and a name may be taken meanwhile.
ROUNDS_MAX = 20
# A person has put a link or a file in the place of a work folder: it is theirs, whatever it is.
_NO_FOLDER = "enotdir"
# A person has put a link, a folder or a pipe in the place of a file: its name is taken.
_NO_FILE = frozenset({"eisdir", "eloop", "einval"})
_TAKEN = "taken"


@dataclass(frozen=True, slots=True)
class WorkFile:
    """A file in a work folder, as storage holds it now."""

    path: str
    data: bytes

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    @property
    def etag(self) -> str:
        """As the API sends it: equal bytes, equal tag."""
        return f'"{self.sha256[:32]}"'

    def as_row(self, entry: str) -> FileRow:
        """Build its row in an archive, where it may have another name."""
        guessed, _ = mimetypes.guess_type(self.path)
        mime_type = MARKDOWN if self.path.endswith(".md") else guessed or "application/octet-stream"
        return FileRow(
            path=entry, mime_type=mime_type, size_bytes=len(self.data), sha256=self.sha256
        )


# -- reading --------------------------------------------------------------------------------------


async def list_work_paths(engine: Engine, tenant_id: UUID, slug: str) -> list[str]:
    """List the files in a project's work folders, and the plan pages that we wrote.

    A link or a file in the place of a folder is a person's, and is not followed.
    """
    found: list[str] = []
    for folder in list_work_folders(slug):
        try:
            keys = await engine.files.list(f"{tenant_id}/{folder}")
        except StorageUnavailable as error:
            if error.reason != _NO_FOLDER:
                raise
            continue
        found += [key.partition("/")[2] for key in keys]
    look = functools.partial(rows.list_pages, slug=slug)
    for page in await engine.db.transact(tenant_id, look):
        if await find_work_file(engine, tenant_id, page) is not None:
            found.append(page)
    return found


async def find_work_file(engine: Engine, tenant_id: UUID, path: str) -> WorkFile | None:
    """Read a file of a work folder; None if it is not there, or too large for any archive."""
    data = bytearray()
    try:
        async for part in engine.files.stream(f"{tenant_id}/{path}"):
            data += part
            if len(data) > LIMITS.entry_bytes_max:
                logger.warning("a file in a work folder is too large to be read")
                return None
    except NotFound:
        return None
    except StorageUnavailable as error:
        # A person may also have made it unreadable.
        if error.reason not in {*_NO_FILE, _NO_FOLDER, "eacces", "eperm"}:
            raise
        return None
    return WorkFile(path, bytes(data))


async def read_work_files(
    engine: Engine, tenant_id: UUID, slug: str
) -> AsyncIterator[tuple[str, WorkFile | None]]:
    """Read all files of a project's work folders as they are now, with their names in an archive.

    A file that storage could not take yet is read from its row. None stands for a file that is
    there, but is too large for an archive or cannot be read.
    """
    await settle_project(engine, tenant_id, slug)
    look = functools.partial(rows.list_waiting, slug=slug)
    waiting = await engine.db.transact(tenant_id, look)
    stored = set(await list_work_paths(engine, tenant_id, slug))
    for path, entry in name_entries(stored | waiting.keys()).items():
        file = await find_work_file(engine, tenant_id, path)
        if file is None and (data := waiting.get(path)) is not None:
            file = WorkFile(path, data)
        if file is not None or path in stored:
            yield entry, file


# -- settling -------------------------------------------------------------------------------------


async def settle_project(
    engine: Engine, tenant_id: UUID, slug: str, *, timeout_s: float = TIMEOUT_S
) -> bool:
    """Settle all plan files of a project that wait; return whether that worked."""
    look = functools.partial(rows.list_waiting, slug=slug)
    paths = list(await engine.db.transact(tenant_id, look))
    return await settle_files(engine, tenant_id, paths, timeout_s=timeout_s)


async def settle_files(
    engine: Engine, tenant_id: UUID, paths: Sequence[str], *, timeout_s: float = TIMEOUT_S
) -> bool:
    """Settle plan files that wait, one after the other; return whether that worked."""
    is_done = True
    for path in paths:
        try:
            await _settle(engine, tenant_id, path, timeout_s)
        except StorageUnavailable as error:
            # The message names the file and so the project: user text stays out of logs.
            logger.warning("could not write a plan file to storage yet: %s", error.code)
            is_done = False
    return is_done


async def _settle(engine: Engine, tenant_id: UUID, path: str, timeout_s: float) -> None:
    """Write, replace or withdraw one file, until nothing waits under its name."""
    next_path: str | None = path
    for _ in range(ROUNDS_MAX):
        look = functools.partial(rows.find_waiting, path=next_path or path)
        file = await engine.db.transact(tenant_id, look)
        if file is None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                next_path = await _settle_once(engine, tenant_id, file)
        except StorageUnavailable as error:
            if error.reason != _NO_FOLDER:
                raise
            logger.warning("a work folder is not a folder any more: its plan file is not written")
            leave = functools.partial(rows.leave, file=file)
            await engine.db.transact(tenant_id, leave)
            return
        except TimeoutError as error:
            place = engine.files.locate(f"{tenant_id}/{file.path}")
            message = f"{place} could not be written within {timeout_s:g} s."
            raise StorageUnavailable(message) from error
        if next_path is None:
            return


async def _settle_once(engine: Engine, tenant_id: UUID, file: WaitingPlanFile) -> str | None:
    """Take one step; return the path that waits now, or None."""
    key = f"{tenant_id}/{file.path}"
    found = await _find_hash(engine, key)
    decision = decide_settlement(
        found, new=file.sha256, earlier=file.earlier, is_withdrawn=file.is_withdrawn
    )
    match decision:
        case Settlement.WRITE | Settlement.DONE:
            if decision is Settlement.WRITE and not await _write(engine, key, file):
                return await _write_successor(engine, tenant_id, file, was_changed=True)
            mark = functools.partial(rows.mark_written, file=file)
            return None if await engine.db.transact(tenant_id, mark) else file.path
        case Settlement.WRITE_SUCCESSOR:
            return await _write_successor(engine, tenant_id, file, was_changed=found is not None)
        case Settlement.DELETE | Settlement.FORGET:
            if decision is Settlement.DELETE:
                await engine.files.delete(key)
            by_person = decision is Settlement.FORGET and bool(file.earlier)
            forget = functools.partial(rows.forget, file=file, by_person=by_person)
            await engine.db.transact(tenant_id, forget)
        case Settlement.KEEP:
            await engine.db.transact(tenant_id, functools.partial(rows.leave, file=file))
        case _:
            assert_never(decision)
    return None


async def _find_hash(engine: Engine, key: str) -> str | None:
    """Return the hash of what storage holds there; None if nothing."""
    digest = hashlib.sha256()
    try:
        async for part in engine.files.stream(key):
            digest.update(part)
    except NotFound:
        return None
    except StorageUnavailable as error:
        if error.reason not in _NO_FILE:
            raise
        return _TAKEN
    return digest.hexdigest()


async def _write(engine: Engine, key: str, file: WaitingPlanFile) -> bool:
    """Write a file; return False if a person has put a folder in its place."""
    try:
        await engine.files.write(key, file.content)
    except StorageUnavailable as error:
        if error.reason != "eisdir":
            raise
        return False
    engine.failpoints.reach("after_files")
    return True


async def _write_successor(
    engine: Engine, tenant_id: UUID, file: WaitingPlanFile, *, was_changed: bool
) -> str | None:
    slug = file.path.partition("/")[0]
    stored = await list_work_paths(engine, tenant_id, slug)

    async def move(connection: Connection) -> str | None:
        successor = await rows.write_successor(connection, file, stored)
        if successor is not None and file.session_id is not None:
            event = PlanFileKept(
                session_id=file.session_id,
                project_id=file.project_id,
                kept_path=file.path,
                new_path=successor,
                reason="changed" if was_changed else "moved",
            )
            await record_event(connection, event)
        return successor

    return await engine.db.transact(tenant_id, move)
