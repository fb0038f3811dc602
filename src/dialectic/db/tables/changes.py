"""Rows that changed since a snapshot, by the transaction that changed them. See changes.sql.

Functions take the connection of a tenant's transaction, except `list_changed_tenants`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import list_plain, list_rows, load_queries

SQL = load_queries("changes")


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row that changed: what it is, and the session and iteration that show it."""

    kind: str
    id: UUID
    session_id: UUID | None
    iteration: int | None
    # Whose wallet it is.
    user_id: UUID | None
    # The transaction that changed it.
    changed_in: int


def build_seen(horizon: int) -> str:
    """Build the snapshot that saw every transaction before one, and none from it on."""
    return f"{horizon}:{horizon}:"


async def list_changed_tenants(connection: Connection, seen: Mapping[UUID, str]) -> list[UUID]:
    """List the tenants with changes that are missing from their snapshots."""
    rows = await connection.fetch(SQL["list_changed_tenants"], list(seen), list(seen.values()))
    return [row["tenant_id"] for row in rows]


async def list_changes(connection: Connection, seen: str, *, limit: int) -> list[ChangedRow]:
    """List the rows that changed since a snapshot."""
    return await list_rows(connection, ChangedRow, SQL["list_changes"], seen, limit)


async def list_projects(connection: Connection, ids: Sequence[UUID]) -> list[Json]:
    """List some projects as lists show them."""
    return await list_plain(connection, SQL["list_changed_projects"], list(ids))


async def list_chats(connection: Connection, ids: Sequence[UUID]) -> list[Json]:
    """List some chats as lists show them."""
    return await list_plain(connection, SQL["list_changed_chats"], list(ids))
