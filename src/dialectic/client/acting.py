"""What is done with a session: started, steered, stopped, spoken about. Pure."""

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
    """Start the stage that is due."""
    return act(f"/sessions/{session_id}/generate", CreatedJobs, key=key)


def submit(
    session_id: UUID,
    *,
    feedback: str = "",
    responses: Sequence[Mapping[str, Any]] = (),
    key: str | None = None,
) -> Call[Session]:
    """Submit what you say about the stage that is complete, and start the next one."""
    given = [fill(ResponseRequest, **response) for response in responses]
    body = fill(SubmitRequest, feedback=feedback, responses=given)
    return act(f"/sessions/{session_id}/submit", Session, body, key=key)


def pause(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Start nothing more; what runs finishes its turn."""
    return act(f"/sessions/{session_id}/pause", Session, key=key)


def resume(
    session_id: UUID,
    *,
    approve_spend: bool = False,
    budget: str | None = None,
    key: str | None = None,
) -> Call[Session]:
    """Let everything go on that is paused."""
    body = fill(ResumeRequest, approve_spend=approve_spend, budget=budget)
    return act(f"/sessions/{session_id}/resume", Session, body, key=key)


def cancel(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """End a session for good; what is written stays."""
    return act(f"/sessions/{session_id}/cancel", Session, key=key)


def pause_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Let one job wait that has not begun, or not its next turn."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/pause", Session, key=key)


def resume_job(
    session_id: UUID, job_id: UUID, *, approve_spend: bool = False, key: str | None = None
) -> Call[Session]:
    """Let one job go on that is paused."""
    body = fill(ResumeJobRequest, approve_spend=approve_spend)
    return act(f"/sessions/{session_id}/jobs/{job_id}/resume", Session, body, key=key)


def cancel_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """End one job; whoever cannot do without it ends with it."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/cancel", Session, key=key)


def retry(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Run again what failed."""
    return act(f"/sessions/{session_id}/retry", Session, key=key)


def iterate(session_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Run the process once more."""
    return act(f"/sessions/{session_id}/iterate", Session, key=key)


def give_feedback(
    session_id: UUID,
    stage: str,
    text: str,
    *,
    contribution_id: UUID | None = None,
    key: str | None = None,
) -> Call[SavedFeedback]:
    """Say something about a stage, or about one of its contributions."""
    body = fill(FeedbackRequest, stage=stage, text=text, contribution_id=contribution_id)
    return act(f"/sessions/{session_id}/feedback", SavedFeedback, body, key=key)
