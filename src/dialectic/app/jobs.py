"""A person's actions on one job of a session: pause, resume, cancel.

Each action is idempotent. `sessions` acts on all jobs of a session.
"""

from __future__ import annotations

from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.events import EventError, JobPaused
from dialectic.contract.problems import ProblemRemedy
from dialectic.core.job import ENDED, JobStatus
from dialectic.db.pool import Connection
from dialectic.db.tables import jobs, records
from dialectic.errors import Conflict, NotFound, Remedy, RemedyAction
from dialectic.limits import admission


async def pause(tx: Transaction, session_id: UUID, job_id: UUID) -> None:
    """Pause a job that is not running, until a person resumes it."""
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
    if await jobs.cancel_job(tx.connection, session_id, job_id):
        return
    status = await _load_status(tx.connection, session_id, job_id)
    if status is not JobStatus.CANCELLED:
        raise Conflict(
            f"Job {job_id} is {status}, so it cannot be cancelled.",
            reason="job_ended",
            subject=str(job_id),
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
    row = await jobs.find_job(connection, job_id)
    if row is None or row.session_id != session_id:
        raise NotFound(
            f"Job {job_id} does not exist in session {session_id}.",
            reason="no_job",
            subject=str(job_id),
            remedy=Remedy(RemedyAction.LIST_JOBS, session_id=str(session_id)),
        )
    return row.status
