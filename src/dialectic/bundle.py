"""Move projects: out of the database and storage into one archive, and back in.

An export reads all rows in one look, then file by file; an import checks the whole archive before
it writes anything, and then writes everything in one commit. Knows nothing of how documents come
about.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import tempfile
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg

from dialectic.domain.bundle import (
    Manifest,
    check_size,
    is_finished,
    is_made_for_export,
    readme_path,
    settings_path,
)
from dialectic.domain.path import build_path
from dialectic.domain.place import ExportArchive
from dialectic.domain.process import Process
from dialectic.domain.process_check import build_process
from dialectic.domain.project_export import build_rows, find_content, read_content
from dialectic.domain.project_import import parse_rows
from dialectic.domain.project_rows import (
    ContentIn,
    ContributionRow,
    Json,
    ProcessRow,
    ProjectRows,
    ResourceRow,
)
from dialectic.domain.readme import build_readme
from dialectic.engine import Engine
from dialectic.errors import Conflict, InvalidBundle, InvalidProcess, NotFound, StorageUnavailable
from dialectic.publish import publish_waiting
from dialectic.storage.archive import Archive, ArchiveWriter, open_archive, write_archive
from dialectic.store import bundles, records
from dialectic.store.database import Connection
from dialectic.store.records import Account, File

PUBLISH_AT_ONCE = 50
TRIES = 3
FINISHED_NAME = "finished"


@dataclass(frozen=True, slots=True)
class Exported:
    """An archive that was made."""

    project_id: UUID
    slug: str
    manifest: Manifest


@dataclass(frozen=True, slots=True)
class Imported:
    """A project that was taken in; `waiting` files are not in storage yet, but safe."""

    project_id: UUID
    slug: str
    name: str
    session_ids: tuple[UUID, ...]
    file_count: int
    is_copy: bool
    waiting: tuple[str, ...]


async def find(engine: Engine, account: Account, text: str) -> UUID:
    """Find a project by folder, name, or the beginning of its id or of a session's."""

    async def work(connection: Connection) -> UUID:
        return await bundles.find_project_id(connection, text)

    return await engine.db.transact(account.tenant_id, work)


# -- out -------------------------------------------------------------------------------------------


async def export_project(
    engine: Engine, account: Account, project_id: UUID, out: Path, *, finished: bool = False
) -> Exported:
    """Write a project into an archive: all of it, or finished documents only.

    The archive is the project at one moment; where a file is written anew while it is read, the
    export begins again.
    """
    for _ in range(TRIES - 1):
        with contextlib.suppress(Conflict):
            return await _export_once(engine, account, project_id, out, finished=finished)
    return await _export_once(engine, account, project_id, out, finished=finished)


async def _export_once(
    engine: Engine, account: Account, project_id: UUID, out: Path, *, finished: bool
) -> Exported:
    async def look(connection: Connection) -> dict[str, list[Json]]:
        return await bundles.read_project(connection, project_id)

    snapshot = await engine.db.transact(account.tenant_id, look)
    for table, column in (
        ("dialectic_files", "path"),
        ("dialectic_project_resources", "storage_path"),
    ):
        snapshot[table] = [r for r in snapshot[table] if not is_made_for_export(r[column])]
    rows = build_rows(snapshot)
    slug = rows.project.slug
    with write_archive(out) as writer:
        sources = await _add_files(engine, account, snapshot, writer, finished=finished)
        if not finished:
            rows = await _place_texts(engine, account, rows, sources)
            await asyncio.to_thread(writer.add, settings_path(slug), rows.as_bytes())
        await asyncio.to_thread(writer.add, readme_path(slug), build_readme(rows).encode())
        contents = "finished" if finished else "all"
        manifest = await asyncio.to_thread(writer.finish, contents=contents, project=slug)
    return Exported(project_id, slug, manifest)


