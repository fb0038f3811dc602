"""Lists of a tenant's rows, one page at a time. See sql/queries/lists.sql.

Pages are keyset pages: rows added between two requests are neither repeated nor skipped. The API
encodes the key for clients. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

from dialectic.core.session_state import Phase, show_status
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
    # Of a list by name, the name in lower case comes in place of the time.
    after: tuple[datetime | str, UUID] | None = None

    @property
    def arguments(self) -> tuple[datetime | None, UUID | None, int]:
        when, row_id = self.after or (None, None)
        return when if isinstance(when, datetime) else None, row_id, self.limit

    @property
    def after_name(self) -> str | None:
        """The name of the row before the page, in a list by name."""
        return self.after[0] if self.after and isinstance(self.after[0], str) else None


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
    phases: Sequence[Phase] | None = None,
    ids: Sequence[UUID] | None = None,
) -> Rows:
    """List the sessions of one project or of all, newest first.

    `archived` limits them to those of archived projects, or of the others; `phases` and `ids` limit
    them further.
    """
    found = (*page.arguments, project_id, archived, phases, ids)
    rows = await connection.fetch(SQL["list_sessions"], *found)
    return [show_status(row) for row in rows]


@dataclass(frozen=True, slots=True)
class ProjectFilter:
    """Which projects are listed, and in which order."""

    sort: str = "created"
    archived: bool | None = None
    text: str | None = None
    # The phases of the last session.
    phases: Sequence[Phase] | None = None
    user_id: UUID | None = None


async def list_project_lines(
    connection: Connection, page: PageQuery, wanted: ProjectFilter
) -> Rows:
    """List projects with all that a line shows but the last session."""
    return await list_plain(
        connection,
        SQL["list_project_lines"],
        *page.arguments,
        wanted.archived,
        wanted.text,
        wanted.phases,
        wanted.user_id,
        wanted.sort,
        page.after_name,
    )


async def list_session_details(connection: Connection, session_ids: Sequence[UUID]) -> Rows:
    """List what lines show of sessions beyond their summaries."""
    return await list_plain(connection, SQL["list_session_details"], session_ids)


async def list_waiting(connection: Connection, session_ids: Sequence[UUID] | None) -> Rows:
    """List what may wait for a person: in these sessions, or in all that are not archived."""
    return await list_plain(connection, SQL["list_waiting"], session_ids)


async def list_contributions(
    connection: Connection, page: PageQuery, session_id: UUID, stage: str | None, user_id: UUID
) -> Rows:
    """List the latest versions of a session's contributions, of one stage or all, oldest first.

    Each has its ratings, and that of one user.
    """
    found = (*page.arguments, session_id, stage, user_id)
    return await list_plain(connection, SQL["list_contributions"], *found)


async def list_versions(connection: Connection, first_id: UUID) -> Rows:
    """List the versions of a document, by the id of its first version."""
    return await list_plain(connection, SQL["list_versions"], first_id)


async def load_ratings(
    connection: Connection, session_id: UUID, first_id: UUID, user_id: UUID
) -> Json:
    """Load the ratings of a document, and that of one user."""
    row = await connection.fetchrow(SQL["load_ratings"], session_id, first_id, user_id)
    assert row is not None, "a query without groups has one row"
    return dict(row)


async def list_feedback(
    connection: Connection,
    user_id: UUID,
    *,
    session_id: UUID | None = None,
    feedback_id: UUID | None = None,
) -> Rows:
    """List the feedback of a session, or one entry, with what a user may do with it."""
    return await list_plain(connection, SQL["list_feedback"], session_id, feedback_id, user_id)


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


async def list_spending(connection: Connection, wallet_id: UUID, days: int) -> Rows:
    """List what a wallet paid in the latest days, by day, model and kind of money."""
    return await list_plain(connection, SQL["list_spending"], wallet_id, days)
