"""Jobs as rows: the only module that changes a job's status. See sql/queries/jobs.sql.

Independent of models, prompts and money. The last write of an attempt is fenced by its token: if
the attempt no longer holds the job, it raises `LeaseLost` and the transaction rolls back.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import asyncpg
from pydantic import BaseModel

from dialectic.core.job import Job, JobKey, JobStatus
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection, Database
from dialectic.db.queries import build_row, find_row, load_queries
from dialectic.errors import DialecticError, LeaseLost

logger = logging.getLogger(__name__)

SQL = load_queries("jobs")
# A job that waits for money is claimed after this time even if nothing has woken it.
AWAIT_FUNDS_MAX = timedelta(minutes=10)
SWEEP_LIMIT = 500
# Where the database tells of new messages in the queue.
CHANNEL = "ch_pgqueuer"

SessionKey: TypeAlias = tuple[UUID, UUID]
"""Tenant and session id."""


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be inserted. Its id is derived from its work."""

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
    # Types of contribution whose arrival starts the job or lets it plan more: from any model, or
    # from one (`type@2`).
    awaits: tuple[str, ...] = ()


async def insert_job(connection: Connection, tenant_id: UUID, job: NewJob) -> bool:
    """Insert a job unless it exists; say whether it was new."""
    return await connection.fetchval(SQL["insert_job"], *_bind(tenant_id, job)) is not None


async def insert_jobs(connection: Connection, tenant_id: UUID, new: Sequence[NewJob]) -> None:
    """Insert the jobs that do not exist yet, in one round trip."""
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
    """How long a silent worker keeps a job. All other intervals derive from `lease_s`."""

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
    """Claim jobs in one commit, each with a new token; return only those that were claimed.

    A locked row is skipped; with `is_patient` the claim waits briefly for its lock. The claim is
    not retried: if its response is lost, a second claim would not find the job. The sweeper sends
    another message for it.
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
    claimed = {job.key: job for job in (build_row(Job, row) for row in rows)}
    left = [key for key in wanted if key not in claimed]
    if left and not is_patient:
        await _turn_away(db, left, terms=terms, lost_max=lost_max)
    return claimed


async def _turn_away(
    db: Database, unclaimed: list[JobKey], *, terms: LeaseTerms, lost_max: int
) -> None:
    """End or pause those jobs that must no longer run; an error here does not undo the claims."""
    grace = timedelta(seconds=terms.grace_s)
    try:
        await db.fetch(SQL["turn_away"], *_split(unclaimed), grace, lost_max, patience_s=0.0)
    except DialecticError as error:
        logger.info("cannot end unclaimable jobs now, the sweeper will: %s", error.message)


def _split(keys: list[JobKey]) -> tuple[list[UUID], list[UUID]]:
    return [tenant_id for tenant_id, _ in keys], [job_id for _, job_id in keys]


async def extend_leases(connection: Connection, jobs: list[Job], terms: LeaseTerms) -> set[JobKey]:
    """Extend the leases of these jobs; return those that are still held."""
    rows = await connection.fetch(
        SQL["extend_leases"],
        [job.tenant_id for job in jobs],
        [job.id for job in jobs],
        [job.attempt for job in jobs],
        timedelta(seconds=terms.lease_s),
    )
    return {(row["tenant_id"], row["job_id"]) for row in rows}


async def list_taken(connection: Connection, jobs: list[Job]) -> set[JobKey]:
    """List which of these jobs were taken from their attempt, not ended by it."""
    rows = await connection.fetch(
        SQL["list_taken"],
        [job.tenant_id for job in jobs],
        [job.id for job in jobs],
        [job.attempt for job in jobs],
    )
    return {(row["tenant_id"], row["job_id"]) for row in rows}


async def take_messages(
    connection: Connection, session: SessionKey, room: Mapping[str, int], *, silence_s: float
) -> list[tuple[str, UUID]]:
    """Take the due messages of a session from the queue: the lane and the job of each."""
    silence = timedelta(seconds=silence_s)
    arguments = (*session, list(room), list(room.values()), silence)
    rows = await connection.fetch(SQL["take_messages"], *arguments)
    return [(row["lane"], row["job_id"]) for row in rows]


async def find_session_due_s(
    connection: Connection, session: SessionKey, lanes: Sequence[str]
) -> float | None:
    """Find the seconds until the next message of a session is due; None if none waits."""
    due_in = await connection.fetchval(SQL["find_session_due"], *session, list(lanes))
    return None if due_in is None else due_in.total_seconds()


async def list_lanes(connection: Connection) -> list[str]:
    """List the queue's lanes that have waiting messages."""
    return [row["lane"] for row in await connection.fetch(SQL["list_lanes"])]


async def sweep(connection: Connection, terms: LeaseTerms) -> int:
    """Repair stuck jobs; return how many."""
    count: int = await connection.fetchval(
        SQL["sweep"], timedelta(seconds=terms.grace_s), SWEEP_LIMIT
    )
    return count


