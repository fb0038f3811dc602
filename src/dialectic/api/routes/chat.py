"""HTTP routes of chats: send a message, list, rename, rewind, delete, turn into a project.

A call continues when its client disconnects. A retry with the same `Idempotency-Key` gets the
response of that call; the model is not called again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import (
    Reading,
    Spending,
    Writing,
    build_replay_header,
    build_response,
)
from dialectic.api.openapi import EVENTS, describe_response, more_problems
from dialectic.api.pagination import Listing
from dialectic.api.problems import build_problem
from dialectic.app import chat
from dialectic.app.idempotency import LongRequests
from dialectic.contract.base import Page
from dialectic.contract.chats import (
    Chat,
    ChatChange,
    ChatProjectRequest,
    ChatReply,
    ChatRequest,
    ChatSummary,
    RewindRequest,
)
from dialectic.contract.projects import Project
from dialectic.db.tables import lists
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import DialecticError

router = APIRouter(tags=["chat"])
ChatId = Annotated[UUID, Path(description="The id of a chat.")]
KEEP_ALIVE = b": still here\n\n"
# Tells proxies to forward each event at once.
UNBUFFERED = {"X-Accel-Buffering": "no"}
STREAMED = describe_response(
    EVENTS,
    "The reply. With `stream`, server-sent events: `delta` {text} for each piece, then `reply` "
    "with the whole record, or `problem`.",
)


# -- asking ---------------------------------------------------------------------------------------


@router.post("/chat", response_model=ChatReply, responses={**STREAMED, **more_problems(402, 502)})
async def send_message(body: ChatRequest, write: Spending, request: Request) -> Response:
    """Send a message to one model.

    This is one call, or with `continue_until_complete` as many as a long reply takes.
    """
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def work(effect_id: UUID) -> StoredResponse:
        reply = await chat.send(
            write.engine, write.account, body, pieces.put_nowait, question_id=effect_id
        )
        return StoredResponse(200, reply.model_dump_json().encode())

    long_requests: LongRequests = request.app.state.long_requests
    asked = long_requests.run(write.caller, write.key, write.fingerprint, work)
    if not body.stream:
        return build_response(await asked)
    return await _stream(request, asked, pieces)


async def _stream(
    request: Request, asked: Awaitable[StoredResponse], pieces: asyncio.Queue[str | None]
) -> Response:
    """Respond with events; a failure before the first event becomes a plain problem response.

    A slow model must not look like a dead connection: after a while the stream starts with a
    comment. A later failure is sent as a `problem` event.
    """
    asking = asyncio.ensure_future(asked)

    def end(done: asyncio.Future[StoredResponse]) -> None:
        pieces.put_nowait(None)
        if not done.cancelled():
            done.exception()  # retrieved, so asyncio does not log it

    asking.add_done_callback(end)
    waiting, headers = asyncio.ensure_future(pieces.get()), UNBUFFERED
    await asyncio.wait({waiting}, timeout=request.app.state.ping_s)
    if waiting.done() and waiting.result() is None:
        headers = {**UNBUFFERED, **build_replay_header(await asking)}
    told = _stream_reply(request, asking, pieces, waiting)
    return StreamingResponse(told, headers=headers, media_type=EVENTS)


async def _stream_reply(
    request: Request,
    asking: asyncio.Future[StoredResponse],
    pieces: asyncio.Queue[str | None],
    waiting: asyncio.Future[str | None],
) -> AsyncIterator[bytes]:
    if not waiting.done():
        yield KEEP_ALIVE
    while True:
        while not (await asyncio.wait({waiting}, timeout=request.app.state.ping_s))[0]:
            yield KEEP_ALIVE
        if (piece := waiting.result()) is None:
            break
        yield _event("delta", json.dumps({"text": piece}).encode())
        waiting = asyncio.ensure_future(pieces.get())
    try:
        yield _event("reply", (await asking).body)
    except DialecticError as error:
        yield _event("problem", bytes(build_problem(request, error).body))


def _event(name: str, data: bytes) -> bytes:
    """Build one server-sent event; the JSON data contains no line break."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


# -- chats ----------------------------------------------------------------------------------------


@router.get("/chats")
async def list_chats(listing: Listing) -> Page[ChatSummary]:
    """List your chats, newest first."""
    return await listing.page("chats", lists.list_chats, ChatSummary.model_validate)


@router.get("/chats/{chat_id}")
async def get_chat(chat_id: ChatId, context: Reading) -> Chat:
    """Show a chat and its messages."""
    return await context.run(chat.get, chat_id)


@router.patch("/chats/{chat_id}", response_model=Chat)
async def change_chat(chat_id: ChatId, body: ChatChange, write: Writing) -> Response:
    """Rename a chat."""
    return await write.answer(chat.rename, chat_id, body.title)


@router.delete("/chats/{chat_id}", status_code=204)
async def delete_chat(chat_id: ChatId, write: Writing) -> Response:
    """Delete a chat. Its wallet transactions are kept."""
    await write.run(chat.delete, chat_id)
    return Response(status_code=204)


@router.post("/chats/{chat_id}/rewind", response_model=Chat)
async def rewind_chat(chat_id: ChatId, body: RewindRequest, write: Writing) -> Response:
    """Remove a message and all later ones from the thread. They stay on record."""
    return await write.answer(chat.rewind, chat_id, body.message_id)


@router.post("/chats/{chat_id}/project", status_code=201, response_model=Project)
async def make_project_of_chat(
    chat_id: ChatId, body: ChatProjectRequest, write: Writing
) -> Response:
    """Create a project whose prompt is the text of a chat."""
    return await write.answer(chat.make_project, chat_id, body)
