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

from dialectic.events.frames import EventFrame

# Keep the newest events of a tenant with followers, so that reconnecting clients can catch up.
TAIL_MAX = 500
TAIL_BYTES_MAX = 1_000_000
# The queue limit of a follower; beyond it the follower is too slow. It drains the whole queue.
QUEUE_MAX = 1000


def ignore() -> None:
    """Do nothing when a stream ends."""


@dataclass(slots=True, eq=False)
class Subscription:
    """The queue of one follower. Once overfull or ended, it delivers nothing more."""

    user_id: UUID
    session_id: UUID | None
    # Events up to this number were delivered, or are not for this follower.
    seq: int
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
        if event.seq <= self.seq or self._is_ended:
            return
        self.seq = event.seq
        if not event.is_for(self.user_id, self.session_id):
            return
        if len(self._queue) >= self.queue_max:
            self.is_slow = True
            self.end()
            return
        self._queue.append(event)
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
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    # All open streams; and those of them that receive live events.
    places: set[Subscription] = field(default_factory=set)
    subscriptions: set[Subscription] = field(default_factory=set)
    _tail: deque[EventFrame] = field(default_factory=deque)
    _tail_bytes: int = 0

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
            self.floor_seq = oldest.seq

    def attach(self, subscription: Subscription) -> bool:
        """Add a follower after an event number; False if the tail does not reach back that far."""
        if subscription.seq < self.floor_seq:
            return False
        for event in self._tail:
            subscription.offer(event)
        self.subscriptions.add(subscription)
        return True
