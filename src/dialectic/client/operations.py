"""The verbs that both clients have: each is a call that was built, and sent by whoever has it.

Described once: a verb of `Client` gives its result, the same verb of `AsyncClient` a promise of it;
a list is read to its end, page by page.
"""

from __future__ import annotations

import abc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, overload

from dialectic.client import account, acting, chats, contributions, projects, sessions
from dialectic.client.call import Call, Page

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

    create_project = Verb(projects.create_project)
    list_projects = Listed(projects.list_projects)
    get_project = Verb(projects.get_project)
    change_project = Verb(projects.change_project)
    delete_project = Verb(projects.delete_project)
    add_resource = Verb(projects.add_resource)
    list_resources = Listed(projects.list_resources)
    list_files = Listed(projects.list_files)
    read_file = Verb(projects.read_file)
    search_project = Verb(projects.search_project)
    find = Verb(projects.find)

    create_session = Verb(sessions.create_session)
    quote_run = Verb(sessions.quote_run)
    list_sessions = Listed(sessions.list_sessions)
    get_session = Verb(sessions.get_session)
    change_session = Verb(sessions.change_session)
    quote_session = Verb(sessions.quote_session)
    look = Verb(sessions.look)
    list_costs = Listed(sessions.list_costs)
    list_jobs = Listed(sessions.list_jobs)
    list_contributions = Listed(contributions.list_contributions)
    list_documents = Listed(sessions.list_documents)

    generate = Verb(acting.generate)
    submit = Verb(acting.submit)
    pause = Verb(acting.pause)
    resume = Verb(acting.resume)
    cancel = Verb(acting.cancel)
    pause_job = Verb(acting.pause_job)
    resume_job = Verb(acting.resume_job)
    cancel_job = Verb(acting.cancel_job)
    retry = Verb(acting.retry)
    iterate = Verb(acting.iterate)
    give_feedback = Verb(acting.give_feedback)

    get_contribution = Verb(contributions.get_contribution)
    get_record = Verb(contributions.get_record)
    get_chunk = Verb(contributions.get_chunk)
    list_versions = Listed(contributions.list_versions)
    edit = Verb(contributions.edit)
    regenerate = Verb(contributions.regenerate)
    rate = Verb(contributions.rate)
    get_document = Verb(projects.get_document)

    ask = Verb(chats.ask)
    list_chats = Listed(chats.list_chats)
    get_chat = Verb(chats.get_chat)
    delete_chat = Verb(chats.delete_chat)
    rewind_chat = Verb(chats.rewind_chat)
    make_project_of_chat = Verb(chats.make_project_of_chat)

    get_me = Verb(account.get_me)
    get_wallet = Verb(account.get_wallet)
    list_transactions = Listed(account.list_transactions)
    list_models = Listed(account.list_models)
    list_processes = Listed(account.list_processes)
    get_process = Verb(account.get_process)
    list_notifications = Listed(account.list_notifications)
    mark_read = Verb(account.mark_read)
