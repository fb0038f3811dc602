"""`Client` and `AsyncClient`: the same methods, synchronous and asynchronous.

A method builds a call, and the client sends it. A method of `Client` returns its result, the same
method of `AsyncClient` an awaitable. A list is read to its end, page by page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

import httpx2

from dialectic.atomic_write import check_plain, replacing
from dialectic.client import account, claims, documents, projects, provenance, sessions
from dialectic.client.call import Call, add_key, build_next
from dialectic.client.events import StreamPosition
from dialectic.client.replies import build_error, decide_wait
from dialectic.client.transport import (
    PASSING,
    PIECE_BYTES,
    TIMEOUT_S,
    parse_server,
    read_said,
    read_streamed,
)
from dialectic.contract.base import Page
from dialectic.contract.chats import ChatReply
from dialectic.contract.events import AnyStreamItem
from dialectic.core.access import Secret
from dialectic.core.sse import EventParser
from dialectic.errors import DialecticError, ServerUnreachable

P = ParamSpec("P")
T = TypeVar("T")


class Operation(Generic[P, T]):
    """A method that sends one call."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Client | AsyncClient, owner: type) -> Callable[P, Any]:
        return lambda *args, **kwargs: client.send(self._build(*args, **kwargs))


class ListOperation(Generic[P, T]):
    """A method that reads a list."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Client | AsyncClient, owner: type) -> Callable[P, Any]:
        return lambda *args, **kwargs: client.list_all(self._build(*args, **kwargs))


class Operations:
    """The shared methods; each client adds the streams: events, chat replies, exports."""

    create_project = Operation(projects.create_project)
    list_projects = ListOperation(projects.list_projects)
    get_project = Operation(projects.get_project)
    change_project = Operation(projects.change_project)
    delete_project = Operation(projects.delete_project)
    add_resource = Operation(projects.add_resource)
    list_resources = ListOperation(projects.list_resources)
    remove_resource = Operation(projects.remove_resource)
    list_files = ListOperation(projects.list_files)
    read_file = Operation(projects.read_file)
    list_plan = ListOperation(projects.list_plan)
    replace_plan_file = Operation(projects.replace_plan_file)
    tick_plan_steps = Operation(projects.tick_plan_steps)
    move_plan_file = Operation(projects.move_plan_file)
    delete_plan_file = Operation(projects.delete_plan_file)
    search_project = Operation(projects.search_project)
    search_all = Operation(documents.search_all)
    find = Operation(projects.find)
    import_project = Operation(projects.import_project)

    start_run = Operation(sessions.start_run)
    create_session = Operation(sessions.create_session)
    quote_run = Operation(sessions.quote_run)
    list_sessions = ListOperation(sessions.list_sessions)
    list_needs = Operation(sessions.list_needs)
    get_session = Operation(sessions.get_session)
    get_session_plan = Operation(sessions.get_session_plan)
    get_session_report = Operation(sessions.get_session_report)
    change_session = Operation(sessions.change_session)
    replace_seat = Operation(sessions.replace_seat)
    drop_seat = Operation(sessions.drop_seat)
    quote_session = Operation(sessions.quote_session)
    look = Operation(sessions.look)
    list_costs = ListOperation(sessions.list_costs)
    list_jobs = ListOperation(sessions.list_jobs)
    get_draft = Operation(sessions.get_draft)
    list_contributions = ListOperation(sessions.list_contributions)
    list_documents = ListOperation(sessions.list_documents)

    generate = Operation(sessions.generate)
    submit = Operation(sessions.submit)
    pause = Operation(sessions.pause)
    resume = Operation(sessions.resume)
    cancel = Operation(sessions.cancel)
    pause_job = Operation(sessions.pause_job)
    resume_job = Operation(sessions.resume_job)
    cancel_job = Operation(sessions.cancel_job)
    retry_job = Operation(sessions.retry_job)
    skip_job = Operation(sessions.skip_job)
    retry = Operation(sessions.retry)
    iterate = Operation(sessions.iterate)
    give_feedback = Operation(sessions.give_feedback)
    list_feedback = ListOperation(documents.list_feedback)
    change_feedback = Operation(documents.change_feedback)
    remove_feedback = Operation(documents.remove_feedback)

    get_contribution = Operation(sessions.get_contribution)
    get_record = Operation(sessions.get_record)
    get_chunk = Operation(sessions.get_chunk)
    list_versions = ListOperation(sessions.list_versions)
    get_provenance = Operation(provenance.get_provenance)
    get_coverage = Operation(provenance.get_coverage)
    list_figures = Operation(provenance.list_figures)
    get_strength = Operation(provenance.get_strength)
    get_session_worth = Operation(provenance.get_session_worth)
    get_models_worth = Operation(provenance.get_models_worth)
    list_claims = Operation(claims.list_claims)
    rule_on_claim = Operation(claims.rule_on_claim)
    withdraw_ruling_on_claim = Operation(claims.withdraw_ruling_on_claim)
    list_dissents = Operation(claims.list_dissents)
    rule_on_dissent = Operation(claims.rule_on_dissent)
    withdraw_ruling_on_dissent = Operation(claims.withdraw_ruling_on_dissent)
    edit = Operation(sessions.edit)
    regenerate = Operation(sessions.regenerate)
    list_stale = Operation(sessions.list_stale)
    refresh = Operation(sessions.refresh)
    continue_documents = Operation(sessions.continue_documents)
    price_action = Operation(sessions.price_action)
    price_job_retry = Operation(sessions.price_job_retry)
    price_regenerate = Operation(sessions.price_regenerate)
    rate = Operation(sessions.rate)
    get_document = Operation(projects.get_document)
    render_contribution = Operation(documents.render_contribution)
    render_document = Operation(documents.render_document)
    render_text = Operation(documents.render_text)
    compare = Operation(documents.compare)
    share_session = Operation(documents.share_session)
    list_shares = ListOperation(documents.list_shares)
    revoke_share = Operation(documents.revoke_share)

    ask = Operation(account.ask)
    list_chats = ListOperation(account.list_chats)
    get_chat = Operation(account.get_chat)
    delete_chat = Operation(account.delete_chat)
    rewind_chat = Operation(account.rewind_chat)
    switch_branch = Operation(account.switch_branch)
    stop_answer = Operation(account.stop_answer)
    estimate_message = Operation(account.estimate_message)
    make_project_of_chat = Operation(account.make_project_of_chat)

    get_me = Operation(account.get_me)
    change_preferences = Operation(account.change_preferences)
    get_wallet = Operation(account.get_wallet)
    top_up_wallet = Operation(account.top_up_wallet)
    change_wallet = Operation(account.change_wallet)
    list_transactions = ListOperation(account.list_transactions)
    list_spending = ListOperation(account.list_spending)
    add_endpoint = Operation(account.add_endpoint)
    list_endpoints = ListOperation(account.list_endpoints)
    test_endpoint = Operation(account.try_endpoint)
    remove_endpoint = Operation(account.remove_endpoint)
    list_models = ListOperation(account.list_models)
    test_model = Operation(account.try_model)
    outline_process = Operation(account.outline_process)
    list_processes = ListOperation(account.list_processes)
    get_process = Operation(account.get_process)
    list_system_prompts = ListOperation(account.list_system_prompts)
    list_notifications = ListOperation(account.list_notifications)
    get_notifications = Operation(account.get_notifications)
    mark_read = Operation(account.mark_read)
    mark_all_read = Operation(account.mark_all_read)


class Client(Operations):
    """A synchronous client of one server."""

    def __init__(
        self, url: str, *, token: str | Secret | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.server = parse_server(url, token, timeout_s)
        self._http = httpx2.Client(headers=self.server.headers, trust_env=not self.server.is_here)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def send(self, call: Call[T]) -> T:
        """Send a call, retry it where that is safe, and parse the response."""
        call, tries = add_key(call), 0
        while True:
            tries += 1
            reply = self._try(call)
            wait_s = decide_wait(tries, reply, can_repeat=call.can_repeat)
            if wait_s is None:
                return self.server.read(call, reply)
            time.sleep(wait_s)

    def list_all(self, call: Call[Page[T]]) -> Iterator[T]:
        """Read a whole list, page by page."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = self.send(following)
            yield from page.items
            following = build_next(call, page)

    def _try(self, call: Call[T]) -> httpx2.Response | ServerUnreachable:
        arguments = self.server.build_request(call)
        try:
            if call.file is None:
                return self._http.request(**arguments)
            check_plain(call.file, "read")
            with call.file.open("rb") as file:
                arguments["content"] = iter(lambda: file.read(PIECE_BYTES), b"")
                return self._http.request(**arguments)
        except httpx2.TransportError as error:
            return self.server.describe_loss(error)

    @contextmanager
    def _open(self, call: Call[T]) -> Iterator[httpx2.Response]:
        with (
            self.server.translating_errors(),
            self._http.stream(**self.server.build_request(call, streams=True)) as answer,
        ):
            if not answer.is_success:
                answer.read()
                raise build_error(answer.status_code, answer.content)
            yield answer

    def events(
        self,
        *,
        after: str | None = None,
        session: UUID | None = None,
        drafts: Sequence[UUID] = (),
    ) -> Iterator[AnyStreamItem]:
        """Stream events; a lost stream resumes after the last event received.

        `after` is the `resume_id` of the last event you know, or "0" for all stored events.
        `drafts` names sessions whose running calls are shown too, as their text arrives.
        """
        place = StreamPosition(after)
        while True:
            trouble: DialecticError = self.server.describe_end()
            place.begin()
            try:
                call = account.follow_events(
                    after=place.after, session_id=session, drafts_of=drafts
                )
                with self._open(call) as answer:
                    for piece in answer.iter_raw():
                        yield from place.feed(piece)
            except PASSING as error:
                trouble = error
            wait_s = place.decide_wait()
            if wait_s is None:
                raise trouble
            time.sleep(wait_s)

    def chat(self, message: str, model: str, **wishes: Any) -> Iterator[str | ChatReply]:
        """Send a chat message and stream the reply: pieces of text, then the `ChatReply`."""
        call, parser = add_key(account.ask(message, model, stream=True, **wishes)), EventParser()
        with suppress(ServerUnreachable), self._open(call) as answer:
            for piece in answer.iter_raw():
                for said in map(read_said, parser.feed(piece)):
                    yield said
                    if isinstance(said, ChatReply):
                        return
        # The server continues without us; a retry with the same key gets that result.
        yield self.send(replace(call, read=read_streamed))

    def export_project(self, project_id: UUID, out: Path, *, finished: bool = False) -> None:
        """Export a project to a zip file; the file appears only when it is complete."""
        check_plain(out, "written")
        call = projects.export_project(project_id, finished=finished)
        with replacing(out) as file, self._open(call) as answer:
            for piece in answer.iter_bytes():
                file.write(piece)


