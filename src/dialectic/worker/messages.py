"""Receives the queue's messages for a worker: those of one session, or those of all.

The worker inside a command takes the messages of its own session and leaves all others, so a
command never spends money on a session that it does not name. Other workers take every message.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol
from uuid import UUID

from dialectic.core.job import JobKey
from dialectic.db.pool import DriversConnection
from dialectic.db.tables import jobs
from dialectic.db.tables.jobs import SessionKey
from dialectic.worker.lanes import Lanes

if TYPE_CHECKING:
    from dialectic.db.queue import LaneManager, Message

Begin = Callable[[str, JobKey], "asyncio.Task[None]"]
"""Starts the job of a message in a lane."""

# The shortest wait for a message that is due later.
WAIT_MIN_S = 0.01


class Messages(Protocol):
    """The messages that a worker receives over one connection."""

    async def run(self, *, poll_s: float) -> None:
        """Receive until stopped; check at least every `poll_s`: a notification may be lost."""

    def wake(self) -> None:
        """Poll the queue now: a lane has room again, and full lanes are not polled."""

    def stop(self) -> None:
        """Receive no more messages."""

    def lose(self) -> None:
        """End now: the connection is lost. Jobs go on."""


@dataclass(slots=True, eq=False)
class SessionMessages:
    """The messages of one session, taken as the lanes have room for them."""

    connection: DriversConnection
    session: SessionKey
    lanes: Lanes
    begin: Begin
    # The message of a holder that has been silent for longer counts as abandoned.
    silence_s: float
    _is_over: bool = False
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, *, poll_s: float) -> None:
        await self.connection.add_listener(jobs.CHANNEL, lambda *_: self.wake())
        while not self._is_over:
            self._news.clear()
            if not await self._take():
                wait_s = min(poll_s, await self._compute_wait_s(poll_s))
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._news.wait(), timeout=wait_s)

    def wake(self) -> None:
        self._news.set()

    def stop(self) -> None:
        self._is_over = True
        self._news.set()

    lose = stop

    async def _take(self) -> bool:
        room = self.lanes.list_room(_now_s())
        taken = await jobs.take_messages(
            self.connection, self.session, room, silence_s=self.silence_s
        )
        tenant_id, _ = self.session
        for lane, job_id in taken:
            _ = self.begin(lane, (tenant_id, job_id))  # the worker keeps it
        return bool(taken)

    async def _compute_wait_s(self, poll_s: float) -> float:
        """Compute how long no message is due and no lane opens."""
        waits_s = [self.lanes.find_opening_s(_now_s())]
        if lanes := list(self.lanes.list_room(_now_s())):
            waits_s.append(await jobs.find_session_due_s(self.connection, self.session, lanes))
        return max(WAIT_MIN_S, min((s for s in waits_s if s is not None), default=poll_s))


@dataclass(slots=True, eq=False)
class AllMessages:
    """The messages of all sessions."""

    connection: DriversConnection
    lanes: Lanes
    begin: Begin
    silence_s: float
    # The most messages of a lane that all workers together may take; no entry means no limit.
    limits: Mapping[str, int]
    batch_size: int
    _lost: asyncio.Event = field(default_factory=asyncio.Event)
    _manager: LaneManager = field(init=False)

    def __post_init__(self) -> None:
        # A command that works on its own session does not need PgQueuer, which takes long to load.
        from dialectic.db.queue import SETTINGS, LaneManager, open_queries

        self._manager = LaneManager(
            open_queries(self.connection),
            SETTINGS.channel,
            handle=self._receive,
            list_room=lambda: self.lanes.list_room(_now_s()),
            find_opening_s=lambda: self.lanes.find_opening_s(_now_s()),
            limits=self.limits,
        )

    async def run(self, *, poll_s: float) -> None:
        from dialectic.db.queue import QueueError

        try:
            await self._manager.run(
                dequeue_timeout=timedelta(seconds=poll_s),
                batch_size=self.batch_size,
                shutdown_on_listener_failure=True,
                heartbeat_timeout=timedelta(seconds=self.silence_s),
                log_aggregation_interval=timedelta(0),
            )
        except QueueError as error:
            raise ConnectionError(f"the queue does not respond: {error}") from error
        finally:
            self._lost.set()

    def wake(self) -> None:
        self._manager.wake()

    def stop(self) -> None:
        self._manager.shutdown.set()

    def lose(self) -> None:
        self._lost.set()
        self.stop()

    async def _receive(self, message: Message) -> None:
        """Start a job. It outlives the connection that delivered its message.

        If that is lost, stop waiting, so that the listener can reconnect while the job runs.
        """
        tenant_id, job_id = (UUID(part) for part in (message.payload or b"").decode().split())
        task = self.begin(message.entrypoint, (tenant_id, job_id))
        waiting = asyncio.create_task(self._lost.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()


def _now_s() -> float:
    return asyncio.get_running_loop().time()
