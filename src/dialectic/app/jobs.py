"""A person's actions on one job of a session: pause, resume, cancel, retry, skip.

Pausing, resuming, cancelling and skipping are idempotent. `sessions` acts on all jobs of a session.
"""

from __future__ import annotations

from uuid import UUID

import asyncpg

from dialectic.app import seats, session_quotes, sessions
from dialectic.app.transaction import Tenant, Transaction
from dialectic.contract.events import EventError, JobPaused
from dialectic.contract.problems import ProblemRemedy
from dialectic.contract.quotes import Price
from dialectic.core.job import ENDED, JobStatus
from dialectic.core.session_state import Phase
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs, records
from dialectic.db.tables.records import SQL
from dialectic.errors import Conflict, NotFound, Remedy, RemedyAction
from dialectic.limits import admission


async def pause(tx: Transaction, session_id: UUID, job_id: UUID) -> None:
    """Pause a job that is not running, until a person resumes it."""
    await sessions.lock(tx, session_id)
    if await jobs.pause_job(tx.connection, session_id, job_id):
        await _tell(tx.connection, session_id, job_id)
        return
    status = await _load_status(tx.connection, session_id, job_id)
    if status is not JobStatus.PAUSED:
        raise Conflict(
            f"Job {job_id} is {status}. Only a pending job can be paused; a running job can be "
            "cancelled.",
            reason="job_not_waiting",
            subject=str(job_id),
        )


async def resume(tx: Transaction, session_id: UUID, job_id: UUID, *, approves_spend: bool) -> None:
    """Resume a paused job; a call above the spending limit needs approval."""
    await sessions.lock(tx, session_id)
    await admission.allow_probes(tx.connection, session_id)
    if await jobs.resume_job(tx.connection, session_id, job_id, approves_spend=approves_spend):
        return
    status = await _load_status(tx.connection, session_id, job_id)
    if status in ENDED:
        raise Conflict(
            f"Job {job_id} is {status} and cannot be resumed.",
            reason="job_ended",
            subject=str(job_id),
            remedy=Remedy(RemedyAction.RETRY, session_id=str(session_id)),
        )
    if status is JobStatus.PAUSED:
        raise Conflict(
            f"Job {job_id} cannot be resumed while session {session_id} is paused. Resume the "
            "session first.",
            reason="session_paused",
            subject=str(job_id),
            remedy=Remedy(RemedyAction.RESUME, session_id=str(session_id)),
        )


async def cancel(tx: Transaction, session_id: UUID, job_id: UUID) -> None:
    """Cancel a job and the jobs that depend on it; its worker aborts a running call."""
    await sessions.lock(tx, session_id)
    if await jobs.cancel_job(tx.connection, session_id, job_id):
        return
    status = await _load_status(tx.connection, session_id, job_id)
    if status is not JobStatus.CANCELLED:
        raise Conflict(
            f"Job {job_id} is {status}, so it cannot be cancelled.",
            reason="job_ended",
            subject=str(job_id),
        )


async def retry(tx: Transaction, session_id: UUID, job_id: UUID) -> list[UUID]:
    """Run a failed job again, with those that ended because of it; return their ids.

    What has failed elsewhere stays as it is. A seat that left because of this job comes back. A
    running call is taken from its worker and made again, by the model that its seat has now.
    """
    session = await sessions.lock(tx, session_id)
    sessions.refuse_standing(session)
    if (seat := await jobs.take_back(tx.connection, session_id, job_id)) is not None:
        await seats.seat_again(tx, session, seat)
        return [job_id]
    job = await _load_failed(tx, session_id, job_id)
    again = await jobs.list_rerun(tx.connection, session_id, job_id)
    if job.payload.get("replaces") is None:
        await _check_open(tx, session, job)
        if session["phase"] == Phase.FAILED:
            await seats.reopen(tx, session)
        await seats.bring_back(tx, session, job.payload["model_index"])
    ids = [row["id"] for row in again]
    await jobs.rerun_jobs(tx.connection, session_id, ids)
    return ids


async def price_retry(tenant: Tenant, session_id: UUID, job_id: UUID) -> Price:
    """Price the calls that `retry` would make at once. Reads only."""

    async def load(tx: Transaction) -> list[asyncpg.Record]:
        await records.load_session(tx.connection, session_id)
        job = await _load_failed(tx, session_id, job_id)
        again = await jobs.list_rerun(tx.connection, session_id, job_id)
        return [row for row in again if row["stage"] == job.stage_slug]

    return await session_quotes.price_documents(tenant, session_id, await tenant.run(load))


