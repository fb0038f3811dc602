"""P3: how many jobs that do nothing two worker processes carry out and record in a second."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.child import ask, started
from bench.costs import Costs, read_costs
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_least
from bench.server import Server

WORKERS = 2
CONCURRENCY = 50
ROUND_MAX_S = 60.0
LOOK_EVERY_S = 0.05
SHARE_OF_PGQUEUER_MIN = 0.5

OURS = "dialectic"
PGQUEUER = "PgQueuer alone"


@dataclass(frozen=True)
class Queue:
    """How a contender's jobs are made, and how its database tells when they began and ended."""

    module: str
    jobs: int
    # Yields how many have ended, when the first one began and when the last one ended.
    progress: str
    options: Mapping[str, Any] = field(default_factory=dict)


OUR_PROGRESS = """
    select count(completed_at), extract(epoch from min(started_at))::float8,
      extract(epoch from max(completed_at))::float8
    from dialectic.dialectic_generation_jobs
"""
QUEUES = {
    "one job a commit": Queue(
        "bench.limits",
        4000,
        "select count(done_at), null, extract(epoch from max(done_at))::float8 from raw_jobs",
        {"batch_jobs": 1},
    ),
    "fifty jobs a commit": Queue(
        "bench.limits",
        20_000,
        "select count(done_at), null, extract(epoch from max(done_at))::float8 from raw_jobs",
        {"batch_jobs": 50},
    ),
    PGQUEUER: Queue(
        "bench.peers.pgqueuer_raw",
        6000,
        """
        select count(*) filter (where status = 'successful'),
          extract(epoch from min(created) filter (where status = 'picked'))::float8,
          extract(epoch from max(created) filter (where status = 'successful'))::float8
        from pgqueuer_log
        """,
    ),
    OURS: Queue("bench.ours", 2000, OUR_PROGRESS),
    "dialectic, 100 tenants": Queue("bench.ours", 2000, OUR_PROGRESS, {"tenants": 100}),
    "Procrastinate": Queue(
        "bench.peers.procrastinate_peer",
        600,
        """
        select count(*) filter (where type = 'succeeded'),
          extract(epoch from min(at) filter (where type = 'started'))::float8,
          extract(epoch from max(at) filter (where type = 'succeeded'))::float8
        from procrastinate_events
        """,
    ),
    "DBOS": Queue(
        "bench.peers.dbos_peer",
        800,
        """
        select count(*) filter (where status = 'SUCCESS'),
          min(started_at_epoch_ms) / 1000.0::float8,
          max(updated_at) filter (where status = 'SUCCESS') / 1000.0::float8
        from dbos.workflow_status
        """,
    ),
}


def _run(queue: Queue, server: Server) -> Samples:
    """Fill the queue, let two processes empty it, and see what that took."""
    with (
        contextlib.ExitStack() as stack,
        server.database_for(queue.module) as name,
        server.scratch_folder() as folder,
    ):
        options = {
            "url": server.url(name),
            "folder": folder,
            "jobs": queue.jobs,
            "concurrency": CONCURRENCY,
            **queue.options,
        }
        ask(queue.module, "fill", options)
        with stack:
            workers = [
                stack.enter_context(started(queue.module, "work", options | {"name": f"w{n}"}))
                for n in range(WORKERS)
            ]
            for worker in workers:
                worker.hear(30.0)
            before = read_costs(server, name)
            went_at = time.time()
            for worker in workers:
                worker.go()
            began_at, ended_at = _wait(queue, server, name)
            for worker in workers:
                worker.stop()
            cpu_s = sum(worker.hear_end("cpu_s", 20.0) for worker in workers)
        cost = read_costs(server, name) - before
    return _samples(queue.jobs, ended_at - (began_at or went_at), cpu_s, cost)


def _wait(queue: Queue, server: Server, name: str) -> tuple[float | None, float]:
    deadline = time.monotonic() + ROUND_MAX_S
    done = 0
    while time.monotonic() < deadline:
        done, began_at, ended_at = server.fetch(queue.progress, database=name)[0]
        if done >= queue.jobs:
            return began_at, ended_at
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{done} of {queue.jobs} jobs were done after {ROUND_MAX_S:.0f} s")


def _samples(jobs: int, elapsed_s: float, worker_cpu_s: float, cost: Costs) -> Samples:
    return {
        "jobs_per_s": [jobs / elapsed_s],
        "commits": [cost.commits / jobs],
        "rows": [cost.rows_written / jobs],
        "wal_bytes": [cost.wal_bytes / jobs],
        "flushes": [cost.wal_flushes / jobs],
        "worker_cpu_ms": [worker_cpu_s * 1000 / jobs],
        "server_cpu_ms": [cost.cpu_s * 1000 / jobs] if cost.cpu_s else [],
    }


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
        for name in (OURS, "dialectic, 100 tenants")
    ]


MEASURE = Measure(
    name="throughput",
    title="P3 Jobs a second that do nothing, two worker processes",
    contenders=tuple(_contender(name, queue) for name, queue in QUEUES.items()),
    columns=(
        Column("jobs/s", "jobs_per_s", digits=0),
        Column("commits", "commits"),
        Column("rows written", "rows"),
        Column("WAL bytes", "wal_bytes", digits=0),
        Column("flushes", "flushes"),
        Column("worker CPU ms", "worker_cpu_ms"),
        Column("server CPU ms", "server_cpu_ms"),
    ),
    judge=judge,
    ratios_to=(PGQUEUER, "one job a commit"),
    notes=(
        "all but the first column are per job; commits include reads, each a transaction too",
        f"{CONCURRENCY} jobs at a time in each process; a job counts when its end is recorded in "
        "the database; DBOS polls every 20 ms",
        "ours are sessions that ask ten models each, all of one tenant, or of a hundred",
        "the first two rows are bare statements: claim, then record the end",
    ),
)
