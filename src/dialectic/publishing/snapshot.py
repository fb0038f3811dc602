"""A project as it is at one moment: its rows, its files, and where each row's text stands.

All rows are read in one look, files and texts one by one afterwards and held against the hashes
found there. Knows neither archives nor what is made of a snapshot.

`project_readme.md` and `project_settings.json`: what a reader of a project's folder opens first.

They are made of the project's rows and can always be made again. The end of a stage makes them due,
in its own commit: their rows then hold a ticket in the place of bytes. `publish` carries them to
storage like any other file, only that their bytes are made here and then.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from dialectic.core.documents.readme import build_readme
from dialectic.core.transfer.bundle_format import is_made_for_export, readme_path, settings_path
from dialectic.core.transfer.row_conversion import build_rows, get_content
from dialectic.core.transfer.rows import ContentIn, Json, ProjectRows
from dialectic.db.pool import Connection
from dialectic.db.tables import transfer
from dialectic.db.tables.records import File
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, StorageUnavailable


@dataclass(frozen=True, slots=True)
class PlacedText:
    """Where a row's text stands, and the hash it must have."""

    content_in: ContentIn
    sha256: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A project's rows, and of its files the name, the size and the hash, by path."""

    rows: ProjectRows
    files: list[Json]
    _texts: dict[str, list[Json]] = field(repr=False)

    def place_by_hash(self, file: Json) -> dict[UUID, PlacedText] | None:
        """Place the texts of a file's rows without its bytes; None if only those can tell."""
        rows = self._texts.get(file["path"], [])
        if any(row["content_sha256"] != file["sha256"] for row in rows):
            return None
        return {UUID(row["id"]): PlacedText("file", file["sha256"]) for row in rows}

    def find_texts(self, path: str, data: bytes) -> dict[UUID, PlacedText]:
        """Find out how a file holds the text of each row that it belongs to, by the row's id."""
        return {
            UUID(row["id"]): PlacedText(
                get_content(data, row["content_sha256"]), row["content_sha256"]
            )
            for row in self._texts.get(path, ())
        }


async def take_snapshot(engine: Engine, tenant_id: UUID, project_id: UUID) -> Snapshot:
    """Read all rows of a project, without the files that are made of them."""

    async def look(connection: Connection) -> dict[str, list[Json]]:
        return await transfer.read_project(connection, project_id)

    tables = await engine.db.transact(tenant_id, look)
    for table, column in (
        ("dialectic_files", "path"),
        ("dialectic_project_resources", "storage_path"),
    ):
        tables[table] = [row for row in tables[table] if not is_made_for_export(row[column])]
    texts: dict[str, list[Json]] = defaultdict(list)
    for table in ("dialectic_contributions", "dialectic_chunks", "dialectic_project_resources"):
        for row in tables[table]:
            texts[row["storage_path"]].append(row)
    files = sorted(tables["dialectic_files"], key=lambda row: str(row["path"]))
    # In a thread: a large project is checked for longer than a worker may be deaf.
    return Snapshot(await asyncio.to_thread(build_rows, tables), files, dict(texts))


async def read_file(engine: Engine, tenant_id: UUID, file: Json) -> bytes:
    """Read a file from its row while it waits there, else from storage; never a wrong byte."""
    path, sha256 = file["path"], file["sha256"]

    async def look(connection: Connection) -> tuple[str | None, bytes | None]:
        return await transfer.read_file(connection, path)

    key = f"{tenant_id}/{path}"
    data: bytes | None = None
    # Twice, for it may be on its way from the one place to the other.
    for _ in range(2):
        now, data = await engine.db.transact(tenant_id, look)
        if now != sha256:
            raise Conflict(
                f"{path} was written anew while it was exported. Export again.",
                reason="changed",
                subject=path,
            )
        if data is None:
            with contextlib.suppress(NotFound):
                data = await engine.files.read(key)
        if data is not None and _hash(data) == sha256:
            return data
    trouble = "missing" if data is None else "damaged: its bytes are not those that were written"
    raise StorageUnavailable(
        f"{engine.files.locate(key)} is {trouble}. Restore it from a backup; nothing was exported.",
        reason="missing" if data is None else "damaged",
        subject=path,
    )


async def place_texts(
    engine: Engine, tenant_id: UUID, rows: ProjectRows, placed: Mapping[UUID, PlacedText]
) -> ProjectRows:
    """Note where each row's text stands; a text that stands in no file is written down itself."""

    async def place(row: Any) -> Any:
        source = placed[row.id]
        if source.content_in != "row":
            return row.model_copy(update={"content_in": source.content_in})

        async def look(connection: Connection) -> str:
            return await transfer.read_text(connection, row.id)

        text = await engine.db.transact(tenant_id, look)
        if _hash(text.encode()) != source.sha256:
            raise Conflict(
                f"{row.storage_path} was written anew. Export again.",
                reason="changed",
                subject=row.storage_path,
            )
        return row.model_copy(update={"content": text})

    return rows.model_copy(
        update={
            "dialectic_contributions": tuple(
                [await place(row) for row in rows.dialectic_contributions]
            ),
            "dialectic_chunks": tuple([await place(row) for row in rows.dialectic_chunks]),
            "dialectic_project_resources": tuple(
                [await place(row) for row in rows.dialectic_project_resources]
            ),
        }
    )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


TRIES = 3


async def build_descriptions(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[File]:
    """Build both files as the project is now; begin again where a file is written meanwhile."""
    for _ in range(TRIES - 1):
        try:
            return await _build_once(engine, tenant_id, project_id)
        except Conflict:
            continue
    return await _build_once(engine, tenant_id, project_id)


async def _build_once(engine: Engine, tenant_id: UUID, project_id: UUID) -> list[File]:
    snapshot = await take_snapshot(engine, tenant_id, project_id)
    placed: dict[UUID, PlacedText] = {}
    for file in snapshot.files:
        found = snapshot.place_by_hash(file)
        if found is None:
            data = await read_file(engine, tenant_id, file)
            found = snapshot.find_texts(file["path"], data)
        placed |= found
    rows = await place_texts(engine, tenant_id, snapshot.rows, placed)
    slug = rows.project.slug
    readme = await asyncio.to_thread(build_readme, rows)
    return [
        File(readme_path(slug), readme.encode(), "text/markdown"),
        File(settings_path(slug), await asyncio.to_thread(rows.as_bytes), "application/json"),
    ]
