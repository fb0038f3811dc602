"""P14: how many planted facts survive when a document is cut to 10, 25 and 50 % of its tokens."""

from __future__ import annotations

import importlib.util
import os

from bench.child import ask
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict
from bench.server import Server

# Other seeds, and other forms of facts, than those it was tuned with.
SEED = "report 2"
DOCUMENTS = 12
ASK_MAX_S = 900.0
BUDGETS_PERCENT = (10, 25, 50)
CORPORA = {"papers": "papers", "cranfield+cisi": "Cranfield", "cisi+cranfield": "CISI"}
OURS = "dialectic"
PEERS = {
    "head": "head cut",
    "middle": "middle dropped",
    "oldest": "oldest dropped",
    "filter": "embedding filter, pieces",
    "fine filter": "embedding filter, sentences",
}
LANGCHAIN = "langchain compressor pipeline"
COLUMNS = tuple(
    Column(f"{name} {percent} %", f"{corpus} {percent}", digits=1)
    for corpus, name in CORPORA.items()
    for percent in BUDGETS_PERCENT
)


def _contender(name: str, shortener: str) -> Contender:
    def run(server: Server) -> Samples:
        del server  # no database is asked
        options = {
            "shortener": shortener,
            "corpora": list(CORPORA),
            "seed": SEED,
            "count": DOCUMENTS,
            "data": os.environ.get("BENCH_DATA"),
        }
        found: Samples = ask("bench.compressors", "facts", options, timeout_s=ASK_MAX_S)
        return found

    return Contender(name, run)


def list_contenders() -> tuple[Contender, ...]:
    """List those that are installed here."""
    found = [_contender(OURS, "ours")]
    found += [_contender(name, shortener) for shortener, name in PEERS.items()]
    if importlib.util.find_spec("langchain_community") is not None:
        found.append(_contender(LANGCHAIN, "langchain"))
    return tuple(found)


def judge(figures: Figures) -> list[Verdict]:
    """Judge each budget of each corpus: ours must be the best."""
    verdicts = []
    for column in COLUMNS:
        ours = figures.value(OURS, column)
        others = {
            contender.name: value
            for contender in figures.measure.contenders
            if contender.name != OURS
            and (value := figures.value(contender.name, column)) is not None
        }
        aim = f"{column.head}: most facts kept"
        if ours is None or not others:
            verdicts.append(Verdict(aim, "not measured", None))
            continue
        best = max(others, key=lambda name: others[name])
        found = f"{ours:.1f} %, next {best} {others[best]:.1f} %"
        verdicts.append(Verdict(aim, found, ours >= others[best]))
    return verdicts


MEASURE = Measure(
    name="facts",
    title="P14 Facts that survive compression, in percent",
    contenders=list_contenders(),
    columns=COLUMNS,
    judge=judge,
    rounds_max=1,
    notes=(
        f"{DOCUMENTS} documents of 5,000 to 20,000 tokens in each corpus; nothing but the seed "
        "decides, so there is one round",
        "papers: written by seed; Cranfield: its abstracts with sentences of CISI planted; CISI: "
        "the other way round. The two are left out unless BENCH_DATA names a folder that has them",
    ),
)
