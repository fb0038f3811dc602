"""P7: how long a search by vector and words takes among many pieces, and how much it finds."""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any

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

PIECES_VARIABLE = "BENCH_PIECES"
PIECES, QUESTIONS = 50_000, 200
RUN_MAX_S = 3600.0
P95_MAX_MS, RECALL_MIN = 15.0, 0.95

OURS, EXACT = "dialectic", "dialectic, one by one"
PEERS = {
    "pgvector alone, vectors only": ("pgvector", "asyncpg"),
    "Chroma, vectors only": ("chroma", "chromadb"),
    "LanceDB, vectors and words": ("lancedb", "lancedb"),
}
P95 = Column("p95 ms", "search_ms", quantile=0.95, digits=1)
P50 = Column("p50 ms", "search_ms", digits=1)
RECALL = Column("recall@10 of the nearest", "recall", digits=3)


def _build_options() -> dict[str, int]:
    pieces = int(os.environ.get(PIECES_VARIABLE) or PIECES)
    return {"pieces": pieces, "questions": QUESTIONS}


@functools.cache
def _measure_ours(server: Server) -> dict[str, Any]:
    found: dict[str, Any] = server.ask(
        "bench.ours.retrieval", "matching", _build_options(), timeout_s=RUN_MAX_S
    )
    return found


def _ours(name: str, way: str) -> Contender:
    def run(server: Server) -> Samples:
        found: Samples = _measure_ours(server)[way]
        return found

    return Contender(name, run)


def _peer(name: str, action: str) -> Contender:
    def run(server: Server) -> Samples:
        found: Samples = server.ask(
            "bench.peers.vector_stores", action, _build_options(), timeout_s=RUN_MAX_S
        )
        return found

    return Contender(name, run)


def list_contenders() -> tuple[Contender, ...]:
    """List those that are installed here."""
    peers = (
        _peer(name, action)
        for name, (action, package) in PEERS.items()
        if importlib.util.find_spec(package) is not None
    )
    return (_ours(OURS, "index"), _ours(EXACT, "exact"), *peers)


def judge(figures: Figures) -> list[Verdict]:
    return [
        judge_at_most(
            f"p95 at most {P95_MAX_MS:g} ms", figures.value(OURS, P95), P95_MAX_MS, " ms"
        ),
        judge_at_least(
            f"recall@10 at least {RECALL_MIN:g}", figures.value(OURS, RECALL), RECALL_MIN, ""
        ),
    ]


MEASURE = Measure(
    name="matching",
    title=f"P7 Search among {_build_options()['pieces']:,} pieces, under row-level security",
    contenders=list_contenders(),
    columns=(P95, P50, RECALL),
    judge=judge,
    ratios_to=(EXACT,),
    rounds_max=1,
    notes=(
        f"{QUESTIONS} questions, 10 answers each; {PIECES_VARIABLE} sets another number of pieces",
        "ours fuse vectors and words over one connection to the server; the others run inside the "
        "process that asks",
    ),
)
