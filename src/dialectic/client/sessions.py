"""Calls for sessions, their jobs and their contributions. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from uuid import UUID

from dialectic.client.call import Call, act, build_query, fill, get, get_bytes
from dialectic.contract.accounts import Cost
from dialectic.contract.base import Page
from dialectic.contract.board import Board
from dialectic.contract.contributions import (
    ChunkRecord,
    Contribution,
    ContributionRecord,
    ContributionSummary,
    ContributionVersion,
    EditRequest,
    Job,
    JobDraft,
    RatingRequest,
    Record,
)
from dialectic.contract.lists import NeedList, SessionLine
from dialectic.contract.projects import Resource
from dialectic.contract.quotes import Price, RunQuote, WorkQuote
from dialectic.contract.sessions import (
    CreatedJobs,
    DocumentsRequest,
    FeedbackRequest,
    QuoteRequest,
    ResponseRequest,
    ResumeJobRequest,
    ResumeRequest,
    SavedFeedback,
    SeatRequest,
    Session,
    SessionChange,
    SessionDetail,
    SessionPlan,
    SessionRequest,
    StaleDocuments,
    StartedRun,
    StartRequest,
    SubmitRequest,
)
from dialectic.core.session_state import Phase

SessionAction = Literal["retry", "submit", "iterate", "continue", "refresh"]


def create_session(
    project_id: UUID, request: SessionRequest | None = None, *, key: str | None = None
) -> Call[Session]:
    """Create a session in a project; without models, with the server's default models."""
    body = request or SessionRequest()
    return act(f"/projects/{project_id}/sessions", Session, body, key=key)


def start_run(request: StartRequest, *, key: str | None = None) -> Call[StartedRun]:
    """Create a project with its first session, or a further session of one, and start it."""
    return act("/runs", StartedRun, request, key=key)


def quote_run(request: QuoteRequest, *, lines: bool = False) -> Call[RunQuote]:
    """Quote a run before it exists. Creates nothing and calls no model."""
    call = act("/quotes", RunQuote, request)
    return replace(call, query=build_query(lines=lines or None))


def list_sessions(
    project_id: UUID | None = None,
    *,
    archived: bool | None = None,
    status: Phase | None = None,
    needs: bool | None = None,
) -> Call[Page[SessionLine]]:
    """List sessions of a project, or all, newest first.

    Of all sessions, `archived` keeps those of archived projects (True) or the others (False),
    `status` those in a phase, and `needs` those that wait for a person.
    """
    if project_id is not None:
        return get(f"/projects/{project_id}/sessions", Page[SessionLine])
    return get("/sessions", Page[SessionLine], archived=archived, status=status, needs=needs)


def list_needs() -> Call[NeedList]:
    """List what waits for a person in all sessions, the longest first."""
    return get("/needs", NeedList)


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


def quote_session(session_id: UUID, *, lines: bool = False) -> Call[WorkQuote]:
    """Estimate the remaining work of a session and its cost."""
    return get(f"/sessions/{session_id}/quote", WorkQuote, lines=lines or None)


def look(session_id: UUID, *, quote: bool = False, after: int | None = None) -> Call[SessionDetail]:
    """Show all of a session; `after` asks whether events followed that one."""
    path = f"/sessions/{session_id}/overview"
    return get(path, SessionDetail, with_quote=quote or None, after=after)


def get_board(
    session_id: UUID, *, iteration: int | None = None, plans: bool = False, drafts: bool = False
) -> Call[Board]:
    """Show everything that a page of the session needs, as of one moment."""
    path = f"/sessions/{session_id}/board"
    return get(path, Board, iteration=iteration, plans=plans or None, drafts=drafts or None)


def get_session_plan(session_id: UUID) -> Call[SessionPlan]:
    """Show the plan of a session's last finished iteration, on one page."""
    return get(f"/sessions/{session_id}/plan", SessionPlan)


def get_session_report(
    session_id: UUID, *, drafts: bool | None = None, names: bool | None = None
) -> Call[bytes]:
    """Download plan, documents, lineage and costs of a session as one HTML file."""
    return get_bytes(f"/sessions/{session_id}/report", drafts=drafts, names=names)


def list_costs(session_id: UUID) -> Call[Page[Cost]]:
    """List a session's costs so far."""
    return get(f"/sessions/{session_id}/costs", Page[Cost])


def list_jobs(session_id: UUID) -> Call[Page[Job]]:
    """List a session's jobs, oldest first."""
    return get(f"/sessions/{session_id}/jobs", Page[Job])


def get_draft(job_id: UUID) -> Call[JobDraft]:
    """Show the text so far of a running job."""
    return get(f"/jobs/{job_id}/draft", JobDraft)


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
    stage: str | None = None,
    key: str | None = None,
) -> Call[Session]:
    """Resume all paused work of a session, or that of one stage."""
    body = fill(
        ResumeRequest,
        approve_spend=approve_spend,
        budget=budget,
        full_answers_only=full_answers_only,
        stage=stage,
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


def retry_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Run one failed job again, with the jobs that ended because of it."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/retry", Session, key=key)


def skip_job(session_id: UUID, job_id: UUID, *, key: str | None = None) -> Call[Session]:
    """Go on without one job, where its step can do without it."""
    return act(f"/sessions/{session_id}/jobs/{job_id}/skip", Session, key=key)


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


def refresh(
    session_id: UUID, *, document_ids: Sequence[UUID] | None = None, key: str | None = None
) -> Call[CreatedJobs]:
    """Write stale documents again, in order: all, or some with those made from them."""
    body = fill(DocumentsRequest, document_ids=document_ids)
    return act(f"/sessions/{session_id}/refresh", CreatedJobs, body, key=key)


def continue_documents(
    session_id: UUID, *, document_ids: Sequence[UUID] | None = None, key: str | None = None
) -> Call[CreatedJobs]:
    """Let the models go on with documents that are cut off: all, or some."""
    body = fill(DocumentsRequest, document_ids=document_ids)
    return act(f"/sessions/{session_id}/continue", CreatedJobs, body, key=key)


def price_action(session_id: UUID, action: SessionAction) -> Call[Price]:
    """Ask what an action on a session costs. Does nothing."""
    return get(f"/sessions/{session_id}/{action}", Price)


def price_job_retry(session_id: UUID, job_id: UUID) -> Call[Price]:
    """Ask what running one failed job again costs. Does nothing."""
    return get(f"/sessions/{session_id}/jobs/{job_id}/retry", Price)


def price_regenerate(contribution_id: UUID) -> Call[Price]:
    """Ask what writing a contribution again costs. Does nothing."""
    return get(f"/contributions/{contribution_id}/regenerate", Price)


def rate(contribution_id: UUID, rating: int, *, key: str | None = None) -> Call[SavedFeedback]:
    """Rate a contribution from 1 to 5."""
    path, body = f"/contributions/{contribution_id}/rating", fill(RatingRequest, rating=rating)
    return act(path, SavedFeedback, body, key=key)
