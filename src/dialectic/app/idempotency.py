"""The same request twice is one effect and two equal answers. Knows no HTTP and no effect.

`run_once` is for effects of one commit: the name, the effect and the answer are written together or
not at all. `Undertakings` is for work of several commits, as with models in between: the name is
claimed first, the work goes on whether or not anyone still listens, and if its process dies the
next request of that name takes it up, under the same effect_id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from dialectic.core.access import Caller
from dialectic.core.backoff import iterate_delays
from dialectic.db.pool import Connection, Database
from dialectic.db.tables.idempotency import (
    Claim,
    RequestKey,
    StoredResponse,
    claim,
    release,
    renew,
    save_response,
)
from dialectic.errors import DialecticError, InProgress

logger = logging.getLogger(__name__)

LEASE = timedelta(seconds=15)
# How long a request waits for one of the same name that another process works on.
WAIT_S = 20.0
LOOK_FIRST_S = 0.1
LOOK_MAX_S = 1.0

# Works in the transaction it is given; ids of what it makes follow from the id it is given.
Work: TypeAlias = Callable[[Connection, UUID], Awaitable[StoredResponse]]
# Works in transactions of its own, each keyed by the id it is given.
LongWork: TypeAlias = Callable[[UUID], Awaitable[StoredResponse]]


async def run_once(
    db: Database, caller: Caller, key: str | None, request_sha256: bytes, work: Work
) -> StoredResponse:
    """Do the work in one commit with its answer; or give the answer that was given before.

    What the work raises leaves nothing behind, so the same name may be tried again. It must use the
    given connection alone: with a second one it could wait for those who wait for it.
    """
    # One for all tries: a commit whose answer was lost must find what it has already done.
    unnamed_id = uuid4()

    async def once(connection: Connection) -> StoredResponse:
        if key is None:
            return await work(connection, unnamed_id)
        found = await claim(connection, RequestKey(caller.user_id, key, request_sha256))
        if isinstance(found, StoredResponse):
            return found
        answer = await work(connection, found.effect_id)
        await save_response(connection, found, answer)
        return answer

    return await db.transact(caller.tenant_id, once)


class LongRequests:
    """Work of several commits that this process has begun for requests."""

    def __init__(self, db: Database, *, lease: timedelta = LEASE, wait_s: float = WAIT_S) -> None:
        self._db = db
        self._lease = lease
        self._wait_s = wait_s
        self._tasks: dict[tuple[UUID, RequestKey], asyncio.Task[StoredResponse]] = {}

    async def run(
        self, caller: Caller, key: str | None, request_sha256: bytes, work: LongWork
    ) -> StoredResponse:
        """Do the work, join it if it is under way, or give the answer that was given before.

        It goes on when its client has left; its answer is there for the next one. An error of
        ours gives the name free again, so the work must have put its own things right by then.
        """
        name = RequestKey(caller.user_id, key or f"(unnamed {uuid4()})", request_sha256)
        of_tenant = (caller.tenant_id, name)
        task = self._tasks.get(of_tenant)
        if task is None:
            doing = self._undertake(caller, name, work) if key else work(uuid4())
            task = asyncio.ensure_future(doing)
            self._tasks[of_tenant] = task
            task.add_done_callback(lambda ended: self._end(of_tenant, ended))
        return await asyncio.shield(task)

    async def close(self, drain_s: float) -> None:
        """Wait for what is under way, then break it off; its names can be taken up elsewhere."""
        tasks = set(self._tasks.values())
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=drain_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _end(self, of_tenant: tuple[UUID, RequestKey], task: asyncio.Task[StoredResponse]) -> None:
        del self._tasks[of_tenant]
        # The client may have left, and then this log alone tells what went wrong.
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.info("a request came to nothing: %s", type(error).__name__)

    async def _undertake(self, caller: Caller, name: RequestKey, work: LongWork) -> StoredResponse:
        found = await self._claim(caller.tenant_id, name)
        if isinstance(found, StoredResponse):
            return found
        keeper = asyncio.create_task(self._keep(caller.tenant_id, found))
        try:
            answer = await _unless_lost(asyncio.ensure_future(work(found.effect_id)), keeper)
            await self._db.transact(caller.tenant_id, lambda c: save_response(c, found, answer))
        except InProgress:
            raise
        except DialecticError:
            await self._db.transact(caller.tenant_id, lambda c: release(c, found))
            raise
        finally:
            keeper.cancel()
        return answer

    async def _claim(self, tenant_id: UUID, name: RequestKey) -> Claim | StoredResponse:
        """Claim a name; while another process has it, look again from time to time."""
        clock = asyncio.get_running_loop().time
        give_up_at, pauses = clock() + self._wait_s, iterate_delays(LOOK_FIRST_S, LOOK_MAX_S)
        while True:
            pause_s = next(pauses)
            try:
                return await self._db.transact(
                    tenant_id, lambda connection: claim(connection, name, lease=self._lease)
                )
            except InProgress:
                if clock() + pause_s > give_up_at:
                    raise
            await asyncio.sleep(pause_s)

    async def _keep(self, tenant_id: UUID, held: Claim) -> None:
        """Renew a claim for as long as it is ours."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            with contextlib.suppress(DialecticError):  # a server that is away may come back in time
                if not await self._db.transact(tenant_id, lambda c: renew(c, held, self._lease)):
                    return


async def _unless_lost(
    doing: asyncio.Future[StoredResponse], keeper: asyncio.Task[None]
) -> StoredResponse:
    """Wait for work, and break it off when its claim is lost: another one does it now."""
    either: set[asyncio.Future[Any]] = {doing, keeper}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
    if doing.cancelled():
        raise InProgress("Another process has taken this request over. Send it again.")
    return doing.result()
