"""Whole projects as rows: read at one moment, inserted in one commit. See sql/queries/bundles.sql.

Independent of archives and storage. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from dialectic.core.documents.excerpt import build_card
from dialectic.core.process.definition import Process
from dialectic.core.strict_json import Json
from dialectic.core.text import clean_text
from dialectic.core.transfer.row_conversion import Renaming, build_new_ids, rename_rows
from dialectic.core.transfer.rows import (
    ChunkRow,
    ContributionRow,
    ProjectRows,
    Row,
    SessionRow,
    TextRow,
)
from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.db.tables import records
from dialectic.db.tables.records import Account, choose_slug
from dialectic.errors import NotFound, Remedy, RemedyAction, UsageError

SQL = load_queries("bundles")


async def get_project_id(connection: Connection, text: str) -> UUID:
    """Find a project by folder or name, by a prefix of one, or by a prefix of an id in it."""
    if not text.strip():
        raise UsageError(
            "The project is missing. Give its folder, its name or an id.", reason="no_name"
        )
    # PostgreSQL rejects some characters (NUL); clean the text before the query.
    rows = await connection.fetch(SQL["find_projects"], clean_text(text)[0])
    best = [row for row in rows if row["rank"] == rows[0]["rank"]]
    if not best:
        raise NotFound(
            f"Project {text!r} not found: no folder, name, project id or session id begins with "
            "it.",
            reason="no_project",
            subject=text,
            remedy=Remedy(RemedyAction.LIST_SESSIONS),
        )
    if len(best) > 1:
        folders = ", ".join(row["slug"] for row in best)
        raise UsageError(
            f"{text!r} matches more than one project. Give the folder of one: {folders}.",
            reason="ambiguous_name",
            subject=text,
        )
    found: UUID = best[0]["id"]
    return found


async def read_project(connection: Connection, project_id: UUID) -> dict[str, list[Json]]:
    """Read all rows of a project in one snapshot, by table."""
    row = await connection.fetchrow(SQL["read_project"], project_id)
    if row is None or row["dialectic_projects"] is None:
        raise NotFound(f"Project {project_id} does not exist.")
    return {table: found or [] for table, found in row.items()}


async def read_file(connection: Connection, path: str) -> tuple[str | None, bytes | None]:
    """Read a file's hash, and its bytes until they are in storage."""
    row = await connection.fetchrow(SQL["read_file"], path)
    return (None, None) if row is None else (row["sha256"], row["content"])


async def find_text(connection: Connection, row_id: UUID) -> str | None:
    """Find the text of a contribution, a chunk or a resource; None if the row is gone."""
    text: str | None = await connection.fetchval(SQL["read_text"], row_id)
    return text


async def read_texts(connection: Connection, row_ids: Sequence[UUID]) -> dict[UUID, str]:
    """Read the texts of several contributions."""
    rows = await connection.fetch(SQL["read_texts"], row_ids)
    return {row["id"]: row["content"] for row in rows}


async def find_slug(connection: Connection, project_id: UUID) -> str | None:
    """Find the folder of a project; None if the project does not exist."""
    slug: str | None = await connection.fetchval(records.SQL["find_project_slug"], project_id)
    return slug


async def insert_project(
    connection: Connection,
    account: Account,
    rows: ProjectRows,
    processes: Mapping[UUID, Process],
    copy_id: UUID,
) -> ProjectRows:
    """Insert a project without its texts and chunks; return the rows with their final ids.

    Rows keep their ids if all of them are free; otherwise all get new ones, derived from `copy_id`.
    `processes` maps ids in `rows` to the project's processes.
    """
    tenant_id = account.tenant_id
    await connection.execute(SQL["allow_long_transaction"])
    # Two imports of the same bundle run one after the other.
    await connection.execute(records.SQL["lock_slug"], tenant_id, str(rows.project.id))
    ids: dict[UUID, UUID] = {}
    if await connection.fetchval(SQL["ids_are_taken"], [row.id for row in rows.own]):
        ids = build_new_ids(rows, copy_id)
    project_id = ids.get(rows.project.id, rows.project.id)
    slug = await choose_slug(connection, tenant_id, rows.project.slug, project_id)
    for domain in rows.dialectic_domains:
        ids[domain.id] = records.derive_domain_id(tenant_id, domain.name)
    for model in rows.ai_providers:
        ids[model.id] = records.derive_model_id(tenant_id, model.api_identifier)
    for process_id, process in processes.items():
        ids[process_id] = records.derive_process_id(tenant_id, process)
    moved = rename_rows(rows, Renaming(ids, slug))

    async def insert(statement: str, rows: Sequence[Row]) -> None:
        await connection.execute(statement, [_as_columns(account, row) for row in rows])

    # Before the processes, which would insert missing domains without a description.
    await insert(SQL["insert_domains"], moved.dialectic_domains)
    await insert(SQL["insert_models"], moved.ai_providers)
    for process in processes.values():
        await records.pin_process(connection, tenant_id, process)
    await insert(SQL["insert_projects"], moved.dialectic_projects)
    await insert(SQL["insert_sessions"], moved.dialectic_sessions)
    await insert(SQL["insert_stage_runs"], moved.dialectic_stage_runs)
    await insert(SQL["insert_contributions"], moved.dialectic_contributions)
    await insert(SQL["insert_feedback"], moved.dialectic_feedback)
    await insert(SQL["insert_resources"], moved.dialectic_project_resources)
    return moved


async def write_text(connection: Connection, account: Account, row: TextRow, text: str) -> None:
    """Write the text of a contribution or a resource; insert a chunk whole (it is immutable)."""
    if isinstance(row, ContributionRow):
        card = build_card(text)
        shown = (card.title, card.excerpt, card.words)
        await connection.execute(SQL["write_contribution_text"], row.id, text, *shown)
    elif isinstance(row, ChunkRow):
        await connection.execute(SQL["insert_chunks"], [_as_columns(account, row, text)])
    else:
        await connection.execute(SQL["write_resource_text"], row.id, text)


def _as_columns(account: Account, row: Row, text: str = "") -> Json:
    """Build a row for the importing account, with this text if the row keeps its text in a file."""
    columns = row.model_dump(mode="json")
    return {
        **columns,
        **({"content": text} if "content_in" in columns else {}),
        "tenant_id": str(account.tenant_id),
        "user_id": str(account.user_id) if columns.get("is_by_user", True) else None,
        "wallet_id": str(account.wallet_id),
        **({"phase": row.phase, "approve_spend": False} if isinstance(row, SessionRow) else {}),
    }
