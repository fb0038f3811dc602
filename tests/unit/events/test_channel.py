"""A channel hands the same bytes to everyone, keeps the newest, and drops who is too slow."""

from __future__ import annotations

import asyncio
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dialectic.events.channel import QUEUE_MAX, TAIL_BYTES_MAX, TAIL_MAX, Channel, Subscription
from dialectic.events.frames import EventFrame

TENANT, USER, SESSION = (UUID(int=n) for n in range(1, 4))
AT_ONCE_S = 0.0


def build_events(first: int, last: int, *, size_bytes: int = 1) -> list[EventFrame]:
    return [EventFrame(seq, None, SESSION, b"x" * size_bytes) for seq in range(first, last + 1)]


def publish(channel: Channel, first: int, last: int, *, size_bytes: int = 1) -> None:
    channel.publish(build_events(first, last, size_bytes=size_bytes), last)


def subscribe(channel: Channel, seq: int = 0) -> Subscription:
    subscription = Subscription(USER, None, seq)
    assert channel.attach(subscription)
    return subscription


async def take(subscription: Subscription) -> list[int] | None:
    taken = await subscription.take(AT_ONCE_S)
    return None if taken is None else [event.seq for event in taken]


async def test_everyone_is_given_the_same_bytes() -> None:
    channel = Channel(TENANT)
    one, two = subscribe(channel), subscribe(channel)
    publish(channel, 1, 1)

    [first], [second] = await one.take(AT_ONCE_S) or [], await two.take(AT_ONCE_S) or []

    assert first.wire is second.wire


async def test_who_comes_back_is_given_what_it_missed_and_nothing_twice() -> None:
    channel = Channel(TENANT)
    publish(channel, 1, 10)

    late = subscribe(channel, seq=4)
    publish(channel, 11, 12)

    assert await take(late) == [5, 6, 7, 8, 9, 10, 11, 12]
    assert await take(late) == []


async def test_who_has_seen_more_than_the_channel_is_told_nothing_again() -> None:
    channel = Channel(TENANT)
    publish(channel, 1, 3)
    ahead = subscribe(channel, seq=5)

    publish(channel, 4, 6)

    assert await take(ahead) == [6]


async def test_who_missed_more_than_is_kept_must_ask_elsewhere() -> None:
    channel = Channel(TENANT)
    publish(channel, 1, TAIL_MAX + 3)

    assert not channel.attach(Subscription(USER, None, 2))
    assert await take(subscribe(channel, seq=3)) == list(range(4, TAIL_MAX + 4))


async def test_few_large_events_are_kept_no_longer_than_many_small_ones() -> None:
    channel = Channel(TENANT)
    publish(channel, 1, 3, size_bytes=TAIL_BYTES_MAX // 2)

    assert not channel.attach(Subscription(USER, None, 0))
    assert await take(subscribe(channel, seq=1)) == [2, 3]


async def test_who_takes_nothing_is_dropped_and_keeps_nothing() -> None:
    channel, ends = Channel(TENANT), list[str]()
    quick = subscribe(channel)
    slow = Subscription(USER, None, 0, on_end=lambda: ends.append("ended"))
    channel.attach(slow)
    for seq in range(1, QUEUE_MAX + 1):
        publish(channel, seq, seq)
        assert await take(quick) == [seq]
    assert ends == []

    publish(channel, QUEUE_MAX + 1, QUEUE_MAX + 1)

    assert (slow.is_slow, ends) == (True, ["ended"])
    assert await take(slow) is None
    assert await take(quick) == [QUEUE_MAX + 1]


async def test_a_follower_that_waits_is_woken_by_an_event_and_by_the_end() -> None:
    channel = Channel(TENANT)
    subscription = subscribe(channel)
    waiting = asyncio.create_task(subscription.take(60.0))
    await asyncio.sleep(0)
    publish(channel, 1, 1)
    assert [event.seq for event in await waiting or []] == [1]

    waiting = asyncio.create_task(subscription.take(60.0))
    await asyncio.sleep(0)
    subscription.end()
    assert await waiting is None


@given(st.data())
async def test_wherever_a_client_is_cut_off_it_ends_up_with_the_whole_sequence(
    data: st.DataObject,
) -> None:
    channel, seen, last = Channel(TENANT), list[int](), 0
    subscription = subscribe(channel)
    for _ in range(data.draw(st.integers(1, 8))):
        count = data.draw(st.integers(0, 20))
        publish(channel, last + 1, last + count)
        last += count
        seen += await take(subscription) or []
        if data.draw(st.booleans()):
            # The client got a part of what was sent, and names the last it has seen.
            seen = seen[: data.draw(st.integers(max(0, len(seen) - 30), len(seen)))]
            subscription = subscribe(channel, seq=seen[-1] if seen else 0)
    seen += await take(subscription) or []

    assert seen == list(range(1, last + 1))
