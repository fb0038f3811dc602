"""What a job is doing or waiting for, as people see it. Pure.

A running call tells its phase itself; without that, the phase follows from the job's status.
"""

from __future__ import annotations

from dialectic.core.job_status import JobPhase, JobStatus
from dialectic.errors import EndpointBusy, FundsError, ProviderThrottled, SpendNeedsApproval

FUNDS_CODES = frozenset({FundsError.code, SpendNeedsApproval.code})
ENDPOINT_CODES = frozenset(
    {
        ProviderThrottled.code,
        EndpointBusy.code,
        *(kind.code for kind in EndpointBusy.__subclasses__()),
    }
)
_WAITS = {
    **dict.fromkeys(FUNDS_CODES, JobPhase.WAITING_FOR_MONEY),
    **dict.fromkeys(ENDPOINT_CODES, JobPhase.WAITING_FOR_ENDPOINT),
}


def derive_phase(
    status: JobStatus, reason: str | None, *, is_calling: bool, told: str | None = None
) -> JobPhase | None:
    """Derive the phase of a job; `told` is what its running call says."""
    match status:
        case JobStatus.PROCESSING:
            derived = JobPhase.CALLING if is_calling else JobPhase.PREPARING
            return JobPhase(told) if told in set(JobPhase) else derived
        case JobStatus.PENDING | JobStatus.PENDING_NEXT_STEP | JobStatus.PENDING_CONTINUATION:
            return JobPhase.QUEUED
        case JobStatus.RETRYING | JobStatus.PAUSED:
            otherwise = JobPhase.QUEUED if status is JobStatus.RETRYING else None
            return _WAITS.get(reason or "", otherwise)
        case _:
            return None
