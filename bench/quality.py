"""P13: how good what is found is, on two collections with judgements: nDCG@10 and recall@20."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.child import ChildFailed
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict
from bench.server import Server
from dialectic.retrieval.search import WORD_WEIGHTS

DATA_VARIABLE = "BENCH_DATA"
EMBEDDER_VARIABLE, QUERIES_VARIABLE = "BENCH_EMBEDDER", "BENCH_QUERIES"
COLLECTIONS = ("cranfield", "cisi")
RUN_MAX_S = 3600.0
GAIN_MIN = 1.03

OURS = "dialectic, vectors and words"
SINGLES = ("words alone (BM25)", "vectors alone")
PLAIN = "plain rank fusion"
ANGLES = "dialectic, from three angles"
OVERLAP_MAX = 0.6
# The union of the angles ranks about as the need alone: what it adds is further down.
UNION_MIN = 0.98
COLUMNS = tuple(
    Column(f"{name} {head}", f"{name} {metric}", digits=3)
    for name in COLLECTIONS
    for head, metric in (("nDCG@10", "ndcg"), ("recall@20", "recall"), ("overlap", "overlap"))
)


def choose_embedder() -> str:
    return os.environ.get(EMBEDDER_VARIABLE) or "builtin/static"


@functools.cache
def _measure(server: Server) -> dict[str, Any]:
    """Index both collections once and rank by every way."""
    folder = Path(os.environ.get(DATA_VARIABLE) or "")
    if not os.environ.get(DATA_VARIABLE) or not (folder / COLLECTIONS[0]).is_dir():
        raise ChildFailed(
            f"skipped: {DATA_VARIABLE} names no folder with {' and '.join(COLLECTIONS)} in it"
        )
    embedder = choose_embedder()
    options = {
        "data": str(folder.resolve()),
        "collections": COLLECTIONS,
        "embedder": embedder,
        "queries": int(os.environ.get(QUERIES_VARIABLE) or 0),
        "ours": OURS,
        "angles": ANGLES,
        "weights": {OURS: WORD_WEIGHTS[embedder], SINGLES[0]: 2.0, SINGLES[1]: 0.0, PLAIN: 1.0},
    }
    found: dict[str, Any] = server.ask(
        "bench.ours.retrieval", "quality", options, timeout_s=RUN_MAX_S
    )
    return found


def _contender(name: str) -> Contender:
    def run(server: Server) -> Samples:
        found: Samples = _measure(server)[name]
        return found

    return Contender(name, run)


def judge(figures: Figures) -> list[Verdict]:
    verdicts, gains = [], []
    for column in (column for column in COLUMNS if column.metric.endswith("ndcg")):
        ours = figures.value(OURS, column)
        singles = [figures.value(name, column) for name in SINGLES]
        known = [value for value in singles if value is not None]
        if ours is None or len(known) < len(SINGLES):
            verdicts.append(Verdict(f"{column.head}: at least the best single", "skipped", None))
            continue
        gains.append(ours / max(known))
        verdicts.append(
            Verdict(
                f"{column.head}: at least the best single",
                f"{ours:.3f} to {max(known):.3f}",
                ours >= max(known),
            )
        )
    if gains:
        verdicts.append(
            Verdict(
                f"on one collection at least {GAIN_MIN - 1:.0%} better than the best single",
                f"{max(gains) - 1:+.1%}",
                max(gains) >= GAIN_MIN,
            )
        )
    return verdicts + list(_judge_angles(figures))


def _judge_angles(figures: Figures) -> Iterator[Verdict]:
    """Judge the angles of a task: they find different pieces, and together no worse ones."""
    for column in COLUMNS:
        found, alone = figures.value(ANGLES, column), figures.value(OURS, column)
        if found is not None and column.metric.endswith("overlap"):
            claim = f"{column.head} of two angles' first 50 pieces at most {OVERLAP_MAX:.0%}"
            yield Verdict(claim, f"{found:.0%}", found <= OVERLAP_MAX)
        elif found is not None and alone is not None and column.metric.endswith("ndcg"):
            claim = f"{column.head} of all angles together: at least {UNION_MIN:.0%} of one"
            yield Verdict(claim, f"{found:.3f} to {alone:.3f}", found >= UNION_MIN * alone)


MEASURE = Measure(
    name="quality",
    title="P13 How good what is found is",
    contenders=tuple(map(_contender, (OURS, *SINGLES, PLAIN, ANGLES))),
    columns=COLUMNS,
    judge=judge,
    rounds_max=1,
    notes=(
        f"by the embedder `{choose_embedder()}` ({EMBEDDER_VARIABLE} names another); the "
        f"collections are read from {DATA_VARIABLE}",
    ),
)
