"""HTTP routes of sessions: create, list, show, change, quote."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.pagination import Paging, list_page
from dialectic.api.routes.projects import ProjectId
from dialectic.app import projects, sessions
from dialectic.app.quotes import quote_session as find_quote
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.sessions import (
    Session,
    SessionChange,
    SessionQuote,
    SessionRequest,
    SessionSummary,
)
from dialectic.db.tables import lists

router = APIRouter(tags=["sessions"])
SessionId = Annotated[UUID, Path(description="The id of a session.")]


@router.post("/projects/{project_id}/sessions", status_code=201, response_model=Session)
async def create_session(project_id: ProjectId, body: SessionRequest, act: Writing) -> Response:
    """Create a session in a project. No model is called until you start a stage."""

    async def create(tx: Transaction) -> Session:
        return await sessions.get(tx, await projects.add_session(tx, project_id, body))

    return await act.answer(create, status=201)


@router.get("/projects/{project_id}/sessions")
async def list_sessions_of_project(
    project_id: ProjectId, context: Reading, paging: Paging
) -> Page[SessionSummary]:
    """List the sessions of a project, newest first."""
    return await list_page(
        context,
        "sessions",
        paging,
        lambda connection, page: lists.list_sessions(connection, page, project_id),
        SessionSummary.model_validate,
        within=lambda tx: projects.get(tx, project_id),
    )


@router.get("/sessions")
async def list_sessions(context: Reading, paging: Paging) -> Page[SessionSummary]:
    """List all sessions, newest first."""
    return await list_page(
        context,
        "sessions",
        paging,
        lambda connection, page: lists.list_sessions(connection, page, None),
        SessionSummary.model_validate,
    )


@router.get("/sessions/{session_id}")
async def get_session(session_id: SessionId, context: Reading) -> Session:
    """Show a session and the progress of its stages."""
    return await context.run(sessions.get, session_id)


@router.patch("/sessions/{session_id}", response_model=Session)
async def change_session(session_id: SessionId, body: SessionChange, act: Writing) -> Response:
    """Change a session's models, budget, or handling of truncated responses."""
    return await act.answer(lambda tx: sessions.change(tx, session_id, body))


@router.get("/sessions/{session_id}/quote")
async def quote_session(session_id: SessionId, context: Reading) -> SessionQuote:
    """Estimate the remaining work of a session and its cost. Calls no model."""
    found = await find_quote(context.engine, context.account, session_id)
    return SessionQuote.model_validate(found.as_dict())
