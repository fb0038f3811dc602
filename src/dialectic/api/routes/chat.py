"""HTTP routes of chats: send a message, list, rename, rewind, delete, turn into a project.

A call continues when its client disconnects. A retry with the same `Idempotency-Key` gets the
response of that call; the model is not called again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import (
    Reading,
    RequestContext,
    Spending,
    Writing,
    allow,
    build_replay_header,
    build_response,
)
from dialectic.api.openapi import EVENTS, describe_response, more_problems
from dialectic.api.pagination import Listing
from dialectic.api.problems import build_problem
from dialectic.app import chat, rendering
from dialectic.app.idempotency import LongRequests
from dialectic.app.live_answers import LiveAnswer, LiveAnswers
from dialectic.contract.base import Page
from dialectic.contract.chats import (
    BranchRequest,
    Chat,
    ChatChange,
    ChatEstimate,
    ChatProjectRequest,
    ChatReply,
    ChatRequest,
    ChatSummary,
    RewindRequest,
)
from dialectic.contract.projects import Project
from dialectic.core.access import Scope
from dialectic.core.models.messages import Role
from dialectic.db.tables import lists
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import Conflict, DialecticError, Remedy, RemedyAction

router = APIRouter(tags=["chat"])
ChatId = Annotated[UUID, Path(description="The id of a chat.")]
KEEP_ALIVE = b": still here\n\n"
# The chat of a streamed answer: a new one is known before its answer is complete.
CHAT_ID = "X-Chat-ID"
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
    live, answers = LiveAnswer(body.message, body.model), _get_answers(request)
    tenant_id = write.account.tenant_id

    async def work(effect_id: UUID) -> StoredResponse:
        with answers.keeping(tenant_id, live):
            try:
                reply = await chat.send(
                    write.engine,
                    write.account,
                    body,
                    live.add,
                    question_id=effect_id,
                    on_begin=lambda chat_id: answers.begin(tenant_id, chat_id, live),
                    stopping=live.stopping,
                )
            except DialecticError as error:
                live.end(None, error)
                raise
            live.end(reply, None)
            return StoredResponse(200, reply.model_dump_json().encode())

    long_requests: LongRequests = request.app.state.long_requests
    asked = long_requests.run(write.caller, write.key, write.fingerprint, work)
    if not body.stream:
        return build_response(await asked)
    return await _stream(request, asked, live)


def _get_answers(request: Request) -> LiveAnswers:
    answers: LiveAnswers = request.app.state.live_answers
    return answers


async def _stream(request: Request, asked: Awaitable[StoredResponse], live: LiveAnswer) -> Response:
    """Respond with events; a failure before the first event becomes a plain problem response.

    A slow model must not look like a dead connection: after a while the stream starts with a
    comment. A later failure is sent as a `problem` event.
    """
    asking = asyncio.ensure_future(asked)

    def end(done: asyncio.Future[StoredResponse]) -> None:
        if not live.is_over:  # a repeated request has the response of the first one
            live.end(None, None)
        if not done.cancelled():
            done.exception()  # retrieved, so asyncio does not log it

    asking.add_done_callback(end)
    pieces = live.read()
    waiting, headers = asyncio.ensure_future(anext(pieces, None)), UNBUFFERED
    await asyncio.wait({waiting}, timeout=request.app.state.ping_s)
    if waiting.done() and waiting.result() is None:
        headers = {**UNBUFFERED, **build_replay_header(await asking)}
    if live.chat_id is not None:
        headers = {**headers, CHAT_ID: str(live.chat_id)}

    async def end_stream() -> bytes:
        return (await asking).body

    told = _stream_reply(request, pieces, waiting, end_stream)
    return StreamingResponse(told, headers=headers, media_type=EVENTS)


async def _stream_reply(
    request: Request,
    pieces: AsyncIterator[str],
    waiting: asyncio.Future[str | None],
    get_reply: Callable[[], Awaitable[bytes]],
) -> AsyncIterator[bytes]:
    try:
        if not waiting.done():
            yield KEEP_ALIVE
        while True:
            while not (await asyncio.wait({waiting}, timeout=request.app.state.ping_s))[0]:
                yield KEEP_ALIVE
            if (piece := waiting.result()) is None:
                break
            yield _event("delta", json.dumps({"text": piece}).encode())
            waiting = asyncio.ensure_future(anext(pieces, None))
        yield _event("reply", await get_reply())
    except DialecticError as error:
        yield _event("problem", bytes(build_problem(request, error).body))
    finally:
        waiting.cancel()  # a client that has left reads no more


def _event(name: str, data: bytes) -> bytes:
    """Build one server-sent event; the JSON data contains no line break."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


