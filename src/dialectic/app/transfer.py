"""Export projects from the database and storage into one archive, and import them.

An export reads all rows in one snapshot, then file by file. An import checks the whole archive
first, and then writes everything in one commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from dialectic.contract.projects import ExportedProject, ImportedProject
from dialectic.core.documents.readme import build_readme
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process, hash_definition
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
from dialectic.core.transfer.rows import (
    VALUES_MAX,
    ContentIn,
    FileRow,
    ProcessRow,
    ProjectRows,
    TextRow,
)
from dialectic.db.pool import Connection
from dialectic.db.tables import transfer
from dialectic.db.tables.files import File, insert_files
from dialectic.db.tables.records import Account
from dialectic.engine import Engine
from dialectic.errors import InvalidBundle, InvalidProcess, NotFound
from dialectic.publishing.plan_files import read_work_files
from dialectic.publishing.plan_page import update_page
from dialectic.publishing.publish import publish_project
from dialectic.publishing.snapshot import add_texts, read_file, retry_if_changed, take_snapshot
from dialectic.storage.archive import Archive, open_archive, write_archive

# For comparison: the standard process has three hundred.
PROCESS_VALUES_MAX = 10_000


def describe_export(project_id: UUID, manifest: Manifest, path: str) -> ExportedProject:
    """Describe an archive by its manifest."""
    return ExportedProject(
        project_id=project_id,
        project=manifest.project,
        path=path,
        contents=manifest.contents,
        files=len(manifest.files),
        size_bytes=sum(entry.size_bytes for entry in manifest.files),
        left_out=list(manifest.left_out),
    )


# -- export ----------------------------------------------------------------------------------------


async def export_project(
    engine: Engine, account: Account, project_id: UUID, out: Path, *, finished: bool = False
) -> ExportedProject:
    """Write a project into an archive: all of it, or finished documents only.

    The archive is a snapshot of the project: if a file changes meanwhile, the export starts over.
    """
    tenant_id = account.tenant_id
    return await retry_if_changed(
        partial(_export_once, engine, tenant_id, project_id, out, finished=finished)
    )


async def _export_once(
    engine: Engine, tenant_id: UUID, project_id: UUID, out: Path, *, finished: bool
) -> ExportedProject:
    snapshot = await take_snapshot(engine, tenant_id, project_id)
    if await update_page(engine, tenant_id, snapshot.rows):
        snapshot = await take_snapshot(engine, tenant_id, project_id)
    rows, placed = snapshot.rows, dict[UUID, ContentIn]()
    slug = rows.project.slug
    chosen = [file for file in rows.dialectic_files if not finished or is_finished(file.path)]
    check_size(file.size_bytes for file in chosen)
    with write_archive(out) as writer:
        for file in chosen:
            data = await read_file(engine, tenant_id, file)
            await asyncio.to_thread(writer.add, file.path, data)
            placed |= snapshot.place_texts(file, data)
        work, left_out = list[FileRow](), list[str]()
        # As they are now: they belong to the person who works on them.
        async for entry, kept in read_work_files(engine, tenant_id, slug):
            if kept is None:
                left_out.append(entry)
                continue
            await asyncio.to_thread(writer.add, entry, kept.data)
            file = kept.as_row(entry)
            placed |= snapshot.place_texts(file, kept.data)
            work.append(file)
        whole = snapshot.with_work_files(work)
        rows = whole.rows
        if not finished:
            rows = await add_texts(engine, tenant_id, whole, placed)
            settings = rows.as_bytes()
            check_values(settings, settings_path(slug), VALUES_MAX)
            await asyncio.to_thread(writer.add, settings_path(slug), settings)
        await asyncio.to_thread(writer.add, readme_path(slug), build_readme(rows).encode())
        contents = "finished" if finished else "all"
        manifest = await asyncio.to_thread(
            writer.finish, contents=contents, project=slug, left_out=left_out
        )
    return describe_export(project_id, manifest, str(out))


async def export_into_storage(
    engine: Engine, account: Account, project_id: UUID, *, finished: bool = False
) -> ExportedProject:
    """Write the archive into the project's folder."""
    with tempfile.TemporaryDirectory(prefix="dialectic-") as folder:
        draft = Path(folder, "export.zip")
        exported = await export_project(engine, account, project_id, draft, finished=finished)
        key = f"{account.tenant_id}/{archive_path(exported.project, finished=finished)}"
        await engine.files.write_file(key, draft)
    find_slug = partial(transfer.find_slug, project_id=project_id)
    if await engine.db.transact(account.tenant_id, find_slug) is None:
        # The project was deleted during the export, before this file existed.
        await engine.files.delete(key)
        raise NotFound(f"Project {project_id} does not exist.")
    return exported.model_copy(update={"path": engine.files.locate(key)})


# -- import ----------------------------------------------------------------------------------------


