"""A worker: takes messages from the queue, claims the jobs they name, carries them out.

Owns leases and the fate of errors; knows nothing of what a job does. Three loops share its life:
listen (messages in), beat (leases out), sweep (what is stuck is set going). Each has a connection
of its own and opens a new one when it is lost, so a full pool or a slow sweep never costs a lease.
A job goes on while the server is away; if it is away for too long the job is someone else's, and
the fence at the end of `save` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import assert_never
from uuid import UUID, uuid4

import asyncpg
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.errors import PgqException
from pgqueuer.domain.models import Job as Message

from dialectic.coalesce import Coalescer
from dialectic.domain.job import Job, JobKey
from dialectic.engine import Engine
from dialectic.errors import DialecticError, Fate, LeaseLost
from dialectic.pipeline.follow import Fail, Pause, Retry, decide_fate
from dialectic.pipeline.run import run_job
from dialectic.publish import publish_left_behind
from dialectic.store import jobs, queue, records
from dialectic.store.database import CONNECTION_LOST, WORKER_ROLE, Connection, connect

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 1.0
DRAIN_S = 30.0
RELEASE_S = 3.0
CLAIMS_MAX = 50

RunJob = Callable[[Engine, Job], Awaitable[None]]
Look = Callable[[Connection], Awaitable[None]]


def name_worker() -> str:
    """Name this process so that an operator can find it."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"


