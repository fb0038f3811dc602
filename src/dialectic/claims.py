"""Claims: asks for the jobs that messages name, many in one commit. Knows not what they do."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any

from dialectic.coalesce import Coalescer
from dialectic.domain.job import Job, JobKey
from dialectic.store import jobs
from dialectic.store.database import Database

BATCH_MAX = 50

GiveBack = Callable[[Job], Coroutine[Any, Any, None]]


class Claims:
    """One worker's claims. A job that was claimed for someone who has left is given back."""

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
        self._hasty: Coalescer[JobKey, Job] = Coalescer(
            claim, give_back=give_back, batch_max=BATCH_MAX
        )
        self._patient: Coalescer[JobKey, Job] = Coalescer(
            functools.partial(claim, is_patient=True), give_back=give_back, batch_max=BATCH_MAX
        )

    async def ask(self, key: JobKey) -> Job | None:
        """Claim a job; once more, with patience, if it is not to be had: its row may be locked.

        A plan job is locked by every child that ends. Its message would be used up in vain, and it
        would wait for the sweeper.
        """
        if (job := await self._hasty.ask(key)) is not None:
            return job
        return await self._patient.ask(key)

    async def settle(self) -> None:
        """Wait until nothing is asked any more and what nobody took is given back."""
        await self._hasty.settle()
        await self._patient.settle()
