"""The statuses of a job, apart from the job itself: short commands show them and import little."""

from __future__ import annotations

import enum


class JobStatus(enum.StrEnum):
    """The status of a job; the comments of the SQL type explain each."""

    PENDING = "pending"
    PROCESSING = "processing"
    WAITING_FOR_CHILDREN = "waiting_for_children"
    PENDING_NEXT_STEP = "pending_next_step"
    WAITING_FOR_PREREQUISITE = "waiting_for_prerequisite"
    PENDING_CONTINUATION = "pending_continuation"
    RETRYING = "retrying"
    PAUSED = "paused"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRY_LOOP_FAILED = "retry_loop_failed"
    CANCELLED = "cancelled"


class JobPhase(enum.StrEnum):
    """What a job is doing or waiting for."""

    QUEUED = "queued"
    PREPARING = "preparing"
    WAITING_FOR_ENDPOINT = "waiting_for_endpoint"
    WAITING_FOR_MONEY = "waiting_for_money"
    CALLING = "calling"
    WRITING = "writing"
    SAVING = "saving"


_WORDS = {
    JobStatus.PENDING: "waiting for a worker",
    JobStatus.PROCESSING: "running",
    JobStatus.WAITING_FOR_CHILDREN: "waiting for its parts",
    JobStatus.PENDING_NEXT_STEP: "waiting for a worker",
    JobStatus.WAITING_FOR_PREREQUISITE: "waiting for other documents",
    JobStatus.PENDING_CONTINUATION: "continues soon",
    JobStatus.RETRYING: "tries again soon",
    JobStatus.RETRY_LOOP_FAILED: "failed after all retries",
}


def describe_status(status: JobStatus) -> str:
    """Describe the status of a job in words."""
    return _WORDS.get(status, status.value)


ENDED = frozenset(
    {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED, JobStatus.CANCELLED}
)
# Only another job's change of status moves these.
WAITING = frozenset({JobStatus.WAITING_FOR_CHILDREN, JobStatus.WAITING_FOR_PREREQUISITE})
