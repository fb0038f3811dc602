"""The rows of files that deleted projects leave in storage. Knows nothing of storage itself."""

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
    """Note every file of a project, and others in its folder, as one to be deleted; list them.

    In the commit that deletes the project, before it does. Files whose bytes wait are settled only
    after a while: someone may be writing them.
    """
    rows = await connection.fetch(
        SQL["discard_files"], project_id, others, due_after, settled_after
    )
    return [row["path"] for row in rows]


async def take_files(db: Database, *, again_after: timedelta, limit: int) -> list[tuple[UUID, str]]:
    """Take some files that are due, of all tenants: tenant and path of each."""
    rows = await db.fetch(SQL["take_files"], again_after, limit)
    return [(row["tenant_id"], row["path"]) for row in rows]


async def forget_files(connection: Connection, paths: Sequence[str]) -> int:
    """Forget files that storage has no more; return how many of them nobody can write again."""
    return len(await connection.fetch(SQL["forget_files"], paths))
