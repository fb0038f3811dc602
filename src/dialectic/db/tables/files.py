"""Files as rows: new ones, those that are due, and those to delete. See sql/queries/files.sql.

A new file keeps its bytes in its row until they are in storage. The two files that describe a
project have no bytes in their rows: they become due, and are built again from the project. The
files of a deleted project are marked for deletion. This module does not access storage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from uuid import UUID

from dialectic.db.pool import Connection, Database
from dialectic.db.queries import list_rows, load_queries
from dialectic.errors import NotFound

SQL = load_queries("files")
MARKDOWN = "text/markdown"


@dataclass(frozen=True)
class File:
    """A new file: its bytes are committed with the rows that refer to it."""

    path: str
    data: bytes
    mime_type: str

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


async def insert_files(
    connection: Connection, tenant_id: UUID, project_id: UUID, files: Sequence[File]
) -> None:
    """Insert new files; the rows hold the bytes until they are in storage."""
    await connection.execute(SQL["insert_files"], tenant_id, project_id, *bind_files(files))


async def put_files(
    connection: Connection, tenant_id: UUID, project_id: UUID, files: Sequence[File]
) -> list[str]:
    """Insert derived files, or replace their bytes; list those that have changed."""
    rows = await connection.fetch(SQL["put_files"], tenant_id, project_id, *bind_files(files))
    return [row["path"] for row in rows]


def bind_files(files: Sequence[File]) -> tuple[list[str], list[str], list[str], list[bytes]]:
    """Bind the columns of new files."""
    return (
        [file.path for file in files],
        [file.mime_type for file in files],
        [file.sha256 for file in files],
        [file.data for file in files],
    )


# -- files that describe a project -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ticket:
    """A file that is due. It gets a new id each time it becomes due."""

    path: str
    project_id: UUID
    id: str


async def make_due(connection: Connection, project_id: UUID) -> str:
    """Mark a project's description as due; return the project's folder."""
    row = await connection.fetchrow(SQL["make_due"], project_id)
    if row is None:
        raise NotFound(f"Project {project_id} does not exist.")
    slug: str = row["slug"]
    return slug


async def list_tickets(connection: Connection, paths: Sequence[str]) -> dict[str, Ticket]:
    """List which of these files are due, by path."""
    tickets = await list_rows(connection, Ticket, SQL["list_tickets"], paths)
    return {ticket.path: ticket for ticket in tickets}


async def mark_done(connection: Connection, made: Sequence[tuple[Ticket, File]]) -> int:
    """Record files that were written to storage; return how many ceased to be due."""
    marked = await connection.fetch(
        SQL["mark_made"],
        [ticket.path for ticket, _ in made],
        [ticket.id for ticket, _ in made],
        [file.sha256 for _, file in made],
        [len(file.data) for _, file in made],
    )
    return len(marked)


# -- files of deleted projects ---------------------------------------------------------------------


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


async def discard_file(
    connection: Connection,
    project_id: UUID,
    path: str,
    *,
    due_after: timedelta,
    settled_after: timedelta,
) -> None:
    """Remove one file of a project that stays, and mark it for deletion, as `discard_files`."""
    await connection.execute(SQL["discard_file"], project_id, path, due_after, settled_after)


async def take_files(db: Database, *, again_after: timedelta, limit: int) -> list[tuple[UUID, str]]:
    """Take files that are due for deletion, of all tenants: (tenant id, path) each."""
    rows = await db.fetch(SQL["take_files"], again_after, limit)
    return [(row["tenant_id"], row["path"]) for row in rows]


async def forget_files(connection: Connection, paths: Sequence[str]) -> int:
    """Remove the rows of deleted files; return how many deletions are final."""
    return len(await connection.fetch(SQL["forget_files"], paths))
