"""Move projects: out of the database and storage into one archive, and back in.

An export reads all rows in one look, then file by file; an import checks the whole archive before
it writes anything, and then writes everything in one commit. Knows nothing of how documents come
about.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from dialectic.app.transaction import Transaction
from dialectic.core.documents.readme import build_readme
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.core.strict_json import has_too_many
from dialectic.core.transfer.bundle_format import (
    Manifest,
    archive_path,
    check_size,
    check_values,
    is_finished,
    readme_path,
    settings_path,
)
from dialectic.core.transfer.row_conversion import parse_rows, read_content
from dialectic.core.transfer.rows import VALUES_MAX, ProcessRow, ProjectRows, TextRow
from dialectic.db.pool import Connection
from dialectic.db.tables import records, transfer
from dialectic.db.tables.records import Account, File
from dialectic.engine import Engine
from dialectic.errors import Conflict, InvalidBundle, InvalidProcess, NotFound
from dialectic.publishing.publish import publish_waiting
from dialectic.publishing.snapshot import PlacedText, place_texts, read_file, take_snapshot
from dialectic.storage.archive import Archive, open_archive, write_archive

PUBLISH_AT_ONCE = 50
TRIES = 3
# The standard process has three hundred.
PROCESS_VALUES_MAX = 10_000


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


async def resolve_project_id(tx: Transaction, text: str) -> UUID:
    """Get a project's id by folder or name, by the beginning of one, or by that of an id in it."""
    return await transfer.get_project_id(tx.connection, text)


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
    tenant_id = account.tenant_id
    snapshot = await take_snapshot(engine, tenant_id, project_id)
    rows, placed = snapshot.rows, dict[UUID, PlacedText]()
    slug = rows.project.slug
    chosen = [file for file in snapshot.files if not finished or is_finished(file["path"])]
    check_size(file["size_bytes"] for file in chosen)
    with write_archive(out) as writer:
        for file in chosen:
            data = await read_file(engine, tenant_id, file)
            await asyncio.to_thread(writer.add, file["path"], data)
            placed |= snapshot.find_texts(file["path"], data)
        if not finished:
            rows = await place_texts(engine, tenant_id, rows, placed)
            settings = rows.as_bytes()
            check_values(settings, settings_path(slug), VALUES_MAX)
            await asyncio.to_thread(writer.add, settings_path(slug), settings)
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
        key = f"{account.tenant_id}/{archive_path(exported.slug, finished=finished)}"
        await engine.files.write_file(key, draft)

    async def is_gone(connection: Connection) -> bool:
        return await transfer.find_slug(connection, project_id) is None

    if await engine.db.transact(account.tenant_id, is_gone):
        # It was deleted meanwhile, and with it what stood in its folder then.
        await engine.files.delete(key)
        raise NotFound(f"There is no project {project_id}.")
    return exported, engine.files.locate(key)


# -- in --------------------------------------------------------------------------------------------


async def import_project(engine: Engine, account: Account, path: Path) -> Imported:
    """Take a project in from an archive; nothing is written unless all of it is in order."""
    with open_archive(path) as archive:
        intake = await inspect(archive)

        async def work(connection: Connection) -> ProjectRows:
            return await intake.write(connection, account)

        with refusing_broken_rules():
            rows = await engine.db.transact(account.tenant_id, work)
    waiting = await publish_rows(engine, account, rows)
    return intake.describe(rows, waiting)


async def inspect(archive: Archive) -> Intake:
    """Check a whole archive before anything of it is written."""
    return Intake(archive, await asyncio.to_thread(_inspect, archive))


