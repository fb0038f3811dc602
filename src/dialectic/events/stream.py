"""One follower's events: missed events from the database, then live events from the hub.

Decides where a stream begins; delivers every event exactly once. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from dialectic.contract.events import FROM_THE_START, StateReset, parse_id
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import notifications, records
from dialectic.db.tables.notifications import PAGE, EventPage
from dialectic.db.tables.records import Account
from dialectic.events.channel import Channel, Subscription, ignore
from dialectic.events.frames import EventFrame, build_frame, build_state_frame
from dialectic.events.hub import Hub

T = TypeVar("T")

HEARTBEAT_S = 15.0


@dataclass(slots=True, kw_only=True)
class Follower:
    """A follower of the events of a tenant, or of one session."""

    hub: Hub
    db: Database
    account: Account
    # The id of the last event seen; `FROM_THE_START` for all kept events; None for live events
    # only.
    after: str | None = None
    session_id: UUID | None = None
    # The follower's token: the stream ends with it. None: no such end.
    token_id: UUID | None = None
    heartbeat_s: float = HEARTBEAT_S
    # Called when the stream is ended from outside while its follower may be blocked elsewhere.
    on_end: Callable[[], None] = ignore
    # The page size when reading missed events.
    page: int = PAGE
    # Events up to this number were delivered.
    seq: int = 0

    async def follow(self) -> AsyncGenerator[list[EventFrame], None]:
        """Yield events until the hub ends the stream: missed events, then live events.

        The first list is empty, as soon as the start is known, or holds a snapshot of the state in
        place of events that are not available. After a quiet interval comes an empty list. A hub
        that is shutting down yields nothing.
        """
        if self.hub.is_closing:
            return
        subscription = self._subscribe()
        async with self.hub.enter(self.account.tenant_id, subscription) as channel:
            yield await self._find_start(channel)
            subscription.seq = self.seq
            try:
                while not self.hub.attach(channel, subscription):
                    yield await self._catch_up()
                    subscription.seq = self.seq
                while (events := await subscription.take(self.heartbeat_s)) is not None:
                    self.seq = max(self.seq, events[-1].seq if events else channel.seq)
                    yield events
            finally:
                channel.subscriptions.discard(subscription)

    def _subscribe(self) -> Subscription:
        return Subscription(
            self.account.user_id,
            self.session_id,
            self.seq,
            on_end=self.on_end,
            queue_max=self.hub.queue_max,
            token_id=self.token_id,
        )

    async def _find_start(self, channel: Channel) -> list[EventFrame]:
        """Find the event number to begin after; return a snapshot if it is unknown."""
        if (session_id := self.session_id) is not None:
            await self._ask(lambda c: records.load_session(c, session_id))
        if self.after is None:
            self.seq = channel.seq
            return []
        if self.after == FROM_THE_START:
            self.seq = (await self._ask(lambda c: self._read(c, limit=0))).pruned_seq
            return []
        seq = parse_id(self.account.tenant_id, self.after)
        if seq is None:
            return await self._read_state("unknown")
        self.seq = seq
        if channel.floor_seq <= seq <= channel.seq:
            return []
        # Older than the tail, or already read by a faster process.
        return await self._judge(await self._ask(lambda c: self._read(c, limit=0)))

    async def _judge(self, page: EventPage) -> list[EventFrame]:
        if self.seq > page.last_seq:
            return await self._read_state("unknown")
        if self.seq < page.pruned_seq:
            return await self._read_state("too_old")
        return []

    async def _catch_up(self) -> list[EventFrame]:
        """Read the next page of missed events."""
        page = await self._ask(lambda c: self._read(c, limit=self.page))
        if state := await self._judge(page):
            return state
        self.seq = page.end_seq
        frames = [build_frame(self.account.tenant_id, event) for event in page.events]
        return [f for f in frames if f.is_for(self.account.user_id, self.session_id)]

    async def _read_state(self, reason: str) -> list[EventFrame]:
        """Read a snapshot of the current state, and continue from there.

        The number is read first: events in between are in the snapshot and are delivered again.
        """

        async def work(connection: Connection) -> EventFrame:
            now = await self._read(connection, limit=0)
            sessions = await notifications.list_session_states(connection, self.session_id)
            state = StateReset(reason=reason, sessions=sessions)
            return build_state_frame(self.account.tenant_id, now.last_seq, state)

        frame = await self._ask(work)
        self.seq = frame.seq
        return [frame]

    async def _ask(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.db.transact(self.account.tenant_id, work)

    async def _read(self, connection: Connection, *, limit: int) -> EventPage:
        return await notifications.read_events(
            connection, after_seq=self.seq, session_id=self.session_id, limit=limit
        )
