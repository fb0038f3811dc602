"""A worker inside a command: it starts and stops with the command, and handles ^C."""

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

# Enough for many jobs; more would cost, since each connection prepares its own statements.
POOL_SIZE = 12
POLL_S = 0.05


@asynccontextmanager
async def open_worker(
    backend: LocalBackend,
    *,
    concurrency: int,
    drain_s: float = DRAIN_S,
    ends_if_full: bool = False,
) -> AsyncIterator[Worker]:
    """Open a worker with its own pool: it uses another database role than the user."""
    # Before any lease is held: the system's keyring may wait for a person.
    await asyncio.to_thread(backend.settings.reveal_keys)
    async with Database.open(backend.engine.address, WORKER_ROLE, size=POOL_SIZE) as db:
        yield Worker(
            replace(backend.engine, db=db),
            concurrency=concurrency,
            drain_s=drain_s,
            ends_if_full=ends_if_full,
        )


@contextmanager
def catching_signals(on_signal: Callable[[int], None]) -> Iterator[None]:
    """Handle interrupts with a callback that gets their number so far."""
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
    """Run jobs until the followed session or job has ended; then conclude.

    The first ^C takes no more work and finishes the calls in flight, which are paid for. The second
    releases them at once. The worker serves all local sessions, so it may hold calls of others when
    its own session ends: it finishes those last.
    """
    concurrency = backend.engine.settings.worker_concurrency
    async with open_worker(
        backend, concurrency=concurrency, drain_s=drain_s, ends_if_full=True
    ) as worker:

        async def run_until() -> ExitCode:
            code = await follow
            worker.drain_s = math.inf
            worker.stop()
            # A paused session may still have turns in flight.
            while session_id in worker.held_sessions:  # noqa: ASYNC110  no signal exists
                await asyncio.sleep(POLL_S)
            return await conclude(code) if conclude else code

        working = asyncio.create_task(worker.run())
        attending = asyncio.create_task(run_until())

        def on_signal(nth: int) -> None:
            is_over = attending.done()
            attending.cancel()
            worker.stop(at_once=is_over or nth > 1)
            if nth == 1 and not is_over and (held := len(worker.held_sessions)):
                say(f"Finishing {count(held, 'call')} in flight; press ^C again to release them.")

        with catching_signals(on_signal):
            # A worker stops by itself only on an error, which the `await` below raises.
            await asyncio.wait({working, attending}, return_when=asyncio.FIRST_COMPLETED)
            if working.done() and working.exception() is not None:
                attending.cancel()
            await asyncio.wait({attending})
            worker.stop()
            if not attending.cancelled() and (held := worker.held_sessions):
                whose = "in flight" if session_id in held else "of other sessions"
                say(f"Finishing {count(len(held), 'call')} {whose}; press ^C to release them.")
            await working
        return ExitCode.INTERRUPTED if attending.cancelled() else attending.result()
