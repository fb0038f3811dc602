"""HTTP routes of live events and notifications."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.event_stream import NO_TOKEN, EventStream
from dialectic.api.openapi import describe_events
from dialectic.api.pagination import Listing
from dialectic.contract.accounts import Notification
from dialectic.contract.base import Page
from dialectic.db.pool import Connection
from dialectic.db.tables import lists, notifications
from dialectic.events.stream import Follower

router = APIRouter(tags=["events"])
STREAM = describe_events("Events until the client or the server closes the connection.")
ID_MAX = 2**63 - 1


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def follow_events(
    request: Request,
    context: Reading,
    session: Annotated[UUID | None, Query(description="Only this session.")] = None,
    after: Annotated[
        str | None, Query(description="Like `Last-Event-ID`; `0` for all stored events.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event you received.")
    ] = None,
) -> Response:
    """Stream events, starting after the last one you received."""
    follower = Follower(
        hub=request.app.state.hub,
        db=context.engine.db,
        account=context.account,
        after=last_event_id or after or None,
        session_id=session,
        # The stream ends when the token expires or is revoked.
        token_id=context.caller.token_id or NO_TOKEN,
    )
    return EventStream(follower)


@router.get("/notifications")
async def list_notifications(
    listing: Listing,
    *,
    unread: Annotated[bool, Query(description="Only unread messages.")] = False,
) -> Page[Notification]:
    """List the messages to you, newest first."""
    user_id = listing.context.account.user_id

    async def fetch(connection: Connection, before: int | None, limit: int) -> lists.Rows:
        rows = await notifications.list_notifications(
            connection, user_id, before_id=before, unread_only=unread, limit=limit
        )
        return [dict(row) for row in rows]

    return await listing.numbered_page("notifications", fetch, Notification.model_validate)


@router.post("/notifications/{notification_id}/read", status_code=204)
async def read_notification(
    notification_id: Annotated[int, Path(ge=0, le=ID_MAX)], write: Writing
) -> Response:
    """Mark a message as read. Repeating it changes nothing."""
    user_id = write.account.user_id
    await write.transact(lambda c: notifications.mark_read(c, user_id, notification_id))
    return Response(status_code=204)
