"""P3: how many jobs that do nothing two worker processes carry out and record in a second."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.child import Child, ask, started
from bench.costs import read_costs, read_cpu_s
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_least
from bench.server import Server

WORKERS = 2
CONCURRENCY = 50
ROUND_MAX_S = 60.0
READY_MAX_S = 30.0
STOP_MAX_S = 20.0
LOOK_EVERY_S = 0.02
WARM_UP_SHARE = 0.25
SHARE_OF_PGQUEUER_MIN = 0.5

OURS = "dialectic"
MANY_TENANTS = "dialectic, 100 tenants"
PGQUEUER = "PgQueuer alone"


@dataclass(frozen=True)
class Queue:
    """How a contender's jobs are made, and how its database tells how many have ended."""

    module: str
    jobs: int
    # Yields how many have ended, and when the last one of them did.
    progress: str
    options: Mapping[str, Any] = field(default_factory=dict)


RAW_PROGRESS = "select count(done_at), extract(epoch from max(done_at))::float8 from raw_jobs"
OUR_PROGRESS = """
    select count(completed_at), extract(epoch from max(completed_at))::float8
    from dialectic.dialectic_generation_jobs
"""
QUEUES = {
    "one job a commit": Queue("bench.limits", 4000, RAW_PROGRESS, {"batch_jobs": 1}),
    "fifty jobs a commit": Queue("bench.limits", 40_000, RAW_PROGRESS, {"batch_jobs": 50}),
    PGQUEUER: Queue(
        "bench.peers.pgqueuer_raw",
        20_000,
        """
        select count(*), extract(epoch from max(created))::float8
        from pgqueuer_log where status = 'successful'
        """,
    ),
    OURS: Queue("bench.ours", 2000, OUR_PROGRESS),
    MANY_TENANTS: Queue("bench.ours", 2000, OUR_PROGRESS, {"tenants": 100}),
    "Procrastinate": Queue(
        "bench.peers.procrastinate_peer",
        800,
        """
        select count(*), extract(epoch from max(at))::float8
        from procrastinate_events where type = 'succeeded'
        """,
    ),
    "DBOS": Queue(
        "bench.peers.dbos_peer",
        800,
        """
        select count(*), max(updated_at) / 1000.0::float8
        from dbos.workflow_status where status = 'SUCCESS'
        """,
    ),
}


Look = Callable[[], tuple[int, float]]


@dataclass(frozen=True)
class Stretch:
    """A part of the run: how many jobs ended in it, how long it was, what it cost."""

    jobs: int
    elapsed_s: float
    server_cpu_s: float


def _run(queue: Queue, server: Server) -> Samples:
    """Fill the queue, let two processes empty it, and see what that took."""
    with server.database_for(queue.module) as name, server.scratch_folder() as folder:
        options = {
            "url": server.url(name),
            "folder": folder,
            "jobs": queue.jobs,
            "concurrency": CONCURRENCY,
            **queue.options,
        }
        ask(queue.module, "fill", options)
        with contextlib.ExitStack() as stack:
            workers = [
                stack.enter_context(started(queue.module, "work", options | {"name": f"w{n}"}))
                for n in range(WORKERS)
            ]
            for worker in workers:
                worker.hear(READY_MAX_S)
            before = read_costs(server, name)
            for worker in workers:
                worker.go()
            with server.connected(name) as fetch:
                stretch = _watch(queue, lambda: fetch(queue.progress)[0], server, workers)
            for worker in workers:
                worker.stop()
            worker_cpu_s = sum(worker.hear_end("cpu_s", STOP_MAX_S) for worker in workers)
        cost = read_costs(server, name) - before
    return {
        "jobs_per_s": [stretch.jobs / stretch.elapsed_s],
        "worker_cpu_ms": [worker_cpu_s * 1000 / stretch.jobs],
        "server_cpu_ms": [stretch.server_cpu_s * 1000 / stretch.jobs],
        "commits": [cost.commits / queue.jobs],
        "rows": [cost.rows_written / queue.jobs],
        "wal_bytes": [cost.wal_bytes / queue.jobs],
        "flushes": [cost.wal_flushes / queue.jobs],
    }


def _watch(queue: Queue, look: Look, server: Server, workers: list[Child]) -> Stretch:
    """Wait until all jobs have ended, and measure the stretch after the first quarter of them.

    New connections compile and plan everything they run for the first time; a worker lives long
    enough for that not to matter.
    """
    deadline = time.monotonic() + ROUND_MAX_S
    begun: tuple[int, float, float] | None = None
    done = 0
    while time.monotonic() < deadline:
        done, ended_at = look()
        if begun is None and done >= queue.jobs * WARM_UP_SHARE:
            for worker in workers:
                worker.count_from_now()
            begun = done, ended_at, read_cpu_s(server)
        if begun is not None and done >= queue.jobs:
            jobs = done - begun[0]
            assert jobs > 0, "all jobs had ended before the measuring began"
            return Stretch(jobs, ended_at - begun[1], read_cpu_s(server) - begun[2])
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{done} of {queue.jobs} jobs were done after {ROUND_MAX_S:.0f} s")


def _contender(name: str, queue: Queue) -> Contender:
    return Contender(name, lambda server: _run(queue, server))


def judge(figures: Figures) -> list[Verdict]:
    return [
        judge_at_least(
            f"{name}: at least {SHARE_OF_PGQUEUER_MIN:g} of PgQueuer alone",
            figures.ratio(name, PGQUEUER),
            SHARE_OF_PGQUEUER_MIN,
            " ×",
        )
        for name in (OURS, MANY_TENANTS)
    ]


MEASURE = Measure(
    name="throughput",
    title="P3 Jobs a second that do nothing, two worker processes",
    contenders=tuple(_contender(name, queue) for name, queue in QUEUES.items()),
    columns=(
        Column("jobs/s", "jobs_per_s", digits=0),
        Column("worker CPU ms", "worker_cpu_ms"),
        Column("server CPU ms", "server_cpu_ms"),
        Column("commits", "commits"),
        Column("rows written", "rows"),
        Column("WAL bytes", "wal_bytes", digits=0),
        Column("flushes", "flushes"),
    ),
    judge=judge,
    ratios_to=(PGQUEUER, "one job a commit"),
    notes=(
        "all but the first column are per job; commits include reads, each a transaction too",
        f"{CONCURRENCY} jobs at a time in each process; a job counts when its end is recorded in "
        "the database; DBOS polls every 20 ms",
        "rate and CPU time are those of the last three quarters of the jobs: connections are warm",
        "ours are sessions that ask ten models each, all of one tenant, or of a hundred",
        "the first two rows are bare statements: claim, then record the end",
    ),
)
