"""The routes of the API, one module per noun; thin: a checked request in, a service, a view out."""

from __future__ import annotations

from dialectic.api.routes import (
    account,
    chat,
    contributions,
    events,
    overview,
    projects,
    session_actions,
    sessions,
    tokens,
    transfer,
)

# Paths without a parameter come before those that would take their last word for one.
ROUTERS = (
    transfer.router,
    projects.router,
    sessions.router,
    overview.router,
    session_actions.router,
    contributions.router,
    contributions.documents,
    events.router,
    chat.router,
    account.router,
    tokens.router,
)
