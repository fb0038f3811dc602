"""HTTP routes of chats: send a message, list, rename, rewind, delete, turn into a project.

A call continues when its client disconnects. A retry with the same `Idempotency-Key` gets the
response of that call; the model is not called again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import StreamingResponse

from dialectic.api.dependencies import (
    Reading,
    Spending,
    WriteRequest,
    Writing,
    build_replay_header,
    build_response,
)
from dialectic.api.openapi import describe_response, more_problems
from dialectic.api.pagination import Listing
from dialectic.api.problems import build_problem
from dialectic.app import chat, projects
from dialectic.app.idempotency import LongRequests
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page
from dialectic.contract.chats import (
    Chat,
    ChatChange,
    ChatMessage,
    ChatProjectRequest,
    ChatReply,
    ChatRequest,
    ChatSummary,
    ChatUsage,
    RewindRequest,
)
from dialectic.contract.projects import Project
from dialectic.db.tables import chats, lists
from dialectic.db.tables.idempotency import StoredResponse
from dialectic.errors import DialecticError, NotFound, UsageError

router = APIRouter(tags=["chat"])
ChatId = Annotated[UUID, Path(description="The id of a chat.")]
EVENTS = "text/event-stream"
KEEP_ALIVE = b": still here\n\n"
# Tells proxies to forward each event at once.
UNBUFFERED = {"X-Accel-Buffering": "no"}
STREAMED = describe_response(
    EVENTS,
    "The reply. With `stream`, server-sent events: `delta` {text} for each piece, then `reply` "
    "with the whole record, or `problem`.",
)


def build_reply(reply: chat.Reply) -> ChatReply:
    """Build the view of a reply."""
    return ChatReply(
        chat_id=reply.chat_id,
        question_id=reply.question_id,
        message_id=reply.message_id,
        model=reply.model_name,
        content=reply.text,
        finish_reason=reply.finish_reason.value,
        incomplete=reply.is_incomplete,
        flags=list(reply.flags),
        usage=ChatUsage(
            input_tokens=reply.usage.input_tokens,
            output_tokens=reply.usage.output_tokens,
            source=reply.usage.source.value,
            calls=reply.calls,
        ),
    )


def build_message(row: dict[str, Any]) -> ChatMessage:
    """Build the view of a message."""
    usage = row["token_usage"]
    return ChatMessage(
        id=row["id"],
        role=row["role"],
        content=row["content"],
        model=row["model_name"],
        usage=None if usage is None else ChatUsage(**usage),
        finish_reason=row["finish_reason"],
        incomplete=row["is_incomplete"],
        flags=row["flags"],
        created_at=row["created_at"],
    )


# -- asking ---------------------------------------------------------------------------------------


@router.post("/chat", response_model=ChatReply, responses={**STREAMED, **more_problems(402, 502)})
async def send_message(body: ChatRequest, write: Spending, request: Request) -> Response:
    """Send a message to one model.

    This is one call, or with `continue_until_complete` as many as a long reply takes.
    """
    system = await _load_system(write, body)
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def work(effect_id: UUID) -> StoredResponse:
        question = chat.Question(
            message=body.message,
            model=body.model,
            chat_id=body.chat_id,
            system=system,
            continues=body.continue_until_complete,
            max_output_tokens=body.max_output_tokens,
            replaces_id=body.rewind_from_message_id,
            id=effect_id,
        )
        reply = await chat.send(write.engine, write.account, question, pieces.put_nowait)
        return StoredResponse(200, build_reply(reply).model_dump_json().encode())

    long_requests: LongRequests = request.app.state.long_requests
    asked = long_requests.run(write.caller, write.key, write.fingerprint, work)
    if not body.stream:
        return build_response(await asked)
    return await _stream(request, asked, pieces)


async def _load_system(write: WriteRequest, body: ChatRequest) -> str:
    prompt_id = body.system_prompt_id
    if prompt_id is None:
        return body.system_instruction
    return await write.transact(lambda c: chats.load_system_prompt(c, prompt_id))


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


async def _load(tx: Transaction, chat_id: UUID) -> Chat:
    """Load a chat with its messages."""
    found = await chats.load_chat(tx.connection, chat_id)
    messages = await chats.list_messages(tx.connection, chat_id)
    return Chat(
        id=found.id,
        title=found.title,
        system_instruction=found.system,
        created_at=found.created_at,
        messages=[build_message(row) for row in messages],
    )


@router.get("/chats/{chat_id}")
async def get_chat(chat_id: ChatId, context: Reading) -> Chat:
    """Show a chat and its messages."""
    return await context.run(_load, chat_id)


@router.patch("/chats/{chat_id}", response_model=Chat)
async def change_chat(chat_id: ChatId, body: ChatChange, write: Writing) -> Response:
    """Rename a chat."""

    async def rename(tx: Transaction) -> Chat:
        await chats.load_chat(tx.connection, chat_id)
        await chats.rename(tx.connection, chat_id, chat.check_title(body.title))
        return await _load(tx, chat_id)

    return await write.answer(rename)


@router.delete("/chats/{chat_id}", status_code=204)
async def delete_chat(chat_id: ChatId, write: Writing) -> Response:
    """Delete a chat. Its wallet transactions are kept."""

    async def delete(tx: Transaction) -> None:
        await chats.load_chat(tx.connection, chat_id)
        await chats.delete(tx.connection, chat_id)

    await write.run(delete)
    return Response(status_code=204)


@router.post("/chats/{chat_id}/rewind", response_model=Chat)
async def rewind_chat(chat_id: ChatId, body: RewindRequest, write: Writing) -> Response:
    """Remove a message and all later ones from the thread. They stay on record."""

    async def rewind(tx: Transaction) -> Chat:
        await chats.load_chat(tx.connection, chat_id)
        if not await chats.rewind(tx.connection, chat_id, body.message_id):
            raise NotFound(f"Message {body.message_id} is not in the thread of this chat.")
        return await _load(tx, chat_id)

    return await write.answer(rewind)


@router.post("/chats/{chat_id}/project", status_code=201, response_model=Project)
async def make_project_of_chat(
    chat_id: ChatId, body: ChatProjectRequest, write: Writing
) -> Response:
    """Create a project whose prompt is the text of a chat."""

    async def create(tx: Transaction) -> Project:
        title = (await chats.load_chat(tx.connection, chat_id)).title
        thread = await chats.list_messages(tx.connection, chat_id)
        new = projects.NewProject(
            prompt=chat.build_prompt(_choose(thread, body.message_ids)),
            name=body.name or title,
            domain=body.domain,
        )
        project_id, _, _ = await projects.create_project(tx, new)
        return await projects.get(tx, project_id)

    return await write.answer(create)


def _choose(thread: list[dict[str, Any]], ids: list[UUID] | None) -> list[dict[str, Any]]:
    chosen = [row for row in thread if ids is None or row["id"] in ids]
    if ids is not None and len(chosen) < len(set(ids)):
        raise NotFound("One of the messages is not in the thread of this chat.")
    if not chosen:
        raise UsageError("The chat has no text for a project. Send a message first.")
    return chosen
