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


ENDED = frozenset(
    {JobStatus.COMPLETED, JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED, JobStatus.CANCELLED}
)
# Only another job's change of status moves these.
WAITING = frozenset({JobStatus.WAITING_FOR_CHILDREN, JobStatus.WAITING_FOR_PREREQUISITE})
