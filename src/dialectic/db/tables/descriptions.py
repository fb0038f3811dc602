"""The rows of the two files that describe a project: whether they are due, and their hashes.

Independent of their content. Functions take the connection of a tenant's transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.db.pool import Connection
from dialectic.db.queries import load_queries
from dialectic.db.tables.records import File
from dialectic.errors import NotFound

SQL = load_queries("descriptions")


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
    rows = await connection.fetch(SQL["list_tickets"], paths)
    return {row["path"]: Ticket(row["path"], row["project_id"], row["sha256"]) for row in rows}


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
