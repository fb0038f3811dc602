"""Many callers that ask at the same time share one question. Knows nothing of what is asked.

Those who would make the same thing make it one after the other, so that the second finds it.

While one batch is under way the next one gathers, so the batch grows with the load and a lone
caller never waits for company. An answer whose asker has left meanwhile is given back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class Coalescer(Generic[Key, Answer]):
    """Answers keys in batches. Each answer is handed out once: a key asked twice gets it once."""

    def __init__(
        self,
        ask_all: Callable[[list[Key]], Awaitable[dict[Key, Answer]]],
        *,
        give_back: Callable[[Answer], Coroutine[Any, Any, None]],
        batch_max: int,
    ) -> None:
        self._ask_all = ask_all
        self._give_back = give_back
        self._batch_max = batch_max
        self._waiting: list[tuple[Key, asyncio.Future[Answer | None]]] = []
        self._asking: asyncio.Task[None] | None = None
        self._returning: set[asyncio.Task[None]] = set()

    async def ask(self, key: Key) -> Answer | None:
        """Ask for one key; None when there is no answer to it."""
        future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_until_quiet())
        try:
            return await future
        except asyncio.CancelledError:
            # The answer may be here and its asker have been told to leave in the same moment.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._return(future.result())
            raise

    async def settle(self) -> None:
        """Wait until nothing is asked any more and what nobody took is given back."""
        while tasks := {*self._returning, *filter(None, [self._asking])}:
            await asyncio.wait(tasks)

    async def _ask_until_quiet(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[: self._batch_max]
                del self._waiting[: self._batch_max]
                await self._ask_batch([each for each in batch if not each[1].done()])
        finally:
            self._asking = None

    async def _ask_batch(self, batch: list[tuple[Key, asyncio.Future[Answer | None]]]) -> None:
        if not batch:
            return
        try:
            answers = await self._ask_all(list(dict.fromkeys(key for key, _ in batch)))
        except BaseException as error:
            for _, future in batch:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for key, future in batch:
            if not future.done():
                future.set_result(answers.pop(key, None))
        for answer in answers.values():
            self._return(answer)

    def _return(self, answer: Answer | None) -> None:
        if answer is not None:
            task = asyncio.create_task(self._give_back(answer))
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)


class Turns:
    """Lets those who name the same thing in one at a time; others do not wait for each other."""

    def __init__(self) -> None:
        # A lock is forgotten when the last who waits for it has left.
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: Hashable) -> asyncio.Lock:
        """Find the lock of a thing, to be held while it is looked for and made."""
        found = self._locks.get(name)
        if found is None:
            found = self._locks[name] = asyncio.Lock()
        return found
