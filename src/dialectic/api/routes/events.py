"""HTTP routes of live events and notifications."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import Reading, Writing
from dialectic.api.event_stream import NO_TOKEN, EventStream
from dialectic.api.openapi import describe_events
from dialectic.api.pagination import Listing, build_cursor, parse_number
from dialectic.app import drafts as drafts_of_jobs
from dialectic.app import notifications
from dialectic.contract.contributions import JobDraft
from dialectic.contract.notifications import ID_MAX, NotificationPage, ReadRequest, ReadResult
from dialectic.events.stream import Follower

router = APIRouter(tags=["events"])
STREAM = describe_events("Events until the client or the server closes the connection.")
KIND = "notifications"
# The sessions whose drafts one stream may hold.
DRAFTS_MAX = 4


@router.get("/events", response_class=StreamingResponse, responses=STREAM)
async def follow_events(
    request: Request,
    context: Reading,
    session: Annotated[UUID | None, Query(description="Only this session.")] = None,
    drafts: Annotated[
        list[UUID] | None,
        Query(
            max_length=DRAFTS_MAX,
            description="Also the text of running calls of these sessions, as it arrives.",
        ),
    ] = None,
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
        drafts_of=tuple(dict.fromkeys(drafts or ())),
        # The stream ends when the token expires or is revoked.
        token_id=context.caller.token_id or NO_TOKEN,
    )
    return EventStream(follower)


@router.get("/jobs/{job_id}/draft")
async def get_draft(job_id: UUID, context: Reading) -> JobDraft:
    """Show the text so far of a running job. Asking for it makes its worker report for 30 s."""
    return await context.run(drafts_of_jobs.get, job_id)


@router.get("/notifications")
async def list_notifications(
    listing: Listing,
    *,
    unread: Annotated[bool, Query(description="Only unread messages.")] = False,
) -> NotificationPage:
    """List the messages to you, newest first, and count the unread ones."""
    before = None if listing.cursor is None else parse_number(KIND, listing.cursor)
    page = await listing.context.run(
        notifications.list_newest, unread=unread, before_id=before, limit=listing.limit + 1
    )
    if len(page.items) > listing.limit:
        del page.items[listing.limit :]
        page.next_cursor = build_cursor(KIND, page.items[-1].id)
    return page


@router.post("/notifications/read", response_model=ReadResult)
async def read_notifications(write: Writing, body: ReadRequest | None = None) -> Response:
    """Mark messages to you as read, all of them by default."""
    wanted = body or ReadRequest()
    return await write.answer(
        notifications.mark_all_read, up_to=wanted.up_to, session_id=wanted.session_id
    )


@router.post("/notifications/{notification_id}/read", status_code=204)
async def read_notification(
    notification_id: Annotated[int, Path(ge=0, le=ID_MAX)], write: Writing
) -> Response:
    """Mark a message as read. Repeating it changes nothing."""
    await write.run(notifications.mark_read, notification_id)
    return Response(status_code=204)
