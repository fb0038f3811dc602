"""The only module that uses PgQueuer; its names are set here, not read from the environment."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence import qb
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.errors import PgqException as QueueError
from pgqueuer.domain.models import Job as Message
from pgqueuer.domain.models import TableChangedEvent
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel, QueueEntrypoint
from pgqueuer.ports.driver import NotifyCallback
from pgqueuer.ports.repository import EntrypointExecutionParameter

from dialectic.db.queries import load_queries
from dialectic.db.tables.jobs import CHANNEL

__all__ = ["SETTINGS", "LaneManager", "Message", "QueueError", "open_queries"]

QUEUE_SCHEMA = "queue"

Handle = Callable[[Message], Awaitable[None]]

SETTINGS = DBSettings(
    prefix="",
    db_schema=QUEUE_SCHEMA,
    channel=Channel(CHANNEL),
    function="fn_pgqueuer_changed",
    statistics_table="pgqueuer_statistics",
    queue_status_type="pgqueuer_status",
    queue_table="pgqueuer",
    queue_table_log="pgqueuer_log",
    trigger="tg_pgqueuer_changed",
    schedules_table="pgqueuer_schedules",
    durability=Durability.durable,
    widen_id=True,
)


SQL = load_queries("jobs")


# The payload that PgQueuer's trigger sends for a new message. The time in it is not used.
NEWS = TableChangedEvent(
    channel=SETTINGS.channel,
    sent_at=datetime.fromtimestamp(0, UTC),
    type="table_changed_event",
    operation="insert",
    table=SETTINGS.queue_table,
).model_dump_json()


class WakingDriver(AsyncpgDriver):
    """A driver whose own process can call the listener too."""

    _tell: NotifyCallback | None = None

    async def add_listener(self, channel: str, callback: NotifyCallback) -> None:
        await super().add_listener(channel, callback)
        self._tell = callback

    def wake(self) -> None:
        """Make the listener poll the queue, as if a message had arrived."""
        if self._tell is not None:
            self._tell(NEWS)


def open_queries(connection: asyncpg.Connection[asyncpg.Record]) -> Queries:
    """Open PgQueuer's operations on a dedicated connection."""
    return Queries(
        WakingDriver(connection),
        qbe=qb.QueryBuilderEnvironment(SETTINGS),
        qbq=qb.QueryQueueBuilder(SETTINGS),
        qbs=qb.QuerySchedulerBuilder(SETTINGS),
    )


@dataclasses.dataclass
class LaneManager(QueueManager):
    """Takes no more messages from a lane than the worker has capacity for.

    The rest stay in the queue for other workers or for later. A lane is a PgQueuer entrypoint.
    """

    handle: Handle | None = None
    list_room: Callable[[], Mapping[str, int]] = dict
    # Seconds until a rate-limited lane has capacity again.
    find_opening_s: Callable[[], float | None] = lambda: None
    # The most messages of a lane that all workers together may take; no entry means no limit.
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # Messages that were dequeued and have not started yet.
    coming: Counter[str] = dataclasses.field(init=False, default_factory=Counter)

    async def verify_structure(self) -> None:
        """Do nothing: our migrations install the queue, and every command checks that they ran."""

    async def fetch_jobs(
        self,
        batch_size: int,
        global_concurrency_limit: int | None,
        heartbeat_timeout: timedelta,
    ) -> AsyncGenerator[Message, None]:
        """Dequeue messages until no lane has both capacity and messages."""
        found = True
        while found and not self.shutdown.is_set():
            found = False
            for lanes, count in split_room(self._list_free(), batch_size):
                for message in await self.queries.dequeue(
                    batch_size=count,
                    entrypoints={QueueEntrypoint(lane): self._open(lane) for lane in lanes},
                    queue_manager_id=self.queue_manager_id,
                    global_concurrency_limit=global_concurrency_limit,
                    heartbeat_timeout=heartbeat_timeout,
                ):
                    if message.id in self.job_context:
                        continue  # its heartbeat was late: it already runs here
                    found = True
                    self.coming[message.entrypoint] += 1
                    yield message

    def wake(self) -> None:
        """Poll the queue now: a lane has capacity again."""
        driver = self.queries.driver
        assert isinstance(driver, WakingDriver), "open_queries made the driver"
        driver.wake()

    async def _effective_dequeue_timeout(self, dequeue_timeout: timedelta) -> timedelta:
        """Decide how long to wait for a notification: until a message is due or a lane opens.

        Queries only lanes with capacity; freeing a slot in another lane calls `wake`. The base
        class runs three queries, and polls ten times a second while more is queued than can start.
        """
        waits = [dequeue_timeout]
        if (opening_s := self.find_opening_s()) is not None:
            waits.append(timedelta(seconds=opening_s))
        if lanes := list(self._list_free()):
            (row,) = await self.queries.driver.fetch(SQL["find_due"], lanes)
            if isinstance(due_in := row["due_in"], timedelta):
                waits.append(max(due_in, self.min_dequeue_poll_interval))
        return max(min(waits), timedelta(0))

    def _list_free(self) -> dict[str, int]:
        room = {lane: count - self.coming[lane] for lane, count in self.list_room().items()}
        return {lane: count for lane, count in room.items() if count > 0}

    def _open(self, lane: str) -> EntrypointExecutionParameter:
        limit = self.limits.get(lane, 0)
        if lane not in self.entrypoint_registry:
            self.entrypoint(lane, concurrency_limit=limit, accepts_context=False)(self._begin)
        return EntrypointExecutionParameter(limit)

    async def _begin(self, message: Message) -> None:
        assert self.handle is not None, "a message arrived before `handle` was set"
        self.coming[message.entrypoint] -= 1
        await self.handle(message)


def split_room(room: Mapping[str, int], batch_size: int) -> Iterator[tuple[list[str], int]]:
    """Split lanes into dequeues that cannot exceed a lane's capacity.

    Lanes with capacity for a whole batch share one dequeue; each other lane gets its own.
    """
    wide = [lane for lane, count in room.items() if count >= batch_size]
    if wide:
        yield wide, batch_size
    for lane, count in room.items():
        if count < batch_size:
            yield [lane], count