async def hold_lease(connection: Connection, job: Job) -> None:
    """Lock the job for the rest of the transaction; raise `LeaseLost` if it is lost."""
    await _fenced(connection, "hold_lease", job, job.session_id)


async def hold_plan(connection: Connection, job: Job) -> None:
    """Lock a plan job and its siblings in the stage; raise `LeaseLost` if it is lost.

    Only for a job that may finish a step: until the commit, no child of these jobs can end.
    """
    await _fenced(connection, "hold_plan", job, job.session_id)


async def complete(connection: Connection, job: Job, *, results: Json, finished_units: int) -> None:
    """Complete a job; jobs that wait for it are woken in the same transaction."""
    await _fenced(connection, "complete", job, results, finished_units)


async def go_on(connection: Connection, job: Job) -> None:
    """Make a job claimable for its next turn after one was saved; reset its retries."""
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
    """Let a plan job wait; if its inputs arrived meanwhile, it runs again at once."""
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
    """Let a job wait for another, which is inserted, or restarted if it was cancelled as unneeded.

    If the other has completed meanwhile, the job runs again at once. If it has failed, the job
    fails too, unless a user requested the job after that failure.
    """
    await insert_job(connection, job.tenant_id, needed)
    await connection.execute(SQL["rerun_job"], needed.id, job.id)
    await _fenced(connection, "wait_for", job, needed.id, reason)


async def wait_for_job(connection: Connection, job: Job, needed_id: UUID, *, reason: str) -> None:
    """Let a job wait for another that exists; it fails with it."""
    await _fenced(connection, "wait_for", job, needed_id, reason)


async def find_incomplete(connection: Connection, job_ids: Sequence[UUID]) -> UUID | None:
    """Find the first of these jobs that has not completed."""
    found: UUID | None = await connection.fetchval(SQL["find_incomplete"], list(job_ids))
    return found


def describe_awaited(awaits: Sequence[str]) -> str:
    """Describe the contributions that a job waits for, for its `status_reason`."""
    kinds = dict.fromkeys(name.partition("@")[0] for name in awaits)
    return f"waits for {', '.join(kinds)}"


@dataclass(frozen=True, slots=True)
class AttemptError:
    """Why an attempt failed, as its job stores it."""

    code: str
    message: str
    # The provider's response, as JSON values that PostgreSQL accepts.
    raw: Json | None = None
    remedy: Json | None = None
    # The amounts of a lack of money.
    figures: Json | None = None


async def retry(
    connection: Connection, job: Job, error: AttemptError, *, delay_s: float, counts: bool
) -> None:
    """Schedule a retry; one that the provider requested (`counts` False) uses up no retry."""
    delay = timedelta(seconds=delay_s)
    arguments = (error.code, error.message, delay, int(counts), error.raw)
    await _fenced(connection, "retry", job, *arguments)


