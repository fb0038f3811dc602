"""One follower's events: missed events from the database, then live events from the hub.

Decides where a stream begins; delivers every event exactly once. Knows nothing of HTTP.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar
from uuid import UUID

from dialectic.core.event import FROM_THE_START, Event, State, build_event, is_for, parse_id
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import notifications, records
from dialectic.db.tables.notifications import EventPage
from dialectic.db.tables.records import Account
from dialectic.events.channel import Channel, Subscription
from dialectic.events.hub import Hub

T = TypeVar("T")

HEARTBEAT_S = 15.0
PAGE = 500

# Events in order; an empty list after a quiet interval; or a snapshot of the whole state, in place
# of events that are not available.
Told: TypeAlias = Sequence[Event] | State


def _ignore() -> None:
    pass


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
    on_end: Callable[[], None] = _ignore
    # The page size when reading missed events.
    page: int = PAGE
    # Events up to this number were delivered.
    seq: int = 0

    async def follow(self) -> AsyncGenerator[Told, None]:
        """Yield events until the hub ends the stream: missed events, then live events.

        The first item is [] or a snapshot, as soon as the start is known; a hub that is shutting
        down yields nothing.
        """
        if self.hub.is_closing:
            return
        subscription = self._subscribe()
        async with self.hub.enter(self.account.tenant_id, subscription) as channel:
            state = await self._find_start(channel)
            yield state or []
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

    async def _find_start(self, channel: Channel) -> State | None:
        """Find the event number to begin after; a snapshot if it is unknown."""
        if (session_id := self.session_id) is not None:
            await self._ask(lambda c: records.load_session(c, session_id))
        if self.after is None:
            self.seq = channel.seq
            return None
        if self.after == FROM_THE_START:
            self.seq = (await self._ask(lambda c: self._read(c, limit=0))).pruned_seq
            return None
        seq = parse_id(self.account.tenant_id, self.after)
        if seq is None:
            return await self._read_state("unknown")
        self.seq = seq
        if channel.floor_seq <= seq <= channel.seq:
            return None
        # Older than the tail, or already read by a faster process.
        return await self._judge(await self._ask(lambda c: self._read(c, limit=0)))

    async def _judge(self, page: EventPage) -> State | None:
        if self.seq > page.last_seq:
            return await self._read_state("unknown")
        if self.seq < page.pruned_seq:
            return await self._read_state("too_old")
        return None

    async def _catch_up(self) -> Told:
        """Yield the next page of missed events."""
        page = await self._ask(lambda c: self._read(c, limit=self.page))
        if (state := await self._judge(page)) is not None:
            return state
        self.seq = page.end_seq
        events = [build_event(self.account.tenant_id, row) for row in page.rows]
        return [e for e in events if is_for(e, self.account.user_id, self.session_id)]

    async def _read_state(self, reason: str) -> State:
        """Read a snapshot of the current state, and continue from there.

        The number is read first: events in between are in the snapshot and are delivered again.
        """

        async def work(connection: Connection) -> State:
            now = await self._read(connection, limit=0)
            rows = await notifications.list_session_states(connection, self.session_id)
            return State(now.last_seq, reason, [notifications.as_state(row) for row in rows])

        state = await self._ask(work)
        self.seq = state.seq
        return state

    async def _ask(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.db.transact(self.account.tenant_id, work)

    async def _read(self, connection: Connection, *, limit: int) -> EventPage:
        return await notifications.read_events(
            connection, after_seq=self.seq, session_id=self.session_id, limit=limit
        )
