"""The methods that both clients share; each builds a call, and the client sends it.

A method of `Client` returns its result, the same method of `AsyncClient` an awaitable. A list is
read to its end, page by page.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from dialectic.client import account, acting, chats, contributions, projects, sessions
from dialectic.client.call import Call
from dialectic.contract.base import Page

P = ParamSpec("P")
T = TypeVar("T")


class Sync(abc.ABC):
    """Sends calls synchronously."""

    @abc.abstractmethod
    def send(self, call: Call[T]) -> T:
        """Send a call and parse the response."""

    def list_all(self, call: Call[Page[T]]) -> Iterator[T]:
        """Read a whole list, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.send(build_next(call, cursor))
            yield from page.items
            cursor = page.next_cursor


class Async(abc.ABC):
    """Sends calls asynchronously."""

    @abc.abstractmethod
    async def send(self, call: Call[T]) -> T:
        """Send a call and parse the response."""

    async def list_all(self, call: Call[Page[T]]) -> AsyncIterator[T]:
        """Read a whole list, page by page."""
        cursor: str | None = ""
        while cursor is not None:
            page = await self.send(build_next(call, cursor))
            for item in page.items:
                yield item
            cursor = page.next_cursor


def build_next(call: Call[Page[T]], cursor: str) -> Call[Page[T]]:
    """Build the call for the page after a cursor; the first page has none."""
    return replace(call, query={**call.query, "cursor": cursor}) if cursor else call


class Operation(Generic[P, T]):
    """A method that sends one call."""

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


class ListOperation(Generic[P, T]):
    """A method that reads a list."""

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


class Operations:
    """The shared methods; each client adds its own streams: events, archives, chat replies."""

    create_project = Operation(projects.create_project)
    list_projects = ListOperation(projects.list_projects)
    get_project = Operation(projects.get_project)
    change_project = Operation(projects.change_project)
    delete_project = Operation(projects.delete_project)
    add_resource = Operation(projects.add_resource)
    list_resources = ListOperation(projects.list_resources)
    list_files = ListOperation(projects.list_files)
    read_file = Operation(projects.read_file)
    search_project = Operation(projects.search_project)
    find = Operation(projects.find)

    create_session = Operation(sessions.create_session)
    quote_run = Operation(sessions.quote_run)
    list_sessions = ListOperation(sessions.list_sessions)
    get_session = Operation(sessions.get_session)
    change_session = Operation(sessions.change_session)
    quote_session = Operation(sessions.quote_session)
    look = Operation(sessions.look)
    list_costs = ListOperation(sessions.list_costs)
    list_jobs = ListOperation(sessions.list_jobs)
    list_contributions = ListOperation(contributions.list_contributions)
    list_documents = ListOperation(sessions.list_documents)

    generate = Operation(acting.generate)
    submit = Operation(acting.submit)
    pause = Operation(acting.pause)
    resume = Operation(acting.resume)
    cancel = Operation(acting.cancel)
    pause_job = Operation(acting.pause_job)
    resume_job = Operation(acting.resume_job)
    cancel_job = Operation(acting.cancel_job)
    retry = Operation(acting.retry)
    iterate = Operation(acting.iterate)
    give_feedback = Operation(acting.give_feedback)

    get_contribution = Operation(contributions.get_contribution)
    get_record = Operation(contributions.get_record)
    get_chunk = Operation(contributions.get_chunk)
    list_versions = ListOperation(contributions.list_versions)
    edit = Operation(contributions.edit)
    regenerate = Operation(contributions.regenerate)
    rate = Operation(contributions.rate)
    get_document = Operation(projects.get_document)

    ask = Operation(chats.ask)
    list_chats = ListOperation(chats.list_chats)
    get_chat = Operation(chats.get_chat)
    delete_chat = Operation(chats.delete_chat)
    rewind_chat = Operation(chats.rewind_chat)
    make_project_of_chat = Operation(chats.make_project_of_chat)

    get_me = Operation(account.get_me)
    get_wallet = Operation(account.get_wallet)
    list_transactions = ListOperation(account.list_transactions)
    list_models = ListOperation(account.list_models)
    list_processes = ListOperation(account.list_processes)
    get_process = Operation(account.get_process)
    list_notifications = ListOperation(account.list_notifications)
    mark_read = Operation(account.mark_read)
