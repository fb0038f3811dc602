"""Lists of a tenant's rows, one page at a time. See sql/queries/lists.sql.

A page begins after a key and not at a number, so that rows which are added meanwhile are neither
repeated nor skipped. Knows nothing of how a key is shown to a client. Functions take the connection
of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg

from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.errors import NotFound

SQL = load_queries("lists")
Rows: TypeAlias = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class PageQuery:
    """A part of a list: after which row, and how many rows."""

    limit: int
    after: tuple[datetime, UUID] | None = None

    @property
    def arguments(self) -> tuple[datetime | None, UUID | None, int]:
        when, row_id = self.after or (None, None)
        return when, row_id, self.limit


async def list_projects(connection: Connection, page: PageQuery) -> Rows:
    """List projects, the newest first."""
    return _plain(await connection.fetch(SQL["list_projects"], *page.arguments))


async def list_sessions(connection: Connection, page: PageQuery, project_id: UUID | None) -> Rows:
    """List sessions, of a project or of all, the newest first."""
    return _plain(await connection.fetch(SQL["list_sessions"], *page.arguments, project_id))


async def list_contributions(
    connection: Connection, page: PageQuery, session_id: UUID, stage: str | None
) -> Rows:
    """List the newest versions of a session's contributions, of a stage or of all, oldest first."""
    rows = await connection.fetch(SQL["list_contributions"], *page.arguments, session_id, stage)
    return _plain(rows)


async def list_versions(connection: Connection, first_id: UUID) -> Rows:
    """List the versions of a document, by the id of the first."""
    return _plain(await connection.fetch(SQL["list_versions"], first_id))


async def list_jobs(connection: Connection, page: PageQuery, session_id: UUID) -> Rows:
    """List a session's jobs, the oldest first."""
    return _plain(await connection.fetch(SQL["list_jobs"], *page.arguments, session_id))


async def list_documents(connection: Connection, page: PageQuery, session_id: UUID) -> Rows:
    """List the documents of a session that are not contributions, the oldest first."""
    return _plain(await connection.fetch(SQL["list_documents"], *page.arguments, session_id))


async def list_resources(connection: Connection, page: PageQuery, project_id: UUID) -> Rows:
    """List the resources of a project, the oldest first."""
    return _plain(await connection.fetch(SQL["list_resources"], *page.arguments, project_id))


async def load_document(connection: Connection, document_id: UUID) -> dict[str, Any]:
    """Load a document or a resource with its text."""
    row = await connection.fetchrow(SQL["load_document"], document_id)
    if row is None:
        raise NotFound(f"There is no document {document_id}.")
    return dict(row)


async def list_chats(connection: Connection, page: PageQuery) -> Rows:
    """List chats, the newest first."""
    return _plain(await connection.fetch(SQL["list_chats"], *page.arguments))


async def list_transactions(
    connection: Connection, wallet_id: UUID, *, before: int | None, limit: int
) -> Rows:
    """List the transactions of a wallet before one of them, the newest first."""
    return _plain(await connection.fetch(SQL["list_transactions"], before, limit, wallet_id))


def _plain(rows: Sequence[asyncpg.Record]) -> Rows:
    return [dict(row) for row in rows]
