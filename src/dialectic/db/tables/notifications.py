"""Events and notifications as rows: followed by number, listed for a user, pruned by age.

The statements are in sql/queries/notifications.sql. `records.record_event` inserts events. SQL
functions insert most notifications, in the transaction of the change: session_messages.sql.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.core.session_state import show_status
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import list_plain, load_queries
from dialectic.errors import NotFound, Remedy, RemedyAction

if TYPE_CHECKING:
    from pydantic import JsonValue

    from dialectic.contract.events import SessionSnapshot
    from dialectic.contract.notifications import NotificationType

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
    remedy: JsonValue
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
    from dialectic.contract.events import SessionSnapshot

    rows = await connection.fetch(SQL["list_session_states"], session_id, STATES_MAX)
    return [SessionSnapshot.model_validate(show_status(row)) for row in rows]


async def prune(db: Database, *, kept_days: float, kept_max: int) -> int:
    """Delete a batch of old events of all tenants; return how many."""
    age = timedelta(days=kept_days)
    rows = await db.fetch(SQL["prune"], age, kept_max, PRUNED_AT_ONCE_MAX)
    count: int = rows[0]["count"]
    return count


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNotification:
    """A message to the user of a session."""

    session_id: UUID
    type: NotificationType
    title: str
    # What happened, and what to do. It names no command: the remedy does that.
    message: str
    remedy: Remedy | None = None
    # What it is about: it is told once until the cause is resolved. None: each time.
    cause: str | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict)
    # The user knows it already, for example because they did it.
    is_read: bool = False


async def notify(connection: Connection, new: NewNotification) -> None:
    """Tell the user of a session something, in the transaction that causes it."""
    remedy = None if new.remedy is None else new.remedy.for_session(new.session_id).as_dict()
    await connection.execute(
        SQL["notify"],
        new.session_id,
        new.type,
        new.title,
        new.message,
        remedy,
        new.cause,
        dict(new.data),
        new.is_read,
    )


async def list_notifications(
    connection: Connection,
    user_id: UUID,
    *,
    before_id: int | None = None,
    unread_only: bool = False,
    limit: int = 50,
) -> list[Json]:
    """List a user's notifications, newest first; pass the last id as `before_id` for the next."""
    found = (user_id, before_id, unread_only, limit)
    return await list_plain(connection, SQL["list_notifications"], *found)


async def count_unread(connection: Connection, user_id: UUID) -> int:
    """Count a user's unread notifications."""
    count: int = await connection.fetchval(SQL["count_unread"], user_id)
    return count


async def mark_read(connection: Connection, user_id: UUID, notification_id: int) -> None:
    """Mark a notification as read; idempotent."""
    if await connection.fetchval(SQL["mark_read"], notification_id, user_id) is None:
        raise NotFound(
            f"Notification {notification_id} does not exist.",
            reason="no_notification",
            subject=str(notification_id),
            remedy=Remedy(RemedyAction.LIST_NOTIFICATIONS),
        )


async def mark_all_read(
    connection: Connection, user_id: UUID, *, up_to: int | None, session_id: UUID | None
) -> int:
    """Mark a user's notifications as read, up to one or of one session; return how many were."""
    count: int = await connection.fetchval(SQL["mark_all_read"], user_id, up_to, session_id)
    return count
