"""Notices that nobody takes up what a session could begin, and says it once.

Nobody keeps a list of workers: they are known by what they do. Knows sessions as they look, and
nothing of how they are followed.
"""

from __future__ import annotations

from dataclasses import dataclass

from dialectic.domain.job import JobStatus
from dialectic.sessions import Overview

# A worker that lives takes a job within a second; one that died is taken for that after ten.
IDLE_S = 10.0
DUE = frozenset({JobStatus.PENDING, JobStatus.PENDING_NEXT_STEP, JobStatus.PENDING_CONTINUATION})
# Someone works, or comes back when an endpoint has room.
ALIVE = frozenset({JobStatus.PROCESSING, JobStatus.RETRYING})


def is_untouched(overview: Overview) -> bool:
    """Say whether something of a session could begin while nobody works on any of it."""
    statuses = {JobStatus(job["status"]) for job in overview.jobs}
    return bool(statuses & DUE) and not statuses & ALIVE


@dataclass(slots=True)
class Idleness:
    """For how long a session that is followed has waited for a worker."""

    idle_s: float = IDLE_S
    since_s: float | None = None
    was_told: bool = False

    def notice(self, overview: Overview, now_s: float) -> bool:
        """Take note of how a session looks; true once, when it has waited for too long."""
        if not is_untouched(overview):
            self.since_s = None
            return False
        if self.since_s is None:
            self.since_s = now_s
        if self.was_told or now_s < self.since_s + self.idle_s:
            return False
        self.was_told = True
        return True


def describe_idleness(session: str, *, works_here: bool) -> str:
    """Say that a session waits for a worker, and who can start one."""
    if works_here:
        how = f"`dialectic worker` starts one, `dialectic resume {session}` works in this terminal"
    else:
        how = "Whoever runs the server starts one with `dialectic worker`"
    return (
        f"Nothing of this session was begun for {IDLE_S:.0f} s: no worker runs, or all have other "
        f"work. {how}."
    )
