"""P8: an event is committed; how long until it has come to each of many clients?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.child import Options, started
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

OURS = "dialectic"
MODULE = "bench.ours.events"
START_MAX_S = 60.0
PATIENCE_S = 30.0


@dataclass(frozen=True)
class Load:
    """So many clients, so many events a second, for a while."""

    name: str
    clients: int
    per_s: float
    seconds: float
    p95_max_ms: float

    @property
    def events(self) -> int:
        return int(self.per_s * self.seconds)

    @property
    def words(self) -> str:
        return f"{self.clients:,} × {self.per_s:g}/s"


FEW_OFTEN = Load("few_often", clients=200, per_s=10, seconds=10, p95_max_ms=80.0)
MANY_SELDOM = Load("many_seldom", clients=1000, per_s=1, seconds=10, p95_max_ms=300.0)
LOADS = (FEW_OFTEN, MANY_SELDOM)


def _contender(name: str, module: str) -> Contender:
    def run(server: Server) -> Samples:
        found: dict[str, Any] = {"missing": [0.0], "disordered": [0.0]}
        with server.database_for(MODULE) as database, server.scratch_folder() as folder:
            options = {"url": server.url(database), "folder": folder}
            with started(module, "serve_events", options) as serving:
                port = serving.hear_end("port", START_MAX_S)
                for load in LOADS:
                    seen = _bear(load, port, options, serving)
                    found[load.name] = seen["late_ms"]
                    for key in ("missing", "disordered"):
                        found[key] = [found[key][0] + seen[key]]
                serving.stop()
                found["cpu_s"] = [serving.hear_end("cpu_s", START_MAX_S)]
        return found

    return Contender(name, run)


def _bear(load: Load, port: int, options: Options, serving: Any) -> Any:
    """Let clients follow while events are written; return what they saw."""
    wanted = {"port": port, "clients": load.clients, "events": load.events}
    given = {**wanted, "patience_s": load.seconds + PATIENCE_S}
    writing = {**options, "events": load.events, "per_s": load.per_s}
    with started("bench.event_clients", "follow", given) as clients:
        clients.hear_end("connected", START_MAX_S)
        if load is LOADS[0]:
            serving.count_from_now()
        with started(MODULE, "write_events", writing) as writer:
            writer.hear(load.seconds + START_MAX_S)
        return clients.hear(load.seconds + PATIENCE_S + START_MAX_S)


def _column(load: Load, quantile: float) -> Column:
    head = f"{load.words} p{quantile * 100:.0f} ms"
    return Column(head, load.name, quantile=quantile, digits=1)


P95 = {load.name: _column(load, 0.95) for load in LOADS}
MISSING = Column("missing", "missing", digits=0)
DISORDERED = Column("out of order", "disordered", digits=0)


def judge(figures: Figures) -> list[Verdict]:
    late = [
        judge_at_most(
            f"{load.words}: p95 at most {load.p95_max_ms:g} ms",
            figures.value(OURS, P95[load.name]),
            load.p95_max_ms,
            " ms",
        )
        for load in LOADS
    ]
    return [*late, judge_at_most("none missing", figures.value(OURS, MISSING), 0, "")]


MEASURE = Measure(
    name="events",
    title="P8 Event committed → client, one process",
    contenders=(
        _contender(OURS, MODULE),
        _contender("sse-starlette, rendered per client", "bench.peers.sse_starlette_peer"),
    ),
    columns=(
        P95[FEW_OFTEN.name],
        _column(FEW_OFTEN, 0.5),
        P95[MANY_SELDOM.name],
        _column(MANY_SELDOM, 0.5),
        Column("CPU s of the server", "cpu_s", digits=1),
        MISSING,
        DISORDERED,
    ),
    judge=judge,
    rounds_max=3,
    notes=(
        "from the moment before an event is written, in a transaction of its own, until its bytes "
        "have arrived; the way through the database is in it",
        "clients on raw sockets share one process, the writer has another, the server a third: "
        "on two cores they wait for each other",
        "both read events by the same hub; the peer renders JSON and frame for each client",
    ),
)
