"""P4: the last of a hundred children has ended; how long until their parent runs again?"""

from __future__ import annotations

from typing import Any

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

CHILDREN = 100
TIMES = 20
DBOS_TIMES = 6  # it takes seconds for each
P99_MAX_MS = 40.0

OURS = "dialectic"
P99 = Column("p99 ms", "woken_ms", quantile=0.99, pooled=True, digits=1)


def _contender(name: str, module: str, **options: Any) -> Contender:
    def run(server: Server) -> Samples:
        given = {"children": CHILDREN, "times": TIMES, **options}
        found: Samples = server.ask(module, "fan_in", given)
        return found

    return Contender(name, run)


def _notice(server: Server) -> Samples:
    found: Samples = server.ask("bench.limits", "commit_and_notify", {"jobs": 100})
    return found


def judge(figures: Figures) -> list[Verdict]:
    p99_ms = figures.value(OURS, P99)
    return [judge_at_most(f"p99 at most {P99_MAX_MS:g} ms", p99_ms, P99_MAX_MS, " ms")]


MEASURE = Measure(
    name="fan-in",
    title="P4 Last of a hundred children ended → parent runs again",
    contenders=(
        Contender("commit and notice", _notice),
        _contender(OURS, "bench.ours"),
        _contender("LangGraph Send", "bench.peers.langgraph_peer"),
        _contender(
            "DBOS, same process", "bench.peers.dbos_peer", times=DBOS_TIMES, through_queue=False
        ),
        _contender("DBOS, queue", "bench.peers.dbos_peer", times=DBOS_TIMES, through_queue=True),
    ),
    columns=(Column("p50 ms", "woken_ms", digits=1), P99),
    judge=judge,
    ratios_to=("commit and notice", "LangGraph Send"),
    notes=(
        f"{TIMES} parents a round, one after the other ({DBOS_TIMES} with DBOS); p99 of all rounds",
        "ours by the database's clock: from the end noted on the last child to the parent's "
        "second claim; children run in one worker, 16 at a time",
        "elsewhere from the end of the last child's function to the parent's next line",
        "DBOS polls its queue and its children every 20 ms here; its default is a second",
    ),
)
