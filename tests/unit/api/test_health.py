"""However many ask how it is, it looks once."""

from __future__ import annotations

import asyncio

from dialectic.api.health import CachedCheck


async def test_a_request_during_a_check_gets_its_result() -> None:
    looks = 0

    async def look() -> int:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0)
        return looks

    glance = CachedCheck(look, cache_s=60.0)
    assert await asyncio.gather(*(glance.take() for _ in range(10))) == [1] * 10
    assert await glance.take() == 1


async def test_what_was_seen_a_while_ago_is_looked_at_again() -> None:
    seen = iter(range(3))

    async def look() -> int:
        return next(seen)

    glance = CachedCheck(look, cache_s=-1.0)
    assert [await glance.take(), await glance.take()] == [0, 1]
