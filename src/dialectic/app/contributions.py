"""What a person does with single contributions: edit, write anew, read.

Each action is one transaction. A version is never overwritten: an edit and a new edition are rows
and files of their own, and whoever reads the document from then on reads the newest one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID, uuid4

from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.file_locations import ContributionFile, Intermediate
from dialectic.core.documents.file_paths import build_path, parse_path
from dialectic.core.documents.front_matter import render_document, split_document
from dialectic.core.job import derive_edition_job_id, parse_payload
from dialectic.core.process.reductions import list_left_out
from dialectic.core.text import clean_text
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs, records
from dialectic.db.tables.records import SQL, Account, File, NewResource, Noun, get_id
from dialectic.engine import Engine
from dialectic.errors import Conflict, NotFound, Remedy, RemedyAction, UsageError
from dialectic.pipeline.load import load_session_context
from dialectic.pipeline.write import build_stage_document
from dialectic.publishing.publish import publish_project

_REMEDY = Remedy(RemedyAction.LIST_CONTRIBUTIONS)
CONTRIBUTION = Noun("contribution", SQL["find_contribution_ids"], _REMEDY)
CHUNK = Noun("chunk", SQL["find_chunk_ids"], _REMEDY)


async def resolve_id(engine: Engine, account: Account, text: str) -> UUID:
    """Find a contribution by its id or the beginning of it, if that means only one."""

    async def work(connection: Connection) -> UUID:
        return await get_id(connection, CONTRIBUTION, text)

    return await engine.db.transact(account.tenant_id, work)


async def get_chunk(engine: Engine, account: Account, text: str) -> dict[str, Any]:
    """Load one turn of a document by its id or the beginning of it."""

    async def work(connection: Connection) -> dict[str, Any]:
        chunk_id = await get_id(connection, CHUNK, text)
        row = await connection.fetchrow(SQL["load_chunk"], chunk_id)
        assert row is not None, "it was just found"
        return dict(row)

    return await engine.db.transact(account.tenant_id, work)


async def list_chunks(
    engine: Engine, account: Account, contribution_id: UUID
) -> list[dict[str, Any]]:
    """List the turns of a document that took several, in order."""

    async def work(connection: Connection) -> list[dict[str, Any]]:
        rows = await connection.fetch(SQL["list_chunks"], contribution_id)
        return [dict(row) for row in rows]

    return await engine.db.transact(account.tenant_id, work)


async def load(engine: Engine, account: Account, contribution_id: UUID) -> dict[str, Any]:
    """Load a contribution with its text and how it came about."""

    async def work(connection: Connection) -> dict[str, Any]:
        return await load_in(connection, contribution_id)

    return await engine.db.transact(account.tenant_id, work)


async def load_record(engine: Engine, account: Account, contribution_id: UUID) -> dict[str, Any]:
    """Load a contribution with the turns that it took."""
    row = await load(engine, account, contribution_id)
    keys = ("id", "turn_index", "storage_path", "finish_reason", "tokens_used_output", "manifest")
    chunks = await list_chunks(engine, account, contribution_id)
    row["chunks"] = [{key: chunk[key] for key in keys} for chunk in chunks]
    return row


async def load_in(connection: Connection, contribution_id: UUID) -> dict[str, Any]:
    """Load a contribution in the caller's transaction."""
    row = await connection.fetchrow(SQL["load_contribution"], contribution_id)
    if row is None:
        raise NotFound(
            f"There is no contribution {contribution_id}.",
            reason="no_contribution",
            subject=str(contribution_id),
        )
    return dict(row)


async def lock_in(connection: Connection, contribution_id: UUID) -> UUID:
    """Keep a document as it is until the end of the transaction; return the first version's id.

    Whoever looks at it before they change it must look after this.
    """
    row = await load_in(connection, contribution_id)
    first_id: UUID = row["original_model_contribution_id"] or row["id"]
    await connection.fetchval(SQL["lock_versions"], first_id)
    return first_id


async def _load_first(connection: Connection, contribution_id: UUID) -> dict[str, Any]:
    """Load the first version of a document, locked against whoever else makes the next one."""
    return await load_in(connection, await lock_in(connection, contribution_id))


async def _load_newest(connection: Connection, first_id: UUID) -> dict[str, Any]:
    row = await connection.fetchrow(SQL["load_newest_version"], first_id)
    assert row is not None, "a document has a newest version"
    return dict(row)


@dataclass(frozen=True, slots=True)
class Edited:
    """A new version, and how many later documents were made from the old one."""

    id: UUID
    version: int
    path: str
    stale: int
    project_id: UUID


async def edit(engine: Engine, account: Account, contribution_id: UUID, text: str) -> Edited:
    """Put a person's version in the place of a document; the old one is kept."""
    new_id = uuid4()

    async def work(connection: Connection) -> Edited:
        return await edit_in(engine, connection, account, contribution_id, text, new_id)

    edited = await engine.db.transact(account.tenant_id, work)
    await publish_project(engine, account.tenant_id, edited.project_id)
    return edited


