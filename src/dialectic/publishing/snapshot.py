"""A project at one moment: its rows, and where the text of each row is.

All rows are read at once. Files and texts are read one by one afterwards and must match the hashes
in the rows. Knows neither archives nor what a snapshot is used for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import UUID

from dialectic.core.documents.plan_files import is_work_path
from dialectic.core.transfer.bundle_format import is_made_for_export
from dialectic.core.transfer.row_conversion import build_rows, decide_content_in
from dialectic.core.transfer.rows import TEXT_TABLES, ContentIn, FileRow, ProjectRows
from dialectic.db.tables import transfer
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, StorageUnavailable

T = TypeVar("T")
TRIES = 3


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A project's rows without their texts, and the hash of each text by file and row."""

    rows: ProjectRows
    hashes: Mapping[str, Mapping[UUID, str]]

    def with_work_files(self, files: Sequence[FileRow]) -> Snapshot:
        """Add the files of the work folders, which storage knows better than their rows.

        What we wrote there travels only with the file that is in its place now.
        """
        rows = self.rows
        paths = {file.path for file in files}
        added = {
            "dialectic_files": tuple(
                sorted((*rows.dialectic_files, *files), key=lambda file: file.path)
            ),
            "dialectic_project_resources": tuple(
                row
                for row in rows.dialectic_project_resources
                if row.storage_path in paths or not is_work_path(row.storage_path)
            ),
        }
        return replace(self, rows=rows.model_copy(update=added))

    def is_text(self, file: FileRow) -> bool:
        """Return whether a file is the text of all its rows, so that its bytes need not be read."""
        return set(self.hashes.get(file.path, {}).values()) <= {file.sha256}

    def place_texts(self, file: FileRow, data: bytes) -> dict[UUID, ContentIn]:
        """Decide how a file holds the text of each of its rows."""
        hashes = self.hashes.get(file.path, {})
        return {row_id: decide_content_in(data, sha256) for row_id, sha256 in hashes.items()}


async def retry_if_changed(work: Callable[[], Awaitable[T]]) -> T:
    """Retry work on a snapshot if a file was written after the snapshot was taken."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(Conflict):
            return await work()
    return await work()


async def take_snapshot(engine: Engine, tenant_id: UUID, project_id: UUID) -> Snapshot:
    """Read all rows of a project, except those of files that an export creates itself.

    Files in work folders are not among them: what they hold now is read from storage.
    """
    look = functools.partial(transfer.read_project, project_id=project_id)
    tables = await engine.db.transact(tenant_id, look)
    for table, column in (
        ("dialectic_files", "path"),
        ("dialectic_project_resources", "storage_path"),
    ):
        tables[table] = [row for row in tables[table] if not is_made_for_export(row[column])]
    tables["dialectic_files"] = [
        row for row in tables["dialectic_files"] if not is_work_path(row["path"])
    ]
    hashes: dict[str, dict[UUID, str]] = defaultdict(dict)
    for table in TEXT_TABLES:
        for row in tables[table]:
            hashes[row["storage_path"]][UUID(row["id"])] = row["content_sha256"]
    # In a thread: checking a large project would block the event loop for too long.
    return Snapshot(await asyncio.to_thread(build_rows, tables), hashes)


async def read_file(engine: Engine, tenant_id: UUID, file: FileRow) -> bytes:
    """Read a file from its row or from storage, and check its bytes."""
    key = f"{tenant_id}/{file.path}"
    look = functools.partial(transfer.read_file, path=file.path)
    data: bytes | None = None
    # Twice, because a worker may move it from its row to storage between the two reads.
    for _ in range(2):
        sha256, data = await engine.db.transact(tenant_id, look)
        if sha256 != file.sha256:
            raise _changed(file.path)
        if data is None:
            with contextlib.suppress(NotFound):
                data = await engine.files.read(key)
        if data is not None and hashlib.sha256(data).hexdigest() == sha256:
            return data
    trouble = "missing" if data is None else "damaged"
    raise StorageUnavailable(
        f"{engine.files.locate(key)} is {trouble}. Restore it from a backup; nothing was exported.",
        reason=trouble,
        subject=file.path,
    )


async def add_texts(
    engine: Engine, tenant_id: UUID, snapshot: Snapshot, placed: Mapping[UUID, ContentIn]
) -> ProjectRows:
    """Build the rows with the location of each text; a text without a file stays in its row."""

    async def add(row: Any) -> Any:
        if placed[row.id] != "row":
            return row.model_copy(update={"content_in": placed[row.id]})
        look = functools.partial(transfer.find_text, row_id=row.id)
        text = await engine.db.transact(tenant_id, look)
        if text is None:  # a plan file was given another name meanwhile
            raise _changed(row.storage_path)
        if hashlib.sha256(text.encode()).hexdigest() != snapshot.hashes[row.storage_path][row.id]:
            raise _changed(row.storage_path)
        return row.model_copy(update={"content": text})

    rows = snapshot.rows
    return rows.model_copy(
        update={
            table: tuple([await add(row) for row in getattr(rows, table)]) for table in TEXT_TABLES
        }
    )


def _changed(path: str) -> Conflict:
    message = f"{path} changed during the export. Export again."
    return Conflict(message, reason="changed", subject=path)
