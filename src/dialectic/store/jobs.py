"""The jobs: the only module that moves them. Moves are named statements in sql/queries/jobs.sql.

Knows nothing of models, prompts or money. An attempt's last write is fenced by its token: when the
row is not there any more, `LeaseLost` is raised and the whole transaction with it comes to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from dialectic.domain.job import Job, JobKey, JobStatus
from dialectic.errors import LeaseLost
from dialectic.store.database import Connection, Database
from dialectic.store.queries import load_queries

SQL = load_queries("jobs")
SWEEP_LIMIT = 500


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be made, under the id of the work it stands for."""

    id: UUID
    session_id: UUID
    stage_slug: str
    iteration_number: int
    payload: BaseModel
    max_retries: int
    parent_job_id: UUID | None = None
    prerequisite_job_id: UUID | None = None
    target_contribution_id: UUID | None = None
    status: JobStatus = JobStatus.PENDING
    step_number: int = 0
    total_steps: int = 1
    priority: int = 0


async def insert_job(connection: Connection, tenant_id: UUID, job: NewJob) -> bool:
    """Insert a job unless it is there already; say whether it was new."""
    found = await connection.fetchval(
        SQL["insert_job"],
        tenant_id,
        job.id,
        job.session_id,
        job.parent_job_id,
        job.prerequisite_job_id,
        job.target_contribution_id,
        job.stage_slug,
        job.iteration_number,
        job.payload.model_dump(mode="json"),
        job.status,
        job.step_number,
        job.total_steps,
        job.max_retries,
        job.priority,
    )
    return found is not None


@dataclass(frozen=True, slots=True)
class LeaseTerms:
    """How long a silent worker keeps a job. All other intervals follow from the one setting."""

    lease_s: float

    @property
    def beat_s(self) -> float:
        return self.lease_s / 6

    @property
    def grace_s(self) -> float:
        return self.lease_s / 4

    @property
    def sweep_s(self) -> float:
        return self.lease_s / 3


async def claim(
    db: Database, wanted: list[JobKey], *, worker: str, terms: LeaseTerms, lost_max: int
) -> dict[JobKey, Job]:
    """Claim jobs in one commit, each with a new token; what is not to be had is missing."""
    rows = await db.fetch(
        SQL["claim"],
        [tenant_id for tenant_id, _ in wanted],
        [job_id for _, job_id in wanted],
        worker,
        timedelta(seconds=terms.lease_s),
        timedelta(seconds=terms.grace_s),
        lost_max,
    )
    return {(row["tenant_id"], row["id"]): Job.from_row(dict(row)) for row in rows}


async def extend_leases(connection: Connection, jobs: list[Job], terms: LeaseTerms) -> set[JobKey]:
    """Push out the leases of these jobs; return those that are still held."""
    rows = await connection.fetch(
        SQL["extend_leases"],
        [job.tenant_id for job in jobs],
        [job.id for job in jobs],
        [job.attempt for job in jobs],
        timedelta(seconds=terms.lease_s),
    )
    return {(row["tenant_id"], row["job_id"]) for row in rows}


async def sweep(connection: Connection, terms: LeaseTerms) -> int:
    """Put right what is stuck; return how many jobs that were."""
    count: int = await connection.fetchval(
        SQL["sweep"], timedelta(seconds=terms.grace_s), SWEEP_LIMIT
    )
    return count


async def hold_lease(connection: Connection, job: Job) -> None:
    """Lock the job for the rest of the transaction, or raise because someone else has it."""
    await _fenced(connection, "hold_lease", job)


async def complete(
    connection: Connection, job: Job, *, results: dict[str, Any], finished_units: int
) -> None:
    """End a job well: whoever waits for it is told in the same transaction."""
    await _fenced(connection, "complete", job, results, finished_units)


async def wait_for_children(
    connection: Connection,
    job: Job,
    *,
    total_steps: int,
    on_child_failure: str = "all",
    quorum_min: int | None = None,
) -> None:
    """Let a plan job wait for the children just made."""
    await _fenced(connection, "wait_for_children", job, total_steps, on_child_failure, quorum_min)


async def retry(
    connection: Connection, job: Job, *, code: str, message: str, delay_s: float, counts: bool
) -> None:
    """Let a job run again later; a wait the provider asked for does not use up a try."""
    delay = timedelta(seconds=delay_s)
    await _fenced(connection, "retry", job, code, message, delay, int(counts))


async def fail(
    connection: Connection, job: Job, *, code: str, message: str, retries_used_up: bool = False
) -> None:
    """End a job badly: its parent and its waiters learn it in the same transaction."""
    status = JobStatus.RETRY_LOOP_FAILED if retries_used_up else JobStatus.FAILED
    await _fenced(connection, "fail", job, code, message, status)


async def pause(connection: Connection, job: Job, *, code: str, message: str) -> None:
    """Let a job wait for a person, with the reason."""
    await _fenced(connection, "pause", job, code, message)


async def release(connection: Connection, job: Job) -> None:
    """Give a job back unfinished."""
    await _fenced(connection, "release", job)


async def _fenced(connection: Connection, name: str, job: Job, *arguments: Any) -> None:
    if await connection.fetchval(SQL[name], job.id, job.attempt, *arguments) is None:
        raise LeaseLost(f"Job {job.id} is no longer held by attempt {job.attempt}.")


async def pause_session(connection: Connection, session_id: UUID) -> None:
    """Stop what has not begun."""
    await connection.execute(SQL["pause_session"], session_id)


async def resume_session(connection: Connection, session_id: UUID) -> None:
    """Let everything that is paused run again."""
    await connection.execute(SQL["resume_session"], session_id)


async def cancel_session(connection: Connection, session_id: UUID) -> None:
    """End everything that has not ended."""
    await connection.execute(SQL["cancel_session"], session_id)


async def list_of_session(connection: Connection, session_id: UUID) -> list[dict[str, Any]]:
    """List a session's jobs, for people."""
    return [dict(row) for row in await connection.fetch(SQL["list_of_session"], session_id)]
