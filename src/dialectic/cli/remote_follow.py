"""Following a session at a server, whose workers do the work. Knows events, and no requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from dialectic.cli.desk import Conclude, News
from dialectic.cli.signals import handling_signals
from dialectic.client.events import Event
from dialectic.errors import ExitCode

# How often a session that says nothing is looked at.
LOOK_S = 1.0


async def tell_news(told: AsyncGenerator[Event, None], seq: int) -> AsyncGenerator[News, None]:
    """Tell events as they come, and none after a while without any: then someone may look."""
    coming: asyncio.Task[Any] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(told))
            done, _ = await asyncio.wait({coming}, timeout=LOOK_S)
            if not done:
                yield News(seq, [])
                continue
            event, coming = coming.result(), None
            if event.type == "state":
                yield News(seq, [])
                continue
            seq = event.data["id"]
            yield News(seq, [event.data])
    finally:
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming
        await told.aclose()


async def see_to_end(follow: Coroutine[Any, Any, ExitCode], conclude: Conclude | None) -> ExitCode:
    """Follow until it ends, or until someone leaves; what is followed goes on without them."""

    async def see() -> ExitCode:
        code = await follow
        return await conclude(code) if conclude else code

    seeing = asyncio.create_task(see())

    def leave(_number: object) -> None:
        seeing.cancel()

    with handling_signals(leave):
        await asyncio.wait({seeing})
    return ExitCode.INTERRUPTED if seeing.cancelled() else seeing.result()
