"""One follower's events: what it missed, from the database, joined to what happens, from the hub.

Owns where a stream begins and that nothing is left out or told twice. Knows nothing of HTTP.
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

# Events in their order; none after a while in which there were none; or the state of everything, in
# the place of events that cannot be told.
Told: TypeAlias = Sequence[Event] | State


def _ignore() -> None:
    pass


@dataclass(slots=True, kw_only=True)
class Follower:
    """Someone who follows the events of a tenant, or of one session in it."""

    hub: Hub
    db: Database
    account: Account
    # The id of the last event that was seen; `FROM_THE_START` for all that is kept; None: begin
    # with what comes next.
    after: str | None = None
    session_id: UUID | None = None
    # The token it came in with: the stream ends with it. None: with nothing.
    token_id: UUID | None = None
    heartbeat_s: float = HEARTBEAT_S
    # Called when the stream is ended from outside while its follower may be stuck elsewhere.
    on_end: Callable[[], None] = _ignore
    # How many events of those that were missed are read at once.
    page: int = PAGE
    # The number up to which everything was told.
    seq: int = 0

    async def follow(self) -> AsyncGenerator[Told, None]:
        """Tell events until the hub ends it: what was missed, then what happens.

        The first thing told is [] or a state, as soon as it is known where to begin; nothing at
        all by a hub that is about to leave.
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
        """Find the number to begin after; a state where that cannot be told."""
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
        # Too old for what is here, or read by another process that was quicker.
        return await self._judge(await self._ask(lambda c: self._read(c, limit=0)))

    async def _judge(self, page: EventPage) -> State | None:
        if self.seq > page.last_seq:
            return await self._read_state("unknown")
        if self.seq < page.pruned_seq:
            return await self._read_state("too_old")
        return None

    async def _catch_up(self) -> Told:
        """Tell the next page of what was missed."""
        page = await self._ask(lambda c: self._read(c, limit=self.page))
        if (state := await self._judge(page)) is not None:
            return state
        self.seq = page.end_seq
        events = [build_event(self.account.tenant_id, row) for row in page.rows]
        return [e for e in events if is_for(e, self.account.user_id, self.session_id)]

    async def _read_state(self, reason: str) -> State:
        """Read how things stand now, and go on from here.

        The number is taken first: what happens in between is in the state and is told again.
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
