"""The rows of files that deleted projects leave in storage. Does not access storage itself."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries

SQL = load_queries("discards")


async def discard_files(
    connection: Connection,
    project_id: UUID,
    others: Sequence[str],
    *,
    due_after: timedelta,
    settled_after: timedelta,
) -> list[str]:
    """Mark every file of a project, and others in its folder, for deletion; list them.

    Call it in the transaction that deletes the project, before the deletion. A worker may still be
    writing a file whose bytes are in the database, so deleting that one is final only later.
    """
    rows = await connection.fetch(
        SQL["discard_files"], project_id, others, due_after, settled_after
    )
    return [row["path"] for row in rows]


async def take_files(db: Database, *, again_after: timedelta, limit: int) -> list[tuple[UUID, str]]:
    """Take files that are due for deletion, of all tenants: (tenant id, path) each."""
    rows = await db.fetch(SQL["take_files"], again_after, limit)
    return [(row["tenant_id"], row["path"]) for row in rows]


async def forget_files(connection: Connection, paths: Sequence[str]) -> int:
    """Remove the rows of deleted files; return how many deletions are final."""
    return len(await connection.fetch(SQL["forget_files"], paths))
