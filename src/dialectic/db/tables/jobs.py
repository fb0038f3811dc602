"""The jobs: the only module that moves them. Moves are named statements in sql/queries/jobs.sql.

Knows nothing of models, prompts or money. An attempt's last write is fenced by its token: when the
row is not there any more, `LeaseLost` is raised and the whole transaction with it comes to nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

from pydantic import BaseModel

from dialectic.core.job import Job, JobKey, JobStatus
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import load_queries
from dialectic.errors import DialecticError, LeaseLost

logger = logging.getLogger(__name__)

SQL = load_queries("jobs")
SWEEP_LIMIT = 500

Raw: TypeAlias = dict[str, Any]
"""What a provider sent with an error, as JSON values that the database takes."""


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
    status_reason: str | None = None
    step_number: int = 0
    total_steps: int = 1
    priority: int = 0
    # Types of contribution whose arrival sets it going, or lets it plan more: of any model, or of
    # one (`type@2`).
    awaits: tuple[str, ...] = ()


async def insert_job(connection: Connection, tenant_id: UUID, job: NewJob) -> bool:
    """Insert a job unless it is there already; say whether it was new."""
    return await connection.fetchval(SQL["insert_job"], *_bind(tenant_id, job)) is not None


async def insert_jobs(connection: Connection, tenant_id: UUID, new: Sequence[NewJob]) -> None:
    """Insert those jobs that are not there already, in one round trip."""
    if new:
        await connection.executemany(SQL["insert_job"], [_bind(tenant_id, job) for job in new])


def _bind(tenant_id: UUID, job: NewJob) -> tuple[Any, ...]:
    return (
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
        job.status_reason,
        job.step_number,
        job.total_steps,
        job.max_retries,
        job.priority,
        list(job.awaits),
    )


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
    db: Database,
    wanted: list[JobKey],
    *,
    worker: str,
    terms: LeaseTerms,
    lost_max: int,
    is_patient: bool = False,
) -> dict[JobKey, Job]:
    """Claim jobs in one commit, each with a new token; what is not to be had is missing.

    What someone has locked is missing too, unless we are patient and it is for a moment only.
    No patience with the server: a claim whose answer is lost is not to be had a second time, and
    the sweeper sends another message for whatever is left.
    """
    rows = await db.fetch(
        SQL["claim"],
        *_split(wanted),
        worker,
        timedelta(seconds=terms.lease_s),
        timedelta(seconds=terms.grace_s),
        lost_max,
        is_patient,
        patience_s=0.0,
    )
    claimed = {(row["tenant_id"], row["id"]): Job.from_row(dict(row)) for row in rows}
    left = [key for key in wanted if key not in claimed]
    if left and not is_patient:
        await _turn_away(db, left, terms=terms, lost_max=lost_max)
    return claimed


async def _turn_away(
    db: Database, unclaimed: list[JobKey], *, terms: LeaseTerms, lost_max: int
) -> None:
    """End those of them that must not run any more. The claims are made, whatever comes of this."""
    grace = timedelta(seconds=terms.grace_s)
    try:
        await db.fetch(SQL["turn_away"], *_split(unclaimed), grace, lost_max, patience_s=0.0)
    except DialecticError as error:
        logger.info("jobs are turned away another time: %s", error.message)


def _split(keys: list[JobKey]) -> tuple[list[UUID], list[UUID]]:
    return [tenant_id for tenant_id, _ in keys], [job_id for _, job_id in keys]


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


async def list_taken(connection: Connection, jobs: list[Job]) -> set[JobKey]:
    """List which of these were taken from their attempt, rather than ended by it."""
    rows = await connection.fetch(
        SQL["list_taken"],
        [job.tenant_id for job in jobs],
        [job.id for job in jobs],
        [job.attempt for job in jobs],
    )
    return {(row["tenant_id"], row["job_id"]) for row in rows}


async def list_lanes(connection: Connection) -> list[str]:
    """List the lanes of the queue in which messages wait."""
    return [row["lane"] for row in await connection.fetch(SQL["list_lanes"])]


async def sweep(connection: Connection, terms: LeaseTerms) -> int:
    """Put right what is stuck; return how many jobs that were."""
    count: int = await connection.fetchval(
        SQL["sweep"], timedelta(seconds=terms.grace_s), SWEEP_LIMIT
    )
    return count


async def hold_lease(connection: Connection, job: Job) -> None:
    """Lock the job for the rest of the transaction, or raise because someone else has it."""
    await _fenced(connection, "hold_lease", job)


async def hold_plan(connection: Connection, job: Job) -> None:
    """Lock a plan job and those of its stage beside it, or raise because someone else has it.

    Only for one that may pass a step: until it commits no child of theirs can end.
    """
    await _fenced(connection, "hold_plan", job)


async def complete(
    connection: Connection, job: Job, *, results: dict[str, Any], finished_units: int
) -> None:
    """End a job well: whoever waits for it is told in the same transaction."""
    await _fenced(connection, "complete", job, results, finished_units)


async def go_on(connection: Connection, job: Job) -> None:
    """Let a job whose turn is saved be claimed for the next one; its tries begin anew."""
    await _fenced(connection, "go_on", job)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """What a plan job waits for: children, or types of contribution, or both."""

    total_steps: int
    has_children: bool = True
    on_child_failure: str = "all"
    quorum_min: int | None = None
    awaits: tuple[str, ...] = ()
    is_step_open: bool = False


async def wait(connection: Connection, job: Job, wait: Wait) -> None:
    """Let a plan job wait; if what it awaits has come meanwhile, it looks again at once."""
    status, reason = JobStatus.WAITING_FOR_CHILDREN, None
    if not wait.has_children:
        status, reason = JobStatus.WAITING_FOR_PREREQUISITE, describe_awaited(wait.awaits)
    await _fenced(
        connection,
        "wait",
        job,
        status,
        reason,
        wait.total_steps,
        wait.on_child_failure,
        wait.quorum_min,
        list(wait.awaits),
        wait.is_step_open,
    )


async def wait_for(connection: Connection, job: Job, needed: NewJob, *, reason: str) -> None:
    """Let a job wait for another, which is made, or set going again if nobody needed it any more.

    If that one has completed meanwhile, the job runs again at once. If it has failed, the job fails
    with it, unless someone has asked for the job since then.
    """
    await insert_job(connection, job.tenant_id, needed)
    await connection.execute(SQL["rerun_job"], needed.id, job.id)
    await _fenced(connection, "wait_for", job, needed.id, reason)


def describe_awaited(awaits: Sequence[str]) -> str:
    """Say in the row what a job waits for that is no job."""
    kinds = dict.fromkeys(name.partition("@")[0] for name in awaits)
    return f"waits for {', '.join(kinds)}"


async def retry(
    connection: Connection,
    job: Job,
    *,
    code: str,
    message: str,
    delay_s: float,
    counts: bool,
    raw: Raw | None = None,
) -> None:
    """Let a job run again later; a wait the provider asked for does not use up a try."""
    delay = timedelta(seconds=delay_s)
    await _fenced(connection, "retry", job, code, message, delay, int(counts), raw)


async def postpone(
    connection: Connection, job: Job, *, code: str, delay_s: float, is_in_trouble: bool
) -> None:
    """Let a job come back when its endpoint takes calls again: no error, and no try used up."""
    delay = timedelta(seconds=delay_s)
    await _fenced(connection, "postpone", job, code, delay, is_in_trouble)


async def fail(
    connection: Connection,
    job: Job,
    *,
    code: str,
    message: str,
    retries_used_up: bool = False,
    raw: Raw | None = None,
    remedy: Raw | None = None,
) -> None:
    """End a job badly: its parent and its waiters learn it in the same transaction."""
    status = JobStatus.RETRY_LOOP_FAILED if retries_used_up else JobStatus.FAILED
    await _fenced(connection, "fail", job, code, message, status, raw, remedy)


async def pause(
    connection: Connection,
    job: Job,
    *,
    code: str,
    message: str,
    raw: Raw | None = None,
    remedy: Raw | None = None,
) -> None:
    """Let a job wait for a person, with the reason and what helps."""
    await _fenced(connection, "pause", job, code, message, raw, remedy)


async def release(connection: Connection, job: Job) -> None:
    """Give a job back unfinished."""
    await _fenced(connection, "release", job)


async def _fenced(connection: Connection, name: str, job: Job, *arguments: Any) -> None:
    if await connection.fetchval(SQL[name], job.id, job.attempt, *arguments) is None:
        raise LeaseLost(
            f"Job {job.id} is no longer held by attempt {job.attempt}.",
            reason="other_attempt",
            subject=str(job.id),
        )


async def pause_session(connection: Connection, session_id: UUID) -> None:
    """Stop what has not begun."""
    await connection.execute(SQL["pause_session"], session_id)


async def resume_session(
    connection: Connection, session_id: UUID, *, approves_spend: bool = False
) -> None:
    """Let everything that is paused run again; a call that was too dear only if it is approved."""
    await connection.execute(SQL["resume_session"], session_id, approves_spend)


async def resume_funded(connection: Connection, wallet_id: UUID) -> list[UUID]:
    """Let everything that waits for money of a wallet look again; return whose it was."""
    rows = await connection.fetch(SQL["resume_funded"], wallet_id)
    return sorted({row["session_id"] for row in rows})


async def cancel_session(connection: Connection, session_id: UUID) -> None:
    """End everything that has not ended."""
    await connection.execute(SQL["cancel_session"], session_id)


async def pause_job(connection: Connection, session_id: UUID, job_id: UUID) -> bool:
    """Stop one job that has not begun; say whether it could be."""
    return await connection.fetchval(SQL["pause_job"], session_id, job_id) is not None


async def resume_job(
    connection: Connection, session_id: UUID, job_id: UUID, *, approves_spend: bool
) -> bool:
    """Let one job run again that is paused; say whether it could be."""
    found = await connection.fetchval(SQL["resume_job"], session_id, job_id, approves_spend)
    return found is not None


async def cancel_job(connection: Connection, session_id: UUID, job_id: UUID) -> bool:
    """End one job that has not ended; say whether it could be."""
    return await connection.fetchval(SQL["cancel_job"], session_id, job_id) is not None


async def list_of_session(connection: Connection, session_id: UUID) -> list[dict[str, Any]]:
    """List a session's jobs, for people."""
    return [dict(row) for row in await connection.fetch(SQL["list_of_session"], session_id)]


async def list_children(
    connection: Connection, parent_id: UUID
) -> dict[tuple[int, int], JobStatus]:
    """List the children that a plan job has so far, each by its step and its rank in it."""
    rows = await connection.fetch(SQL["list_children"], parent_id)
    return {(row["step_number"], row["rank"]): JobStatus(row["status"]) for row in rows}


async def find_job(connection: Connection, job_id: UUID) -> dict[str, Any] | None:
    """Load a job as it stands."""
    row = await connection.fetchrow(SQL["load_job"], job_id)
    return dict(row) if row is not None else None


async def rerun_failed(connection: Connection, session_id: UUID, iteration: int) -> list[str]:
    """Let everything that ended badly run again; return the stages of those jobs."""
    rows = await connection.fetch(SQL["rerun_failed"], session_id, iteration)
    return sorted({row["stage_slug"] for row in rows})
