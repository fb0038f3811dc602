"""What people see of a job follows from its status, unless its running call says more."""

from __future__ import annotations

import pytest

from dialectic.core.job_phase import derive_phase
from dialectic.core.job_status import ENDED, WAITING, JobPhase, JobStatus


@pytest.mark.parametrize(
    ("status", "reason", "phase"),
    [
        (JobStatus.PENDING, None, JobPhase.QUEUED),
        (JobStatus.PENDING_CONTINUATION, None, JobPhase.QUEUED),
        (JobStatus.RETRYING, "provider_transient", JobPhase.QUEUED),
        (JobStatus.RETRYING, "endpoint_busy", JobPhase.WAITING_FOR_ENDPOINT),
        (JobStatus.RETRYING, "circuit_open", JobPhase.WAITING_FOR_ENDPOINT),
        (JobStatus.RETRYING, "insufficient_funds", JobPhase.WAITING_FOR_MONEY),
        (JobStatus.PAUSED, "spend_needs_approval", JobPhase.WAITING_FOR_MONEY),
        (JobStatus.PAUSED, "session paused", None),
        (JobStatus.PROCESSING, None, JobPhase.PREPARING),
    ],
)
def test_the_phase_of_a_job_follows_from_its_status_and_reason(
    status: JobStatus, reason: str | None, phase: JobPhase | None
) -> None:
    assert derive_phase(status, reason, is_calling=False) is phase


def test_a_running_call_says_its_phase_itself() -> None:
    running = JobStatus.PROCESSING
    assert derive_phase(running, None, is_calling=True) is JobPhase.CALLING
    assert derive_phase(running, None, is_calling=True, told="writing") is JobPhase.WRITING
    assert derive_phase(running, None, is_calling=True, told="unheard of") is JobPhase.CALLING
    assert derive_phase(JobStatus.PENDING, None, is_calling=False, told="writing") is (
        JobPhase.QUEUED
    )


@pytest.mark.parametrize("status", sorted(ENDED | WAITING))
def test_a_job_that_has_ended_or_waits_for_others_has_no_phase(status: JobStatus) -> None:
    assert derive_phase(status, "insufficient_funds", is_calling=True) is None
