"""API routes, one module per noun. Each validates a request, calls a service, returns a view."""

from __future__ import annotations

from dialectic.api.routes import (
    account,
    acting,
    chat,
    claims,
    contributions,
    endpoints,
    events,
    feedback,
    overview,
    plan,
    projects,
    provenance,
    search,
    sessions,
    shares,
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
    acting.router,
    contributions.router,
    contributions.documents,
    provenance.router,
    claims.router,
    feedback.router,
    shares.router,
    search.router,
    events.router,
    chat.router,
    account.router,
    endpoints.router,
    tokens.router,
)
