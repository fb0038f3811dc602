"""Idempotency keys: a repeated request has one effect and gets the same response.

`run_once` is for effects of one commit: the key, the effect and the response are written together
or not at all. `Undertakings` is for work of several commits, such as model calls: the key is
claimed first, and the work continues even if the client disconnects. If the process dies,
the next request with that key continues the work under the same effect_id.
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
# How long a request waits for another process that has claimed the same key.
WAIT_S = 20.0
LOOK_FIRST_S = 0.1
LOOK_MAX_S = 1.0

# Works in the given transaction; derives the ids of new rows from the given id.
Work: TypeAlias = Callable[[Connection, UUID], Awaitable[StoredResponse]]
# Opens its own transactions; derives the ids of new rows from the given id.
LongWork: TypeAlias = Callable[[UUID], Awaitable[StoredResponse]]


async def run_once(
    db: Database, caller: Caller, key: str | None, request_sha256: bytes, work: Work
) -> StoredResponse:
    """Do the work and save its response in one commit, or return the saved response.

    If the work raises, nothing is saved and the key can be tried again. The work must use only the
    given connection: a second one could deadlock with a request that waits for this key.
    """
    # One id for all tries: a retry after a lost confirmation must find the committed work.
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
    """Work of several commits that runs in this process."""

    def __init__(self, db: Database, *, lease: timedelta = LEASE, wait_s: float = WAIT_S) -> None:
        self._db = db
        self._lease = lease
        self._wait_s = wait_s
        self._tasks: dict[tuple[UUID, RequestKey], asyncio.Task[StoredResponse]] = {}

    async def run(
        self, caller: Caller, key: str | None, request_sha256: bytes, work: LongWork
    ) -> StoredResponse:
        """Do the work, join it if it is running, or return the saved response.

        The work continues if its client disconnects; the next request gets the response. A
        `DialecticError` releases the key, so the work must clean up before it raises.
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
        """Wait for running work, then cancel it; another process can claim its keys."""
        tasks = set(self._tasks.values())
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=drain_s)
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _end(self, of_tenant: tuple[UUID, RequestKey], task: asyncio.Task[StoredResponse]) -> None:
        del self._tasks[of_tenant]
        # If the client has disconnected, only this log line shows the error.
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.info("a request failed: %s", type(error).__name__)

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
        """Claim a key; poll while another process holds it."""
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
        """Renew a claim until it is lost."""
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            # PostgreSQL may be back before the claim expires.
            with contextlib.suppress(DialecticError):
                if not await self._db.transact(tenant_id, lambda c: renew(c, held, self._lease)):
                    return


async def _unless_lost(
    doing: asyncio.Future[StoredResponse], keeper: asyncio.Task[None]
) -> StoredResponse:
    """Wait for work; cancel it if another process has taken over its claim."""
    either: set[asyncio.Future[Any]] = {doing, keeper}
    try:
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not doing.done():
            doing.cancel()
            await asyncio.wait({doing})
    if doing.cancelled():
        raise InProgress("Another process has taken over this request. Send it again.")
    return doing.result()
