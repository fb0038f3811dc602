"""A worker inside a command: it starts and stops with the command, and handles ^C.

It works on the session of its command only, unless told to work on all. Interrupting the command
pauses that session in the database, so that no other worker continues it.
"""

from __future__ import annotations

import asyncio
import math
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from uuid import UUID

from dialectic.cli.backend import Attended
from dialectic.cli.display.session_end import find_end_of
from dialectic.cli.local import LocalBackend
from dialectic.cli.pausing import pause_surely
from dialectic.cli.terminal import count, handling_signals, say
from dialectic.core.job import ENDED
from dialectic.core.money.price import format_roughly
from dialectic.core.session_state import Phase
from dialectic.db.pool import WORKER_ROLE, Database
from dialectic.errors import ExitCode
from dialectic.live_calls import LiveCall
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
    session_id: UUID | None = None,
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
            session=None if session_id is None else (backend.account.tenant_id, session_id),
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
    backend: LocalBackend, attended: Attended, *, drain_s: float = DRAIN_S
) -> ExitCode:
    """Run jobs until the followed session or job has ended; then conclude.

    The first ^C pauses the session and finishes the calls in flight, which are paid for. The second
    drops them. A worker that works on all sessions may hold calls of others when its own session
    ends: it finishes those last.
    """
    async with open_worker(
        backend,
        concurrency=backend.engine.settings.worker_concurrency,
        drain_s=drain_s,
        ends_if_full=True,
        session_id=None if attended.takes_all else attended.session_id,
    ) as worker:
        return await _Host(backend, worker, attended).run()


@dataclass(slots=True, eq=False)
class _Host:
    """One command's worker, and what interrupts have done to it."""

    backend: LocalBackend
    worker: Worker
    attended: Attended
    _pausing: asyncio.Task[bool] | None = None
    _dropped: list[LiveCall] = field(default_factory=list)

    async def run(self) -> ExitCode:
        worker = self.worker
        working = asyncio.create_task(worker.run())
        attending = asyncio.create_task(self._attend())
        with handling_signals(lambda number: self._on_signal(number, attending)):
            # A worker stops by itself only on an error, which the `await` below raises.
            await asyncio.wait({working, attending}, return_when=asyncio.FIRST_COMPLETED)
            if working.done() and working.exception() is not None:
                attending.cancel()
            await asyncio.wait({attending})
            worker.stop()
            if not attending.cancelled() and (held := len(worker.held_sessions)):
                say(
                    f"Still running {count(held, 'call')} of other sessions, because of --all. "
                    "^C leaves them to other workers."
                )
            await working
        if self._pausing is not None:
            await asyncio.wait({self._pausing})
        return ExitCode.INTERRUPTED if attending.cancelled() else attending.result()

    async def _attend(self) -> ExitCode:
        code = await self.attended.follow(self._is_busy)
        self.worker.drain_s = math.inf
        self.worker.stop()
        # A paused session may still have turns in flight.
        while self._is_busy():  # noqa: ASYNC110  no signal exists
            await asyncio.sleep(POLL_S)
        if self._pausing is not None:
            code = await self._decide_interrupted()
        return await self.attended.conclude(code)

    async def _decide_interrupted(self) -> ExitCode:
        """Decide how an interrupted command ends: its last calls may have completed the work."""
        assert self._pausing is not None
        has_paused = await self._pausing
        _say_dropped(self._dropped, self.attended)
        backend, session_id = self.backend, self.attended.session_id
        detail = await backend.look(session_id)
        if has_paused and all(job.status in ENDED for job in detail.jobs):
            # Nothing is left to pause. This starts nothing; it restores the phase.
            await backend.resume(
                session_id, approves_spend=False, budget_credits=None, full_answers_only=None
            )
            detail = await backend.look(session_id)
        ended = find_end_of(detail)
        if detail.session.state.phase is Phase.PAUSED or ended is None:
            return ExitCode.INTERRUPTED
        return ended

    def _is_busy(self) -> bool:
        return self.attended.session_id in self.worker.held_sessions

    def _on_signal(self, number: signal.Signals, attending: asyncio.Task[ExitCode]) -> None:
        worker = self.worker
        if attending.done():
            worker.stop(at_once=True)
        elif self._pausing is None:
            calls = self.backend.engine.live_calls.list_of(self.attended.session_id)
            say(describe_stop(calls, self.attended.price))
            if number is signal.SIGINT:
                worker.drain_s = math.inf  # the user decides how long to wait
            worker.stop()
            self._pausing = asyncio.create_task(
                pause_surely(self.backend, self.attended.session_id)
            )
        elif not self._dropped and self._is_busy():
            self._dropped = self.backend.engine.live_calls.list_of(self.attended.session_id)
            worker.stop(at_once=True)
        else:
            attending.cancel()


def describe_stop(calls: list[LiveCall], price: Callable[[LiveCall], int | None]) -> str:
    """Describe what the first ^C does."""
    if not calls:
        return "Stopping. The session will be paused."
    return (
        f"Stopping after {count(len(calls), 'running call')}{_describe_price(calls, price)}; "
        "^C again drops them."
    )


def _say_dropped(calls: list[LiveCall], attended: Attended) -> None:
    if calls:
        price = _describe_price(calls, attended.price_so_far)
        bill = f" Your provider may bill{price.removeprefix(',')} for them." if price else ""
        short = str(attended.session_id)[:8]
        say(f"Session {short}: {count(len(calls), 'call')} dropped by the second ^C.{bill}")


def _describe_price(calls: list[LiveCall], price: Callable[[LiveCall], int | None]) -> str:
    """Describe what calls cost, if they cost real money."""
    total = sum(filter(None, map(price, calls)))
    return f", about {format_roughly(total)}" if total else ""
