"""HTTP routes of sessions and their jobs: create, list, show, change, quote, act.

An action responds with the updated session: start, submit, pause, resume, cancel, retry, iterate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Concatenate, ParamSpec
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, Spending, WriteRequest, Writing
from dialectic.api.openapi import describe_response, more_problems
from dialectic.api.pagination import Archived, Listing
from dialectic.api.routes.projects import ProjectId
from dialectic.app import feedback, jobs, projects, report, seats, sessions, stale
from dialectic.app.quotes import quote_session as find_quote
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.sessions import (
    CreatedJobs,
    FeedbackRequest,
    ResumeJobRequest,
    ResumeRequest,
    SavedFeedback,
    SeatRequest,
    Session,
    SessionChange,
    SessionPlan,
    SessionQuote,
    SessionRequest,
    SessionSummary,
    StaleDocuments,
    SubmitRequest,
)
from dialectic.core.documents.report import build_policy
from dialectic.core.money.price import parse_usd
from dialectic.core.seats import SEATS_MAX
from dialectic.db.tables import lists, records

P = ParamSpec("P")
router = APIRouter(tags=["sessions"])
actions = APIRouter(tags=["acting"], responses=more_problems(402))
SessionId = Annotated[UUID, Path(description="The id of a session.")]
SeatNumber = Annotated[int, Path(ge=1, le=SEATS_MAX, description="The number of a seat, from 1.")]
REPORT = describe_response("text/html", "The report.")
JobId = Annotated[UUID, Path(description="The id of a job of the session.")]


@router.post("/projects/{project_id}/sessions", status_code=201, response_model=Session)
async def create_session(project_id: ProjectId, body: SessionRequest, write: Writing) -> Response:
    """Create a session in a project. No model is called until you start a stage."""

    async def create(tx: Transaction) -> Session:
        return await sessions.get(tx, await projects.add_session(tx, project_id, body))

    return await write.answer(create)


@router.get("/projects/{project_id}/sessions")
async def list_sessions_of_project(project_id: ProjectId, listing: Listing) -> Page[SessionSummary]:
    """List the sessions of a project, newest first."""
    return await listing.page_of(
        records.load_project,
        project_id,
        "sessions",
        lists.list_sessions,
        SessionSummary.model_validate,
    )


@router.get("/sessions")
async def list_sessions(listing: Listing, archived: Archived = None) -> Page[SessionSummary]:
    """List all sessions, newest first."""
    every = partial(lists.list_sessions, project_id=None, archived=archived)
    return await listing.page("sessions", every, SessionSummary.model_validate)


@router.get("/sessions/{session_id}")
async def get_session(session_id: SessionId, context: Reading) -> Session:
    """Show a session and the progress of its stages."""
    return await context.run(sessions.get, session_id)


@router.patch("/sessions/{session_id}", response_model=Session)
async def change_session(session_id: SessionId, body: SessionChange, write: Writing) -> Response:
    """Change a session's models, budget, or handling of truncated responses."""
    return await write.answer(sessions.change, session_id, body)


@router.get("/sessions/{session_id}/quote")
async def quote_session(session_id: SessionId, context: Reading) -> SessionQuote:
    """Estimate the remaining work of a session and its cost. Calls no model."""
    found = await find_quote(context.engine, context.account, session_id)
    return SessionQuote.model_validate(found.as_dict())


@router.get("/sessions/{session_id}/plan")
async def get_session_plan(session_id: SessionId, context: Reading) -> SessionPlan:
    """Show the plan of a session's last finished iteration, on one page."""
    return await report.load_plan(context, session_id)


@router.get("/sessions/{session_id}/report", response_class=Response, responses=REPORT)
async def get_session_report(session_id: SessionId, context: Reading) -> Response:
    """Read plan, documents, lineage and costs of a session as one HTML file."""
    page = await report.build_session_report(context, session_id)
    policy = f"{build_policy()}; frame-ancestors 'none'"
    return Response(page, headers={"Content-Security-Policy": policy}, media_type="text/html")


@router.patch("/sessions/{session_id}/seats/{seat}", response_model=Session)
async def replace_seat(
    session_id: SessionId, seat: SeatNumber, body: SeatRequest, write: Spending
) -> Response:
    """Give a seat another model, for the work that it has not completed."""
    return await _act(write, seats.replace, session_id, seat, body.model)


@router.delete("/sessions/{session_id}/seats/{seat}", response_model=Session)
async def drop_seat(session_id: SessionId, seat: SeatNumber, write: Spending) -> Response:
    """Go on without a seat. Its finished contributions are kept."""
    return await _act(write, seats.drop, session_id, seat)


@router.get("/sessions/{session_id}/stale")
async def list_stale(session_id: SessionId, context: Reading) -> StaleDocuments:
    """List the documents that rest on something newer, in order, and what new ones would cost."""
    return await stale.look(context, session_id)


