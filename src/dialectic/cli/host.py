"""A worker inside a command: it starts and ends with the command, and obeys ^C."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from dialectic.cli.terminal import Desk, say
from dialectic.errors import ExitCode
from dialectic.store.database import WORKER_ROLE, Database
from dialectic.worker import Worker

POOL_SIZE = 10


@asynccontextmanager
async def open_worker(desk: Desk, *, concurrency: int) -> AsyncIterator[Worker]:
    """Open a worker with its own pool: it logs in as another role than the person does."""
    async with Database.open(desk.engine.address, WORKER_ROLE, size=POOL_SIZE) as db:
        yield Worker(replace(desk.engine, db=db), concurrency=concurrency)


@asynccontextmanager
async def catching_signals(on_signal: Callable[[int], None]) -> AsyncIterator[None]:
    """Call back with the count of interruptions so far instead of dying from them."""
    loop = asyncio.get_running_loop()
    count = 0

    def handle() -> None:
        nonlocal count
        count += 1
        on_signal(count)

    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, handle)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def work_beside(desk: Desk, follow: Coroutine[Any, Any, ExitCode]) -> ExitCode:
    """Carry out jobs while something else waits for their end.

    The first ^C takes no more work and finishes the calls in flight, which are paid for; the
    second gives them back at once.
    """
    async with open_worker(desk, concurrency=desk.engine.settings.worker_concurrency) as worker:
        working = asyncio.create_task(worker.run())
        following = asyncio.create_task(follow)

        def on_signal(count: int) -> None:
            following.cancel()
            worker.stop(at_once=count > 1)
            if count == 1 and worker.in_flight:
                say(f"Finishing {worker.in_flight} call(s) in flight; ^C again gives them back.")

        async with catching_signals(on_signal):
            await asyncio.wait({working, following}, return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            await working
            await asyncio.wait({following})
        return ExitCode.INTERRUPTED if following.cancelled() else following.result()
