"""Procrastinate: a job queue on PostgreSQL with a row per job and a commit per move."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import procrastinate
import psycopg

from bench.child import Options, build_text, say, serve, stopping_event, wait_for_go

HOLD_S = 600.0
# Its documentation shows this task at every tenth minute; more often is kinder to it.
RETRY_CRON = "* * * * * */5"  # seconds come last


def build_app(url: str) -> Any:
    """Build its app over one database; the pool is as large as the product's."""
    return procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=10)
    )


async def prepare(options: Options) -> None:
    """Install its schema, and a table for what a job writes."""
    app = build_app(options["url"])
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
    async with await psycopg.AsyncConnection.connect(options["url"], autocommit=True) as own:
        await own.execute("create table written (id bigint primary key, text text not null)")


async def overhead(options: Options) -> dict[str, list[float]]:
    """Time jobs that write one row in a transaction of their own, one at a time."""
    app = build_app(options["url"])
    own = await psycopg.AsyncConnection.connect(options["url"], autocommit=True)
    text = build_text(options["text_bytes"])

    async def write(number: int) -> None:
        await own.execute("insert into written values (%s, %s)", (number, text))

    task = app.task(name="write", queue="bench")(write)
    clock = _time_moves(app)
    claimed_ms, submitted_ms = [], []
    async with app.open_async():
        running = asyncio.create_task(
            app.run_worker_async(
                queues=["bench"],
                concurrency=1,
                install_signal_handlers=False,
                # Some notices reach it while it is not yet waiting; its default is to look again
                # after 5 s, which would change nothing about the median but take a while.
                fetch_job_polling_interval=0.2,
            )
        )
        await asyncio.sleep(0.5)
        for number in range(options["jobs"] + options["warm_up"]):
            submitted = time.perf_counter()
            await task.defer_async(number=number)
            recorded = await clock["recorded"].get()
            if number >= options["warm_up"]:
                claimed_ms.append((recorded - clock["asked_at"]) * 1000)
                submitted_ms.append((recorded - submitted) * 1000)
        jobs = options["jobs"]
        await task.batch_defer_async(*({"number": 1_000_000 + n} for n in range(jobs)))
        started = ended = time.perf_counter()
        for _ in range(jobs):
            ended = await clock["recorded"].get()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    await own.close()
    return {
        "claim_to_done_ms": claimed_ms,
        "submit_to_done_ms": submitted_ms,
        "backlog_ms": [(ended - started) * 1000 / jobs],
    }


def _time_moves(app: Any) -> dict[str, Any]:
    """Note when a fetch that found a job began, and when a job's end was recorded."""
    clock: dict[str, Any] = {"asked_at": 0.0, "recorded": asyncio.Queue()}
    manager = app.job_manager
    fetch_job, finish_job = manager.fetch_job, manager.finish_job

    async def fetch(*args: Any, **kwargs: Any) -> Any:
        asked_at = time.perf_counter()
        found = await fetch_job(*args, **kwargs)
        if found is not None:
            clock["asked_at"] = asked_at
        return found

    async def finish(*args: Any, **kwargs: Any) -> None:
        await finish_job(*args, **kwargs)
        clock["recorded"].put_nowait(time.perf_counter())

    manager.fetch_job, manager.finish_job = fetch, finish
    return clock


async def _nothing(number: int) -> None:
    del number


async def fill(options: Options) -> None:
    """Put jobs into the queue."""
    app = build_app(options["url"])
    task = app.task(name=options.get("task", "nothing"), queue="bench")(_nothing)
    async with app.open_async():
        await task.batch_defer_async(*({"number": n} for n in range(options["jobs"])))


async def work(options: Options) -> None:
    """Take jobs that do nothing, until told to stop."""
    app = build_app(options["url"])
    app.task(name="nothing", queue="bench")(_nothing)
    async with app.open_async():
        await asyncio.to_thread(wait_for_go)
        await _work_until_stopped(app, concurrency=options["concurrency"])


async def hold(options: Options) -> None:
    """Keep jobs, or report those that come; with its task for stalled jobs, or without."""
    app = build_app(options["url"])

    async def keep_or_report(number: int) -> None:
        say({"job": str(number), "at": time.time()})
        if options["keeps"]:
            await asyncio.sleep(HOLD_S)

    async def retry_stalled_jobs(_context: Any, timestamp: int) -> None:
        del timestamp
        for job in await app.job_manager.get_stalled_jobs():
            await app.job_manager.retry_job(job)

    app.task(name="keep_or_report", queue="bench")(keep_or_report)
    if options.get("retries_stalled"):
        task = app.task(
            name="retry_stalled", queue="bench", queueing_lock="retry_stalled", pass_context=True
        )(retry_stalled_jobs)
        app.periodic(cron=RETRY_CRON)(task)
    async with app.open_async():
        say({"ready": True})
        # One more at a time than there are jobs, so that the periodic task finds room.
        await _work_until_stopped(app, concurrency=51)


async def _work_until_stopped(app: Any, *, concurrency: int) -> None:
    running = asyncio.create_task(
        app.run_worker_async(
            queues=["bench"],
            concurrency=concurrency,
            install_signal_handlers=False,
            shutdown_graceful_timeout=0.1,
        )
    )
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
