"""P9: how much memory a worker with many calls in flight takes, and a server that nobody asks."""

from __future__ import annotations

from typing import Any

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

CALLS = 500
WORKER_MAX_MB = 300.0
SERVER_MAX_MB = 120.0

WORKER = f"worker, {CALLS} calls in flight"
SERVER = "server, nobody asks"
PEAK = Column("peak MB", "peak_mb", digits=0)


def _contender(name: str, action: str, **options: Any) -> Contender:
    def run(server: Server) -> Samples:
        found: Samples = server.ask("bench.ours", action, options)
        return found

    return Contender(name, run)


def judge(figures: Figures) -> list[Verdict]:
    return [
        judge_at_most(f"{name}: at most {most:g} MB", figures.value(name, PEAK), most, " MB")
        for name, most in ((WORKER, WORKER_MAX_MB), (SERVER, SERVER_MAX_MB))
    ]


MEASURE = Measure(
    name="memory",
    title="P9 Memory",
    contenders=(
        _contender(WORKER, "worker_memory", calls=CALLS),
        _contender(SERVER, "server_memory"),
    ),
    columns=(PEAK,),
    judge=judge,
    rounds_max=3,
    notes=(
        "the most that the process has had from its start on, libraries and the benchmark's own "
        "modules included",
    ),
)
