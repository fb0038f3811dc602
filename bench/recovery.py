"""P12: one of two workers is killed with fifty jobs in flight; when does each job run again?"""

from __future__ import annotations

import contextlib
import time
from typing import Any

from bench.child import Child, ChildFailed, ask, started
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

JOBS = 50
START_MAX_S = 60.0
# A survivor that has just started is not yet in its stride.
SETTLE_S = 2.0
WAIT_MAX_S = 30.0
WAIT_LONGER_MAX_S = 45.0
P99_MAX_S = 12.0

OURS = "dialectic"
P99 = Column("p99 s", "recovered_s", quantile=0.99, pooled=True, digits=1)


def _contender(name: str, module: str, wait_max_s: float = WAIT_MAX_S, **more: Any) -> Contender:
    def run(server: Server) -> Samples:
        with (
            server.database_for(module) as database,
            server.scratch_folder() as folder,
            contextlib.ExitStack() as stack,
        ):
            options = {"url": server.url(database), "folder": folder, "jobs": JOBS, **more}
            if not more.get("fills_itself"):
                ask(module, "fill", options | {"task": "keep_or_report"})
            victim = stack.enter_context(started(module, "hold", _role(options, keeps=True)))
            held = len(_hear_jobs(victim, START_MAX_S))
            if held != JOBS:
                raise ChildFailed(f"{held} jobs were in flight, {JOBS} should be")
            survivor = stack.enter_context(started(module, "hold", _role(options, keeps=False)))
            survivor.hear_end("ready", START_MAX_S)
            time.sleep(SETTLE_S)
            killed_at = victim.kill()
            times = _hear_jobs(survivor, wait_max_s)
        return {
            "recovered_s": [at - killed_at for at in times],
            "recovered": [float(len(times))],
        }

    return Contender(name, run)


def _role(options: dict[str, Any], *, keeps: bool) -> dict[str, Any]:
    enqueues = JOBS if keeps and options.get("fills_itself") else 0
    name = "victim" if keeps else "survivor"
    return options | {"keeps": keeps, "name": name, "enqueues": enqueues}


def _hear_jobs(child: Child, wait_max_s: float) -> list[float]:
    """Wait until it has told of every job, but not for ever; return the times it told."""
    deadline = time.monotonic() + wait_max_s
    times: dict[str, float] = {}
    while len(times) < JOBS and time.monotonic() < deadline:
        try:
            said = child.hear(deadline - time.monotonic())
        except TimeoutError:
            break
        if "job" in said:
            times.setdefault(said["job"], said["at"])
    return list(times.values())


def judge(figures: Figures) -> list[Verdict]:
    aim = f"p99 at most {P99_MAX_S:g} s, and every job"
    counts = [count for one in figures.samples(OURS, "recovered") for count in one]
    if counts and min(counts) < JOBS:
        return [Verdict(aim, f"only {min(counts):.0f} of {JOBS} jobs came back", met=False)]
    return [judge_at_most(aim, figures.value(OURS, P99), P99_MAX_S, " s")]


MEASURE = Measure(
    name="recovery",
    title="P12 kill -9 of a worker with fifty jobs in flight → each job claimed again",
    contenders=(
        _contender(OURS, "bench.ours"),
        _contender("PgQueuer as shipped", "bench.peers.pgqueuer_raw", WAIT_LONGER_MAX_S),
        _contender("Procrastinate as shipped", "bench.peers.procrastinate_peer"),
        _contender(
            "Procrastinate, stalled task",
            "bench.peers.procrastinate_peer",
            WAIT_LONGER_MAX_S,
            retries_stalled=True,
        ),
        _contender("DBOS as shipped", "bench.peers.dbos_peer", fills_itself=True),
    ),
    columns=(
        Column("p50 s", "recovered_s", digits=1),
        P99,
        Column("jobs back of 50", "recovered", digits=0),
    ),
    judge=judge,
    together=True,
    notes=(
        f"waited {WAIT_MAX_S:.0f} s after the kill, {WAIT_LONGER_MAX_S:.0f} s for PgQueuer and for "
        "Procrastinate with its task; a dash means that no job came back in that time",
        "ours with its default lease of 6 s; all others with their defaults",
        "Procrastinate recovers nothing by itself; its documentation shows a task for every tenth "
        "minute that does, run here every 5 s",
        "DBOS leaves a dead executor's work to its restart, or to a control plane sold apart",
    ),
)
