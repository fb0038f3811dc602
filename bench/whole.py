"""A whole dialectic of three offline models, as a person runs it: how long until all is written?"""

from __future__ import annotations

import tempfile

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server
from bench.start import find_command, time_command

WALL_MAX_S = 15.0
PROMPT = "A small library lends tools to its neighbours."

OURS = "dialectic run"
WALL = Column("wall s", "wall_s")


def _run(server: Server) -> Samples:
    del server
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        time_command([find_command(), "db", "migrate"], home)
        cpu_ms, wall_ms = time_command([find_command(), "run", PROMPT], home)
    return {"wall_s": [wall_ms / 1000], "cpu_s": [cpu_ms / 1000]}


def judge(figures: Figures) -> list[Verdict]:
    aim = f"all 57 documents within {WALL_MAX_S:g} s"
    return [judge_at_most(aim, figures.value(OURS, WALL), WALL_MAX_S, " s")]


MEASURE = Measure(
    name="whole",
    title="A whole dialectic of three offline models",
    contenders=(Contender(OURS, _run),),
    columns=(WALL, Column("CPU s of the command", "cpu_s")),
    judge=judge,
    rounds_max=3,
    notes=(
        "on a home that is set up; the embedded server is started and stopped by the command",
        "offline models take no time but that of their writing, which is most of the CPU time",
    ),
)
