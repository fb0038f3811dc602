"""Decides how a session, or some of its jobs, have ended. Pure; short commands import it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from dialectic.core.job_status import ENDED, WAITING, JobStatus
from dialectic.core.session_state import Phase
from dialectic.errors import DatabaseFull, ExitCode, KeyMissing, StorageUnavailable

if TYPE_CHECKING:
    from dialectic.contract.contributions import JobRecord
    from dialectic.contract.session_detail import SessionDetail, SessionRecord

DUE = frozenset({JobStatus.PENDING, JobStatus.PENDING_NEXT_STEP, JobStatus.PENDING_CONTINUATION})
# A worker holds these jobs, or will retry them when an endpoint has capacity.
ALIVE = frozenset({JobStatus.PROCESSING, JobStatus.RETRYING})

NEEDS_APPROVAL = "spend_needs_approval"
FUNDS_REASONS = frozenset({"insufficient_funds", NEEDS_APPROVAL})
# The operator must correct the setup before these jobs can continue.
SETUP_REASONS = frozenset(kind.code for kind in (DatabaseFull, StorageUnavailable, KeyMissing))
# Jobs that a user paused one by one.
JOB_PAUSED = "job paused"


def find_end_of(detail: SessionDetail) -> ExitCode | None:
    """Return how a session ended; None while it works."""
    session, statuses = detail.session, {job.status for job in detail.jobs}
    if session.state.is_complete(session.until_stage_slug):
        # A document may be written again after the end.
        return None if statuses & (DUE | ALIVE) else ExitCode.DONE
    if session.state.phase in (Phase.STAGE_COMPLETE, Phase.PAUSED):
        return ExitCode.WAITING
    if session.state.phase in (Phase.FAILED, Phase.CANCELLED):
        return ExitCode.FAILED
    # A job that waits for other jobs moves only if one of them does.
    moving = [job for job in detail.jobs if job.status not in ENDED | WAITING]
    if moving and all(job.status is JobStatus.PAUSED for job in moving):
        return _decide_pause({job.status_reason for job in moving})
    return None


def _decide_pause(reasons: set[str | None]) -> ExitCode:
    """Decide why a session stopped: lack of money, a user's turn, or an error."""
    if reasons & FUNDS_REASONS:
        return ExitCode.FUNDS
    if reasons & SETUP_REASONS:
        return ExitCode.CONFIGURATION
    return ExitCode.WAITING if reasons == {JOB_PAUSED} else ExitCode.FAILED


def has_stage_to_read(session: SessionRecord) -> bool:
    """Return whether a session waits for the user to review a stage, not to resume it.

    A session whose last jobs were paused one by one is still within its stage.
    """
    return session.state.phase is Phase.STAGE_COMPLETE


def decide_end_of_jobs(jobs: Sequence[JobRecord], wanted: Collection[UUID]) -> ExitCode | None:
    """Decide how some jobs of a session have ended; None if one of them still goes on."""
    mine = [job for job in jobs if job.id in wanted]
    left = [job for job in mine if job.status not in ENDED]
    if not left:
        is_done = all(job.status is JobStatus.COMPLETED for job in mine)
        return ExitCode.DONE if is_done else ExitCode.FAILED
    paused = [job for job in left if job.status is JobStatus.PAUSED]
    # A job that waits for a paused one cannot go on either.
    stuck = (JobStatus.PAUSED, JobStatus.WAITING_FOR_PREREQUISITE)
    runs = [job for job in jobs if job.status not in ENDED and job.status not in stuck]
    if not paused or (runs and len(paused) < len(left)):
        return None
    is_short = any(job.status_reason in FUNDS_REASONS for job in paused)
    return ExitCode.FUNDS if is_short else ExitCode.FAILED
