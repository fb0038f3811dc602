"""A worker: takes messages from the queue, claims the jobs they name, carries them out.

Owns leases and the fate of errors; knows nothing of what a job does. Four loops share its life:
listen (messages in), beat (leases out), sweep (what is stuck is set going), publish (files that
others left behind). The first three have a connection of their own each and open a new one when it
is lost, so a full pool, a slow sweep or a storage that hangs never costs a lease. A loop that dies
ends the worker, loudly. A job goes on while the server is away; if it is away for too long the job
is someone else's, and the fence at the end of `save` says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
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
from dialectic.errors import DialecticError, Fate, LeaseLost, SchemaChanged
from dialectic.pipeline.follow import Fail, Pause, Retry, decide_fate
from dialectic.pipeline.run import run_job
from dialectic.publish import publish_left_behind
from dialectic.store import jobs, queue, records
from dialectic.store.database import (
    CONNECTION_LOST,
    WORKER_ROLE,
    WRONG_STATEMENT,
    Connection,
    connect,
    has_code,
)
from dialectic.store.migrate import find_upgrade

logger = logging.getLogger(__name__)

RECONNECT_FIRST_S = 0.05
RECONNECT_MAX_S = 1.0
DRAIN_S = 30.0
RELEASE_S = 3.0
CLAIMS_MAX = 50

RunJob = Callable[[Engine, Job], Awaitable[None]]
Claim = Callable[[list[JobKey]], Awaitable[dict[JobKey, Job]]]
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
    _outdated: SchemaChanged | None = None
    _slots: asyncio.Semaphore = field(init=False)
    _claims: Coalescer[JobKey, Job] = field(init=False)
    _patient_claims: Coalescer[JobKey, Job] = field(init=False)
    _terms: jobs.LeaseTerms = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)
        self._terms = jobs.LeaseTerms(self.engine.settings.lease_s)
        self._claims = self._coalesce(self._claim)
        self._patient_claims = self._coalesce(functools.partial(self._claim, is_patient=True))

    async def run(self) -> None:
        """Work until told to stop; then finish what is held, or give it back after `drain_s`.

        Raises `SchemaChanged` when the database is no longer the one this program fits, and
        whatever one of the loops died of.
        """
        helpers = [
            asyncio.create_task(self._repeat(self._beat, self._terms.beat_s), name="heartbeat"),
            asyncio.create_task(self._repeat(self._sweep, self._terms.sweep_s), name="sweeper"),
            asyncio.create_task(self._publish(), name="publisher"),
        ]
        serving = asyncio.create_task(self._serve(), name="listener")
        limiting = asyncio.create_task(self._limit_drain())
        loops = {serving, *helpers}
        try:
            ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                if not task.cancelled() and task.exception() is not None:
                    logger.critical("the worker ends: its %s died", task.get_name())
                await task
        finally:
            self._stopping.set()
            _cancel_once(*self._tasks, *loops, limiting)
            await asyncio.gather(*self._tasks, *loops, limiting, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_S):
                    await self._claims.settle()
                    await self._patient_claims.settle()
        if self._outdated is not None:
            raise self._outdated

    async def _serve(self) -> None:
        await self._listen()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more work. With `at_once`, give back what is held without finishing it."""
        self._stopping.set()
        if self._manager is not None:
            self._manager.shutdown.set()
        if at_once:
            _cancel_once(*self._tasks)

    async def wait_until_listening(self) -> None:
        """Wait until messages reach this worker."""
        await self._listening.wait()

    @property
    def in_flight(self) -> int:
        return len(self._tasks)

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def held_sessions(self) -> list[UUID]:
        """The session of each job that is being carried out."""
        return [job.session_id for job, _ in self._held.values()]

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
                job = await self._ask_for((tenant_id, job_id))
            except (DialecticError, asyncpg.PostgresError) as error:
                logger.warning("job %s could not be claimed: %s", job_id, error)
                await self._is_outdated(error)
                return  # the sweeper sends another message
            if job is None:
                return
            task = asyncio.current_task()
            assert task is not None
            self._hold(job, task)
            try:
                await self._carry_out(job)
            finally:
                if self._held.get(job.key, (job, None))[1] is task:
                    del self._held[job.key]

    async def _ask_for(self, key: JobKey) -> Job | None:
        """Claim a job; once more, with patience, if it is not to be had: its row may be locked.

        A plan job is locked by every child that ends. Its message would be used up in vain, and it
        would wait for the sweeper.
        """
        if (job := await self._claims.ask(key)) is not None:
            return job
        return await self._patient_claims.ask(key)

    def _hold(self, job: Job, task: asyncio.Task[None]) -> None:
        """Keep a job's lease from now on; an older attempt that we still make is in vain."""
        if job.key in self._held:
            older, its_task = self._held[job.key]
            logger.warning("attempt %d of job %s was lost to ourselves", older.attempt, job.id)
            _cancel_once(its_task)
        self._held[job.key] = (job, task)

    def _coalesce(self, claim: Claim) -> Coalescer[JobKey, Job]:
        return Coalescer(claim, give_back=self._give_back, batch_max=CLAIMS_MAX)

    async def _claim(self, wanted: list[JobKey], *, is_patient: bool = False) -> dict[JobKey, Job]:
        return await jobs.claim(
            self.engine.db,
            wanted,
            worker=self.name,
            terms=self._terms,
            lost_max=self.engine.settings.max_lost_leases,
            is_patient=is_patient,
        )

    async def _carry_out(self, job: Job) -> None:
        try:
            await self._attempt(job)
        except asyncio.CancelledError:
            await self._give_back(job)
            raise

    async def _give_back(self, job: Job) -> None:
        # Without the server the lease simply runs out; nobody who leaves waits for that.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._write(job, jobs.release), timeout=RELEASE_S)

    async def _attempt(self, job: Job) -> None:
        """Run a job and turn what goes wrong into its fate. The one broad `except` stands here."""
        try:
            await self.run_job(self.engine, job)
        except DialecticError as error:
            await self._settle(job, error)
        except Exception as error:
            if await self._is_outdated(error):
                await self._give_back(job)
                return
            logger.exception("job %s met a bug", job.id)
            await self._fail_on_bug(job, error)

    async def _is_outdated(self, error: Exception) -> bool:
        """Find out whether a statement failed because the database is not ours any more."""
        if has_code(error, *WRONG_STATEMENT):
            with contextlib.suppress(DialecticError, asyncpg.PostgresError):
                self._meet(await find_upgrade(self.engine.db.fetch))
        return self._outdated is not None

    def _meet(self, upgrade: str | None) -> None:
        """Take no more work from a database that another version has upgraded."""
        if upgrade is not None and self._outdated is None:
            self._outdated = SchemaChanged(
                f"The database was upgraded by another version of Dialectic ({upgrade}). This "
                "worker takes no more work: start it again with that version."
            )
            logger.error("%s", self._outdated.message)
            self.stop()

    async def _settle(self, job: Job, error: DialecticError) -> None:
        if error.fate is Fate.DROP:
            logger.info("job %s: %s", job.id, error.message)
            return
        fate = decide_fate(job, error, jitter=random.Random())  # noqa: S311  jitter is no secret
        code, message = error.code, error.message

        async def write(connection: Connection, job: Job) -> None:
            match fate:
                case Retry(delay_s, counts):
                    await jobs.retry(
                        connection, job, code=code, message=message, delay_s=delay_s, counts=counts
                    )
                    kind = "contribution_generation_retrying"
                    await _announce(connection, job, kind, code, message)
                case Pause():
                    await jobs.pause(connection, job, code=code, message=message)
                    kind = "contribution_generation_paused"
                    await _announce(connection, job, kind, code, message)
                case Fail(retries_used_up):
                    await jobs.fail(
                        connection, job, code=code, message=message, retries_used_up=retries_used_up
                    )
                case unreachable:
                    assert_never(unreachable)

        await self._write(job, write)

    async def _fail_on_bug(self, job: Job, error: Exception) -> None:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        message = f"{type(error).__name__} at {place}. This is a fault of the program."

        async def write(connection: Connection, job: Job) -> None:
            await jobs.fail(connection, job, code="internal", message=message)

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
            _cancel_once(held[key][1])
        self._gone = gone

    async def _sweep(self, connection: Connection) -> None:
        self._meet(await find_upgrade(connection.fetch))
        count = await jobs.sweep(connection, self._terms)
        if count:
            logger.info("%d stuck job(s) set going", count)

    async def _publish(self) -> None:
        """Carry files to storage that others left behind; storage may hang, and only this waits."""
        while True:
            try:
                await publish_left_behind(self.engine)
            except (DialecticError, asyncpg.PostgresError) as error:
                logger.warning("files wait in the database: %s", error)
            await asyncio.sleep(self._terms.sweep_s)

    async def _repeat(self, look: Look, interval_s: float) -> None:
        """Do something at an interval on a connection of its own, for as long as we live."""
        while True:
            try:
                connection = await connect(self.engine.address, WORKER_ROLE)
            except (*CONNECTION_LOST, asyncpg.PostgresError):
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


def _cancel_once(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, but none a second time: what it does on its way out must not be cancelled."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()


async def _announce(connection: Connection, job: Job, kind: str, code: str, message: str) -> None:
    data = {
        "sessionId": str(job.session_id),
        "stageSlug": job.stage_slug,
        "iterationNumber": job.iteration_number,
        "job_id": str(job.id),
        "error": {"code": code, "message": message},
    }
    await records.announce(connection, job.session_id, kind, data)