async def export_into_storage(
    engine: Engine, account: Account, project_id: UUID, *, finished: bool = False
) -> tuple[Exported, str]:
    """Write the archive to its place in the project's folder; return where that is."""
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        draft = Path(folder, "export.zip")
        exported = await export_project(engine, account, project_id, draft, finished=finished)
        place = ExportArchive(exported.slug, FINISHED_NAME if finished else exported.slug)
        key = f"{account.tenant_id}/{build_path(place)}"
        await engine.files.write(key, await asyncio.to_thread(draft.read_bytes))
    return exported, engine.files.locate(key)


async def describe_project(engine: Engine, account: Account, project_id: UUID) -> None:
    """Write the readme and the settings to their places in the project's folder.

    Like the archive they have no rows: they are made from the rows, and can always be made again.
    """
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        draft = Path(folder, "export.zip")
        exported = await export_project(engine, account, project_id, draft)
        with open_archive(draft) as archive:
            for path in (readme_path(exported.slug), settings_path(exported.slug)):
                await engine.files.write(f"{account.tenant_id}/{path}", archive.read(path))


@dataclass(frozen=True, slots=True)
class _Text:
    """Where a row's text stands, and the hash it must have."""

    content_in: ContentIn
    sha256: str


async def _add_files(
    engine: Engine,
    account: Account,
    snapshot: Mapping[str, list[Json]],
    writer: ArchiveWriter,
    *,
    finished: bool,
) -> dict[UUID, _Text]:
    """Add the files one by one; say where the text of each row stands, by the row's id."""
    files = sorted(snapshot["dialectic_files"], key=lambda row: str(row["path"]))
    chosen = [row for row in files if not finished or is_finished(row["path"])]
    check_size(row["size_bytes"] for row in chosen)
    texts: dict[str, list[Json]] = defaultdict(list)
    for row in snapshot["dialectic_contributions"] + snapshot["dialectic_project_resources"]:
        texts[row["storage_path"]].append(row)
    sources: dict[UUID, _Text] = {}
    for row in chosen:
        data = await _read_file(engine, account, row["path"], row["sha256"])
        await asyncio.to_thread(writer.add, row["path"], data)
        for text in texts[row["path"]]:
            sha256 = text["content_sha256"]
            sources[UUID(text["id"])] = _Text(find_content(data, sha256), sha256)
    return sources


async def _read_file(engine: Engine, account: Account, path: str, sha256: str) -> bytes:
    """Read a file from its row while it waits there, else from storage; never a wrong byte."""

    async def look(connection: Connection) -> tuple[str | None, bytes | None]:
        return await bundles.read_file(connection, path)

    key = f"{account.tenant_id}/{path}"
    data: bytes | None = None
    # Twice, for it may be on its way from the one place to the other.
    for _ in range(2):
        now, data = await engine.db.transact(account.tenant_id, look)
        if now != sha256:
            raise Conflict(f"{path} was written anew while it was exported. Export again.")
        if data is None:
            with contextlib.suppress(NotFound):
                data = await engine.files.read(key)
        if data is not None and _hash(data) == sha256:
            return data
    trouble = "missing" if data is None else "damaged: its bytes are not those that were written"
    raise StorageUnavailable(
        f"{engine.files.locate(key)} is {trouble}. Put it back from a backup; nothing was exported."
    )


async def _place_texts(
    engine: Engine, account: Account, rows: ProjectRows, sources: Mapping[UUID, _Text]
) -> ProjectRows:
    """Note where each row's text stands; a text that stands in no file is written down itself."""

    async def place(row: Any) -> Any:
        source = sources[row.id]
        if source.content_in != "row":
            return row.model_copy(update={"content_in": source.content_in})

        async def look(connection: Connection) -> str:
            return await bundles.read_text(connection, row.id)

        text = await engine.db.transact(account.tenant_id, look)
        if _hash(text.encode()) != source.sha256:
            raise Conflict(f"{row.storage_path} was written anew. Export again.")
        return row.model_copy(update={"content": text})

    return rows.model_copy(
        update={
            "dialectic_contributions": tuple(
                [await place(row) for row in rows.dialectic_contributions]
            ),
            "dialectic_project_resources": tuple(
                [await place(row) for row in rows.dialectic_project_resources]
            ),
        }
    )


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- in --------------------------------------------------------------------------------------------


