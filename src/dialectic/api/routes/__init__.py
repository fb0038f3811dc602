"""API routes, one module per noun. Each validates a request, calls a service, returns a view."""

from __future__ import annotations

from dialectic.api.routes import (
    account,
    chat,
    contributions,
    endpoints,
    events,
    overview,
    plan,
    projects,
    sessions,
    tokens,
    transfer,
)

# Fixed paths come first: a path parameter would match their last segment.
ROUTERS = (
    transfer.router,
    projects.router,
    sessions.router,
    overview.router,
    plan.router,
    sessions.actions,
    contributions.router,
    contributions.documents,
    events.router,
    chat.router,
    account.router,
    endpoints.router,
    tokens.router,
)
