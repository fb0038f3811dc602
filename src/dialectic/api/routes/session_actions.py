"""Acting on sessions and their jobs over HTTP: start, submit, pause, resume, cancel, and so on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated
from uuid import UUID, uuid5

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Spending, WriteRequest, Writing
from dialectic.api.openapi import more_problems
from dialectic.api.routes.sessions import SessionId, load_view
from dialectic.app import feedback, jobs, sessions
from dialectic.app.feedback import Comment, Rating
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
from dialectic.db.pool import Connection

router = APIRouter(tags=["acting"], responses=more_problems(402))
JobId = Annotated[UUID, Path(description="The id of a job of the session.")]


@router.post("/sessions/{session_id}/generate", status_code=202, response_model=CreatedJobs)
async def generate_session(session_id: SessionId, act: Spending) -> Response:
    """Start the stage that is due, and on autopilot those after it. Asking twice starts it once."""
    project_ids: list[UUID] = []

    async def work(connection: Connection, _effect_id: UUID) -> CreatedJobs:
        job_ids = await sessions.generate_in(act.engine, connection, act.account, session_id)
        project_ids.append((await load_view(connection, session_id)).project_id)
        return CreatedJobs(job_ids=job_ids)

    return await act.answer(work, status=202, then=lambda: act.publish(project_ids))


async def _steer(
    act: WriteRequest,
    session_id: UUID,
    status: int,
    action: Callable[[Connection, UUID], Awaitable[object]],
) -> Response:
    """Do something to a session and show how it stands then."""
    project_ids: list[UUID] = []

    async def work(connection: Connection, effect_id: UUID) -> Session:
        await action(connection, effect_id)
        view = await load_view(connection, session_id)
        project_ids.append(view.project_id)
        return view

    return await act.answer(work, status=status, then=lambda: act.publish(project_ids))


@router.post("/sessions/{session_id}/submit", status_code=202, response_model=Session)
async def submit_session(
    session_id: SessionId, act: Spending, body: SubmitRequest | None = None
) -> Response:
    """Submit what you say about the stage that is complete, and start the next one."""

    async def action(connection: Connection, effect_id: UUID) -> None:
        await _keep(act, connection, session_id, body or SubmitRequest(), effect_id)
        await sessions.start_next_in(act.engine, connection, act.account, session_id)

    return await _steer(act, session_id, 202, action)


async def _keep(
    act: WriteRequest,
    connection: Connection,
    session_id: UUID,
    body: SubmitRequest,
    effect_id: UUID,
) -> None:
    stage = (await load_view(connection, session_id)).current_stage
    said: list[Comment | Rating] = []
    for number, one in enumerate(body.responses):
        ids = [uuid5(effect_id, f"{kind} {number}") for kind in ("response", "rating")]
        if one.text.strip():
            said.append(Comment(stage, one.text, one.contribution_id, ids[0]))
        if one.rating is not None:
            said.append(Rating(one.contribution_id, one.rating, ids[1]))
    if body.feedback.strip():
        said.append(Comment(stage, body.feedback, None, uuid5(effect_id, "feedback")))
    if said:
        await feedback.save_in(act.engine, connection, act.account, session_id, said)


@router.post("/sessions/{session_id}/pause", response_model=Session)
async def pause_session(session_id: SessionId, act: Writing) -> Response:
    """Start nothing more; what runs finishes its turn."""
    return await _steer(act, session_id, 200, lambda c, _: sessions.pause_in(c, session_id))


@router.post("/sessions/{session_id}/resume", status_code=202, response_model=Session)
async def resume_session(
    session_id: SessionId, act: Spending, body: ResumeRequest | None = None
) -> Response:
    """Let everything go on that is paused; harmless if nothing is."""
    wanted = body or ResumeRequest()
    budget = None if wanted.budget is None else parse_usd(wanted.budget)

    async def action(connection: Connection, _effect_id: UUID) -> None:
        await sessions.resume_in(
            connection, session_id, approves_spend=wanted.approve_spend, budget_credits=budget
        )

    return await _steer(act, session_id, 202, action)


@router.post("/sessions/{session_id}/cancel", response_model=Session)
async def cancel_session(session_id: SessionId, act: Writing) -> Response:
    """End a session for good; what is written stays."""
    return await _steer(act, session_id, 200, lambda c, _: sessions.cancel_in(c, session_id))


@router.post("/sessions/{session_id}/jobs/{job_id}/pause", response_model=Session)
async def pause_job(session_id: SessionId, job_id: JobId, act: Writing) -> Response:
    """Let one job wait that has not begun, or not its next turn."""
    return await _steer(act, session_id, 200, lambda c, _: jobs.pause_in(c, session_id, job_id))


@router.post("/sessions/{session_id}/jobs/{job_id}/resume", status_code=202, response_model=Session)
async def resume_job(
    session_id: SessionId, job_id: JobId, act: Spending, body: ResumeJobRequest | None = None
) -> Response:
    """Let one job go on that is paused."""
    approves = (body or ResumeJobRequest()).approve_spend

    async def action(connection: Connection, _effect_id: UUID) -> None:
        await jobs.resume_in(connection, session_id, job_id, approves_spend=approves)

    return await _steer(act, session_id, 202, action)


@router.post("/sessions/{session_id}/jobs/{job_id}/cancel", response_model=Session)
async def cancel_job(session_id: SessionId, job_id: JobId, act: Writing) -> Response:
    """End one job; whoever cannot do without what it would have written ends with it."""
    return await _steer(act, session_id, 200, lambda c, _: jobs.cancel_in(c, session_id, job_id))


@router.post("/sessions/{session_id}/retry", status_code=202, response_model=Session)
async def retry_session(session_id: SessionId, act: Spending) -> Response:
    """Run again what failed, and what could not run because of it."""
    return await _steer(act, session_id, 202, lambda c, _: sessions.retry_in(c, session_id))


@router.post("/sessions/{session_id}/iterate", status_code=202, response_model=Session)
async def iterate_session(session_id: SessionId, act: Spending) -> Response:
    """Run the process once more, with the last outputs and all feedback as input."""
    return await _steer(
        act,
        session_id,
        202,
        lambda c, _: sessions.iterate_in(act.engine, c, act.account, session_id),
    )


@router.post("/sessions/{session_id}/feedback", status_code=201, response_model=SavedFeedback)
async def give_feedback(session_id: SessionId, body: FeedbackRequest, act: Writing) -> Response:
    """Say something about a stage; every later prompt carries it."""
    project_ids: list[UUID] = []

    async def work(connection: Connection, effect_id: UUID) -> SavedFeedback:
        said = Comment(body.stage, body.text, body.contribution_id, uuid5(effect_id, "feedback"))
        kept = await feedback.save_in(act.engine, connection, act.account, session_id, [said])
        project_ids.append(kept.project_id)
        return SavedFeedback(path=kept.path)

    return await act.answer(work, status=201, then=lambda: act.publish(project_ids))
