"""A worker takes messages from the queue, claims the jobs they name and runs them.

It owns leases and lanes; `pipeline` knows what a job does. Six loops run at the same time: listen
(receive messages), beat (extend leases), sweep (restart stuck jobs), publish (copy pending files to
storage), prune (delete old events) and copy drafts (for those who watch). The first three have a
dedicated connection each and reconnect, so a full pool, a slow sweep or a hanging storage never
costs a lease. If a loop dies, the worker logs it and ends. A job continues while PostgreSQL is
unreachable. If its lease expires meanwhile, another worker takes it over, and the lease check in
`save` rejects the late result.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import asyncpg

from dialectic.core.job import Job, JobKey
from dialectic.db.migrate import find_upgrade
from dialectic.db.pool import (
    CONNECTION_LOST,
    WORKER_ROLE,
    WRONG_STATEMENT,
    Connection,
    DriversConnection,
    has_code,
    open_session,
)
from dialectic.db.tables import drafts, jobs
from dialectic.db.tables.accounts import sweep as sweep_accounts
from dialectic.db.tables.jobs import SessionKey
from dialectic.engine import Engine, Outage
from dialectic.errors import DatabaseFull, DialecticError, EndpointBusy, SchemaChanged, TextBusy
from dialectic.ledger import holds
from dialectic.limits.admission import PATIENCE_S
from dialectic.pipeline.run import run_job
from dialectic.telemetry import Value, about
from dialectic.worker.claims import Claims
from dialectic.worker.drafts import write_drafts
from dialectic.worker.failures import fail_on_bug, record_end, record_failure
from dialectic.worker.lanes import ANY, PLAN, Lanes, name_lane
from dialectic.worker.maintenance import iterate_reconnects, judge, prune, publish, repeat
from dialectic.worker.messages import AllMessages, Messages, SessionMessages

logger = logging.getLogger(__name__)

DRAIN_S = 30.0
RELEASE_S = 3.0
# How long a superseded attempt may take to return before it is cancelled.
RETURN_S = 1.0
# The least timeout of a heartbeat, even for short leases, and the timeout of a sweep.
BEAT_MIN_S = 3.0
SWEEP_MAX_S = 15.0
# How often sessions that pause on dissent are looked for.
JUDGE_INTERVAL_S = 1.0
# Check a closed lane again after this time: another worker may have found it open.
LANE_CLOSED_MAX_S = 5.0

RunJob = Callable[[Engine, Job], Awaitable[None]]


def name_worker() -> str:
    """Name this process so that an operator can find it."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:6]}"


