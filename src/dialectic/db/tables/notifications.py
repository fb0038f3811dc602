"""Events and notifications as rows: followed by number, listed for a user, pruned by age.

The statements are in sql/queries/notifications.sql. This module inserts none:
`records.record_event` and the SQL functions for jobs do, in the transaction of the change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

import asyncpg
from pydantic import JsonValue

from dialectic.contract.events import SessionSnapshot
from dialectic.core.session_state import show_status
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries
from dialectic.errors import NotFound

SQL = load_queries("notifications")
PAGE = 500
STATES_MAX = 100
PRUNED_AT_ONCE_MAX = 5000


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One event, as a row."""

    seq: int
    id: int
    user_id: UUID | None
    session_id: UUID | None
    type: str
    title: str | None
    message: str | None
    link_path: str | None
    data: JsonValue
    is_internal_event: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events of a tenant, read in one snapshot."""

    events: Sequence[StoredEvent]
    # The highest number given, and the highest number pruned.
    last_seq: int
    pruned_seq: int
    # Whether the limit was reached: there may be more.
    is_full: bool

    @property
    def end_seq(self) -> int:
        """The number up to which all events have been read."""
        return self.events[-1].seq if self.is_full else self.last_seq


async def read_events(
    connection: Connection, *, after_seq: int, session_id: UUID | None = None, limit: int = PAGE
) -> EventPage:
    """Read the events after the last number seen, in order."""
    rows = await connection.fetch(SQL["read_events"], after_seq, session_id, limit)
    names = StoredEvent.__dataclass_fields__
    found = [
        StoredEvent(**{name: row[name] for name in names}) for row in rows if row["seq"] is not None
    ]
    is_full = bool(found) and len(found) == limit
    return EventPage(found, rows[0]["last_seq"], rows[0]["pruned_seq"], is_full)


async def list_news(connection: Connection, known: Mapping[UUID, int]) -> list[UUID]:
    """List the tenants that have events after their last known number."""
    rows = await connection.fetch(SQL["list_news"], list(known), list(known.values()))
    return [row["tenant_id"] for row in rows]


async def list_session_states(
    connection: Connection, session_id: UUID | None
) -> list[SessionSnapshot]:
    """List the states of the newest sessions, or of one."""
    rows = await connection.fetch(SQL["list_session_states"], session_id, STATES_MAX)
    return [SessionSnapshot.model_validate(show_status(row)) for row in rows]


async def prune(db: Database, *, kept_days: float, kept_max: int) -> int:
    """Delete a batch of old events of all tenants; return how many."""
    age = timedelta(days=kept_days)
    rows = await db.fetch(SQL["prune"], age, kept_max, PRUNED_AT_ONCE_MAX)
    count: int = rows[0]["count"]
    return count


async def list_notifications(
    connection: Connection,
    user_id: UUID,
    *,
    before_id: int | None = None,
    unread_only: bool = False,
    limit: int = 50,
) -> list[asyncpg.Record]:
    """List a user's notifications, newest first; pass the last id as `before_id` for the next."""
    return await connection.fetch(SQL["list_notifications"], user_id, before_id, unread_only, limit)


async def mark_read(connection: Connection, user_id: UUID, notification_id: int) -> None:
    """Mark a notification as read; idempotent."""
    if await connection.fetchval(SQL["mark_read"], notification_id, user_id) is None:
        raise NotFound(f"Notification {notification_id} does not exist.")
