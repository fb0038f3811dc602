"""News as rows: followed by number, listed for a person, removed when it is old.

Statements stand in sql/queries/notifications.sql. Nothing is written here: `records.announce` and
the functions of jobs do that, in the commit that the news is about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries
from dialectic.errors import NotFound

SQL = load_queries("notifications")
STATES_MAX = 100
PRUNED_AT_ONCE_MAX = 5000


@dataclass(frozen=True, slots=True)
class EventPage:
    """What was read of the events of a tenant, at one moment."""

    rows: Sequence[Mapping[str, Any]]
    # The last number there is, and the highest that was removed.
    last_seq: int
    pruned_seq: int
    # Whether there may be more than was asked for.
    is_full: bool

    @property
    def end_seq(self) -> int:
        """The number up to which nothing is left to be read."""
        seq: int = self.rows[-1]["seq"] if self.is_full else self.last_seq
        return seq


async def read_events(
    connection: Connection, *, after_seq: int, session_id: UUID | None, limit: int = 500
) -> EventPage:
    """Read what is new, in order, after the last number seen."""
    rows = await connection.fetch(SQL["read_events"], after_seq, session_id, limit)
    found = [dict(row) for row in rows if row["seq"] is not None]
    is_full = bool(found) and len(found) == limit
    return EventPage(found, rows[0]["last_seq"], rows[0]["pruned_seq"], is_full)


async def list_news(connection: Connection, known: Mapping[UUID, int]) -> list[UUID]:
    """List the tenants that have more than the number which is known of them."""
    rows = await connection.fetch(SQL["list_news"], list(known), list(known.values()))
    return [row["tenant_id"] for row in rows]


async def list_session_states(
    connection: Connection, session_id: UUID | None
) -> list[asyncpg.Record]:
    """List how sessions stand: the newest ones, or one."""
    return await connection.fetch(SQL["list_session_states"], session_id, STATES_MAX)


async def prune(db: Database, *, kept_days: float, kept_max: int) -> int:
    """Remove old events of all tenants, some at a time; return how many went."""
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
    """List messages to a person, the newest first; the id of the last one begins the next page."""
    return await connection.fetch(SQL["list_notifications"], user_id, before_id, unread_only, limit)


async def mark_read(connection: Connection, user_id: UUID, notification_id: int) -> None:
    """Note that a person has read a message; a second time changes nothing."""
    if await connection.fetchval(SQL["mark_read"], notification_id, user_id) is None:
        raise NotFound(f"There is no notification {notification_id}.")


def as_state(row: asyncpg.Record) -> dict[str, Any]:
    """Build how one session stands, as programs see it."""
    return {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}