@dataclass(slots=True, eq=False)
class Worker:
    """One worker of a process. After `stop`, `run` finishes its jobs or gives them back."""

    engine: Engine
    # How many jobs run at a time in each lane.
    concurrency: int
    run_job: RunJob = run_job
    name: str = field(default_factory=name_worker)
    drain_s: float = DRAIN_S
    # End if the database has no room even for the state of a job; otherwise wait for room.
    ends_if_full: bool = False
    # Work on the jobs of this session only.
    session: SessionKey | None = None
    _held: dict[JobKey, tuple[Job, asyncio.Task[None]]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event)
    _listening: asyncio.Event = field(default_factory=asyncio.Event)
    _messages: Messages | None = None
    _outdated: SchemaChanged | None = None
    _full: DatabaseFull | None = None
    _outage: Outage = field(default_factory=Outage)
    _lanes: Lanes = field(init=False)
    _claims: Claims = field(init=False)
    _terms: jobs.LeaseTerms = field(init=False)

    def __post_init__(self) -> None:
        self._lanes = Lanes(self.concurrency, on_room=self._wake)
        for name, limit in self._list_shared_limits():
            self._lanes.add(name_lane(name), limit)
        for lane in (ANY, PLAN, *map(name_lane, self.engine.catalog.providers)):
            self._lanes.add(lane)
        self._terms = jobs.LeaseTerms(self.engine.settings.lease_s)
        self._claims = Claims(
            self.engine.db,
            worker=self.name,
            terms=self._terms,
            lost_max=self.engine.settings.max_lost_leases,
            give_back=self._give_back,
        )

    async def run(self) -> None:
        """Work until `stop`; then finish the running jobs, or give them back after `drain_s`.

        Raises `SchemaChanged` if another version has upgraded the database, `DatabaseFull` if it
        ends for that, and the error of a loop that died.
        """
        address, terms = self.engine.address, self._terms
        helpers = [
            asyncio.create_task(
                repeat(
                    address,
                    self._beat,
                    interval_s=terms.beat_s,
                    patience_s=max(terms.lease_s / 2, BEAT_MIN_S),
                ),
                name="heartbeat",
            ),
            asyncio.create_task(
                repeat(address, self._sweep, interval_s=terms.sweep_s, patience_s=SWEEP_MAX_S),
                name="sweeper",
            ),
            asyncio.create_task(publish(self.engine, interval_s=terms.sweep_s), name="publisher"),
            asyncio.create_task(judge(self.engine, interval_s=JUDGE_INTERVAL_S), name="judge"),
            asyncio.create_task(prune(self.engine), name="pruner"),
            asyncio.create_task(write_drafts(self.engine), name="draft writer"),
        ]
        serving = asyncio.create_task(self._serve(), name="listener")
        limiting = asyncio.create_task(self._limit_drain())
        loops = {serving, *helpers}
        try:
            ended, _ = await asyncio.wait(loops, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                if not task.cancelled() and task.exception() is not None:
                    logger.critical("the worker stops because its %s failed", task.get_name())
                await task
        finally:
            self._stopping.set()
            _cancel_once(*self._tasks, *loops, limiting)
            await asyncio.gather(*self._tasks, *loops, limiting, return_exceptions=True)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(RELEASE_S):
                    await self._claims.settle()
        if (reason := self._outdated or self._full) is not None:
            raise reason

    async def _serve(self) -> None:
        await self._listen()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def stop(self, *, at_once: bool = False) -> None:
        """Take no more work. With `at_once`, give back the running jobs unfinished."""
        self._stopping.set()
        if self._messages is not None:
            self._messages.stop()
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
        """The session of each running job."""
        return [job.session_id for job, _ in self._held.values()]

    # -- messages ---------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Listen, and reconnect whenever the connection is lost or the listener returns."""
        delays, outage = iterate_reconnects(), Outage()
        while not self._stopping.is_set():
            try:
                await self._listen_once()
                delays = iterate_reconnects()
            except (*CONNECTION_LOST, OSError, asyncpg.PostgresError) as error:
                if outage.begins(error):
                    logger.warning("cannot reach the queue: %s", error)
            if not self._stopping.is_set():
                await self._nap(next(delays))

    async def _listen_once(self) -> None:
        # Messages are hints, so asynchronous commit is safe: a redelivered message is harmless.
        connection = await open_session(self.engine.address, WORKER_ROLE, waits_for_disk=False)
        messages = self._open_messages(connection)
        connection.add_termination_listener(lambda _connection: messages.lose())
        self._messages = messages
        if self._stopping.is_set():
            messages.stop()
        self._listening.set()
        try:
            await messages.run(poll_s=min(2.0, self._terms.sweep_s))
        finally:
            connection.terminate()

    def _open_messages(self, connection: DriversConnection) -> Messages:
        """Receive the messages of the worker's session, or those of all sessions."""
        lanes, begin, silence_s = self._lanes, self._begin, self._terms.lease_s
        if self.session is not None:
            return SessionMessages(connection, self.session, lanes, begin, silence_s)
        limits = {name_lane(name): n for name, n in self._list_shared_limits()}
        batch_size = max(1, self.concurrency // 2)
        return AllMessages(connection, lanes, begin, silence_s, limits, batch_size)

    def _list_shared_limits(self) -> Iterator[tuple[str, int]]:
        """List the endpoints that limit the calls in flight of all workers together."""
        for name, endpoint in self.engine.catalog.endpoints.items():
            if endpoint.max_concurrency is not None:
                yield name, endpoint.max_concurrency

    async def _limit_drain(self) -> None:
        """Give back unfinished jobs `drain_s` after `stop`."""
        await self._stopping.wait()
        await asyncio.sleep(self.drain_s)
        self.stop(at_once=True)

    # -- one job ----------------------------------------------------------------------------------

    def _begin(self, lane: str, key: JobKey) -> asyncio.Task[None]:
        """Start the job that a message names, in its lane."""
        task = asyncio.create_task(self._work(lane, key))
        self._tasks.add(task)
        self._lanes.enter(lane)

        def on_end(ended: asyncio.Task[None]) -> None:
            self._tasks.discard(ended)
            self._lanes.leave(lane)

        task.add_done_callback(on_end)
        return task

    def _wake(self) -> None:
        """Poll the queue now: a lane has new room, and full lanes are not polled."""
        if self._messages is not None:
            self._messages.wake()

    async def _work(self, lane: str, key: JobKey) -> None:
        if self._stopping.is_set():
            return  # the job stays due, and the sweeper sends another message
        try:
            job = await self._claims.ask(key)
        except (DialecticError, asyncpg.PostgresError) as error:
            if self._outage.begins(error):
                logger.warning("could not claim job %s: %s", key[1], error)
            self._meet_full(error)
            await self._is_outdated(error)
            return  # the sweeper sends another message
        self._outage.ends()
        if job is None:
            return
        task = asyncio.current_task()
        assert task is not None
        self._hold(job, task)
        try:
            with about(
                worker=self.name,
                tenant_id=str(job.tenant_id),
                session_id=str(job.session_id),
                job_id=str(job.id),
                attempt=job.attempt,
            ):
                await self._carry_out(job, lane)
        finally:
            if self._held.get(job.key, (job, None))[1] is task:
                del self._held[job.key]

    def _hold(self, job: Job, task: asyncio.Task[None]) -> None:
        """Extend a job's lease from now on; cancel an older attempt of it in this worker."""
        if job.key in self._held:
            older, its_task = self._held[job.key]
            # An attempt whose outcome is saved needs a moment to return; its job may go on already.
            asyncio.get_running_loop().call_later(RETURN_S, _cancel_older, older, its_task)
        self._held[job.key] = (job, task)

    async def _carry_out(self, job: Job, lane: str) -> None:
        try:
            refusal = await self._attempt(job)
        except asyncio.CancelledError:
            await self._give_back(job)
            raise
        if refusal is None:
            self._lanes.widen(lane)
            return
        if isinstance(refusal, TextBusy):
            return  # it waits for another job; the endpoint's capacity has not changed
        closed_s = min(max(0.0, refusal.closed_s - PATIENCE_S), LANE_CLOSED_MAX_S)
        self._lanes.narrow(lane, until_s=asyncio.get_running_loop().time() + closed_s)

    async def _give_back(self, job: Job) -> None:
        # If PostgreSQL does not answer, stop waiting: the lease expires by itself.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(record_end(self.engine.db, job, jobs.release), timeout=RELEASE_S)

    async def _attempt(self, job: Job) -> EndpointBusy | None:
        """Run a job and record its error, if any. This is the only broad `except`.

        Returns the refusal if the endpoint did not accept the call yet.
        """
        try:
            with self.engine.telemetry.span("job", _describe_attempt(job), kind="CONSUMER"):
                await self.run_job(self.engine, job)
        except DialecticError as error:
            if not await record_failure(self.engine, job, error):
                self._meet_full(error)
            return error if isinstance(error, EndpointBusy) else None
        except Exception as error:
            if await self._is_outdated(error):
                await self._give_back(job)
                return None
            logger.exception("job %s failed because of a bug", job.id)
            await fail_on_bug(self.engine.db, job, error)
        return None

    async def _is_outdated(self, error: Exception) -> bool:
        """Tell whether a statement failed because another version has upgraded the database."""
        if has_code(error, *WRONG_STATEMENT):
            with contextlib.suppress(DialecticError, asyncpg.PostgresError):
                self._meet(await find_upgrade(self.engine.db.fetch))
        return self._outdated is not None

    def _meet(self, upgrade: str | None) -> None:
        """Stop the worker if another version has upgraded the database."""
        if upgrade is not None and self._outdated is None:
            self._outdated = SchemaChanged(
                f"Another version of Dialectic has upgraded the database ({upgrade}). This worker "
                "stops. Start it again with that version."
            )
            logger.error("%s", self._outdated.message)
            self.stop()

    def _meet_full(self, error: Exception) -> None:
        """Stop a worker that ends if the database is full; its jobs are claimed again later."""
        if isinstance(error, DatabaseFull) and self.ends_if_full and self._full is None:
            self._full = error
            self.stop(at_once=True)

    # -- leases and stuck jobs --------------------------------------------------------------------

    async def _beat(self, connection: Connection) -> None:
        held = dict(self._held)
        if not held:
            return
        kept = await jobs.extend_leases(connection, [job for job, _ in held.values()], self._terms)
        gone = [job for key, (job, _) in held.items() if key not in kept]
        if not gone:
            return
        for key in await jobs.list_taken(connection, gone):
            logger.info("another worker has taken job %s, or it was cancelled", held[key][0].id)
            _cancel_once(held[key][1])

    async def _sweep(self, connection: Connection) -> None:
        self._meet(await find_upgrade(connection.fetch))
        count = await jobs.sweep(connection, self._terms)
        if count:
            logger.info("restarted %d stuck job(s)", count)
        lost = await holds.sweep_lost(connection)
        if lost:
            # A command says what its own session has lost; other sessions are not its subject.
            level = logging.WARNING if self.session is None else logging.INFO
            logger.log(level, "%d call(s) were charged but their answers were lost", lost)
        await sweep_accounts(connection)
        await drafts.sweep(connection)
        await self.engine.counters.flush(connection.fetch)
        waiting = await jobs.list_lanes(connection)
        self._lanes.find(waiting, asyncio.get_running_loop().time())

    async def _nap(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), timeout=seconds)


def _describe_attempt(job: Job) -> dict[str, Value]:
    return {
        "dialectic.stage": job.stage_slug,
        "dialectic.iteration": job.iteration_number,
        "dialectic.step": job.current_step,
        "dialectic.retries": job.retry_count,
    }


def _cancel_older(job: Job, task: asyncio.Task[None]) -> None:
    """Cancel an attempt that goes on although a newer one of its job has begun."""
    if not task.done():
        logger.warning("this worker lost attempt %d of job %s to itself", job.attempt, job.id)
        _cancel_once(task)


def _cancel_once(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks, but never twice: a second cancel would interrupt their cleanup."""
    for task in tasks:
        if not task.cancelling():
            task.cancel()
