"""HTTP routes of sessions: create, list, show, change, quote."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Response

from dialectic.api.dependencies import Reading, RequestContext, Writing
from dialectic.api.pagination import Paging, list_page
from dialectic.api.routes.projects import ProjectId
from dialectic.app import projects, sessions
from dialectic.app.quotes import quote_session as find_quote
from dialectic.app.transaction import Transaction
from dialectic.contract.base import (
    Page,
)
from dialectic.contract.sessions import (
    Session,
    SessionChange,
    SessionQuote,
    SessionRequest,
    SessionSummary,
)
from dialectic.core.models.model import parse_model_list
from dialectic.core.money.price import parse_usd
from dialectic.core.process.reductions import shrink_process
from dialectic.core.run_request import RunRequest
from dialectic.db.tables import lists
from dialectic.processes.loader import load_named
from dialectic.providers.catalog import choose_default_models

router = APIRouter(tags=["sessions"])
SessionId = Annotated[UUID, Path(description="The id of a session.")]


def build_ask(context: RequestContext, body: SessionRequest) -> RunRequest:
    """Build a run request; the prompt is the project's."""
    engine = context.engine
    names = (
        choose_default_models(engine.catalog, engine.settings)
        if body.models is None
        else parse_model_list(",".join(body.models))
    )
    return RunRequest(
        prompt="",
        models=names,
        process=shrink_process(
            load_named(body.process, own=engine.settings.own_processes), body.shrink
        ),
        until=body.until or "",
        lead=body.lead or "",
        is_autopilot=body.is_autopilot,
        continue_until_complete=body.continue_until_complete,
        max_output_tokens=body.max_output_tokens,
        budget_credits=None if body.budget is None else parse_usd(body.budget),
    )


@router.post("/projects/{project_id}/sessions", status_code=201, response_model=Session)
async def create_session(project_id: ProjectId, body: SessionRequest, act: Writing) -> Response:
    """Create a session in a project. No model is called until you start a stage."""

    async def create(tx: Transaction) -> Session:
        project = await projects.load(tx, project_id)
        ask = projects.build_run_request(project, build_ask(act.context, body))
        return await sessions.get(tx, await projects.add_session(tx, project_id, ask))

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
        sessions.build_summary,
        within=lambda tx: projects.load(tx, project_id),
    )


@router.get("/sessions")
async def list_sessions(context: Reading, paging: Paging) -> Page[SessionSummary]:
    """List all sessions, newest first."""
    return await list_page(
        context,
        "sessions",
        paging,
        lambda connection, page: lists.list_sessions(connection, page, None),
        sessions.build_summary,
    )


@router.get("/sessions/{session_id}")
async def get_session(session_id: SessionId, context: Reading) -> Session:
    """Show a session and the progress of its stages."""
    return await context.run(sessions.get, session_id)


@router.patch("/sessions/{session_id}", response_model=Session)
async def change_session(session_id: SessionId, body: SessionChange, act: Writing) -> Response:
    """Change a session's models, budget, or handling of truncated responses."""
    models = None if body.models is None else parse_model_list(",".join(body.models))
    change = sessions.Change(
        models=models,
        continue_until_complete=body.continue_until_complete,
        max_output_tokens=body.max_output_tokens,
        has_no_cap=body.is_taken_away("max_output_tokens"),
        budget_credits=None if body.budget is None else parse_usd(body.budget),
        has_no_budget=body.is_taken_away("budget"),
    )

    async def run(tx: Transaction) -> Session:
        await sessions.change(tx, session_id, change)
        return await sessions.get(tx, session_id)

    return await act.answer(run)


@router.get("/sessions/{session_id}/quote")
async def quote_session(session_id: SessionId, context: Reading) -> SessionQuote:
    """Estimate the remaining work of a session and its cost. Calls no model."""
    found = await find_quote(context.engine, context.account, session_id)
    return SessionQuote(**found.as_dict())
