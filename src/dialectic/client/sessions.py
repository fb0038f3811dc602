"""Calls for sessions, their jobs and their contributions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from dialectic.client.call import Call, act, fill, get, get_bytes
from dialectic.contract.accounts import Cost
from dialectic.contract.base import Page
from dialectic.contract.contributions import (
    ChunkRecord,
    Contribution,
    ContributionRecord,
    ContributionSummary,
    ContributionVersion,
    EditRequest,
    Job,
    RatingRequest,
    Record,
)
from dialectic.contract.projects import Resource
from dialectic.contract.sessions import (
    CreatedJobs,
    FeedbackRequest,
    QuoteRequest,
    ResponseRequest,
    ResumeJobRequest,
    ResumeRequest,
    RunQuote,
    SavedFeedback,
    SeatRequest,
    Session,
    SessionChange,
    SessionDetail,
    SessionPlan,
    SessionQuote,
    SessionRequest,
    SessionSummary,
    StaleDocuments,
    SubmitRequest,
)


def create_session(
    project_id: UUID, request: SessionRequest | None = None, *, key: str | None = None
) -> Call[Session]:
    """Create a session in a project; without models, with the server's default models."""
    body = request or SessionRequest()
    return act(f"/projects/{project_id}/sessions", Session, body, key=key)


def quote_run(request: QuoteRequest) -> Call[RunQuote]:
    """Quote a run before it exists. Creates nothing and calls no model."""
    return act("/quotes", RunQuote, request)


def list_sessions(
    project_id: UUID | None = None, *, archived: bool | None = None
) -> Call[Page[SessionSummary]]:
    """List sessions of a project, or all, newest first.

    Of all sessions, `archived` keeps those of archived projects (True) or the others (False).
    """
    if project_id is not None:
        return get(f"/projects/{project_id}/sessions", Page[SessionSummary])
    return get("/sessions", Page[SessionSummary], archived=archived)


def get_session(session_id: UUID) -> Call[Session]:
    """Show a session and the progress of its stages."""
    return get(f"/sessions/{session_id}", Session)


def change_session(session_id: UUID, change: SessionChange) -> Call[Session]:
    """Change a session; an unset field is kept, a field set to None is removed."""
    return act(f"/sessions/{session_id}", Session, change, method="PATCH")


def replace_seat(
    session_id: UUID, seat: int, model: str, *, key: str | None = None
) -> Call[Session]:
    """Give a seat another model, for the work that it has not completed."""
    body = fill(SeatRequest, model=model)
    path = f"/sessions/{session_id}/seats/{seat}"
    return act(path, Session, body, key=key, method="PATCH")


def drop_seat(session_id: UUID, seat: int, *, key: str | None = None) -> Call[Session]:
    """Go on without a seat."""
    return act(f"/sessions/{session_id}/seats/{seat}", Session, key=key, method="DELETE")


def quote_session(session_id: UUID) -> Call[SessionQuote]:
    """Estimate the remaining work of a session and its cost."""
    return get(f"/sessions/{session_id}/quote", SessionQuote)


def look(session_id: UUID, *, quote: bool = False, after: int | None = None) -> Call[SessionDetail]:
    """Show all of a session; `after` asks whether events followed that one."""
    path = f"/sessions/{session_id}/overview"
    return get(path, SessionDetail, with_quote=quote or None, after=after)


def get_session_plan(session_id: UUID) -> Call[SessionPlan]:
    """Show the plan of a session's last finished iteration, on one page."""
    return get(f"/sessions/{session_id}/plan", SessionPlan)


def get_session_report(session_id: UUID) -> Call[bytes]:
    """Download plan, documents, lineage and costs of a session as one HTML file."""
    return get_bytes(f"/sessions/{session_id}/report")


def list_costs(session_id: UUID) -> Call[Page[Cost]]:
    """List a session's costs so far."""
    return get(f"/sessions/{session_id}/costs", Page[Cost])


def list_jobs(session_id: UUID) -> Call[Page[Job]]:
    """List a session's jobs, oldest first."""
    return get(f"/sessions/{session_id}/jobs", Page[Job])


def list_documents(session_id: UUID) -> Call[Page[Resource]]:
    """List a session's documents that are not contributions."""
    return get(f"/sessions/{session_id}/documents", Page[Resource])


# -- actions ------------------------------------------------------------------------------------


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
    full_answers_only: bool | None = None,
    key: str | None = None,
) -> Call[Session]:
    """Resume all paused work of a session."""
    body = fill(
        ResumeRequest,
        approve_spend=approve_spend,
        budget=budget,
        full_answers_only=full_answers_only,
    )
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


# -- contributions ------------------------------------------------------------------------------


def list_contributions(
    session_id: UUID, *, stage: str | None = None
) -> Call[Page[ContributionSummary]]:
    """List the latest version of each contribution of a session."""
    path = f"/sessions/{session_id}/contributions"
    return get(path, Page[ContributionSummary], stage=stage)


def get_contribution(contribution_id: UUID) -> Call[Contribution]:
    """Show one version of a contribution."""
    return get(f"/contributions/{contribution_id}", Contribution)


def get_record(contribution_id: UUID) -> Call[Record[ContributionRecord]]:
    """Show a contribution with all its fields and turns."""
    return get(f"/contributions/{contribution_id}/record", Record[ContributionRecord])


def get_chunk(chunk_id: UUID) -> Call[Record[ChunkRecord]]:
    """Show one turn of a contribution."""
    return get(f"/chunks/{chunk_id}", Record[ChunkRecord])


def list_versions(contribution_id: UUID) -> Call[Page[ContributionVersion]]:
    """List all versions of a contribution, oldest first."""
    return get(f"/contributions/{contribution_id}/versions", Page[ContributionVersion])


def edit(
    contribution_id: UUID, content: str, *, etag: str | None = None, key: str | None = None
) -> Call[Contribution]:
    """Replace a contribution with your version; with an ETag, only if it is unchanged."""
    body = fill(EditRequest, content=content)
    call = act(f"/contributions/{contribution_id}", Contribution, body, key=key, method="PUT")
    return call if etag is None else replace(call, headers={"If-Match": etag})


def regenerate(contribution_id: UUID, *, key: str | None = None) -> Call[CreatedJobs]:
    """Regenerate a contribution with the same model."""
    return act(f"/contributions/{contribution_id}/regenerate", CreatedJobs, key=key)


def list_stale(session_id: UUID) -> Call[StaleDocuments]:
    """List the documents that rest on something newer, with what new ones would cost."""
    return get(f"/sessions/{session_id}/stale", StaleDocuments)


def regenerate_stale(session_id: UUID, *, key: str | None = None) -> Call[CreatedJobs]:
    """Regenerate every document that rests on something newer, in order."""
    return act(f"/sessions/{session_id}/regenerate-stale", CreatedJobs, key=key)


def rate(contribution_id: UUID, rating: int, *, key: str | None = None) -> Call[SavedFeedback]:
    """Rate a contribution from 1 to 5."""
    path, body = f"/contributions/{contribution_id}/rating", fill(RatingRequest, rating=rating)
    return act(path, SavedFeedback, body, key=key)