@dataclass(slots=True, eq=False)
class Worker:
    """One worker of one process. `run` until `stop`; what it holds is finished or given back."""

    engine: Engine
    concurrency: int
    run_job: RunJob = run_job
    name: str = field(default_factory=name_worker)
    drain_s: float = DRAIN_S
    _held: dict[JobKey, tuple[Job, asyncio.Task[None]]] = field(default_factory=dict)
    _gone: set[tuple[JobKey, int]] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _listening: asyncio.Event = field(default_factory=asyncio.Event)
    _manager: QueueManager | None = None
    _slots: asyncio.Semaphore = field(init=False)
    _claims: Coalescer[JobKey, Job] = field(init=False)
    _terms: jobs.LeaseTerms = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)
        self._terms = jobs.LeaseTerms(self.engine.settings.lease_s)
        self._claims = Coalescer(self._claim, batch_max=CLAIMS_MAX)

    async def run(self) -> None:
        """Work until told to stop; then finish what is held, or give it back after `drain_s`."""
        helpers = [
            asyncio.create_task(self._repeat(self._beat, self._terms.beat_s)),
            asyncio.create_task(self._repeat(self._sweep, self._terms.sweep_s)),
        ]
        helpers.append(asyncio.create_task(self._limit_drain()))
        try:
            await self._listen()
            if self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            for task in (*self._tasks, *helpers):
                task.cancel()
            await asyncio.gather(*self._tasks, *helpers, return_exceptions=True)

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more work. With `at_once`, give back what is held without finishing it."""
        self._stopping.set()
        if self._manager is not None:
            self._manager.shutdown.set()
        if at_once:
            for task in list(self._tasks):
                task.cancel()

    async def wait_until_listening(self) -> None:
        """Wait until messages reach this worker."""
        await self._listening.wait()

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    # -- messages in ------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Listen, and again whenever the connection is lost: a return nobody asked for is one."""
        delay_s = RECONNECT_FIRST_S
        while not self._stopping.is_set():
            try:
                await self._listen_once()
                delay_s = RECONNECT_FIRST_S
            except (*CONNECTION_LOST, OSError, asyncpg.PostgresError, PgqException) as error:
                logger.warning("the queue is out of reach: %s", error)
            if not self._stopping.is_set():
                await self._nap(delay_s)
                delay_s = min(delay_s * 2, RECONNECT_MAX_S)

    async def _listen_once(self) -> None:
        connection = await asyncpg.connect(**self.engine.address.connect_arguments(WORKER_ROLE))
        lost = asyncio.Event()
        manager = QueueManager(queue.open_queries(connection), queue.SETTINGS.channel)

        def on_lost(_connection: object) -> None:
            lost.set()
            manager.shutdown.set()

        async def on_message(message: Message) -> None:
            # The job does not end with the connection that brought it: when that is lost, only
            # the waiting ends, and a new connection can be opened beside the running jobs.
            task = asyncio.create_task(self._work(message))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            waiting = asyncio.create_task(lost.wait())
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()

        connection.add_termination_listener(on_lost)
        manager.entrypoint(queue.ENTRYPOINT, accepts_context=False)(on_message)
        self._manager = manager
        if self._stopping.is_set():
            manager.shutdown.set()
        self._listening.set()
        try:
            await manager.run(
                dequeue_timeout=timedelta(seconds=min(2.0, self._terms.sweep_s)),
                batch_size=max(1, self.concurrency // 2),
                max_concurrent_tasks=self.concurrency,
                shutdown_on_listener_failure=True,
                heartbeat_timeout=timedelta(seconds=self._terms.lease_s),
                log_aggregation_interval=timedelta(0),
            )
        finally:
            lost.set()
            connection.terminate()

    async def _limit_drain(self) -> None:
        """Give back what is not finished some time after we were told to stop."""
        await self._stopping.wait()
        await asyncio.sleep(self.drain_s)
        self.stop(at_once=True)

    # -- one job ----------------------------------------------------------------------------------

    async def _work(self, message: Message) -> None:
        tenant_id, job_id = (UUID(part) for part in (message.payload or b"").decode().split())
        async with self._slots:
            if self._stopping.is_set():
                return  # it stays due, and the sweeper sends another message
            try:
                job = await self._claims.ask((tenant_id, job_id))
            except (*CONNECTION_LOST, asyncpg.PostgresError) as error:
                logger.warning("job %s could not be claimed: %s", job_id, error)
                return  # the sweeper sends another message
            if job is None:
                return
            task = asyncio.current_task()
            assert task is not None
            self._held[job.key] = (job, task)
            try:
                await self._carry_out(job)
            finally:
                self._held.pop(job.key, None)

    async def _claim(self, wanted: list[JobKey]) -> dict[JobKey, Job]:
        return await jobs.claim(
            self.engine.db,
            wanted,
            worker=self.name,
            terms=self._terms,
            lost_max=self.engine.settings.max_lost_leases,
        )

    async def _carry_out(self, job: Job) -> None:
        """Run a job and turn what goes wrong into its fate. The one broad `except` stands here."""
        try:
            await self.run_job(self.engine, job)
        except asyncio.CancelledError:
            # Without the server the lease simply runs out; nobody who leaves waits for that.
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._write(job, jobs.release), timeout=RELEASE_S)
            raise
        except DialecticError as error:
            await self._settle(job, error)
        except Exception as error:
            logger.exception("job %s met a bug", job.id)
            await self._fail_on_bug(job, error)

    async def _settle(self, job: Job, error: DialecticError) -> None:
        if error.fate is Fate.DROP:
            logger.info("job %s: %s", job.id, error.message)
            return
        fate = decide_fate(job, error, jitter=random.Random())  # noqa: S311  jitter is no secret
        code, message = error.code, error.message

        async def write(connection: Connection, job: Job) -> None:
            match fate:
                case Retry(delay_s, counts):
                    kind = "contribution_generation_retrying"
                    await jobs.retry(
                        connection, job, code=code, message=message, delay_s=delay_s, counts=counts
                    )
                case Pause():
                    kind = "contribution_generation_paused"
                    await jobs.pause(connection, job, code=code, message=message)
                case Fail(retries_used_up):
                    kind = "contribution_generation_failed"
                    await jobs.fail(
                        connection, job, code=code, message=message, retries_used_up=retries_used_up
                    )
                case unreachable:
                    assert_never(unreachable)
            await _announce(connection, job, kind, code, message)

        await self._write(job, write)

    async def _fail_on_bug(self, job: Job, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        message = f"{type(error).__name__} at {place}. This is a fault of the program."

        async def write(connection: Connection, job: Job) -> None:
            await jobs.fail(connection, job, code="internal", message=message)
            await _announce(connection, job, "contribution_generation_failed", "internal", message)

        await self._write(job, write)

    async def _write(self, job: Job, write: Callable[[Connection, Job], Awaitable[None]]) -> None:
        """Write an attempt's end. If that is impossible the lease runs out, which ends it too."""
        try:
            await self.engine.db.transact(job.tenant_id, lambda c: write(c, job))
        except LeaseLost:
            logger.info("job %s was taken over", job.id)
        except (DialecticError, asyncpg.PostgresError) as error:
            logger.warning("the end of job %s could not be written: %s", job.id, error)

    # -- leases out, and what is stuck ------------------------------------------------------------

    async def _beat(self, connection: Connection) -> None:
        held = dict(self._held)
        if not held:
            return
        kept = await jobs.extend_leases(connection, [job for job, _ in held.values()], self._terms)
        gone = {(key, job.attempt) for key, (job, _) in held.items() if key not in kept}
        for key, _ in gone & self._gone:
            # Missing twice: not just saved and about to leave, but cancelled or taken over.
            logger.info("job %s was taken away", held[key][0].id)
            held[key][1].cancel()
        self._gone = gone

    async def _sweep(self, connection: Connection) -> None:
        count = await jobs.sweep(connection, self._terms)
        if count:
            logger.info("%d stuck job(s) set going", count)
        await publish_left_behind(self.engine)

    async def _repeat(self, look: Look, interval_s: float) -> None:
        """Do something at an interval on a connection of its own, for as long as we live."""
        while True:
            try:
                connection = await connect(self.engine.address, WORKER_ROLE)
            except (*CONNECTION_LOST, OSError, asyncpg.PostgresError):
                await asyncio.sleep(min(interval_s, RECONNECT_MAX_S))
                continue
            try:
                while not connection.is_closed():
                    await look(connection)
                    await asyncio.sleep(interval_s)
            except (*CONNECTION_LOST, asyncpg.PostgresError, DialecticError) as error:
                logger.warning("interrupted: %s", error)
            finally:
                connection.terminate()

    async def _nap(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), timeout=seconds)


async def _announce(connection: Connection, job: Job, kind: str, code: str, message: str) -> None:
    data = {
        "sessionId": str(job.session_id),
        "stageSlug": job.stage_slug,
        "iterationNumber": job.iteration_number,
        "job_id": str(job.id),
        "error": {"code": code, "message": message},
    }
    await records.announce(connection, job.session_id, kind, data)
