"""P22: whole turns a second, and what each costs in processor time, with 64 in flight.

`BENCH_PROFILE=FOLDER` also writes where the product's time goes: by statement and by function.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from bench.child import started
from bench.costs import read_costs, read_cpu_s
from bench.graph import as_options, draw_calls
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import PROFILE, Server
from bench.statements import profile_statements

IN_FLIGHT = 64
TURNS = 640
WARM_UP = 160
DIALECTICS = 6
MODELS = 3
LATENCY_S = 0.1
# What the product keeps of a turn: the document with its head, the record of the call, and the
# documents that are cut out of the answer.
DOCUMENT_BYTES = 6_000
KEPT_BYTES = {"document": 6_300, "record": 12_300, "parts": 6_900}
READY_MAX_S = 180.0
RUN_MAX_S = 180.0
CPU_MAX_MS = 15.0

OURS = "dialectic"
LANGGRAPH, DBOS = "LangGraph", "DBOS"
WHOLE = ", whole dialectics"
CPU = Column("CPU ms a turn", "cpu_ms")


def _contender(name: str, module: str, **more: Any) -> Contender:
    def run(server: Server) -> Samples:
        with server.database_for(module) as database, server.scratch_folder() as folder:
            options = {
                "url": server.url(database),
                "folder": folder,
                "in_flight": IN_FLIGHT,
                "turns": TURNS,
                "warm_up": WARM_UP,
                "models": MODELS,
                "latency_s": LATENCY_S,
                "text_bytes": DOCUMENT_BYTES,
                "calls": as_options(draw_calls(MODELS, median_s=LATENCY_S, seed=1)),
                "kept_bytes": KEPT_BYTES,
                "profile": str(Path(PROFILE) / f"{name}.functions.txt") if PROFILE else None,
                **more,
            }
            return _run(server, module, database, options, name)

    return Contender(name, run)


def _run(server: Server, module: str, database: str, options: dict[str, Any], name: str) -> Samples:
    """Let one process warm up; measure it and the server from there to the last durable byte."""
    with started(module, "capacity", options) as child:
        child.hear(READY_MAX_S)
        with profile_statements(server, database, name):
            costs, cpu_s = read_costs(server, database), read_cpu_s(server)
            child.go()
            done = child.hear(RUN_MAX_S)
            server_cpu_s = read_cpu_s(server) - cpu_s
            cost = read_costs(server, database) - costs
        kept = child.hear(READY_MAX_S)
    turns = done["turns"]
    worker_ms, server_ms = done["cpu_s"] * 1000 / turns, server_cpu_s * 1000 / turns
    return {
        "cpu_ms": [worker_ms + server_ms],
        "worker_cpu_ms": [worker_ms],
        "server_cpu_ms": [server_ms],
        "turns_per_s": [turns / kept["wall_s"]],
        "wal_bytes": [cost.wal_bytes / turns],
        "flushes": [cost.wal_flushes / turns],
        "kept_bytes": [kept["bytes"]],
    }


def judge(figures: Figures) -> list[Verdict]:
    aim = f"a turn takes at most {CPU_MAX_MS:g} ms of processor time, worker and server together"
    verdicts = [judge_at_most(aim, figures.value(OURS, CPU), CPU_MAX_MS, " ms")]
    for kind in ("", WHOLE):
        for peer in (LANGGRAPH, DBOS):
            found = figures.ratio(f"{OURS}{kind}", f"{peer}{kind}")
            aim = f"processor time a turn{kind}: below {peer}"
            verdicts.append(judge_at_most(aim, found, 1.0, f" of {peer}"))
    return verdicts


_MODULES = {
    OURS: "bench.ours",
    LANGGRAPH: "bench.peers.langgraph_peer",
    DBOS: "bench.peers.dbos_peer",
}
MEASURE = Measure(
    name="capacity",
    title=f"P22 Whole turns with {IN_FLIGHT} in flight, {os.cpu_count()} cores",
    contenders=(
        *(_contender(name, module) for name, module in _MODULES.items()),
        *(
            _contender(f"{name}{WHOLE}", module, dialectics=DIALECTICS)
            for name, module in _MODULES.items()
        ),
    ),
    columns=(
        CPU,
        Column("worker", "worker_cpu_ms"),
        Column("server", "server_cpu_ms"),
        Column("turns/s", "turns_per_s", digits=0),
        Column("WAL bytes", "wal_bytes", digits=0),
        Column("flushes", "flushes"),
        Column("bytes kept", "kept_bytes", digits=0),
    ),
    judge=judge,
    ratios_to=(LANGGRAPH, DBOS),
    notes=(
        f"one process, {IN_FLIGHT} turns at a time; a call takes {LATENCY_S:g} s and answers with "
        f"{DOCUMENT_BYTES} bytes; processor time is counted from a warm start until nothing is "
        "left to write",
        "ours: claim, permit, reservation, call, document, record of the call, documents cut out "
        "of it, payment, events, files in storage and the project's description",
        "a peer keeps texts as long as ours in its checkpoint or its step, and no files",
        f"a whole dialectic is the standard process with {MODELS} models, 57 calls, "
        f"{DIALECTICS} at a time; ours includes its plan jobs",
    ),
)
