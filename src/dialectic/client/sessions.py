"""Calls for sessions: create, list, show, change, quote. Pure."""

from __future__ import annotations

from uuid import UUID

from dialectic.client.call import Call, act, get
from dialectic.contract.accounts import Cost
from dialectic.contract.base import Page
from dialectic.contract.contributions import Job
from dialectic.contract.projects import Resource
from dialectic.contract.sessions import (
    QuoteRequest,
    RunQuote,
    Session,
    SessionChange,
    SessionDetail,
    SessionQuote,
    SessionRequest,
    SessionSummary,
)

# -- asked -----------------------------------------------------------------------------------------


def create_session(
    project_id: UUID, request: SessionRequest | None = None, *, key: str | None = None
) -> Call[Session]:
    """Create a session in a project; without models, with the server's default models."""
    body = request or SessionRequest()
    return act(f"/projects/{project_id}/sessions", Session, body, key=key)


def quote_run(request: QuoteRequest) -> Call[RunQuote]:
    """Quote a run before it exists. Creates nothing and calls no model."""
    return act("/quotes", RunQuote, request)


def list_sessions(project_id: UUID | None = None) -> Call[Page[SessionSummary]]:
    """List sessions of a project, or all, newest first."""
    path = "/sessions" if project_id is None else f"/projects/{project_id}/sessions"
    return get(path, Page[SessionSummary])


def get_session(session_id: UUID) -> Call[Session]:
    """Show a session and the progress of its stages."""
    return get(f"/sessions/{session_id}", Session)


def change_session(session_id: UUID, change: SessionChange) -> Call[Session]:
    """Change a session; an unset field is kept, a field set to None is removed."""
    return act(f"/sessions/{session_id}", Session, change, method="PATCH")


def quote_session(session_id: UUID) -> Call[SessionQuote]:
    """Estimate the remaining work of a session and its cost."""
    return get(f"/sessions/{session_id}/quote", SessionQuote)


def look(session_id: UUID, *, quote: bool = False, after: int | None = None) -> Call[SessionDetail]:
    """Show all of a session; `after` asks whether events followed that one."""
    path = f"/sessions/{session_id}/overview"
    return get(path, SessionDetail, quote=quote or None, after=after)


def list_costs(session_id: UUID) -> Call[Page[Cost]]:
    """List a session's costs so far."""
    return get(f"/sessions/{session_id}/costs", Page[Cost])


def list_jobs(session_id: UUID) -> Call[Page[Job]]:
    """List a session's jobs, oldest first."""
    return get(f"/sessions/{session_id}/jobs", Page[Job])


def list_documents(session_id: UUID) -> Call[Page[Resource]]:
    """List a session's documents that are not contributions."""
    return get(f"/sessions/{session_id}/documents", Page[Resource])
