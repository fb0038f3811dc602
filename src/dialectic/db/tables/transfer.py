"""Whole projects as rows: read in one look, written in one commit. See sql/queries/bundles.sql.

Knows neither archives nor storage. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dialectic.core.process.definition import Process
from dialectic.core.text import clean_text
from dialectic.core.transfer.row_conversion import Renaming, build_new_ids, rename_rows
from dialectic.core.transfer.rows import ChunkRow, ContributionRow, Json, ProjectRows, Row, TextRow
from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.db.tables import records
from dialectic.db.tables.records import Account, choose_slug
from dialectic.errors import NotFound, Remedy, RemedyAction, UsageError

SQL = load_queries("bundles")


async def get_project_id(connection: Connection, text: str) -> UUID:
    """Find a project by folder or name, by the beginning of one, or by that of an id in it."""
    if not text.strip():
        raise UsageError("Name a project: by its folder, its name, or an id.", reason="no_name")
    # Nothing here has a name that is no text.
    rows = await connection.fetch(SQL["find_projects"], clean_text(text)[0])
    best = [row for row in rows if row["rank"] == rows[0]["rank"]]
    if not best:
        raise NotFound(
            f"There is no project {text!r}: no folder, no name and no id of a project or a session "
            "begins so.",
            reason="no_project",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_SESSIONS),
        )
    if len(best) > 1:
        folders = ", ".join(row["slug"] for row in best)
        raise UsageError(
            f"{text!r} means more than one project. Name one by its folder: {folders}.",
            reason="ambiguous_name",
            subject=text,
        )
    found: UUID = best[0]["id"]
    return found


async def read_project(connection: Connection, project_id: UUID) -> dict[str, list[Json]]:
    """Read all rows of a project as they are at one moment, by table."""
    row = await connection.fetchrow(SQL["read_project"], project_id)
    if row is None or row["dialectic_projects"] is None:
        raise NotFound(f"There is no project {project_id}.")
    return {table: found or [] for table, found in row.items()}


async def read_file(connection: Connection, path: str) -> tuple[str | None, bytes | None]:
    """Read a file's hash, and its bytes while they wait for storage."""
    row = await connection.fetchrow(SQL["read_file"], path)
    return (None, None) if row is None else (row["sha256"], row["content"])


async def read_text(connection: Connection, row_id: UUID) -> str:
    """Read the text of a contribution, a chunk or a resource."""
    text: str = await connection.fetchval(SQL["read_text"], row_id)
    return text


@dataclass(frozen=True, slots=True)
class ImportedProject:
    """A bundle that is to be taken in, and what its processes are."""

    rows: ProjectRows
    processes: dict[UUID, Process]
    # The id of the project if the bundle's own ids are taken.
    copy_id: UUID


async def settle_in(
    connection: Connection, account: Account, arrival: ImportedProject
) -> ProjectRows:
    """Insert everything but files, texts and chunks; return the rows as they now stand.

    The bundle's own ids are kept where all of them are free, else all are made anew.
    """
    await connection.execute(SQL["allow_long_transaction"])
    rows = arrival.rows
    # Two who take in the same bundle at the same moment do so one after another.
    await connection.execute(records.SQL["lock_slug"], account.tenant_id, str(rows.project.id))
    own = [row.id for row in _owned(rows)]
    ids: dict[UUID, UUID] = {}
    if await connection.fetchval(SQL["ids_are_taken"], own):
        ids = build_new_ids(rows, arrival.copy_id)
    project_id = ids.get(rows.project.id, rows.project.id)
    slug = await choose_slug(connection, account.tenant_id, rows.project.slug, project_id)
    ids |= await _keep_shared(connection, account, arrival)
    moved = rename_rows(rows, Renaming(ids, slug))
    await _insert(connection, account, SQL["insert_project"], moved.dialectic_projects)
    await _insert(connection, account, SQL["insert_sessions"], moved.dialectic_sessions)
    await _insert(connection, account, SQL["insert_stage_runs"], moved.dialectic_stage_runs)
    await _insert(connection, account, SQL["insert_contributions"], moved.dialectic_contributions)
    await _insert(connection, account, SQL["insert_feedback"], moved.dialectic_feedback)
    await _insert(connection, account, SQL["insert_resources"], moved.dialectic_project_resources)
    return moved


async def write_text(connection: Connection, account: Account, row: TextRow, text: str) -> None:
    """Give a contribution or a resource its text; a chunk is inserted with it."""
    if isinstance(row, ContributionRow):
        await connection.execute(SQL["write_contribution_text"], row.id, text)
    elif isinstance(row, ChunkRow):
        columns = {**_as_columns(account, row), "content": text}
        await connection.execute(SQL["insert_chunk"], columns)
    else:
        await connection.execute(SQL["write_resource_text"], row.id, text)


async def find_slug(connection: Connection, project_id: UUID) -> str | None:
    """Find the folder of a project; None if there is no such project."""
    slug: str | None = await connection.fetchval(SQL["project_exists"], project_id)
    return slug


def _owned(rows: ProjectRows) -> tuple[Any, ...]:
    return (
        rows.project,
        *rows.dialectic_sessions,
        *rows.dialectic_contributions,
        *rows.dialectic_chunks,
        *rows.dialectic_feedback,
        *rows.dialectic_project_resources,
    )


async def _keep_shared(
    connection: Connection, account: Account, arrival: ImportedProject
) -> dict[UUID, UUID]:
    """Keep domain, models and processes; say under which ids this tenant has them."""
    tenant_id, rows = account.tenant_id, arrival.rows
    ids: dict[UUID, UUID] = {}
    for domain in rows.dialectic_domains:
        ids[domain.id] = records.derive_domain_id(tenant_id, domain.name)
        await connection.execute(
            SQL["keep_domain"],
            tenant_id,
            ids[domain.id],
            domain.name,
            domain.description,
            domain.is_enabled,
        )
    for model in rows.ai_providers:
        ids[model.id] = records.derive_model_id(tenant_id, model.api_identifier)
        await connection.execute(
            SQL["keep_model"],
            tenant_id,
            ids[model.id],
            model.api_identifier,
            model.provider,
            model.config,
        )
    for bundle_id, process in arrival.processes.items():
        ids[bundle_id] = await records.pin_process(connection, tenant_id, process)
    return ids


async def _insert(
    connection: Connection, account: Account, statement: str, rows: tuple[Row, ...]
) -> None:
    await connection.execute(statement, [_as_columns(account, row) for row in rows])


def _as_columns(account: Account, row: Row) -> Json:
    columns = row.model_dump(mode="json")
    is_by_user = columns.pop("is_by_user", True)
    if "content_in" in columns:
        del columns["content"]
    return {
        **columns,
        "tenant_id": str(account.tenant_id),
        "user_id": str(account.user_id) if is_by_user else None,
        "wallet_id": str(account.wallet_id),
    }