async def import_project(engine: Engine, account: Account, path: Path) -> Imported:
    """Take a project in from an archive; nothing is written unless all of it is in order."""
    with open_archive(path) as archive:
        arrival = await asyncio.to_thread(_inspect, archive)
        rows = await _write(engine, account, archive, arrival)
    paths = [row.path for row in rows.dialectic_files]
    waiting: list[str] = []
    for start in range(0, len(paths), PUBLISH_AT_ONCE):
        some = paths[start : start + PUBLISH_AT_ONCE]
        if not await publish_waiting(engine, account.tenant_id, some):
            waiting += some
    return Imported(
        project_id=rows.project.id,
        slug=rows.project.slug,
        name=rows.project.project_name,
        session_ids=tuple(row.id for row in rows.dialectic_sessions),
        file_count=len(paths),
        is_copy=rows.project.id == arrival.copy_id,
        waiting=tuple(waiting),
    )


def _inspect(archive: Archive) -> bundles.Arrival:
    """Check everything about an archive that can be checked without a database."""
    manifest = archive.manifest
    if manifest.contents == "finished":
        raise InvalidBundle(
            "The archive holds finished documents only, which is not all that a project needs. "
            "Export it without --finished to import it."
        )
    rows = parse_rows(archive.read(settings_path(manifest.project)))
    made = {settings_path(manifest.project), readme_path(manifest.project)}
    listed = {(e.path, e.size_bytes, e.sha256) for e in manifest.files if e.path not in made}
    if listed != {(row.path, row.size_bytes, row.sha256) for row in rows.dialectic_files}:
        raise InvalidBundle("manifest.json and project_settings.json do not name the same files.")
    archive.verify()
    processes = {row.id: _build_process(row) for row in rows.dialectic_process_templates}
    return bundles.Arrival(rows, processes, uuid4())


def _build_process(row: ProcessRow) -> Process:
    try:
        definition = row.definition
        process = build_process(
            dict(definition["file"]),
            dict(definition["prompts"]),
            list(definition["overlays"].values()),
            place=f"process {row.name!r} in the bundle",
        )
    except InvalidProcess as error:
        raise InvalidBundle(error.message) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InvalidBundle(f"The definition of process {row.name!r} has not its form.") from None
    if process.content_hash != row.content_hash or process.name != row.name:
        raise InvalidBundle(f"The definition of process {row.name!r} is not what its hash says.")
    return process


async def _write(
    engine: Engine, account: Account, archive: Archive, arrival: bundles.Arrival
) -> ProjectRows:
    done: list[ProjectRows] = []

    async def work(connection: Connection) -> ProjectRows:
        # A commit whose answer was lost is tried again and must find what it has already done.
        for rows in done:
            if await bundles.find_slug(connection, rows.project.id) == rows.project.slug:
                return rows
        rows = await bundles.settle_in(connection, account, arrival)
        await _write_files(connection, account, archive, arrival.rows, rows)
        done.append(rows)
        return rows

    try:
        return await engine.db.transact(account.tenant_id, work)
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        # The server knows every rule of its tables; what it refuses is the bundle's fault.
        # Its details would repeat what stands in the rows; its first sentence does not.
        raise InvalidBundle(f"The rows of the bundle break a rule: {error.args[0]}.") from error


async def _write_files(
    connection: Connection,
    account: Account,
    archive: Archive,
    before: ProjectRows,
    after: ProjectRows,
) -> None:
    texts: dict[str, list[ContributionRow | ResourceRow]] = defaultdict(list)
    for row in after.texts:
        texts[row.storage_path].append(row)
    for old, new in zip(before.dialectic_files, after.dialectic_files, strict=True):
        data = await asyncio.to_thread(archive.read, old.path)
        file = File(new.path, data, new.mime_type)
        await records.insert_files(connection, account.tenant_id, after.project.id, [file])
        for row in texts[new.path]:
            text = row.content if row.content_in == "row" else read_content(data, row.content_in)
            if text is None:
                raise InvalidBundle(f"{old.path!r} does not hold the text that its row promises.")
            await bundles.write_text(connection, row, text)
