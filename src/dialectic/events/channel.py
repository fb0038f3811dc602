"""The events of one tenant in one process: the newest events, and a queue for each follower.

Knows no database. Nothing here blocks, except a follower with an empty queue: it waits on its own
future, never on a shared lock.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from dialectic.events.changes import Told
from dialectic.events.frames import EventFrame

# Keep the newest events of a tenant with followers, so that reconnecting clients can catch up.
TAIL_MAX = 500
TAIL_BYTES_MAX = 1_000_000
# The queue limit of a follower; beyond it the follower is too slow. It drains the whole queue.
QUEUE_MAX = 1000
# With more than this in its queue, a follower gets no drafts: they are lossy.
DRAFTS_QUEUE_MAX = 100


def ignore() -> None:
    """Do nothing when a stream ends."""


@dataclass(slots=True, eq=False)
class Subscription:
    """The queue of one follower. Once overfull or ended, it delivers nothing more."""

    user_id: UUID
    session_id: UUID | None
    # Events up to this number were delivered, or are not for this follower.
    seq: int
    # Changes by transactions before this one were delivered; None: only later ones are wanted.
    horizon: int | None = None
    # Called when the stream is ended from outside: its follower may be blocked elsewhere.
    on_end: Callable[[], None] = ignore
    # The follower's access token; None if it has none that could be revoked.
    token_id: UUID | None = None
    queue_max: int = QUEUE_MAX
    is_slow: bool = False
    _is_ended: bool = False
    _queue: deque[EventFrame] = field(default_factory=deque)
    _waiter: asyncio.Future[None] | None = None

    def offer(self, event: EventFrame) -> None:
        """Queue an event if it is for this follower and new to it."""
        if self._is_ended or (event.end is None and event.seq <= self.seq):
            return
        self.seq = max(self.seq, event.seq)
        if not event.is_for(self.user_id, self.session_id):
            return
        if len(self._queue) >= self.queue_max:
            self.is_slow = True
            self.end()
            return
        self._queue.append(event)
        self._wake()

    def offer_draft(self, wire: bytes) -> None:
        """Queue a piece of a draft; drop it if the follower lags. It moves no position."""
        if self._is_ended or len(self._queue) >= DRAFTS_QUEUE_MAX:
            return
        self._queue.append(EventFrame(self.seq, None, None, wire))
        self._wake()

    def end(self) -> None:
        """Deliver nothing more from now on."""
        if self._is_ended:
            return
        self._is_ended = True
        self._queue.clear()
        self._wake()
        self.on_end()

    async def take(self, patience_s: float) -> list[EventFrame] | None:
        """Wait for events and take all; [] on timeout, None if the stream has ended."""
        if not self._queue and not self._is_ended:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(patience_s, self._wake)
            try:
                await self._waiter
            finally:
                self._waiter = None
                timer.cancel()
        if self._is_ended:
            return None
        taken = list(self._queue)
        self._queue.clear()
        return taken

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


@dataclass(slots=True, eq=False)
class Channel:
    """The events of one tenant in this process: the newest events and the followers."""

    tenant_id: UUID
    # Events up to here were delivered; all events after `floor_seq` are in the tail.
    seq: int = 0
    floor_seq: int = 0
    tail_max: int = TAIL_MAX
    tail_bytes_max: int = TAIL_BYTES_MAX
    # The snapshot up to which changes were delivered; empty if changes are not told.
    seen: str = ""
    # The tail has lost changes that a snapshot before this transaction may lack.
    floor_end: int = 0
    told: Told = field(default_factory=Told)
    changes_at_s: float = 0.0
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    # All open streams; and those of them that receive live events.
    places: set[Subscription] = field(default_factory=set)
    subscriptions: set[Subscription] = field(default_factory=set)
    _tail: deque[EventFrame] = field(default_factory=deque)
    _tail_bytes: int = 0

    @property
    def horizon(self) -> int | None:
        """The first transaction whose changes were not delivered yet; None if changes are not."""
        return int(self.seen.partition(":")[0]) if self.seen else None

    def has_changes_since(self, horizon: int | None) -> bool:
        """Tell whether the tail has all changes that a follower with this horizon may lack."""
        return horizon is None or not self.seen or horizon >= self.floor_end

    def publish(self, events: Iterable[EventFrame], end_seq: int) -> None:
        """Deliver the events that were read, up to a number."""
        for event in events:
            self._tail.append(event)
            self._tail_bytes += len(event.wire)
            for subscription in tuple(self.subscriptions):
                subscription.offer(event)
        self.seq = max(self.seq, end_seq)
        while len(self._tail) > self.tail_max or self._tail_bytes > self.tail_bytes_max:
            oldest = self._tail.popleft()
            self._tail_bytes -= len(oldest.wire)
            self.floor_seq = max(self.floor_seq, oldest.seq)
            self.floor_end = max(self.floor_end, oldest.end or 0)

    def attach(self, subscription: Subscription) -> bool:
        """Add a follower after an event number; False if the tail does not reach back that far."""
        if subscription.seq < self.floor_seq:
            return False
        horizon = subscription.horizon
        for event in self._tail:
            if event.end is None or (horizon is not None and event.end > horizon):
                subscription.offer(event)
        self.subscriptions.add(subscription)
        return True
