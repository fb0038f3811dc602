"""A worker inside a command: it starts and ends with the command, and obeys ^C."""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

from dialectic.cli.local import LocalBackend
from dialectic.cli.terminal import count, handling_signals, say
from dialectic.db.pool import WORKER_ROLE, Database
from dialectic.errors import ExitCode
from dialectic.worker.worker import DRAIN_S, Worker

# Enough for what many jobs write at a time, and each connection plans all statements for itself.
POOL_SIZE = 12
POLL_S = 0.05


@asynccontextmanager
async def open_worker(
    backend: LocalBackend, *, concurrency: int, drain_s: float = DRAIN_S
) -> AsyncIterator[Worker]:
    """Open a worker with its own pool: it logs in as another role than the person does."""
    async with Database.open(backend.engine.address, WORKER_ROLE, size=POOL_SIZE) as db:
        yield Worker(replace(backend.engine, db=db), concurrency=concurrency, drain_s=drain_s)


@contextmanager
def catching_signals(on_signal: Callable[[int], None]) -> Iterator[None]:
    """Call back with the count of interruptions so far instead of dying from them."""
    nth = 0

    def handle(_number: signal.Signals) -> None:
        nonlocal nth
        nth += 1
        on_signal(nth)

    with handling_signals(handle):
        yield


async def run_with_worker(
    backend: LocalBackend,
    follow: Coroutine[Any, Any, ExitCode],
    *,
    session_id: UUID | None = None,
    conclude: Callable[[ExitCode], Awaitable[ExitCode]] | None = None,
    drain_s: float = DRAIN_S,
) -> ExitCode:
    """Carry out jobs until what is followed, of a session as a rule, has ended; then conclude.

    The first ^C takes no more work and finishes the calls in flight, which are paid for; the
    second gives them back at once. The worker helps every session of the home, so it may hold
    calls of others when its own session ends: those are finished last, for as long as they take.
    """
    concurrency = backend.engine.settings.worker_concurrency
    async with open_worker(backend, concurrency=concurrency, drain_s=drain_s) as worker:

        async def run_until() -> ExitCode:
            code = await follow
            worker.drain_s = math.inf
            worker.stop()
            # Of a session that was paused, turns may still be on their way to their end.
            while session_id in worker.held_sessions:  # noqa: ASYNC110  nobody is told of one job's end
                await asyncio.sleep(POLL_S)
            return await conclude(code) if conclude else code

        working = asyncio.create_task(worker.run())
        attending = asyncio.create_task(run_until())

        def on_signal(nth: int) -> None:
            is_over = attending.done()
            attending.cancel()
            worker.stop(at_once=is_over or nth > 1)
            if nth == 1 and not is_over and (held := len(worker.held_sessions)):
                say(f"Finishing {count(held, 'call')} in flight; ^C again gives them back.")

        with catching_signals(on_signal):
            # A worker ends by itself only if something is wrong with it; `await` below says what.
            await asyncio.wait({working, attending}, return_when=asyncio.FIRST_COMPLETED)
            if working.done() and not worker.is_stopping:
                attending.cancel()
            await asyncio.wait({attending})
            worker.stop()
            if not attending.cancelled() and (held := worker.held_sessions):
                whose = "in flight" if session_id in held else "of other sessions"
                say(f"Finishing {count(len(held), 'call')} {whose}; ^C leaves them to others.")
            await working
        return ExitCode.INTERRUPTED if attending.cancelled() else attending.result()
