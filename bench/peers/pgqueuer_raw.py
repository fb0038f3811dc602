"""PgQueuer alone: the queue below the product, with no jobs table, tenants or leases above it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.core.qm import QueueManager
from pgqueuer.domain.models import Job

from bench.child import Options, build_text, say, serve, stopping_event, wait_for_go

ENTRYPOINT = "job"
HOLD_S = 600.0


async def prepare(options: Options) -> None:
    """Install its schema, and a table for what a job writes."""
    connection = await asyncpg.connect(options["url"])
    await Queries(AsyncpgDriver(connection)).install()
    await connection.execute("create table written (id bigint primary key, text text not null)")
    await connection.close()


class TimedQueries(Queries):
    """Its own statements, with the time noted at which a claim began and an end was recorded."""

    def __init__(self, driver: AsyncpgDriver) -> None:
        super().__init__(driver)
        self.asked_at = 0.0
        self.recorded: asyncio.Queue[float] = asyncio.Queue()

    async def dequeue(self, *args: Any, **kwargs: Any) -> list[Job]:
        asked_at = time.perf_counter()
        found = await super().dequeue(*args, **kwargs)
        if found:
            self.asked_at = asked_at
        return found

    async def log_jobs(self, *args: Any, **kwargs: Any) -> None:
        await super().log_jobs(*args, **kwargs)
        self.recorded.put_nowait(time.perf_counter())


async def overhead(options: Options) -> dict[str, list[float]]:
    """Time jobs that write one row in a transaction of their own, one at a time."""
    listening, own, asking = [await asyncpg.connect(options["url"]) for _ in range(3)]
    queries = TimedQueries(AsyncpgDriver(listening))
    enqueuing = Queries(AsyncpgDriver(asking))
    manager = QueueManager(queries)
    one_at_a_time = asyncio.Lock()
    text = build_text(options["text_bytes"])

    async def write(job: Job) -> None:
        async with one_at_a_time:
            await own.execute("insert into written values ($1, $2)", int(job.id), text)

    manager.entrypoint(ENTRYPOINT, accepts_context=False)(write)
    # A batch of one: an end is recorded as soon as it is known, not when a batch is full.
    running = asyncio.create_task(manager.run(batch_size=1, max_concurrent_tasks=2))
    await asyncio.sleep(0.5)
    claimed_ms, submitted_ms = [], []
    for number in range(options["jobs"] + options["warm_up"]):
        submitted = time.perf_counter()
        await enqueuing.enqueue(ENTRYPOINT, None)
        recorded = await queries.recorded.get()
        if number >= options["warm_up"]:
            claimed_ms.append((recorded - queries.asked_at) * 1000)
            submitted_ms.append((recorded - submitted) * 1000)
    jobs = options["jobs"]
    started = time.perf_counter()
    await enqueuing.enqueue([ENTRYPOINT] * jobs, [None] * jobs, [0] * jobs)
    started = time.perf_counter()
    ended = started
    for _ in range(jobs):
        ended = await queries.recorded.get()
    manager.shutdown.set()
    await running
    return {
        "claim_to_done_ms": claimed_ms,
        "submit_to_done_ms": submitted_ms,
        "backlog_ms": [(ended - started) * 1000 / jobs],
    }


async def fill(options: Options) -> None:
    """Put jobs into the queue."""
    connection = await asyncpg.connect(options["url"])
    jobs = options["jobs"]
    await Queries(AsyncpgDriver(connection)).enqueue([ENTRYPOINT] * jobs, [None] * jobs, [0] * jobs)
    await connection.close()


async def work(options: Options) -> None:
    """Take jobs that do nothing, until told to stop."""
    connection = await asyncpg.connect(options["url"])
    manager = QueueManager(Queries(AsyncpgDriver(connection)))

    async def nothing(_job: Job) -> None:
        pass

    manager.entrypoint(ENTRYPOINT, accepts_context=False)(nothing)
    concurrency = options["concurrency"]
    await asyncio.to_thread(wait_for_go)
    running = asyncio.create_task(
        manager.run(batch_size=concurrency // 2, max_concurrent_tasks=concurrency)
    )
    await stopping_event().wait()
    manager.shutdown.set()
    await running


async def hold(options: Options) -> None:
    """Keep jobs, or report those that come; as shipped but for the number at a time."""
    connection = await asyncpg.connect(options["url"])
    manager = QueueManager(Queries(AsyncpgDriver(connection)))

    async def keep_or_report(job: Job) -> None:
        say({"job": str(job.id), "at": time.time()})
        if options["keeps"]:
            await asyncio.sleep(HOLD_S)

    manager.entrypoint(ENTRYPOINT, accepts_context=False)(keep_or_report)
    running = asyncio.create_task(
        manager.run(batch_size=25, max_concurrent_tasks=50, dequeue_timeout=timedelta(seconds=30))
    )
    say({"ready": True})
    await stopping_event().wait()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


ACTIONS: dict[str, Any] = {
    "prepare": prepare,
    "overhead": overhead,
    "fill": fill,
    "work": work,
    "hold": hold,
}

if __name__ == "__main__":
    serve(ACTIONS)
