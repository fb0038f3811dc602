"""Claim the jobs that queue messages name, many in one commit."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from dialectic.core.job import Job, JobKey
from dialectic.db.pool import Database
from dialectic.db.tables import jobs

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")

BATCH_MAX = 50

GiveBack = Callable[[Job], Coroutine[Any, Any, None]]


class Batcher(Generic[Key, Answer]):
    """Looks up keys in batches. Each answer goes to one caller, even if two ask for one key."""

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
        """Look up one key; None if it has no answer."""
        future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((key, future))
        if self._asking is None:
            self._asking = asyncio.create_task(self._ask_until_quiet())
        try:
            return await future
        except asyncio.CancelledError:
            # The answer may arrive in the moment in which its caller is cancelled.
            if future.done() and not future.cancelled() and future.exception() is None:
                self._return(future.result())
            raise

    async def settle(self) -> None:
        """Wait until no lookup runs and all unclaimed answers are given back."""
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


class Claims:
    """One worker's claims. A job is given back if its caller was cancelled."""

    def __init__(
        self,
        db: Database,
        *,
        worker: str,
        terms: jobs.LeaseTerms,
        lost_max: int,
        give_back: GiveBack,
    ) -> None:
        claim = functools.partial(jobs.claim, db, worker=worker, terms=terms, lost_max=lost_max)
        self._hasty: Batcher[JobKey, Job] = Batcher(claim, give_back=give_back, batch_max=BATCH_MAX)
        self._patient: Batcher[JobKey, Job] = Batcher(
            functools.partial(claim, is_patient=True), give_back=give_back, batch_max=BATCH_MAX
        )

    async def ask(self, key: JobKey) -> Job | None:
        """Claim a job; if its row is locked, try once more and wait for the lock.

        Every child that ends locks its plan job. Without the second try, the message would be
        lost and the job would wait for the sweeper.
        """
        if (job := await self._hasty.ask(key)) is not None:
            return job
        return await self._patient.ask(key)

    async def settle(self) -> None:
        """Wait until no claim runs and all unused jobs are given back."""
        await self._hasty.settle()
        await self._patient.settle()
