"""HTTP routes that act on parts of a session: one job, some documents; and what an action costs.

A GET of an action's path tells its price and does nothing; `?price=true` may be added to say so.
"""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response

from dialectic.api.dependencies import Reading, Spending, Writing
from dialectic.api.openapi import more_problems
from dialectic.api.routes.contributions import ContributionId
from dialectic.api.routes.sessions import JobId, SessionId, act
from dialectic.app import contributions, cut_off, jobs, session_quotes, stale
from dialectic.app.transaction import Transaction
from dialectic.contract.quotes import Price
from dialectic.contract.sessions import RESPONSES_MAX, CreatedJobs, DocumentsRequest, Session

router = APIRouter(tags=["acting"], responses=more_problems(402))
DocumentIds = Annotated[
    list[UUID] | None,
    Query(alias="document_id", max_length=RESPONSES_MAX, description="Some documents; else all."),
]


@router.post("/sessions/{session_id}/jobs/{job_id}/retry", status_code=202, response_model=Session)
async def retry_job(session_id: SessionId, job_id: JobId, write: Spending) -> Response:
    """Run one failed job again, with the jobs that ended because of it.

    A running call is aborted and made again.
    """
    return await act(write, jobs.retry, session_id, job_id)


@router.get("/sessions/{session_id}/jobs/{job_id}/retry")
async def price_job_retry(session_id: SessionId, job_id: JobId, context: Reading) -> Price:
    """Tell what running one failed job again costs. Does nothing."""
    return await jobs.price_retry(context, session_id, job_id)


@router.post("/sessions/{session_id}/jobs/{job_id}/skip", response_model=Session)
async def skip_job(session_id: SessionId, job_id: JobId, write: Writing) -> Response:
    """Go on without one job, where its step can do without it."""
    return await act(write, jobs.skip, session_id, job_id)


@router.get("/sessions/{session_id}/retry")
async def price_retry(session_id: SessionId, context: Reading) -> Price:
    """Tell what running the failed jobs again costs at once. Does nothing."""
    return await jobs.price_retries(context, session_id)


@router.get("/sessions/{session_id}/submit")
async def price_submit(session_id: SessionId, context: Reading) -> Price:
    """Tell what the next stage costs and, on autopilot, those after it. Does nothing."""
    return await session_quotes.price_next(context, session_id)


@router.get("/sessions/{session_id}/iterate")
async def price_iterate(session_id: SessionId, context: Reading) -> Price:
    """Tell what another iteration costs; without autopilot, its first stage. Does nothing."""
    return await session_quotes.price_iteration(context, session_id)


@router.post("/sessions/{session_id}/continue", status_code=202, response_model=CreatedJobs)
async def continue_documents(
    session_id: SessionId, write: Spending, body: DocumentsRequest | None = None
) -> Response:
    """Let the models go on with documents that are cut off: all, or some."""

    async def go_on(tx: Transaction) -> CreatedJobs:
        ids = (body or DocumentsRequest()).document_ids
        return CreatedJobs(job_ids=await cut_off.go_on(tx, session_id, ids))

    return await write.answer(go_on)


@router.get("/sessions/{session_id}/continue")
async def price_continue(
    session_id: SessionId, context: Reading, document_ids: DocumentIds = None
) -> Price:
    """Tell what going on with documents that are cut off costs. Does nothing."""
    return await cut_off.price(context, session_id, document_ids)


@router.post("/sessions/{session_id}/refresh", status_code=202, response_model=CreatedJobs)
async def refresh_documents(
    session_id: SessionId, write: Spending, body: DocumentsRequest | None = None
) -> Response:
    """Write stale documents again, each after what it reads: all, or some with their dependants."""

    async def refresh(tx: Transaction) -> CreatedJobs:
        ids = (body or DocumentsRequest()).document_ids
        return CreatedJobs(job_ids=await stale.regenerate(tx, session_id, ids))

    return await write.answer(refresh)


@router.get("/sessions/{session_id}/refresh")
async def price_refresh(
    session_id: SessionId, context: Reading, document_ids: DocumentIds = None
) -> Price:
    """Tell what writing stale documents again costs. Does nothing."""
    return await stale.price(context, session_id, document_ids)


@router.get("/contributions/{contribution_id}/regenerate")
async def price_regenerate(contribution_id: ContributionId, context: Reading) -> Price:
    """Tell what writing a contribution again costs. Does nothing."""
    return await contributions.price(context, contribution_id)