async def import_project(engine: Engine, account: Account, path: Path) -> ImportedProject:
    """Import a project from an archive, all or nothing."""
    with open_archive(path) as archive:
        intake = await inspect(archive)
        with refusing_broken_rules():
            rows = await engine.db.transact(
                account.tenant_id, partial(intake.write, account=account)
            )
    waiting = await publish_project(engine, account.tenant_id, rows.project.id)
    return intake.describe(rows, len(waiting))


@dataclass(frozen=True, slots=True)
class Intake:
    """A valid bundle to import."""

    archive: Archive
    rows: ProjectRows
    processes: Mapping[UUID, Process]
    # The id of the project if its original id exists already.
    copy_id: UUID
    # A retry after a lost confirmation must find the committed import.
    done: list[ProjectRows] = field(default_factory=list)

    async def write(self, connection: Connection, account: Account) -> ProjectRows:
        """Write everything in the caller's transaction."""
        for rows in self.done:
            if await transfer.find_slug(connection, rows.project.id) == rows.project.slug:
                return rows
        rows = await transfer.insert_project(
            connection, account, self.rows, self.processes, self.copy_id
        )
        await self._write_files(connection, account, rows)
        self.done.append(rows)
        return rows

    async def _write_files(
        self, connection: Connection, account: Account, written: ProjectRows
    ) -> None:
        texts: dict[str, list[TextRow]] = defaultdict(list)
        for row in written.texts:
            texts[row.storage_path].append(row)
        files = zip(self.rows.dialectic_files, written.dialectic_files, strict=True)
        for old, new in files:
            data = await asyncio.to_thread(self.archive.read, old.path)
            file = File(new.path, data, new.mime_type)
            await insert_files(connection, account.tenant_id, written.project.id, [file])
            for row in texts[new.path]:
                in_file = row.content_in != "row"
                text = read_content(data, row.content_in) if in_file else row.content
                if text is None:
                    message = f"{old.path!r} does not hold the text of its row."
                    raise InvalidBundle(message, reason="other_text", subject=old.path)
                await transfer.write_text(connection, account, row, text)

    def describe(self, rows: ProjectRows, waiting: int = 0) -> ImportedProject:
        """Describe the imported project."""
        return ImportedProject(
            project_id=rows.project.id,
            slug=rows.project.slug,
            name=rows.project.project_name,
            session_ids=[row.id for row in rows.dialectic_sessions],
            files=len(rows.dialectic_files),
            is_copy=rows.project.id == self.copy_id,
            waiting=waiting,
        )


@contextlib.contextmanager
def refusing_broken_rules() -> Iterator[None]:
    """Report rows that PostgreSQL rejects as an error in the bundle."""
    try:
        yield
    except (asyncpg.DataError, asyncpg.IntegrityConstraintViolationError) as error:
        # Show only the primary message: the details contain values of the rows.
        message = f"PostgreSQL rejects the rows of the bundle: {error.args[0]}."
        raise InvalidBundle(message, reason="broken_rule") from error


async def inspect(archive: Archive) -> Intake:
    """Check a whole archive before the import writes anything."""
    return await asyncio.to_thread(_inspect, archive)


def _inspect(archive: Archive) -> Intake:
    manifest = archive.manifest
    if manifest.contents == "finished":
        raise InvalidBundle(
            "The archive holds finished documents only and cannot be imported. "
            "Export the whole project.",
            reason="finished_only",
        )
    rows = parse_rows(archive.read(settings_path(manifest.project)))
    made = {settings_path(manifest.project), readme_path(manifest.project)}
    listed = {(e.path, e.size_bytes, e.sha256) for e in manifest.files if e.path not in made}
    if listed != {(row.path, row.size_bytes, row.sha256) for row in rows.dialectic_files}:
        message = "manifest.json and project_settings.json do not name the same files."
        raise InvalidBundle(message, reason="other_files")
    archive.verify()
    processes = {row.id: _build_process(row) for row in rows.dialectic_process_templates}
    return Intake(archive, rows, processes, copy_id=uuid4())


def _build_process(row: ProcessRow) -> Process:
    definition, name = row.definition, f"process {row.name!r} in the bundle"
    check_values(json.dumps(definition).encode(), name, PROCESS_VALUES_MAX)
    try:
        process = build_process(
            dict(definition["file"]),
            dict(definition["prompts"]),
            list(definition["overlays"].values()),
            place=name,
        )
    except InvalidProcess as error:
        raise InvalidBundle(error.message) from None
    except (KeyError, TypeError, ValueError, AttributeError):
        message = f"The definition of {name} is not valid."
        raise InvalidBundle(message, reason="bad_form", subject=row.name) from None
    # The hash of what the bundle holds: a process of an older version lacks newer fields.
    if hash_definition(definition) != row.content_hash or process.name != row.name:
        message = f"The definition of {name} does not match its hash."
        raise InvalidBundle(message, reason="other_hash", subject=row.name)
    return process