class AsyncClient(Operations):
    """An asynchronous client of one server."""

    def __init__(
        self, url: str, *, token: str | Secret | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self.server = parse_server(url, token, timeout_s)
        self._http = httpx2.AsyncClient(
            headers=self.server.headers, trust_env=not self.server.is_here
        )

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def send(self, call: Call[T]) -> T:
        """Send a call, retry it where that is safe, and parse the response."""
        call, tries = add_key(call), 0
        while True:
            tries += 1
            reply = await self._try(call)
            wait_s = decide_wait(tries, reply, can_repeat=call.can_repeat)
            if wait_s is None:
                return self.server.read(call, reply)
            await asyncio.sleep(wait_s)

    async def list_all(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Read a whole list, page by page."""
        following: Call[Page[T]] | None = call
        while following is not None:
            page = await self.send(following)
            for item in page.items:
                yield item
            following = build_next(call, page)

    async def _try(self, call: Call[T]) -> httpx2.Response | ServerUnreachable:
        arguments = self.server.build_request(call)
        try:
            if call.file is None:
                return await self._http.request(**arguments)
            check_plain(call.file, "read")
            async with aclosing(_read_pieces(call.file)) as content:
                arguments["content"] = content
                return await self._http.request(**arguments)
        except httpx2.TransportError as error:
            return self.server.describe_loss(error)

    @asynccontextmanager
    async def _open(self, call: Call[T]) -> AsyncIterator[httpx2.Response]:
        arguments = self.server.build_request(call, streams=True)
        with self.server.translating_errors():
            async with self._http.stream(**arguments) as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise build_error(answer.status_code, answer.content)
                yield answer

    async def events(
        self,
        *,
        after: str | None = None,
        session: UUID | None = None,
        drafts: Sequence[UUID] = (),
    ) -> AsyncGenerator[AnyStreamItem, None]:
        """Stream events; a lost stream resumes after the last event received.

        `after` is the `resume_id` of the last event you know, or "0" for all stored events.
        `drafts` names sessions whose running calls are shown too, as their text arrives.
        """
        place = StreamPosition(after)
        while True:
            trouble: DialecticError = self.server.describe_end()
            place.begin()
            try:
                call = account.follow_events(
                    after=place.after, session_id=session, drafts_of=drafts
                )
                async with self._open(call) as answer:
                    async for piece in answer.aiter_raw():
                        for event in place.feed(piece):
                            yield event
            except PASSING as error:
                trouble = error
            wait_s = place.decide_wait()
            if wait_s is None:
                raise trouble
            await asyncio.sleep(wait_s)

    async def chat(
        self, message: str, model: str, **wishes: Any
    ) -> AsyncGenerator[str | ChatReply, None]:
        """Send a chat message and stream the reply: pieces of text, then the `ChatReply`."""
        call, parser = add_key(account.ask(message, model, stream=True, **wishes)), EventParser()
        with suppress(ServerUnreachable):
            async with self._open(call) as answer:
                async for piece in answer.aiter_raw():
                    for said in map(read_said, parser.feed(piece)):
                        yield said
                        if isinstance(said, ChatReply):
                            return
        # The server continues without us; a retry with the same key gets that result.
        reply = await self.send(replace(call, read=read_streamed))
        yield reply

    async def export_project(self, project_id: UUID, out: Path, *, finished: bool = False) -> None:
        """Export a project to a zip file; the file appears only when it is complete."""
        check_plain(out, "written")
        call = projects.export_project(project_id, finished=finished)
        with replacing(out) as file:
            async with self._open(call) as answer:
                async for piece in answer.aiter_bytes():
                    await asyncio.to_thread(file.write, piece)


async def _read_pieces(path: Path) -> AsyncGenerator[bytes, None]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE_BYTES):
            yield piece