async def price_retries(tenant: Tenant, session_id: UUID) -> Price:
    """Price the calls that a retry of the whole session would make at once. Reads only."""

    async def load(tx: Transaction) -> list[asyncpg.Record]:
        session = await records.load_session(tx.connection, session_id)
        failed = await jobs.list_failed(tx.connection, session_id, session["iteration_count"])
        return [row for row in failed if row["stage"] == session["current_stage_slug"]]

    return await session_quotes.price_documents(tenant, session_id, await tenant.run(load))


async def skip(tx: Transaction, session_id: UUID, job_id: UUID) -> None:
    """Go on without a job, where its step can do without it."""
    sessions.refuse_standing(await sessions.lock(tx, session_id))
    job = await _load(tx.connection, session_id, job_id)
    is_optional = False
    if job.parent_job_id is not None:
        parent = await jobs.find_job(tx.connection, job.parent_job_id)
        assert parent is not None, "a job is deleted with the one above it"
        needed = 1 if parent.on_child_failure == "any" else parent.quorum_min
        if needed is not None and parent.current_step == job.step_number:
            others = await jobs.count_siblings(tx.connection, parent.id, job_id)
            is_optional = others >= needed
    if is_optional and job.status is not JobStatus.COMPLETED:
        if job.status not in ENDED:
            await jobs.cancel_job(tx.connection, session_id, job_id)
        return
    seat = job.payload.get("model_index")
    raise Conflict(
        f"Job {job_id} cannot be skipped: its step needs its document. Drop its seat or give it "
        "another model.",
        reason="job_ended" if job.status is JobStatus.COMPLETED else "job_needed",
        subject=str(job_id),
        remedy=Remedy(RemedyAction.DROP_SEAT, session_id=str(session_id), seat=seat),
    )


async def _load_failed(tx: Transaction, session_id: UUID, job_id: UUID) -> jobs.StoredJob:
    """Load a job that can run again: it has ended and has not completed."""
    job = await _load(tx.connection, session_id, job_id)
    if job.status not in ENDED or job.status is JobStatus.COMPLETED:
        raise Conflict(
            f"Job {job_id} is {job.status}: it has not failed, so there is nothing to retry.",
            reason="nothing_failed",
            subject=str(job_id),
            remedy=Remedy(RemedyAction.LIST_JOBS, session_id=str(session_id)),
        )
    return job


async def _check_open(tx: Transaction, session: asyncpg.Record, job: jobs.StoredJob) -> None:
    """Raise if the work that a job belongs to is over."""
    runs = await tx.connection.fetch(SQL["list_stage_runs"], session["id"])
    place = (job.stage_slug, job.iteration_number)
    (status,) = [r["status"] for r in runs if (r["stage_slug"], r["iteration_number"]) == place]
    is_over = status == "complete" or job.iteration_number != session["iteration_count"]
    if not is_over and job.parent_job_id is not None:
        parent = await jobs.find_job(tx.connection, job.parent_job_id)
        assert parent is not None, "a job is deleted with the one above it"
        is_over = parent.current_step != job.step_number or parent.status is JobStatus.COMPLETED
    if is_over:
        raise Conflict(
            f"Job {job.id} cannot run again: its step has ended without it. Start another "
            "iteration.",
            reason="stage_ended",
            subject=str(job.id),
            remedy=Remedy(RemedyAction.ITERATE, session_id=str(session["id"])),
        )


async def _tell(connection: Connection, session_id: UUID, job_id: UUID) -> None:
    row = await jobs.find_job(connection, job_id)
    assert row is not None, "the job was just paused"
    remedy = ProblemRemedy(action=RemedyAction.RESUME, session_id=str(session_id))
    event = JobPaused(
        session_id=session_id,
        stage_slug=row.stage_slug,
        iteration_number=row.iteration_number,
        job_id=job_id,
        error=EventError(code="job_paused", message="A person has paused this job.", remedy=remedy),
    )
    await records.record_event(connection, event)


async def _load_status(connection: Connection, session_id: UUID, job_id: UUID) -> JobStatus:
    return (await _load(connection, session_id, job_id)).status


async def _load(connection: Connection, session_id: UUID, job_id: UUID) -> jobs.StoredJob:
    row = await jobs.find_job(connection, job_id)
    if row is None or row.session_id != session_id:
        raise NotFound(
            f"Job {job_id} does not exist in session {session_id}.",
            reason="no_job",
            subject=str(job_id),
            remedy=Remedy(RemedyAction.LIST_JOBS, session_id=str(session_id)),
        )
    return row
