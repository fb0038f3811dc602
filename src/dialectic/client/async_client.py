"""`AsyncClient`: the asynchronous client. Its methods are described in `operations`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar
from uuid import UUID

import httpx2

from dialectic.atomic_write import check_plain, replacing
from dialectic.client import account, chats, projects, transport
from dialectic.client.call import Call
from dialectic.client.events import StreamPosition
from dialectic.client.operations import Async, Operations
from dialectic.client.problems import build_error
from dialectic.client.retry import HttpReply, decide_wait
from dialectic.client.transport import (
    TIMEOUT_S,
    Server,
    is_passing,
    parse_server,
    read_said,
    read_streamed,
)
from dialectic.contract.chats import ChatReply
from dialectic.contract.events import Event, StateReset
from dialectic.contract.projects import ImportedProject
from dialectic.core.access import Secret
from dialectic.core.sse import EventParser
from dialectic.errors import DialecticError, ServerUnreachable

T = TypeVar("T")


class AsyncClient(Async, Operations):
    """An asynchronous client of one server."""

    def __init__(
        self, url: str, *, token: str | Secret | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.server: Server = parse_server(url, token, timeout_s)
        self._http = httpx2.AsyncClient(**self.server.options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call, retry it where that is safe, and parse the response."""
        named = transport.name(call)
        return await self._persist(named, lambda: self._try(self.server.build_request(named)))

    async def _persist(
        self, call: Call[T], send: Callable[[], Awaitable[HttpReply | ServerUnreachable]]
    ) -> T:
        tries = 0
        while True:
            tries += 1
            heard = await send()
            answer = heard if isinstance(heard, HttpReply) else None
            wait_s = decide_wait(tries, can_repeat=call.can_repeat, heard=answer)
            if wait_s is None:
                return self.server.read(call, heard)
            await asyncio.sleep(wait_s)

    async def _try(self, request: dict[str, Any]) -> HttpReply | ServerUnreachable:
        try:
            return transport.read_reply(await self._http.request(**request))
        except httpx2.TransportError as error:
            return self.server.describe_loss(error)

    @asynccontextmanager
    async def _open(self, request: dict[str, Any]) -> AsyncIterator[httpx2.Response]:
        async with self._http.stream(**request) as answer:
            if not answer.is_success:
                await answer.aread()
                raise build_error(answer.status_code, answer.content)
            yield answer

    async def events(
        self, *, after: str | None = None, session: UUID | None = None
    ) -> AsyncGenerator[Event | StateReset, None]:
        """Stream events; a lost stream resumes after the last event received.

        `after` is the `resume_id` of the last event you know, or "0" for all stored events.
        """
        place = StreamPosition(after)
        while True:
            try:
                call = account.follow_events(after=place.after, session_id=session)
                place.begin()
                async with self._open(self.server.build_stream(call)) as answer:
                    async for piece in answer.aiter_raw():
                        for event in place.feed(piece):
                            yield event
                trouble: DialecticError = self.server.describe_end()
            except httpx2.TransportError as error:
                trouble = self.server.describe_loss(error)
            except DialecticError as error:
                trouble = error
                if not is_passing(error):
                    raise
            except ValueError:
                raise self.server.describe_nonsense() from None
            wait_s = place.decide_wait()
            if wait_s is None:
                raise trouble
            await asyncio.sleep(wait_s)

    async def chat(
        self, message: str, model: str, **wishes: Any
    ) -> AsyncGenerator[str | ChatReply, None]:
        """Send a chat message and stream the reply: pieces of text, then the `Reply`."""
        call = transport.name(chats.ask(message, model, stream=True, **wishes))
        parser = EventParser()
        try:
            async with self._open(self.server.build_stream(call)) as answer:
                async for piece in answer.aiter_raw():
                    for event in parser.feed(piece):
                        said = read_said(event)
                        yield said
                        if isinstance(said, ChatReply):
                            return
        except httpx2.TransportError:
            pass
        except (ValueError, LookupError):
            raise self.server.describe_nonsense() from None
        # The server continues without us; a retry with the same key gets that result.
        again: Call[ChatReply] = replace(call, read=read_streamed)
        reply = await self.send(again)
        yield reply

    async def export_project(self, project_id: UUID, out: Path, *, finished: bool = False) -> None:
        """Export a project to a zip file; the file appears only when it is complete."""
        call = projects.export_project(project_id, finished=finished)
        check_plain(out, "written")
        try:
            with replacing(out) as file:
                async with self._open(self.server.build_stream(call)) as answer:
                    async for piece in answer.aiter_bytes():
                        await asyncio.to_thread(file.write, piece)
        except httpx2.TransportError as error:
            raise self.server.describe_loss(error) from None

    async def import_project(self, path: Path, *, key: str | None = None) -> ImportedProject:
        """Import a project from a zip file, streaming it."""
        call = transport.name(projects.import_project(key=key))
        check_plain(path, "read")

        async def send() -> HttpReply | ServerUnreachable:
            async with aclosing(_read_pieces(path)) as content:
                return await self._try({**self.server.build_upload(call), "content": content})

        return await self._persist(call, send)


async def _read_pieces(path: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, transport.PIECE_BYTES):
            yield piece
