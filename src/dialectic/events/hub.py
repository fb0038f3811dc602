"""The hub: reads the events of a process's tenants once and delivers them to all followers.

Owns one connection and the tenants' channels. Knows nothing of HTTP or of what events mean. A
NOTIFY from PostgreSQL hints at new events; it is only a hint. While there are followers, the hub
also polls: every second, and twenty times a second for a while after an event, for commits without
a NOTIFY of their own. The poll also probes the connection: one that fails or hangs is replaced,
and events committed meanwhile are found by their number. The hub regularly checks which tokens
were revoked or expired, and ends their streams.

Changes without an event of their own are found by the snapshot of the last look. What they mean is
read by a function that the hub is given.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID

import asyncpg

from dialectic.db.pool import (
    APP_ROLE,
    BEGIN_SNAPSHOT,
    CONNECTION_LOST,
    Address,
    Connection,
    connect,
    given_up_in_time,
    transact_on,
)
from dialectic.db.tables.accounts import list_ended_tokens
from dialectic.db.tables.board import read_moment
from dialectic.db.tables.changes import list_changed_tenants
from dialectic.db.tables.notifications import PAGE, EventPage, list_news, read_events
from dialectic.errors import DatabaseUnreachable, TooManyStreams
from dialectic.events.changes import CHANGES_S, ChangePage, ChangeSource, Question
from dialectic.events.channel import QUEUE_MAX, TAIL_BYTES_MAX, TAIL_MAX, Channel, Subscription
from dialectic.events.drafts import DraftFeed
from dialectic.events.frames import build_change_frames, build_frame

logger = logging.getLogger(__name__)

HINTS = "dialectic_news"
# The minimum interval between polls, so that a burst is read at once.
GAP_S = 0.01
QUICK_S = 0.05
QUICK_FOR_S = 1.0
SLOW_S = 1.0
LOOK_MAX_S = 5.0
RECONNECT_S = 0.2
TOKENS_S = 5.0
OPEN_MAX_S = 30.0


@dataclass(slots=True, eq=False)
class Hub:
    """The one reader of live events in a process. `open_hub` runs it."""

    address: Address
    role: str = APP_ROLE
    # The maximum number of streams per tenant.
    streams_max: int = 1000
    # How many of a tenant's newest events are kept for reconnecting clients, and their total size.
    tail_max: int = TAIL_MAX
    tail_bytes_max: int = TAIL_BYTES_MAX
    # The queue limit of one follower.
    queue_max: int = QUEUE_MAX
    # The timeout for PostgreSQL.
    look_max_s: float = LOOK_MAX_S
    # How long a stream may outlive its client's token.
    tokens_s: float = TOKENS_S
    # Reads what changed without an event of its own, and documents; None: only events are told.
    source: ChangeSource | None = None
    # No stream starts any more, and all streams have ended.
    is_closing: bool = False
    # The drafts that followers of this process have asked for.
    drafts: DraftFeed = field(default_factory=DraftFeed)
    _channels: dict[UUID, Channel] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _quick_until_s: float = 0.0
    _looked_at_s: float = 0.0
    _asked_at_s: float = 0.0

    # -- followers --------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def enter(self, tenant_id: UUID, subscription: Subscription) -> AsyncIterator[Channel]:
        """Reserve one of a tenant's streams, with its channel open."""
        channel = self._channels.get(tenant_id) or Channel(
            tenant_id, tail_max=self.tail_max, tail_bytes_max=self.tail_bytes_max
        )
        if len(channel.places) >= self.streams_max:
            raise TooManyStreams(
                f"{len(channel.places)} event streams are open already. Close one of them, or "
                "let several views share a stream."
            )
        self._channels[tenant_id] = channel
        channel.places.add(subscription)
        try:
            if not channel.ready.is_set():
                self._wake.set()
                await _wait_until_ready(channel)
            yield channel
        finally:
            channel.places.discard(subscription)
            if not channel.places:
                del self._channels[tenant_id]

    def attach(self, channel: Channel, subscription: Subscription) -> bool:
        """Add a follower after an event number; False if the tail does not reach back that far."""
        if self.is_closing:
            subscription.end()
            return True
        return channel.attach(subscription)

    def close_streams(self) -> None:
        """End every stream and refuse new ones: the process is shutting down."""
        self.is_closing = True
        for channel in list(self._channels.values()):
            for subscription in list(channel.places):
                subscription.end()

    def end_with(self, reading: asyncio.Task[None]) -> None:
        """End all streams if the reader task has died, and log why."""
        if not reading.cancelled() and (error := reading.exception()) is not None:
            logger.critical("the event hub stopped with an error", exc_info=error)
        self.close_streams()

    def count_streams(self) -> int:
        """Count the open streams of all tenants."""
        return sum(len(channel.places) for channel in self._channels.values())

    # -- reading ----------------------------------------------------------------------------------

    async def run(self) -> None:
        """Read until the process ends; replace a lost connection."""
        while True:
            try:
                connection = await connect(self.address, self.role)
            except (*CONNECTION_LOST, asyncpg.PostgresError):
                await asyncio.sleep(RECONNECT_S)
                continue
            connection.add_termination_listener(self._hear)
            try:
                await self._read_on(connection)
            except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
                logger.warning("events cannot be read: %s", str(error) or type(error).__name__)
            finally:
                connection.terminate()
            await asyncio.sleep(RECONNECT_S)

    async def _read_on(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        with given_up_in_time(connection, self.look_max_s):
            await connection.add_listener(HINTS, self._hear)
        self._wake.set()  # hints were missed while disconnected
        while True:
            await self._pause()
            await self._look(connection)
            await self._ask_for_tokens(connection)

    def _hear(self, *_: object) -> None:
        if self._channels:
            self._quick_until_s = asyncio.get_running_loop().time() + QUICK_FOR_S
            self._wake.set()

    async def _pause(self) -> None:
        """Wait until the next poll; without followers, for ever."""
        clock = asyncio.get_running_loop().time
        patience_s: float | None = None
        if self._channels:
            patience_s = QUICK_S if clock() < self._quick_until_s else SLOW_S
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._wake.wait()
        if (too_early_s := self._looked_at_s + GAP_S - clock()) > 0:
            await asyncio.sleep(too_early_s)
        self._wake.clear()
        self._looked_at_s = clock()

    async def _look(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        for channel in list(self._channels.values()):
            if not channel.ready.is_set():
                with given_up_in_time(connection, self.look_max_s):
                    await _begin(connection, channel, self.source)
        known = {tenant_id: channel.seq for tenant_id, channel in self._channels.items()}
        if not known:
            return
        with given_up_in_time(connection, self.look_max_s):
            news = await list_news(connection, known)
        for tenant_id in news:
            self._quick_until_s = asyncio.get_running_loop().time() + QUICK_FOR_S
            if tenant_id in self._channels:  # the last follower may have left
                await self._read_new(connection, self._channels[tenant_id])
        await self._look_for_changes(connection)

    async def _look_for_changes(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """Tell what changed, each tenant's changes at most four times a second."""
        now_s = asyncio.get_running_loop().time()
        due = {
            tenant_id: channel
            for tenant_id, channel in self._channels.items()
            if channel.seen and now_s >= channel.changes_at_s + CHANGES_S
        }
        if self.source is None or not due:
            return
        seen = {tenant_id: channel.seen for tenant_id, channel in due.items()}
        with given_up_in_time(connection, self.look_max_s):
            changed = set(await list_changed_tenants(connection, seen))
        for tenant_id, channel in due.items():
            if tenant_id not in changed and not channel.told.list_due(now_s):
                continue
            self._quick_until_s = now_s + QUICK_FOR_S
            channel.changes_at_s = now_s
            with given_up_in_time(connection, self.look_max_s):
                page = await self._ask_for_changes(connection, channel, now_s)
            _publish_changes(channel, page)

    async def _ask_for_changes(
        self, connection: asyncpg.Connection[asyncpg.Record], channel: Channel, now_s: float
    ) -> ChangePage:
        assert self.source is not None, "the caller has checked it"
        read = self.source.read
        question = Question(channel.tenant_id, channel.seen, channel.told, now_s)
        return await transact_on(
            connection, channel.tenant_id, lambda c: read(c, question), begin=BEGIN_SNAPSHOT
        )

    async def _ask_for_tokens(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """End the streams of revoked and expired tokens, including streams still catching up."""
        now_s = asyncio.get_running_loop().time()
        if now_s < self._asked_at_s + self.tokens_s:
            return
        self._asked_at_s = now_s
        shown = [
            (tenant_id, subscription.token_id, subscription)
            for tenant_id, channel in self._channels.items()
            for subscription in channel.places
            if subscription.token_id is not None
        ]
        if not shown:
            return
        tokens = {(tenant_id, token_id) for tenant_id, token_id, _ in shown}
        with given_up_in_time(connection, self.look_max_s):
            ended = await list_ended_tokens(connection, tokens)
        for _, token_id, subscription in shown:
            if token_id in ended:
                subscription.end()

    async def read_page(
        self,
        connection: Connection,
        after_seq: int,
        session_id: UUID | None = None,
        limit: int = PAGE,
    ) -> EventPage:
        """Read events; with documents, if this process can show them."""
        read = read_events if self.source is None else self.source.read_page
        return await read(connection, after_seq=after_seq, session_id=session_id, limit=limit)

    async def _read_new(
        self, connection: asyncpg.Connection[asyncpg.Record], channel: Channel
    ) -> None:
        is_full = True
        while is_full:
            with given_up_in_time(connection, self.look_max_s):
                page = await transact_on(
                    connection, channel.tenant_id, lambda c: self.read_page(c, channel.seq)
                )
            _publish(channel, page)
            is_full = page.is_full


async def _begin(connection: Connection, channel: Channel, source: ChangeSource | None) -> None:
    """Open a channel with the newest events, so that reconnecting clients need no query.

    Changes are told from here on; a follower who has seen less reads the rest from the database.
    """

    async def read(connection: Connection) -> EventPage:
        if source is not None:
            moment = await read_moment(connection)
            channel.seen, channel.floor_end = moment.seen, moment.end
        now = await read_events(connection, after_seq=0, limit=0)
        floor_seq = max(now.last_seq - channel.tail_max, now.pruned_seq)
        channel.seq = channel.floor_seq = floor_seq
        read = read_events if source is None else source.read_page
        return await read(connection, after_seq=floor_seq)

    _publish(channel, await transact_on(connection, channel.tenant_id, read))
    channel.ready.set()


def _publish(channel: Channel, page: EventPage) -> None:
    horizon = channel.horizon
    frames = [build_frame(channel.tenant_id, event, horizon) for event in page.events]
    channel.publish(frames, page.end_seq)


def _publish_changes(channel: Channel, page: ChangePage) -> None:
    """Deliver changes; too many to tell end the streams, and clients resume with the state."""
    if page.is_too_long:
        channel.floor_end = page.moment.end
        channel.seen = page.moment.seen
        for subscription in tuple(channel.subscriptions):
            subscription.end()
        return
    before = channel.horizon
    assert before is not None, "the channel tells changes"
    frames = build_change_frames(channel.tenant_id, channel.seq, before, page)
    channel.seen = page.moment.seen
    channel.publish(frames, channel.seq)


async def _wait_until_ready(channel: Channel) -> None:
    try:
        async with asyncio.timeout(OPEN_MAX_S):
            await channel.ready.wait()
    except TimeoutError:
        raise DatabaseUnreachable(
            f"Events could not be read for {OPEN_MAX_S:.0f} s. Try again."
        ) from None


@contextlib.asynccontextmanager
async def open_hub(
    address: Address,
    *,
    role: str = APP_ROLE,
    streams_max: int = 1000,
    source: ChangeSource | None = None,
) -> AsyncIterator[Hub]:
    """Open the hub of a process; on exit all streams are ended."""
    hub = Hub(address, role, streams_max, source=source)
    reading = asyncio.create_task(hub.run(), name="hub")
    reading.add_done_callback(hub.end_with)
    try:
        yield hub
    finally:
        hub.close_streams()
        reading.cancel()
        await asyncio.wait({reading})
