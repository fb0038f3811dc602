"""HTTP routes of live events and notifications."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.event_stream import NO_TOKEN, build_stream
from dialectic.api.openapi import describe_response
from dialectic.api.pagination import Listing
from dialectic.contract.accounts import Notification
from dialectic.contract.base import Page
from dialectic.db.pool import Connection
from dialectic.db.tables import lists, notifications

router = APIRouter(tags=["events"])
STREAM = describe_response(
    "text/event-stream", "Events until the client or the server closes the connection."
)
ID_MAX = 2**63 - 1


def _describe(
    session: Annotated[UUID | None, Query(description="Only this session.")] = None,
    after: Annotated[
        str | None, Query(description="Like `Last-Event-ID`; `0` for all stored events.")
    ] = None,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event you received.")
    ] = None,
) -> tuple[UUID | None, str | None, str | None]:
    return session, after, last_event_id


Wanted = Annotated[tuple[UUID | None, str | None, str | None], Depends(_describe)]


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def follow_events(request: Request, context: Reading, wanted: Wanted) -> Response:
    """Stream events, starting after the last one you received."""
    del wanted  # declared for OpenAPI; the stream reads it
    hub, token_id = request.app.state.hub, context.caller.token_id or NO_TOKEN
    return build_stream(context.engine, hub, context.account, request, token_id=token_id)


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
