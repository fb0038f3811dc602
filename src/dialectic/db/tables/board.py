"""What a session page shows, as rows of one snapshot. See sql/queries/board.sql.

Functions take the connection of a tenant's transaction; `Database.read` gives one whose statements
all see the same moment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias
from uuid import UUID

import asyncpg

from dialectic.core.job_status import JobStatus
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.queries import get_row, list_plain, list_rows, load_queries

SQL = load_queries("board")
Ids: TypeAlias = Collection[UUID] | None
"""The ids of the wanted rows; None for all."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a stream continues after a snapshot."""

    # The number of the last event that the snapshot contains.
    seq: int
    # The snapshot, as PostgreSQL writes it, and its time.
    seen: str
    read_at: datetime

    @property
    def horizon(self) -> int:
        """The first transaction whose changes the snapshot may lack."""
        return int(self.seen.split(":")[0])

    @property
    def end(self) -> int:
        """The first transaction whose changes it cannot have."""
        return int(self.seen.split(":")[1])


@dataclass(frozen=True, slots=True)
class SessionExtras:
    """What a board shows of a session beyond its record."""

    phase_before_pause: str | None
    prompt: str
    process_title: str
    held_credits: int
    play_held_credits: int
    available_credits: int
    play_available_credits: int
    moves: tuple[str, ...]
    has_open_jobs: bool
    has_paused_jobs: bool


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job, as a board reads it."""

    id: UUID
    job_type: str | None
    stage_slug: str
    step_name: str | None
    output_type: str | None
    iteration_number: int
    seat: int | None
    rank: int | None
    status: JobStatus
    status_reason: str | None
    about_id: UUID | None
    inputs: list[Json] | None
    document_id: UUID | None
    waits_for: list[UUID]
    turn: int
    attempt_count: int
    retry_count: int
    reason_figures: Json | None
    run_at: datetime | None
    error_details: list[Json]
    is_calling: bool
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningCall:
    """What a running call says of itself."""

    job_id: UUID
    phase: str
    words: int
    first_token_at: datetime | None


@dataclass(frozen=True, slots=True)
class Charge:
    """What the calls of one job were charged; calls without a job have none."""

    job_id: UUID | None
    stage_slug: str | None
    seat: int | None
    is_play: bool
    charged_credits: int


async def read_moment(connection: Connection) -> Moment:
    """Read where a stream continues after this snapshot."""
    return await get_row(connection, Moment, SQL["read_cursor"])


async def load_extras(connection: Connection, session_id: UUID) -> SessionExtras:
    """Load what a board shows of a session beyond its record; the session exists."""
    return await get_row(connection, SessionExtras, SQL["load_board_session"], session_id)


async def list_stages(connection: Connection, session_id: UUID, iteration: int) -> list[Json]:
    """List the stages of an iteration that were created."""
    return await list_plain(connection, SQL["list_board_stages"], session_id, iteration)


async def list_jobs(
    connection: Connection, session_id: UUID, iteration: int, ids: Ids = None
) -> list[JobRow]:
    """List the jobs of an iteration."""
    wanted = None if ids is None else list(ids)
    found = (session_id, iteration, wanted)
    return await list_rows(connection, JobRow, SQL["list_board_jobs"], *found)


async def list_documents(
    connection: Connection, session_id: UUID, iteration: int, ids: Ids = None
) -> list[asyncpg.Record]:
    """List the newest versions of an iteration's documents; `ids` may name older versions."""
    wanted = None if ids is None else list(ids)
    return await connection.fetch(SQL["list_board_documents"], session_id, iteration, wanted)


async def list_feedback(
    connection: Connection, session_id: UUID, iteration: int, ids: Ids = None
) -> list[asyncpg.Record]:
    """List what users said about an iteration."""
    wanted = None if ids is None else list(ids)
    return await connection.fetch(SQL["list_board_feedback"], session_id, iteration, wanted)


async def list_charges(
    connection: Connection, session_id: UUID, job_ids: Ids = None
) -> list[Charge]:
    """List what the calls of each job of a session, or of some, were charged."""
    wanted = None if job_ids is None else list(job_ids)
    return await list_rows(connection, Charge, SQL["list_board_charges"], session_id, wanted)


async def list_plan(connection: Connection, session_id: UUID, iteration: int) -> list[Json]:
    """List the files of the agreed plan of an iteration, as they were written."""
    return await list_plain(connection, SQL["list_board_plan"], session_id, iteration)


async def list_running(connection: Connection, session_id: UUID) -> dict[UUID, RunningCall]:
    """List what the running calls of a session say of themselves, by job."""
    found = await list_rows(connection, RunningCall, SQL["list_board_running"], session_id)
    return {call.job_id: call for call in found}
