"""HTTP routes of sessions and their jobs: create, list, show, change, quote, act.

An action responds with the updated session: start, submit, pause, resume, cancel, retry, iterate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Concatenate, ParamSpec
from uuid import UUID

from fastapi import APIRouter, Path, Query, Response

from dialectic.api.dependencies import Reading, Spending, WriteRequest, Writing
from dialectic.api.openapi import describe_response, more_problems
from dialectic.api.pagination import Archived, Listing, Phases
from dialectic.api.routes.projects import ProjectId
from dialectic.app import feedback, jobs, lists, projects, report, runs, seats, sessions, stale
from dialectic.app.session_quotes import describe_rest
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.lists import NeedList, SessionLine
from dialectic.contract.quotes import WorkQuote
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
    SessionRequest,
    StaleDocuments,
    StartedRun,
    StartRequest,
    SubmitRequest,
)
from dialectic.core.access import Scope
from dialectic.core.documents.report import build_policy
from dialectic.core.money.price import parse_usd
from dialectic.core.seats import SEATS_MAX
from dialectic.db.tables import records
from dialectic.db.tables.lists import PageQuery, Rows

P = ParamSpec("P")
router = APIRouter(tags=["sessions"])
actions = APIRouter(tags=["acting"], responses=more_problems(402))
SessionId = Annotated[UUID, Path(description="The id of a session.")]
SeatNumber = Annotated[int, Path(ge=1, le=SEATS_MAX, description="The number of a seat, from 1.")]
QuoteLines = Annotated[bool, Query(description="Include the single lines that the totals add up.")]
LOCATION = {"description": "Where the new session is.", "schema": {"type": "string"}}
REPORT = describe_response("text/html", "The report.")
JobId = Annotated[UUID, Path(description="The id of a job of the session.")]


@actions.post(
    "/runs",
    status_code=201,
    response_model=StartedRun,
    responses={201: {"headers": {"Location": LOCATION}}},
)
async def start_run(body: StartRequest, write: Writing) -> Response:
    """Create a project with its first session, or a further session of one, and start it.

    It needs the scope `spend` too, unless `start` is false. One commit: all of it, or nothing.
    """
    if body.start:
        write.caller.require(Scope.SPEND)
    return await write.answer_with(_locate, runs.start, body, starts=body.start)


def _locate(run: StartedRun) -> dict[str, str]:
    """Build the header that says where a new session is."""
    return {"Location": f"/api/v1/sessions/{run.session.id}"}


@router.post("/projects/{project_id}/sessions", status_code=201, response_model=Session)
async def create_session(project_id: ProjectId, body: SessionRequest, write: Writing) -> Response:
    """Create a session in a project. No model is called until you start a stage."""

    async def create(tx: Transaction) -> Session:
        return await sessions.get(tx, await projects.add_session(tx, project_id, body))

    return await write.answer(create)


@router.get("/projects/{project_id}/sessions")
async def list_sessions_of_project(project_id: ProjectId, listing: Listing) -> Page[SessionLine]:
    """List the sessions of a project, newest first."""

    async def fetch(tx: Transaction, page: PageQuery) -> Rows:
        await records.load_project(tx.connection, project_id)
        return await lists.list_sessions(tx, page, project_id=project_id)

    return await listing.page_of_lines("sessions", fetch, SessionLine.model_validate)


@router.get("/sessions")
async def list_sessions(
    listing: Listing,
    archived: Archived = None,
    status: Phases = None,
    *,
    needs: Annotated[bool, Query(description="Only those that wait for a person.")] = False,
) -> Page[SessionLine]:
    """List all sessions, newest first."""
    fetch = partial(lists.list_sessions, archived=archived, phases=status, needs=needs)
    return await listing.page_of_lines("sessions", fetch, SessionLine.model_validate)


@router.get("/needs")
async def list_needs(context: Reading) -> NeedList:
    """List what waits for a person in all sessions, the longest first."""
    return await context.run(lists.list_needs)


@router.get("/sessions/{session_id}")
async def get_session(session_id: SessionId, context: Reading) -> Session:
    """Show a session and the progress of its stages."""
    return await context.run(sessions.get, session_id)


@router.patch("/sessions/{session_id}", response_model=Session)
async def change_session(session_id: SessionId, body: SessionChange, write: Writing) -> Response:
    """Change a session's models, budget, or handling of truncated responses."""
    return await write.answer(sessions.change, session_id, body)


@router.get("/sessions/{session_id}/quote")
async def quote_session(
    session_id: SessionId, context: Reading, *, lines: QuoteLines = False
) -> WorkQuote:
    """Estimate the remaining work of a session and its cost. Calls no model."""
    return await describe_rest(context, session_id, with_lines=lines)


@router.get("/sessions/{session_id}/plan")
async def get_session_plan(session_id: SessionId, context: Reading) -> SessionPlan:
    """Show the plan of a session's last finished iteration, on one page."""
    return await report.load_plan(context, session_id)