async def postpone(
    connection: Connection, job: Job, *, code: str, delay_s: float, is_in_trouble: bool
) -> None:
    """Reschedule a job until its endpoint accepts calls: not an error, uses up no retry."""
    delay = timedelta(seconds=delay_s)
    await _fenced(connection, "postpone", job, code, delay, is_in_trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedFunds:
    """The free money that a call needs, while other calls hold it."""

    code: str
    credits: int
    is_play: bool
    figures: Json


async def await_funds(connection: Connection, job: Job, awaited: AwaitedFunds) -> None:
    """Let a job wait for money that other calls hold: not an error, uses up no retry.

    It is not claimed again before enough money is free.
    """
    arguments = (awaited.credits, awaited.is_play, awaited.figures)
    await _fenced(connection, "await_funds", job, awaited.code, AWAIT_FUNDS_MAX, *arguments)


async def fail(
    connection: Connection, job: Job, error: AttemptError, *, retries_used_up: bool = False
) -> None:
    """Fail a job; its parent and its waiters are updated in the same transaction."""
    status = JobStatus.RETRY_LOOP_FAILED if retries_used_up else JobStatus.FAILED
    arguments = (error.code, error.message, status, error.raw, error.remedy)
    await _fenced(connection, "fail", job, *arguments)


async def pause(connection: Connection, job: Job, error: AttemptError) -> None:
    """Pause a job until a user acts, with the reason and the remedy."""
    arguments = (error.code, error.message, error.raw, error.remedy, error.figures)
    await _fenced(connection, "pause", job, *arguments)


async def release(connection: Connection, job: Job) -> None:
    """Give a job back unfinished."""
    await _fenced(connection, "release", job)


async def _fenced(connection: Connection, name: str, job: Job, *arguments: Any) -> None:
    if await connection.fetchval(SQL[name], job.id, job.attempt, *arguments) is None:
        raise build_lease_lost(job)


def build_lease_lost(job: Job) -> LeaseLost:
    """Build the error of an attempt that does not hold its job any more."""
    return LeaseLost(
        f"Attempt {job.attempt} has lost the lease of job {job.id}.",
        reason="other_attempt",
        subject=str(job.id),
    )


async def pause_session(connection: Connection, session_id: UUID) -> None:
    """Pause the session's jobs that have not started."""
    await connection.execute(SQL["pause_session"], session_id)


async def resume_session(
    connection: Connection,
    session_id: UUID,
    *,
    approves_spend: bool = False,
    stage: str | None = None,
) -> None:
    """Resume a session's paused jobs, or those of one stage.

    Calls over the automatic limit need `approves_spend`.
    """
    await connection.execute(SQL["resume_session"], session_id, approves_spend, stage)


async def resume_funded(connection: Connection, wallet_id: UUID) -> list[UUID]:
    """Resume the jobs that wait for money in a wallet; return their sessions."""
    rows = await connection.fetch(SQL["resume_funded"], wallet_id)
    return sorted({row["session_id"] for row in rows})


async def cancel_session(connection: Connection, session_id: UUID) -> None:
    """Cancel the session's jobs that have not ended."""
    await connection.execute(SQL["cancel_session"], session_id)


async def pause_job(connection: Connection, session_id: UUID, job_id: UUID) -> bool:
    """Pause a job that has not started; say whether it was paused."""
    return await connection.fetchval(SQL["pause_job"], session_id, job_id) is not None


async def resume_job(
    connection: Connection, session_id: UUID, job_id: UUID, *, approves_spend: bool
) -> bool:
    """Resume a paused job; say whether it was resumed."""
    found = await connection.fetchval(SQL["resume_job"], session_id, job_id, approves_spend)
    return found is not None


async def cancel_job(connection: Connection, session_id: UUID, job_id: UUID) -> bool:
    """Cancel a job that has not ended; say whether it was cancelled."""
    return await connection.fetchval(SQL["cancel_job"], session_id, job_id) is not None


async def list_children(
    connection: Connection, parent_id: UUID
) -> dict[tuple[int, int], JobStatus]:
    """List the status of a plan job's children so far, by step and rank."""
    rows = await connection.fetch(SQL["list_children"], parent_id)
    return {(row["step_number"], row["rank"]): JobStatus(row["status"]) for row in rows}


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job's current row."""

    id: UUID
    session_id: UUID
    stage_slug: str
    iteration_number: int
    parent_job_id: UUID | None
    # The step of the job above that it belongs to; its own step, and what that needs.
    step_number: int
    current_step: int
    on_child_failure: str
    quorum_min: int | None
    payload: Json
    status: JobStatus
    status_reason: str | None
    max_retries: int
    results: Json | None


async def find_job(connection: Connection, job_id: UUID) -> StoredJob | None:
    """Find a job's current row."""
    return await find_row(connection, StoredJob, SQL["load_job"], job_id)


async def rerun_failed(
    connection: Connection, session_id: UUID, iteration: int, *, without: Sequence[int] = ()
) -> list[str]:
    """Rerun the jobs that failed or were cancelled, except those of some seats.

    Returns their stages.
    """
    rows = await connection.fetch(SQL["rerun_failed"], session_id, iteration, list(without))
    return sorted({row["stage_slug"] for row in rows})


async def list_rerun(
    connection: Connection, session_id: UUID, job_id: UUID
) -> list[asyncpg.Record]:
    """List a job that has ended, and the jobs that run again with it."""
    return list(await connection.fetch(SQL["list_rerun"], session_id, job_id))


async def list_failed(
    connection: Connection, session_id: UUID, iteration: int
) -> list[asyncpg.Record]:
    """List the jobs of an iteration that failed or were cancelled."""
    return list(await connection.fetch(SQL["list_failed"], session_id, iteration))


async def rerun_jobs(connection: Connection, session_id: UUID, job_ids: Sequence[UUID]) -> None:
    """Rerun some jobs that have ended without completing."""
    await connection.execute(SQL["rerun_jobs"], session_id, list(job_ids))


async def take_back(connection: Connection, session_id: UUID, job_id: UUID) -> int | None:
    """Take a running call from its worker; return its seat, or None if it does not run."""
    seat: int | None = await connection.fetchval(SQL["take_back"], session_id, job_id)
    return seat


async def count_siblings(connection: Connection, parent_id: UUID, job_id: UUID) -> int:
    """Count the other jobs of a step that have completed or still may; lock the one above."""
    count: int = await connection.fetchval(SQL["count_siblings"], parent_id, job_id)
    return count


async def reseat(
    connection: Connection, session_id: UUID, iteration: int, seat: int, occupant: Json
) -> None:
    """Give the jobs of a seat another model, if they have not run to their end."""
    await connection.execute(SQL["reseat"], session_id, iteration, seat, occupant)


async def rerun_seat(
    connection: Connection, session_id: UUID, iteration: int, seat: int, stages: Sequence[str]
) -> list[str]:
    """Rerun what a seat has not completed in some stages; return those that run again."""
    rows = await connection.fetch(SQL["rerun_seat"], session_id, iteration, seat, list(stages))
    return sorted({row["stage_slug"] for row in rows})
