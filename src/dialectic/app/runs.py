"""Start a run in one commit: a project with its first session, or a further session of one."""

from __future__ import annotations

from uuid import UUID

from dialectic.app import projects, sessions
from dialectic.app.transaction import Transaction
from dialectic.contract.sessions import RunRequest, StartedRun


async def start(tx: Transaction, request: RunRequest, *, starts: bool = True) -> StartedRun:
    """Create what a run needs and start its first stage; without `starts`, only create it."""
    created = await projects.create_session(tx, request)
    job_ids: list[UUID] = []
    if starts:
        job_ids = await sessions.generate(tx, created.session_id)
    return StartedRun(
        project=await projects.get(tx, created.project_id),
        session=await sessions.get(tx, created.session_id),
        job_ids=job_ids,
    )
