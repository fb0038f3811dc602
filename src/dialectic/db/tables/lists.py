"""Lists of a tenant's rows, one page at a time. See sql/queries/lists.sql.

Pages are keyset pages: rows added between two requests are neither repeated nor skipped. The API
encodes the key for clients. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from dialectic.core.session_state import show_status
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import list_plain, load_queries
from dialectic.errors import NotFound

SQL = load_queries("lists")
Rows: TypeAlias = list[Json]


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A page of a list: the key of the row before it, and the number of rows."""

    limit: int
    after: tuple[datetime, UUID] | None = None

    @property
    def arguments(self) -> tuple[datetime | None, UUID | None, int]:
        when, row_id = self.after or (None, None)
        return when, row_id, self.limit


async def list_projects(
    connection: Connection, page: PageQuery, *, archived: bool | None = None
) -> Rows:
    """List projects, newest first: all, the archived ones or the others."""
    return await list_plain(connection, SQL["list_projects"], *page.arguments, archived)


async def list_sessions(
    connection: Connection,
    page: PageQuery,
    project_id: UUID | None,
    *,
    archived: bool | None = None,
) -> Rows:
    """List the sessions of one project or of all, newest first.

    `archived` limits them to those of archived projects, or of the others.
    """
    rows = await connection.fetch(SQL["list_sessions"], *page.arguments, project_id, archived)
    return [show_status(row) for row in rows]


async def list_contributions(
    connection: Connection, page: PageQuery, session_id: UUID, stage: str | None
) -> Rows:
    """List the latest versions of a session's contributions, of one stage or all, oldest first."""
    found = (*page.arguments, session_id, stage)
    return await list_plain(connection, SQL["list_contributions"], *found)


async def list_versions(connection: Connection, first_id: UUID) -> Rows:
    """List the versions of a document, by the id of its first version."""
    return await list_plain(connection, SQL["list_versions"], first_id)


async def list_jobs(connection: Connection, page: PageQuery, session_id: UUID) -> Rows:
    """List a session's jobs, oldest first."""
    return await list_plain(connection, SQL["list_jobs"], *page.arguments, session_id)


async def list_documents(connection: Connection, page: PageQuery, session_id: UUID) -> Rows:
    """List a session's documents that are not contributions, oldest first."""
    return await list_plain(connection, SQL["list_documents"], *page.arguments, session_id)


async def list_resources(connection: Connection, page: PageQuery, project_id: UUID) -> Rows:
    """List a project's resources, oldest first."""
    return await list_plain(connection, SQL["list_resources"], *page.arguments, project_id)


async def load_document(connection: Connection, document_id: UUID) -> Json:
    """Load a document or a resource with its text."""
    row = await connection.fetchrow(SQL["load_document"], document_id)
    if row is None:
        raise NotFound(f"Document {document_id} does not exist.")
    return dict(row)


async def list_chats(connection: Connection, page: PageQuery) -> Rows:
    """List chats, newest first."""
    return await list_plain(connection, SQL["list_chats"], *page.arguments)


async def list_system_prompts(connection: Connection, page: PageQuery) -> Rows:
    """List the system prompts of the tenant's processes, newest first."""
    return await list_plain(connection, SQL["list_system_prompts"], *page.arguments)


async def list_transactions(
    connection: Connection, wallet_id: UUID, *, before: int | None, limit: int
) -> Rows:
    """List a wallet's transactions before a given one, newest first."""
    return await list_plain(connection, SQL["list_transactions"], before, limit, wallet_id)
