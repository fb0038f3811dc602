"""HTTP routes that act on sessions and jobs: start, submit, pause, resume, cancel, retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Spending, WriteRequest, Writing
from dialectic.api.openapi import more_problems
from dialectic.api.routes.sessions import SessionId
from dialectic.app import feedback, jobs, sessions
from dialectic.app.feedback import Comment, Rating
from dialectic.app.transaction import Transaction
from dialectic.contract.sessions import (
    CreatedJobs,
    FeedbackRequest,
    ResumeJobRequest,
    ResumeRequest,
    SavedFeedback,
    Session,
    SubmitRequest,
)
from dialectic.core.money.price import parse_usd

Action: TypeAlias = Awaitable[object]
router = APIRouter(tags=["acting"], responses=more_problems(402))
JobId = Annotated[UUID, Path(description="The id of a job of the session.")]


@router.post("/sessions/{session_id}/generate", status_code=202, response_model=CreatedJobs)
async def generate_session(session_id: SessionId, act: Spending) -> Response:
    """Start the next stage, and on autopilot those after it. A repeated call starts it once."""

    async def start(tx: Transaction) -> CreatedJobs:
        return CreatedJobs(job_ids=await sessions.generate(tx, session_id))

    return await act.answer(start, status=202)


async def _act(
    act: WriteRequest, session_id: UUID, status: int, action: Callable[[Transaction], Action]
) -> Response:
    """Run an action on a session and respond with the updated session."""

    async def run(tx: Transaction) -> Session:
        await action(tx)
        return await sessions.get(tx, session_id)

    return await act.answer(run, status=status)


@router.post("/sessions/{session_id}/submit", status_code=202, response_model=Session)
async def submit_session(
    session_id: SessionId, act: Spending, body: SubmitRequest | None = None
) -> Response:
    """Submit your feedback on the completed stage and start the next one."""

    async def submit(tx: Transaction) -> None:
        await _save(tx, session_id, body or SubmitRequest())
        await sessions.start_next(tx, session_id)

    return await _act(act, session_id, 202, submit)


async def _save(tx: Transaction, session_id: UUID, body: SubmitRequest) -> None:
    """Save a submission: comments, ratings and feedback together."""
    stage = (await sessions.get(tx, session_id)).current_stage
    said: list[Comment | Rating] = []
    for number, one in enumerate(body.responses):
        ids = [tx.derive_id(f"{kind} {number}") for kind in ("response", "rating")]
        if one.text.strip():
            said.append(Comment(stage, one.text, one.contribution_id, ids[0]))
        if one.rating is not None:
            said.append(Rating(one.contribution_id, one.rating, ids[1]))
    if body.feedback.strip():
        said.append(Comment(stage, body.feedback, None, tx.derive_id("feedback")))
    if said:
        await feedback.save(tx, session_id, said)


@router.post("/sessions/{session_id}/pause", response_model=Session)
async def pause_session(session_id: SessionId, act: Writing) -> Response:
    """Pause a session. Running jobs finish their current turn."""
    return await _act(act, session_id, 200, lambda tx: sessions.pause(tx, session_id))


@router.post("/sessions/{session_id}/resume", status_code=202, response_model=Session)
async def resume_session(
    session_id: SessionId, act: Spending, body: ResumeRequest | None = None
) -> Response:
    """Resume all paused work of a session. Does nothing if nothing is paused."""
    wanted = body or ResumeRequest()
    budget = None if wanted.budget is None else parse_usd(wanted.budget)

    return await _act(
        act,
        session_id,
        202,
        lambda tx: sessions.resume(
            tx, session_id, approves_spend=wanted.approve_spend, budget_credits=budget
        ),
    )


@router.post("/sessions/{session_id}/cancel", response_model=Session)
async def cancel_session(session_id: SessionId, act: Writing) -> Response:
    """Cancel a session for good. Finished contributions are kept."""
    return await _act(act, session_id, 200, lambda tx: sessions.cancel(tx, session_id))


@router.post("/sessions/{session_id}/jobs/{job_id}/pause", response_model=Session)
async def pause_job(session_id: SessionId, job_id: JobId, act: Writing) -> Response:
    """Pause one job before it starts, or before its next turn."""
    return await _act(act, session_id, 200, lambda tx: jobs.pause(tx, session_id, job_id))


@router.post("/sessions/{session_id}/jobs/{job_id}/resume", status_code=202, response_model=Session)
async def resume_job(
    session_id: SessionId, job_id: JobId, act: Spending, body: ResumeJobRequest | None = None
) -> Response:
    """Resume one paused job."""
    approves = (body or ResumeJobRequest()).approve_spend

    return await _act(
        act,
        session_id,
        202,
        lambda tx: jobs.resume(tx, session_id, job_id, approves_spend=approves),
    )


@router.post("/sessions/{session_id}/jobs/{job_id}/cancel", response_model=Session)
async def cancel_job(session_id: SessionId, job_id: JobId, act: Writing) -> Response:
    """Cancel one job and all jobs that need its output."""
    return await _act(act, session_id, 200, lambda tx: jobs.cancel(tx, session_id, job_id))


@router.post("/sessions/{session_id}/retry", status_code=202, response_model=Session)
async def retry_session(session_id: SessionId, act: Spending) -> Response:
    """Retry failed jobs and the jobs that were blocked by them."""
    return await _act(act, session_id, 202, lambda tx: sessions.retry(tx, session_id))


@router.post("/sessions/{session_id}/iterate", status_code=202, response_model=Session)
async def iterate_session(session_id: SessionId, act: Spending) -> Response:
    """Start another iteration, with the last outputs and all feedback as input."""
    return await _act(
        act,
        session_id,
        202,
        lambda tx: sessions.iterate(tx, session_id),
    )


@router.post("/sessions/{session_id}/feedback", status_code=201, response_model=SavedFeedback)
async def give_feedback(session_id: SessionId, body: FeedbackRequest, act: Writing) -> Response:
    """Add feedback on a stage. Every later prompt includes it."""
    return await act.answer(
        lambda tx: feedback.give_feedback(
            tx, session_id, body.stage, body.text, target_id=body.contribution_id
        ),
        status=201,
    )
