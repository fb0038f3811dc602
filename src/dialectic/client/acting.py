"""Calls that act on a session: start, submit, pause, resume, cancel, comment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from dialectic.client.call import Call, act, fill
from dialectic.contract.sessions import (
    CreatedJobs,
    FeedbackRequest,
    ResponseRequest,
    ResumeJobRequest,
    ResumeRequest,
    SavedFeedback,
    Session,
    SubmitRequest,
)

# -- asked -----------------------------------------------------------------------------------------


def generate(session_id: UUID, *, key: str | None = None) -> Call[CreatedJobs]:
    """Start the next stage."""
    return act(f"/sessions/{session_id}/generate", CreatedJobs, key=key)


def submit(
    session_id: UUID,
    *,
    feedback: str = "",
    responses: Sequence[Mapping[str, Any]] = (),
    key: str | None = None,
) -> Call[Session]:
    """Submit your feedback on the completed stage and start the next one."""
    given = [fill(ResponseRequest, **response) for response in responses]
    body = fill(SubmitRequest, feedback=feedback, responses=given)
    return act(f"/sessions/{session_id}/submit", Session, body, key=key)


def pause(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Pause a session. Running jobs finish their current turn."""
    return act(f"/sessions/{session_id}/pause", Session, key=key)


def resume(
    session_id: UUID,
    *,
    approve_spend: bool = False,
    budget: str | None = None,
    key: str | None = None,
) -> Call[Session]:
    """Resume all paused work of a session."""
    body = fill(ResumeRequest, approve_spend=approve_spend, budget=budget)
    return act(f"/sessions/{session_id}/resume", Session, body, key=key)


def cancel(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Cancel a session for good. Finished contributions are kept."""
    return act(f"/sessions/{session_id}/cancel", Session, key=key)


def pause_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Pause one job before it starts, or before its next turn."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/pause", Session, key=key)


def resume_job(
    session_id: UUID, job_id: UUID, *, approve_spend: bool = False, key: str | None = None
) -> Call[Session]:
    """Resume one paused job."""
    body = fill(ResumeJobRequest, approve_spend=approve_spend)
    return act(f"/sessions/{session_id}/jobs/{job_id}/resume", Session, body, key=key)


def cancel_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Cancel one job and all jobs that need its output."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/cancel", Session, key=key)


def retry(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Retry failed jobs."""
    return act(f"/sessions/{session_id}/retry", Session, key=key)


def iterate(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Start another iteration of the process."""
    return act(f"/sessions/{session_id}/iterate", Session, key=key)


def give_feedback(
    session_id: UUID,
    stage: str,
    text: str,
    *,
    contribution_id: UUID | None = None,
    key: str | None = None,
) -> Call[SavedFeedback]:
    """Add feedback on a stage or on one of its contributions."""
    body = fill(FeedbackRequest, stage=stage, text=text, contribution_id=contribution_id)
    return act(f"/sessions/{session_id}/feedback", SavedFeedback, body, key=key)
