"""P2: a whole dialectic of three models with uneven latencies, against its critical path."""

from __future__ import annotations

import itertools
from typing import Any

from bench.graph import as_options, draw_calls, find_critical_path_s, find_stepwise_s
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

MODELS = 3
MEDIAN_S = 1.0
TEXT_BYTES = 6_000  # about what an offline model writes
TIMES_PATH_MAX = 1.05

OURS = "dialectic"
TIMES_PATH = Column("× critical path", "times_path", digits=3)


def _contender(name: str, module: str, **more: Any) -> Contender:
    # Each round has latencies of its own, and all contenders of a round have the same.
    seeds = itertools.count(1)

    def run(server: Server) -> Samples:
        calls = draw_calls(MODELS, median_s=MEDIAN_S, seed=next(seeds))
        options = {"calls": as_options(calls), "text_bytes": TEXT_BYTES, "models": MODELS, **more}
        wall_s = server.ask(module, "dialectic", options)["wall_s"]
        path_s = find_critical_path_s(calls)
        return {
            "times_path": [wall_s / path_s],
            "wall_s": [wall_s],
            "over_ms": [(wall_s - path_s) * 1000],
            "path_s": [path_s],
            "stepwise": [find_stepwise_s(calls) / path_s],
        }

    return Contender(name, run)


def judge(figures: Figures) -> list[Verdict]:
    aim = f"at most {TIMES_PATH_MAX:g} × the critical path"
    return [judge_at_most(aim, figures.value(OURS, TIMES_PATH), TIMES_PATH_MAX, " ×")]


MEASURE = Measure(
    name="critical-path",
    title="P2 A whole dialectic, three models and 57 calls of uneven length",
    contenders=(
        _contender(OURS, "bench.ours"),
        _contender("LangGraph, Send per step", "bench.peers.langgraph_peer"),
        _contender("DBOS, step after step", "bench.peers.dbos_peer", by_inputs=False),
        _contender("DBOS, by inputs", "bench.peers.dbos_peer", by_inputs=True),
    ),
    columns=(
        TIMES_PATH,
        Column("wall s", "wall_s"),
        Column("over it ms", "over_ms", digits=0),
        Column("path s", "path_s"),
        Column("limit of step after step", "stepwise", digits=3),
    ),
    judge=judge,
    notes=(
        f"each call sleeps for a drawn time, {MEDIAN_S:g} s in the median, log-normal, and answers "
        f"with {TEXT_BYTES} bytes; each round draws anew, for all alike",
        "the critical path is the longest chain of calls, where one begins when its own inputs are "
        "there; who lets a step wait for all of the one before it cannot do better than the last "
        "column",
        "ours from the start of the session to the last file in storage, one worker as a run has "
        "it; elsewhere from the call of the graph or workflow to its return",
        "DBOS polls its queue and its children every 20 ms here; its default is a second",
    ),
)
