"""`Client`: the synchronous client. Its methods are described in `operations`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from dialectic.client.operations import Operations, Sync
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


class Client(Sync, Operations):
    """A synchronous client of one server."""

    def __init__(
        self, url: str, *, token: str | Secret | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.server: Server = parse_server(url, token, timeout_s)
        self._http = httpx2.Client(**self.server.options)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, retry it where that is safe, and parse the response."""
        named = transport.name(call)
        return self._persist(named, lambda: self._try(self.server.build_request(named)))

    def _persist(self, call: Call[T], send: Callable[[], HttpReply | ServerUnreachable]) -> T:
        tries = 0
        while True:
            tries += 1
            heard = send()
            answer = heard if isinstance(heard, HttpReply) else None
            wait_s = decide_wait(tries, can_repeat=call.can_repeat, heard=answer)
            if wait_s is None:
                return self.server.read(call, heard)
            time.sleep(wait_s)

    def _try(self, request: dict[str, Any]) -> HttpReply | ServerUnreachable:
        try:
            return transport.read_reply(self._http.request(**request))
        except httpx2.TransportError as error:
            return self.server.describe_loss(error)

    @contextmanager
    def _open(self, request: dict[str, Any]) -> Iterator[httpx2.Response]:
        with self._http.stream(**request) as answer:
            if not answer.is_success:
                answer.read()
                raise build_error(answer.status_code, answer.content)
            yield answer

    def events(
        self, *, after: str | None = None, session: UUID | None = None
    ) -> Iterator[Event | StateReset]:
        """Stream events; a lost stream resumes after the last event received.

        `after` is the `resume_id` of the last event you know, or "0" for all stored events.
        """
        place = StreamPosition(after)
        while True:
            try:
                call = account.follow_events(after=place.after, session_id=session)
                place.begin()
                with self._open(self.server.build_stream(call)) as answer:
                    for piece in answer.iter_raw():
                        yield from place.feed(piece)
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
            time.sleep(wait_s)

    def chat(self, message: str, model: str, **wishes: Any) -> Iterator[str | ChatReply]:
        """Send a chat message and stream the reply: pieces of text, then the `Reply`."""
        call = transport.name(chats.ask(message, model, stream=True, **wishes))
        parser = EventParser()
        try:
            with self._open(self.server.build_stream(call)) as answer:
                for piece in answer.iter_raw():
                    for said in map(read_said, parser.feed(piece)):
                        yield said
                        if isinstance(said, ChatReply):
                            return
        except httpx2.TransportError:
            pass
        except (ValueError, LookupError):
            raise self.server.describe_nonsense() from None
        # The server continues without us; a retry with the same key gets that result.
        yield self.send(replace(call, read=read_streamed))

    def export_project(self, project_id: UUID, out: Path, *, finished: bool = False) -> None:
        """Export a project to a zip file; the file appears only when it is complete."""
        call = projects.export_project(project_id, finished=finished)
        check_plain(out, "written")
        try:
            with replacing(out) as file, self._open(self.server.build_stream(call)) as answer:
                for piece in answer.iter_bytes():
                    file.write(piece)
        except httpx2.TransportError as error:
            raise self.server.describe_loss(error) from None

    def import_project(self, path: Path, *, key: str | None = None) -> ImportedProject:
        """Import a project from a zip file, streaming it."""
        call = transport.name(projects.import_project(key=key))
        check_plain(path, "read")

        def send() -> HttpReply | ServerUnreachable:
            with path.open("rb") as file:
                content = iter(lambda: file.read(transport.PIECE_BYTES), b"")
                return self._try({**self.server.build_upload(call), "content": content})

        return self._persist(call, send)