# -- actions --------------------------------------------------------------------------------------


@actions.post("/sessions/{session_id}/generate", status_code=202, response_model=CreatedJobs)
async def generate_session(session_id: SessionId, write: Spending) -> Response:
    """Start the next stage, and on autopilot those after it. A repeated call starts it once."""

    async def start(tx: Transaction) -> CreatedJobs:
        return CreatedJobs(job_ids=await sessions.generate(tx, session_id))

    return await write.answer(start)


async def _act(
    write: WriteRequest,
    action: Callable[Concatenate[Transaction, UUID, P], Awaitable[object]],
    session_id: UUID,
    *args: P.args,
    **kwargs: P.kwargs,
) -> Response:
    """Run an action on a session and respond with the updated session."""

    async def run(tx: Transaction) -> Session:
        await action(tx, session_id, *args, **kwargs)
        return await sessions.get(tx, session_id)

    return await write.answer(run)


@actions.post(
    "/sessions/{session_id}/regenerate-stale",
    status_code=202,
    response_model=CreatedJobs,
    responses=more_problems(402),
)
async def regenerate_stale(session_id: SessionId, write: Spending) -> Response:
    """Regenerate every document that rests on something newer, each after what it reads."""

    async def regenerate(tx: Transaction) -> CreatedJobs:
        return CreatedJobs(job_ids=await stale.regenerate(tx, session_id))

    return await write.answer(regenerate)


@actions.post("/sessions/{session_id}/submit", status_code=202, response_model=Session)
async def submit_session(
    session_id: SessionId, write: Spending, body: SubmitRequest | None = None
) -> Response:
    """Submit your feedback on the completed stage and start the next one."""

    return await _act(write, sessions.submit, session_id, body or SubmitRequest())


@actions.post("/sessions/{session_id}/pause", response_model=Session)
async def pause_session(session_id: SessionId, write: Writing) -> Response:
    """Pause a session. Running jobs finish their current turn."""
    return await _act(write, sessions.pause, session_id)


@actions.post("/sessions/{session_id}/resume", status_code=202, response_model=Session)
async def resume_session(
    session_id: SessionId, write: Spending, body: ResumeRequest | None = None
) -> Response:
    """Resume all paused work of a session. Does nothing if nothing is paused."""
    wanted = body or ResumeRequest()
    return await _act(
        write,
        sessions.resume,
        session_id,
        approves_spend=wanted.approve_spend,
        budget_credits=None if wanted.budget is None else parse_usd(wanted.budget),
        full_answers_only=wanted.full_answers_only,
    )


@actions.post("/sessions/{session_id}/cancel", response_model=Session)
async def cancel_session(session_id: SessionId, write: Writing) -> Response:
    """Cancel a session for good. Finished contributions are kept."""
    return await _act(write, sessions.cancel, session_id)


@actions.post("/sessions/{session_id}/jobs/{job_id}/pause", response_model=Session)
async def pause_job(session_id: SessionId, job_id: JobId, write: Writing) -> Response:
    """Pause one job before it starts, or before its next turn."""
    return await _act(write, jobs.pause, session_id, job_id)


@actions.post(
    "/sessions/{session_id}/jobs/{job_id}/resume", status_code=202, response_model=Session
)
async def resume_job(
    session_id: SessionId, job_id: JobId, write: Spending, body: ResumeJobRequest | None = None
) -> Response:
    """Resume one paused job."""
    approves = (body or ResumeJobRequest()).approve_spend
    return await _act(write, jobs.resume, session_id, job_id, approves_spend=approves)


@actions.post("/sessions/{session_id}/jobs/{job_id}/cancel", response_model=Session)
async def cancel_job(session_id: SessionId, job_id: JobId, write: Writing) -> Response:
    """Cancel one job and all jobs that need its output."""
    return await _act(write, jobs.cancel, session_id, job_id)


@actions.post("/sessions/{session_id}/retry", status_code=202, response_model=Session)
async def retry_session(session_id: SessionId, write: Spending) -> Response:
    """Retry failed jobs and the jobs that were blocked by them."""
    return await _act(write, sessions.retry, session_id)


@actions.post("/sessions/{session_id}/iterate", status_code=202, response_model=Session)
async def iterate_session(session_id: SessionId, write: Spending) -> Response:
    """Start another iteration, with the last outputs and all feedback as input."""
    return await _act(write, sessions.iterate, session_id)


@actions.post("/sessions/{session_id}/feedback", status_code=201, response_model=SavedFeedback)
async def give_feedback(session_id: SessionId, body: FeedbackRequest, write: Writing) -> Response:
    """Add feedback on a stage. Every later prompt includes it."""
    return await write.answer(
        feedback.give_feedback, session_id, body.stage, body.text, target_id=body.contribution_id
    )
