"""What documents read, and what was found about their points. Statements: queries/provenance.sql.

The only module that accesses the table of reports. Functions take the connection of a tenant's
transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from uuid import UUID

from dialectic.db.pool import Connection
from dialectic.db.queries import list_rows, load_queries
from dialectic.errors import NotFound

SQL = load_queries("provenance")


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a document, without its text."""

    id: UUID
    first_id: UUID
    version: int
    is_latest_edit: bool
    is_by_user: bool
    job_id: UUID | None
    model_name: str
    model_index: int | None
    stage: str
    contribution_type: str
    rank: int | None
    origin: int | None
    source_group: UUID | None
    source_contribution_ids: list[UUID]
    read_version_ids: list[UUID]
    is_intermediate: bool
    storage_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Whether a document is whole, and how much of its inputs its author was given."""

    id: UUID
    is_incomplete: bool
    is_stale: bool
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """An iteration that has reports, and the owner of its session."""

    session_id: UUID
    iteration_number: int
    user_id: UUID
    wallet_id: UUID
    slug: str


@dataclass(frozen=True, slots=True)
class ReportKey:
    """What a report is about, and all that it depends on."""

    contribution_id: UUID
    kind: str
    method: str
    inputs_sha256: str


async def load_place(connection: Connection, contribution_id: UUID) -> tuple[UUID, int]:
    """Load the session and the iteration of a contribution."""
    row = await connection.fetchrow(SQL["find_contribution"], contribution_id)
    if row is None:
        raise NotFound(f"Contribution {contribution_id} does not exist.")
    return row["session_id"], row["iteration_number"]


async def list_versions(connection: Connection, session_id: UUID, iteration: int) -> list[Version]:
    """List all versions of the documents of an iteration."""
    return await list_rows(connection, Version, SQL["list_versions"], session_id, iteration)


async def read_contents(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, str]:
    """Read the texts of versions."""
    rows = await connection.fetch(SQL["read_contents"], list(ids))
    return {row["id"]: row["content"] for row in rows}


async def list_conditions(connection: Connection, ids: Sequence[UUID]) -> dict[UUID, Condition]:
    """List how documents were written, by id."""
    rows = await list_rows(connection, Condition, SQL["list_conditions"], list(ids))
    return {row.id: row for row in rows}


async def list_reported(connection: Connection, project_id: UUID) -> list[Reported]:
    """List the iterations of a project that have reports."""
    return await list_rows(connection, Reported, SQL["list_reported"], project_id)


async def list_seat_costs(
    connection: Connection, session_id: UUID, iteration: int
) -> dict[int, dict[str, int]]:
    """List calls, charges and the time of the documents of an iteration, by seat."""
    found: dict[int, dict[str, int]] = {}
    for statement in (SQL["list_seat_costs"], SQL["list_seat_times"]):
        for row in await connection.fetch(statement, session_id, iteration):
            values = dict(row)
            found.setdefault(values.pop("seat"), {}).update(values)
    return found


async def list_sessions_since(
    connection: Connection, since: date | None, limit: int
) -> tuple[list[UUID], int]:
    """List the newest sessions since a day, and how many there are in all."""
    rows = await connection.fetch(SQL["list_sessions_since"], since, limit)
    return [row["id"] for row in rows], rows[0]["total"] if rows else 0


async def find_report(connection: Connection, key: ReportKey) -> str | None:
    """Find a report as JSON; None if it was not computed yet."""
    found: str | None = await connection.fetchval(
        SQL["find_report"], key.contribution_id, key.kind, key.method, key.inputs_sha256
    )
    return found


async def save_report(connection: Connection, key: ReportKey, report: str) -> None:
    """Save a report in place of older ones of its kind."""
    values = (key.contribution_id, key.kind, key.method, key.inputs_sha256)
    await connection.execute(SQL["forget_reports"], *values)
    await connection.execute(SQL["save_report"], *values, report)