@router.get("/sessions/{session_id}/report", response_class=Response, responses=REPORT)
async def get_session_report(
    session_id: SessionId,
    context: Reading,
    *,
    drafts: Annotated[bool, Query(description="Include the drafts of later steps.")] = True,
    names: Annotated[bool, Query(description="Name the models; else only their seats.")] = True,
) -> Response:
    """Read plan, documents, lineage and costs of a session as one HTML file."""
    options = report.ReportOptions(drafts=drafts, names=names)
    tenant_id = context.account.tenant_id
    page = await report.build_session_report(context.engine, tenant_id, session_id, options)
    policy = f"{build_policy()}; frame-ancestors 'none'"
    return Response(page, headers={"Content-Security-Policy": policy}, media_type="text/html")


@router.patch("/sessions/{session_id}/seats/{seat}", response_model=Session)
async def replace_seat(
    session_id: SessionId, seat: SeatNumber, body: SeatRequest, write: Spending
) -> Response:
    """Give a seat another model, for the work that it has not completed."""
    return await act(write, seats.replace, session_id, seat, body.model)


@router.delete("/sessions/{session_id}/seats/{seat}", response_model=Session)
async def drop_seat(session_id: SessionId, seat: SeatNumber, write: Spending) -> Response:
    """Go on without a seat. Its finished contributions are kept."""
    return await act(write, seats.drop, session_id, seat)


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


async def act(
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


@actions.post("/sessions/{session_id}/submit", status_code=202, response_model=Session)
async def submit_session(
    session_id: SessionId, write: Spending, body: SubmitRequest | None = None
) -> Response:
    """Submit your feedback on the completed stage and start the next one."""

    return await act(write, sessions.submit, session_id, body or SubmitRequest())


@actions.post("/sessions/{session_id}/pause", response_model=Session)
async def pause_session(session_id: SessionId, write: Writing) -> Response:
    """Pause a session. Running jobs finish their current turn."""
    return await act(write, sessions.pause, session_id)


@actions.post("/sessions/{session_id}/resume", status_code=202, response_model=Session)
async def resume_session(
    session_id: SessionId, write: Spending, body: ResumeRequest | None = None
) -> Response:
    """Resume all paused work of a session. Does nothing if nothing is paused."""
    wanted = body or ResumeRequest()
    return await act(
        write,
        sessions.resume,
        session_id,
        approves_spend=wanted.approve_spend,
        budget_credits=None if wanted.budget is None else parse_usd(wanted.budget),
        full_answers_only=wanted.full_answers_only,
        stage=wanted.stage,
    )


@actions.post("/sessions/{session_id}/cancel", response_model=Session)
async def cancel_session(session_id: SessionId, write: Writing) -> Response:
    """Cancel a session for good. Finished contributions are kept."""
    return await act(write, sessions.cancel, session_id)


@actions.post("/sessions/{session_id}/jobs/{job_id}/pause", response_model=Session)
async def pause_job(session_id: SessionId, job_id: JobId, write: Writing) -> Response:
    """Pause one job before it starts, or before its next turn."""
    return await act(write, jobs.pause, session_id, job_id)


@actions.post(
    "/sessions/{session_id}/jobs/{job_id}/resume", status_code=202, response_model=Session
)
async def resume_job(
    session_id: SessionId, job_id: JobId, write: Spending, body: ResumeJobRequest | None = None
) -> Response:
    """Resume one paused job."""
    approves = (body or ResumeJobRequest()).approve_spend
    return await act(write, jobs.resume, session_id, job_id, approves_spend=approves)


@actions.post("/sessions/{session_id}/jobs/{job_id}/cancel", response_model=Session)
async def cancel_job(session_id: SessionId, job_id: JobId, write: Writing) -> Response:
    """Cancel one job and all jobs that need its output."""
    return await act(write, jobs.cancel, session_id, job_id)


@actions.post("/sessions/{session_id}/retry", status_code=202, response_model=Session)
async def retry_session(session_id: SessionId, write: Spending) -> Response:
    """Retry failed jobs and the jobs that were blocked by them."""
    return await act(write, sessions.retry, session_id)


@actions.post("/sessions/{session_id}/iterate", status_code=202, response_model=Session)
async def iterate_session(session_id: SessionId, write: Spending) -> Response:
    """Start another iteration, with the last outputs and all feedback as input."""
    return await act(write, sessions.iterate, session_id)


@actions.post("/sessions/{session_id}/feedback", status_code=201, response_model=SavedFeedback)
async def give_feedback(session_id: SessionId, body: FeedbackRequest, write: Writing) -> Response:
    """Add feedback on a stage. Every later prompt includes it."""
    return await write.answer(
        feedback.give_feedback, session_id, body.stage, body.text, target_id=body.contribution_id
    )
