"""The verbs that both clients have: each is a call that was built, and sent by whoever has it.

Described once: a verb of `Client` gives its result, the same verb of `AsyncClient` a promise of it;
a list is read to its end, page by page.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from dialectic.client import calls
from dialectic.client.calls import Call
from dialectic.client.models import Page

P = ParamSpec("P")
T = TypeVar("T")


class Sync(abc.ABC):
    """Sends calls and waits for their answers."""

    @abc.abstractmethod
    def send(self, call: Call[T]) -> T:
        """Send a call and read the answer to it."""

    def list_all(self, call: Call[Page[T]]) -> Iterator[T]:
        """Read a list from its beginning to its end, a page at a time."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.send(build_next(call, cursor))
            yield from page.items
            cursor = page.next_cursor


class Async(abc.ABC):
    """Sends calls while others go on."""

    @abc.abstractmethod
    async def send(self, call: Call[T]) -> T:
        """Send a call and read the answer to it."""

    async def list_all(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Read a list from its beginning to its end, a page at a time."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.send(build_next(call, cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor


def build_next(call: Call[Page[T]], cursor: str) -> Call[Page[T]]:
    """Build the call for the page behind a cursor; the first one has none."""
    return replace(call, query={**call.query, "cursor": cursor}) if cursor else call


class Verb(Generic[P, T]):
    """One thing that can be asked."""

    def __init__(self, build: Callable[P, Call[T]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Sync, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Async, owner: type) -> Callable[P, Coroutine[Any, Any, T]]: ...
    def __get__(self, client: Sync | Async, owner: type) -> Callable[P, Any]:
        def ask(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.send(self._build(*args, **kwargs))

        return ask


class Listed(Generic[P, T]):
    """One list that can be read."""

    def __init__(self, build: Callable[P, Call[Page[T]]]) -> None:
        self._build = build
        self.__doc__ = build.__doc__

    @overload
    def __get__(self, client: Sync, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: Async, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    def __get__(self, client: Sync | Async, owner: type) -> Callable[P, Any]:
        def read(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.list_all(self._build(*args, **kwargs))

        return read


class Verbs:
    """All that both clients can ask. What lasts (events, archives, answers that stream) they have
    beside these."""

    create_project = Verb(calls.create_project)
    list_projects = Listed(calls.list_projects)
    get_project = Verb(calls.get_project)
    change_project = Verb(calls.change_project)
    delete_project = Verb(calls.delete_project)
    add_resource = Verb(calls.add_resource)
    list_resources = Listed(calls.list_resources)
    list_files = Listed(calls.list_files)
    read_file = Verb(calls.read_file)
    search_project = Verb(calls.search_project)
    find = Verb(calls.find)

    create_session = Verb(calls.create_session)
    quote_run = Verb(calls.quote_run)
    list_sessions = Listed(calls.list_sessions)
    get_session = Verb(calls.get_session)
    change_session = Verb(calls.change_session)
    quote_session = Verb(calls.quote_session)
    look = Verb(calls.look)
    list_costs = Listed(calls.list_costs)
    list_jobs = Listed(calls.list_jobs)
    list_contributions = Listed(calls.list_contributions)
    list_documents = Listed(calls.list_documents)

    generate = Verb(calls.generate)
    submit = Verb(calls.submit)
    pause = Verb(calls.pause)
    resume = Verb(calls.resume)
    cancel = Verb(calls.cancel)
    pause_job = Verb(calls.pause_job)
    resume_job = Verb(calls.resume_job)
    cancel_job = Verb(calls.cancel_job)
    retry = Verb(calls.retry)
    iterate = Verb(calls.iterate)
    give_feedback = Verb(calls.give_feedback)

    get_contribution = Verb(calls.get_contribution)
    get_record = Verb(calls.get_record)
    get_chunk = Verb(calls.get_chunk)
    list_versions = Listed(calls.list_versions)
    edit = Verb(calls.edit)
    regenerate = Verb(calls.regenerate)
    rate = Verb(calls.rate)
    get_document = Verb(calls.get_document)

    ask = Verb(calls.ask)
    list_chats = Listed(calls.list_chats)
    get_chat = Verb(calls.get_chat)
    delete_chat = Verb(calls.delete_chat)
    rewind_chat = Verb(calls.rewind_chat)
    make_project_of_chat = Verb(calls.make_project_of_chat)

    get_me = Verb(calls.get_me)
    get_wallet = Verb(calls.get_wallet)
    list_transactions = Listed(calls.list_transactions)
    list_models = Listed(calls.list_models)
    list_processes = Listed(calls.list_processes)
    get_process = Verb(calls.get_process)
    list_notifications = Listed(calls.list_notifications)
    mark_read = Verb(calls.mark_read)
