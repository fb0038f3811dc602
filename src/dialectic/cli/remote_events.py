"""Follow the events of a server's workers, until a session ends or the user leaves it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator

from dialectic.cli.backend import Attended, News
from dialectic.cli.terminal import handling_signals
from dialectic.contract.events import CHANGES, AnyStreamItem, Draft, StateReset
from dialectic.errors import ExitCode

# How often a session without events is checked.
LOOK_S = 1.0


async def show_events(
    events: AsyncGenerator[AnyStreamItem, None], seq: int
) -> AsyncGenerator[News, None]:
    """Yield events as they arrive, and an empty page after a timeout without any."""
    coming: asyncio.Future[AnyStreamItem] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(events))
            done, _ = await asyncio.wait({coming}, timeout=LOOK_S)
            if not done:
                yield News(seq, [])
                continue
            event, coming = coming.result(), None
            if isinstance(event, StateReset | Draft):
                yield News(seq, [])
                continue
            seq = event.id
            if event.type not in CHANGES:  # these are for pages
                yield News(seq, [event])
    finally:
        if coming is not None:
            coming.cancel()
            with contextlib.suppress(asyncio.CancelledError, StopAsyncIteration):
                await coming
        await events.aclose()


async def follow_to_end(attended: Attended) -> ExitCode:
    """Follow until the session ends or the user leaves; the session continues without them."""

    async def see() -> ExitCode:
        return await attended.conclude(await attended.follow(lambda: False))

    seeing = asyncio.create_task(see())

    def leave(_number: object) -> None:
        seeing.cancel()

    with handling_signals(leave):
        await asyncio.wait({seeing})
    return ExitCode.INTERRUPTED if seeing.cancelled() else seeing.result()