# -- chats ----------------------------------------------------------------------------------------


@router.get("/chats")
async def list_chats(listing: Listing) -> Page[ChatSummary]:
    """List your chats, newest first."""
    return await listing.page("chats", lists.list_chats, ChatSummary.model_validate)


@router.post("/chat/estimate")
async def estimate_message(body: ChatRequest, context: Reading) -> ChatEstimate:
    """Tell what a message is expected to cost. Calls no model."""
    return await chat.estimate(context.engine, context.account, body)


@router.get("/chats/{chat_id}")
async def get_chat(
    chat_id: ChatId,
    context: Reading,
    request: Request,
    *,
    with_branches: Annotated[
        bool, Query(description="Include the messages that are not in the thread.")
    ] = False,
    html: Annotated[bool, Query(description="Include the answers as safe HTML.")] = False,
) -> Chat:
    """Show a chat and its messages, and the question that is being answered."""
    found = await context.run(chat.get, chat_id, with_branches=with_branches)
    live = _get_answers(request).find(context.account.tenant_id, chat_id)
    found.pending = None if live is None else live.describe()
    for message in found.messages if html else []:
        if message.role == Role.ASSISTANT:
            message.html = await rendering.render_part(context.engine, message.content)
    return found


@router.get("/chats/{chat_id}/stream", response_model=ChatReply, responses=STREAMED)
async def join_answer(chat_id: ChatId, context: Reading, request: Request) -> Response:
    """Join the answer that is being written in a chat, from its first word.

    Only the server process that writes it can stream it: another one answers with 409, and the
    answer appears in the chat when it is complete.
    """
    live = await _load_live(request, context, chat_id)

    async def end_stream() -> bytes:
        return live.get_reply().model_dump_json().encode()

    pieces = live.read()
    told = _stream_reply(request, pieces, asyncio.ensure_future(anext(pieces, None)), end_stream)
    headers = {**UNBUFFERED, CHAT_ID: str(chat_id)}
    return StreamingResponse(told, headers=headers, media_type=EVENTS)


@router.post("/chats/{chat_id}/stop", status_code=204)
async def stop_answer(
    chat_id: ChatId,
    context: Annotated[RequestContext, Depends(allow(Scope.SPEND))],
    request: Request,
) -> Response:
    """Stop the answer that is being written in a chat. The text so far stays, and is paid for."""
    (await _load_live(request, context, chat_id)).stopping.set()
    return Response(status_code=204)


async def _load_live(request: Request, context: RequestContext, chat_id: UUID) -> LiveAnswer:
    live = _get_answers(request).find(context.account.tenant_id, chat_id)
    if live is not None:
        return live
    await context.run(chat.get, chat_id)  # raises if it does not exist
    raise Conflict(
        "This server process is writing no answer in this chat. If another one is, the answer "
        "appears in the chat when it is complete.",
        reason="no_answer_here",
        subject=str(chat_id),
        remedy=Remedy(RemedyAction.TRY_AGAIN),
    )


@router.post("/chats/{chat_id}/branch", response_model=Chat)
async def switch_branch(chat_id: ChatId, body: BranchRequest, write: Writing) -> Response:
    """Go on with another branch of a chat: its thread becomes the current one."""
    return await write.answer(chat.switch, chat_id, body.message_id)


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