@dataclass(frozen=True, slots=True)
class Intake:
    """A bundle that is in order, on its way in."""

    archive: Archive
    arrival: transfer.ImportedProject
    # A commit whose answer was lost is tried again and must find what it has already done.
    done: list[ProjectRows] = field(default_factory=list)

    async def write(self, connection: Connection, account: Account) -> ProjectRows:
        """Write everything in the caller's transaction."""
        for rows in self.done:
            if await transfer.find_slug(connection, rows.project.id) == rows.project.slug:
                return rows
        rows = await transfer.settle_in(connection, account, self.arrival)
        await _write_files(connection, account, self.archive, self.arrival.rows, rows)
        self.done.append(rows)
        return rows

    def describe(self, rows: ProjectRows, waiting: Sequence[str] = ()) -> Imported:
        """Describe what was taken in."""
        return Imported(
            project_id=rows.project.id,
            slug=rows.project.slug,
            name=rows.project.project_name,
            session_ids=tuple(row.id for row in rows.dialectic_sessions),
            file_count=len(rows.dialectic_files),
            is_copy=rows.project.id == self.arrival.copy_id,
            waiting=tuple(waiting),
        )


@contextlib.contextmanager
def refusing_broken_rules() -> Iterator[None]:
    """Blame the bundle for what the server refuses: it knows every rule of its tables."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        # Its details would repeat what stands in the rows; its first sentence does not.
        raise InvalidBundle(
            f"The rows of the bundle break a rule: {error.args[0]}.", reason="broken_rule"
        ) from error


async def publish_rows(engine: Engine, account: Account, rows: ProjectRows) -> list[str]:
    """Carry the files of a project that was taken in to storage; return those that must wait."""
    paths = [row.path for row in rows.dialectic_files]
    waiting: list[str] = []
    for start in range(0, len(paths), PUBLISH_AT_ONCE):
        some = paths[start : start + PUBLISH_AT_ONCE]
        if not await publish_waiting(engine, account.tenant_id, some):
            waiting += some
    return waiting


def _inspect(archive: Archive) -> transfer.ImportedProject:
    """Check everything about an archive that can be checked without a database."""
    manifest = archive.manifest
    if manifest.contents == "finished":
        raise InvalidBundle(
            "The archive holds finished documents only, which is not all that a project needs. "
            "Export it without --finished to import it.",
            reason="finished_only",
        )
    rows = parse_rows(archive.read(settings_path(manifest.project)))
    made = {settings_path(manifest.project), readme_path(manifest.project)}
    listed = {(e.path, e.size_bytes, e.sha256) for e in manifest.files if e.path not in made}
    if listed != {(row.path, row.size_bytes, row.sha256) for row in rows.dialectic_files}:
        raise InvalidBundle(
            "manifest.json and project_settings.json do not name the same files.",
            reason="other_files",
        )
    archive.verify()
    processes = {row.id: _build_process(row) for row in rows.dialectic_process_templates}
    return transfer.ImportedProject(rows, processes, uuid4())


def _build_process(row: ProcessRow) -> Process:
    if has_too_many(json.dumps(row.definition).encode(), PROCESS_VALUES_MAX):
        raise InvalidBundle(
            f"The definition of process {row.name!r} has far too many values.",
            reason="too_many_values",
            subject=row.name,
        )
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
        raise InvalidBundle(
            f"The definition of process {row.name!r} has not its form.",
            reason="bad_form",
            subject=row.name,
        ) from None
    if process.content_hash != row.content_hash or process.name != row.name:
        raise InvalidBundle(
            f"The definition of process {row.name!r} is not what its hash says.",
            reason="other_hash",
            subject=row.name,
        )
    return process


async def _write_files(
    connection: Connection,
    account: Account,
    archive: Archive,
    before: ProjectRows,
    after: ProjectRows,
) -> None:
    texts: dict[str, list[TextRow]] = defaultdict(list)
    for row in after.texts:
        texts[row.storage_path].append(row)
    for old, new in zip(before.dialectic_files, after.dialectic_files, strict=True):
        data = await asyncio.to_thread(archive.read, old.path)
        file = File(new.path, data, new.mime_type)
        await records.insert_files(connection, account.tenant_id, after.project.id, [file])
        for row in texts[new.path]:
            text = row.content if row.content_in == "row" else read_content(data, row.content_in)
            if text is None:
                raise InvalidBundle(
                    f"{old.path!r} does not hold the text that its row promises.",
                    reason="other_text",
                    subject=old.path,
                )
            await transfer.write_text(connection, account, row, text)
