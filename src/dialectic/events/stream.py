"""One follower's events: missed events from the database, then live events from the hub.

Decides where a stream begins; delivers every event exactly once. Knows nothing of HTTP.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from dialectic.contract.events import StateReset
from dialectic.core.stream_position import FROM_THE_START, parse_id
from dialectic.db.pool import Connection, Database
from dialectic.db.tables import notifications, records
from dialectic.db.tables.board import read_moment
from dialectic.db.tables.changes import build_seen
from dialectic.db.tables.notifications import PAGE, EventPage
from dialectic.db.tables.records import Account
from dialectic.events.changes import Question, Told
from dialectic.events.channel import Channel, Subscription, ignore
from dialectic.events.frames import EventFrame, build_change_frames, build_frame, build_state_frame
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
    # The sessions whose drafts are wanted too.
    drafts_of: tuple[UUID, ...] = ()
    # The follower's token: the stream ends with it. None: no such end.
    token_id: UUID | None = None
    heartbeat_s: float = HEARTBEAT_S
    # Called when the stream is ended from outside while its follower may be blocked elsewhere.
    on_end: Callable[[], None] = ignore
    # The page size when reading missed events.
    page: int = PAGE
    # Events up to this number were delivered, and changes by transactions before this one.
    seq: int = 0
    horizon: int | None = None

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
            # Without a horizon of its own a follower wants the changes from now on.
            subscription.horizon = self.horizon
            if not channel.has_changes_since(self.horizon):
                yield await self._catch_up_changes()
                subscription.horizon = self.horizon
            self.horizon = channel.horizon if self.horizon is None else self.horizon
            subscription.seq = self.seq
            try:
                while not self.hub.attach(channel, subscription):
                    yield await self._catch_up()
                    subscription.seq = self.seq
                drafts = self.hub.drafts.follow(
                    self.db, self.account.tenant_id, self.drafts_of, subscription
                )
                async with drafts:
                    while (events := await subscription.take(self.heartbeat_s)) is not None:
                        self.seq = max(self.seq, events[-1].seq if events else channel.seq)
                        self.horizon = channel.horizon
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
        wanted = {*self.drafts_of, *filter(None, [self.session_id])}
        for session_id in sorted(wanted):
            await self._ask(functools.partial(_check_session, session_id=session_id))
        if self.after is None:
            self.seq = channel.seq
            return []
        if self.after == FROM_THE_START:
            self.seq = (await self._ask(lambda c: self._read(c, limit=0))).pruned_seq
            return []
        position = parse_id(self.account.tenant_id, self.after)
        if position is None:
            return await self._read_state("unknown")
        self.seq = seq = position.seq
        self.horizon = position.horizon if channel.seen else None
        if self.horizon is not None and self.horizon > (await self._ask(read_moment)).end:
            return await self._read_state("unknown")  # of another cluster
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
        frames = [build_frame(self.account.tenant_id, event, self.horizon) for event in page.events]
        return [f for f in frames if f.is_for(self.account.user_id, self.session_id)]

    async def _catch_up_changes(self) -> list[EventFrame]:
        """Read what changed since the follower's horizon."""
        assert self.hub.source is not None, "the channel tells changes"
        read = self.hub.source.read
        assert self.horizon is not None, "without a horizon no changes are missed"
        tenant_id, loop = self.account.tenant_id, asyncio.get_running_loop()
        question = Question(tenant_id, build_seen(self.horizon), Told(), loop.time())
        page = await self.db.read(tenant_id, lambda c: read(c, question))
        if page.is_too_long:
            return await self._read_state("too_old")
        frames = build_change_frames(tenant_id, self.seq, self.horizon, page)
        self.horizon = page.moment.horizon
        return [f for f in frames if f.is_for(self.account.user_id, self.session_id)]

    async def _read_state(self, reason: str) -> list[EventFrame]:
        """Read a snapshot of the current state, and continue from there.

        The position is read first: what follows it is in the snapshot and is delivered again.
        """

        async def work(connection: Connection) -> EventFrame:
            moment = await read_moment(connection)
            if self.hub.source is not None:
                self.horizon = moment.horizon
            now = await self._read(connection, limit=0)
            sessions = await notifications.list_session_states(connection, self.session_id)
            state = StateReset(reason=reason, sessions=sessions)
            return build_state_frame(self.account.tenant_id, now.last_seq, state, self.horizon)

        frame = await self._ask(work)
        self.seq = frame.seq
        return [frame]

    async def _ask(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        return await self.db.transact(self.account.tenant_id, work)

    async def _read(self, connection: Connection, *, limit: int) -> EventPage:
        return await self.hub.read_page(connection, self.seq, self.session_id, limit)


async def _check_session(connection: Connection, session_id: UUID) -> None:
    await records.load_session(connection, session_id)
