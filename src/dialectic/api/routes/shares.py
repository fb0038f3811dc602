"""HTTP routes of links to reports: make, list, revoke. `api.shared_page` serves the reports."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Response

from dialectic.api.dependencies import Reading, RequestContext, Writing, allow
from dialectic.api.pagination import list_whole
from dialectic.api.routes.sessions import SessionId
from dialectic.app import shares
from dialectic.contract.base import Page
from dialectic.contract.shares import IssuedShare, Share, ShareRequest
from dialectic.core.access import Scope

router = APIRouter(tags=["sessions"])
# Without an idempotency key: its stored response would hold the secret.
Sharing = Annotated[RequestContext, Depends(allow(Scope.WRITE))]


@router.post("/sessions/{session_id}/shares", status_code=201)
async def share_session(
    session_id: SessionId, context: Sharing, body: ShareRequest | None = None
) -> IssuedShare:
    """Make a link to a session's report, for people without an account. It is shown once."""
    return await context.run(shares.create, session_id, body or ShareRequest())


@router.get("/sessions/{session_id}/shares")
async def list_shares(session_id: SessionId, context: Reading) -> Page[Share]:
    """List the links to a session's report that work, without their secrets."""
    return list_whole(await context.run(shares.list_shares, session_id))


@router.delete("/shares/{share_id}", status_code=204)
async def revoke_share(
    share_id: Annotated[UUID, Path(description="The id of a link.")], write: Writing
) -> Response:
    """Revoke a link. It leads nowhere from then on."""
    await write.run(shares.revoke, share_id)
    return Response(status_code=204)