async def edit_in(
    engine: Engine,
    connection: Connection,
    account: Account,
    contribution_id: UUID,
    text: str,
    new_id: UUID,
) -> Edited:
    """Make a person's version of a document in the caller's transaction, under the id it names."""
    body = _read_body(text)
    first = await _load_first(connection, contribution_id)
    newest = await _load_newest(connection, first["id"])
    project_id = first["project_id"]
    if newest["id"] == new_id:  # a commit whose answer was lost
        return Edited(new_id, newest["edit_version"], newest["storage_path"], 0, project_id)
    if newest["content"].strip() == body.strip():
        raise Conflict(
            f"The text is the same as version {newest['edit_version']} of it.", reason="unchanged"
        )
    version = 1 + await connection.fetchval(
        SQL["find_last_version"], first["id"], first["session_id"]
    )
    edited, resources = await _build_edit(engine, connection, first, new_id, version, body)
    stale = await records.supersede(connection, first["id"])
    await records.insert_files(connection, account.tenant_id, project_id, [edited.file])
    await connection.execute(
        SQL["insert_edit"],
        first["id"],
        new_id,
        account.user_id,
        list(edited.flags),
        body,
        edited.file.path,
        len(edited.file.data),
        version,
    )
    owner = records.Owner(account.user_id, project_id)
    await records.put_resources(connection, account.tenant_id, owner, resources)
    return Edited(new_id, version, edited.file.path, stale, project_id)


def _read_body(text: str) -> str:
    """Take the text of a document; the fields above it are ours to write."""
    cleaned, _ = clean_text(text)
    _, body = split_document(cleaned)
    if not body.strip():
        raise UsageError(
            "The text is empty. Give the whole document as it should read.",
            reason="empty",
            subject="text",
        )
    return body


@dataclass(frozen=True, slots=True)
class _Version:
    file: File
    flags: tuple[str, ...]


async def _build_edit(
    engine: Engine,
    connection: Connection,
    first: dict[str, Any],
    new_id: UUID,
    version: int,
    body: str,
) -> tuple[_Version, list[NewResource]]:
    """Build the file of a new version and the documents that are cut out of it."""
    place = parse_path(first["storage_path"])
    assert isinstance(place, ContributionFile | Intermediate), "a contribution stands at its place"
    name = replace(place.contribution, version=version)
    scene = await load_session_context(
        engine, connection, first["session_id"], first["iteration_number"]
    )
    stage = scene.process.load_stage(first["stage"])
    is_final = first["contribution_type"] == stage.output_type
    expected = stage.expected_output_artifacts if is_final else ()
    cut = extract_documents(body, expected)
    flags = tuple(f"missing:{key}" for key in cut.missing)
    kind = (stage.slug, first["contribution_type"])
    left_out = list_left_out(scene.process, models=len(scene.models), until=kind)
    fields: dict[str, str | int | bool | list[str] | None] = {
        "contribution_id": str(new_id),
        "type": first["contribution_type"],
        "stage": stage.slug,
        "iteration": first["iteration_number"],
        "model": first["model_name"],
        "version": version,
        "edited_from": str(first["id"]),
        **({"flags": list(flags)} if flags else {}),
        **({"left_out": list(left_out)} if left_out else {}),
    }
    path = build_path(replace(place, contribution=name))
    file = File(path, render_document(fields, body).encode(), records.MARKDOWN)
    resources = [
        build_stage_document(
            wanted,
            cut.found[wanted.key],
            folder=place.folder,
            name=name,
            session_id=first["session_id"],
            contribution_id=new_id,
            model_name=first["model_name"],
        )
        for wanted in expected
        if wanted.key in cut.found
    ]
    return _Version(file, flags), resources


async def regenerate(engine: Engine, account: Account, contribution_id: UUID) -> UUID:
    """Let the same model write a document anew from what it reads now; return the job's id.

    What was made from the old version is marked as stale when the new one is there.
    """

    asked = Regeneration()

    async def work(connection: Connection) -> UUID:
        return await regenerate_in(connection, account, contribution_id, asked)

    return await engine.db.transact(account.tenant_id, work)


@dataclass(slots=True)
class Regeneration:
    """One wish to have a document written anew, and the job that was made for it when last tried.

    A commit whose answer was lost is tried again, and finds that job: it is paid for once.
    """

    job_id: UUID | None = None


async def regenerate_in(
    connection: Connection, account: Account, contribution_id: UUID, asked: Regeneration
) -> UUID:
    """Make the job that writes a document anew, in the caller's transaction."""
    first = await _load_first(connection, contribution_id)
    if asked.job_id is not None and await jobs.find_job(connection, asked.job_id) is not None:
        return asked.job_id
    session = await records.load_session(connection, first["session_id"])
    if session["status"] in ("paused", "cancelled"):
        raise Conflict(f"Session {session['id']} is {session['status']}.")
    status = await connection.fetchval(
        SQL["find_stage_status"], session["id"], first["iteration_number"], first["stage"]
    )
    if status in ("waiting", "generating"):
        raise Conflict(
            f"Stage {first['stage']!r} is still at work; write anew what it made when it is "
            "complete.",
            reason="stage_at_work",
            subject=first["stage"],
        )
    written_by = await jobs.find_job(connection, first["job_id"])
    if written_by is None:
        raise Conflict(
            "This contribution came with an imported project: how it was asked for is not "
            "known here, so it cannot be written anew. Edit it instead.",
            reason="imported",
        )
    edition = 1 + await connection.fetchval(
        SQL["find_last_version"], first["id"], first["session_id"]
    )
    payload = parse_payload(written_by["payload"]).model_copy(
        update={"edition": edition, "replaces": first["id"]}
    )
    new = jobs.NewJob(
        id=derive_edition_job_id(written_by["id"], edition=edition),
        session_id=first["session_id"],
        stage_slug=first["stage"],
        iteration_number=first["iteration_number"],
        payload=payload,
        max_retries=session["max_retries"],
        target_contribution_id=first["target_contribution_id"],
    )
    await jobs.insert_job(connection, account.tenant_id, new)
    asked.job_id = new.id
    return new.id
