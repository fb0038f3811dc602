"""PgQueuer behind one door: its names are given here, never found in the environment."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from datetime import timedelta

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence import qb
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job as Message
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel, QueueEntrypoint
from pgqueuer.ports.repository import EntrypointExecutionParameter

QUEUE_SCHEMA = "queue"

Handle = Callable[[Message], Awaitable[None]]

SETTINGS = DBSettings(
    prefix="",
    db_schema=QUEUE_SCHEMA,
    channel=Channel("ch_pgqueuer"),
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


def open_queries(connection: asyncpg.Connection[asyncpg.Record]) -> Queries:
    """Open PgQueuer's operations over one connection of its own."""
    return Queries(
        AsyncpgDriver(connection),
        qbe=qb.QueryBuilderEnvironment(SETTINGS),
        qbq=qb.QueryQueueBuilder(SETTINGS),
        qbs=qb.QuerySchedulerBuilder(SETTINGS),
    )


@dataclasses.dataclass
class LaneManager(QueueManager):
    """Takes from each lane no more messages than there is room for; the rest stay in the queue,
    for others or for later. A lane is an entrypoint."""

    handle: Handle | None = None
    list_room: Callable[[], Mapping[str, int]] = dict
    # How many messages of a lane may be taken by all workers together, where that is limited.
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    # Messages that were taken and have not begun yet.
    coming: Counter[str] = dataclasses.field(init=False, default_factory=Counter)

    async def verify_structure(self) -> None:
        """Nothing: our migrations install the queue, and every command sees to it that they ran."""

    async def fetch_jobs(
        self,
        batch_size: int,
        global_concurrency_limit: int | None,
        heartbeat_timeout: timedelta,
    ) -> AsyncGenerator[Message, None]:
        """Take what can begin, until no lane has both room and messages."""
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
                        continue  # a late heartbeat: it runs here already
                    found = True
                    self.coming[message.entrypoint] += 1
                    yield message

    def _list_free(self) -> dict[str, int]:
        room = {lane: count - self.coming[lane] for lane, count in self.list_room().items()}
        return {lane: count for lane, count in room.items() if count > 0}

    def _open(self, lane: str) -> EntrypointExecutionParameter:
        limit = self.limits.get(lane, 0)
        if lane not in self.entrypoint_registry:
            self.entrypoint(lane, concurrency_limit=limit, accepts_context=False)(self._begin)
        return EntrypointExecutionParameter(limit)

    async def _begin(self, message: Message) -> None:
        assert self.handle is not None, "messages come in before anyone can take them"
        self.coming[message.entrypoint] -= 1
        await self.handle(message)


def split_room(room: Mapping[str, int], batch_size: int) -> Iterator[tuple[list[str], int]]:
    """Split lanes into questions that cannot bring more than a lane takes: all that have room for
    a whole batch are asked together, the others one by one."""
    wide = [lane for lane, count in room.items() if count >= batch_size]
    if wide:
        yield wide, batch_size
    for lane, count in room.items():
        if count < batch_size:
            yield [lane], count
