"""Promise 16: three workers under one limit of requests a minute use it, and are not refused."""

from __future__ import annotations

import contextlib
import time

from bench.child import ask, started
from bench.measure import (
    Column,
    Contender,
    Figures,
    Measure,
    Samples,
    Verdict,
    judge_at_least,
    judge_at_most,
)
from bench.server import Server

MODULE = "bench.paced"
WORKERS = 3
PER_MINUTE = 600
JOBS = 700
RUN_S = 50.0
WARM_UP_S = 5.0
LATENCY_S = 1.0
READY_MAX_S = 60.0
STOP_MAX_S = 20.0
REFUSED_MAX_PERCENT = 1.0
USED_MIN_PERCENT = 90.0

OURS = "dialectic"
CLAIMS = """
    select sum(attempt_count)::float8, count(completed_at)::float8
    from dialectic.dialectic_generation_jobs
"""
USED = Column("% of the rate used", "used_percent", digits=1)
REFUSED = Column("% refused", "refused_percent", digits=2)


def _run(server: Server) -> Samples:
    with server.database_for(MODULE) as database, server.scratch_folder() as folder:
        options = {
            "url": server.url(database),
            "folder": folder,
            "jobs": JOBS,
            "per_minute": PER_MINUTE,
            "latency_s": LATENCY_S,
            "warm_up_s": WARM_UP_S,
        }
        ask(MODULE, "fill", options)
        seen = _watch(options)
        ((claims, ended),) = server.fetch(CLAIMS, database=database)
        return {**seen, "claims": [claims / ended]}


def _watch(options: dict[str, object]) -> Samples:
    """Let the workers work for a while, and ask the gate what it saw."""
    with contextlib.ExitStack() as stack:
        gate = stack.enter_context(started(MODULE, "gate", options))
        options = {**options, "port": gate.hear_end("port", READY_MAX_S)}
        workers = [
            stack.enter_context(started(MODULE, "work", options | {"name": f"w{n}"}))
            for n in range(WORKERS)
        ]
        for worker in workers:
            worker.hear(READY_MAX_S)
        for worker in workers:
            worker.go()
        time.sleep(RUN_S)
        gate.stop()
        seen = gate.hear(STOP_MAX_S)
    allowed = PER_MINUTE / 60.0 * seen["counted_s"]
    return {
        "used_percent": [100.0 * seen["counted"] / allowed],
        "refused_percent": [100.0 * seen["refused"] / max(1, seen["asked"])],
    }


def judge(figures: Figures) -> list[Verdict]:
    used, refused = figures.value(OURS, USED), figures.value(OURS, REFUSED)
    return [
        judge_at_least(f"at least {USED_MIN_PERCENT:g} % used", used, USED_MIN_PERCENT, " %"),
        judge_at_most(
            f"at most {REFUSED_MAX_PERCENT:g} % refused", refused, REFUSED_MAX_PERCENT, " %"
        ),
    ]


MEASURE = Measure(
    name="limits",
    title=f"Three workers under a limit of {PER_MINUTE} requests a minute",
    contenders=(Contender(OURS, _run),),
    columns=(USED, REFUSED, Column("claims a call", "claims")),
    judge=judge,
    rounds_max=1,
    notes=(
        f"three worker processes, 64 jobs at a time each; a call takes {LATENCY_S:g} s; the gate "
        "counts over any sixty seconds",
        f"what is used is counted from {WARM_UP_S:g} s after the first call on",
        "a job that comes before its turn is claimed once more",
    ),
)
