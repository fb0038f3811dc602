"""P6: how long it takes to cut 200 kB to a quarter, and what a second run embeds again."""

from __future__ import annotations

import importlib.util

from bench.child import ask
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

TEXT_CHARS = 200_000
PERCENT = 25
# Papers of 5,000 tokens or more, of which so many are long enough together.
PAPERS = 12
ASK_MAX_S = 300.0
OURS, PEER = "dialectic", "langchain compressor pipeline"
PEER_CACHED = "the same with its vectors kept"
FIRST = Column("first ms", "first_ms", digits=0)
FIRST_CPU = Column("first CPU ms", "first_cpu_ms", digits=0)
EMBEDDED = Column("embedded", "first_embedded", digits=0)
SECOND = Column("second ms", "second_ms", digits=0)
SECOND_CPU = Column("second CPU ms", "second_cpu_ms", digits=0)
REPEATED = Column("embedded again", "second_embedded", digits=0)


def _contender(name: str, shortener: str, *, remembers: bool) -> Contender:
    def run(server: Server) -> Samples:
        del server  # no database is asked
        options = {
            "shortener": shortener,
            "remembers": remembers,
            "seed": "compression",
            "count": PAPERS,
            "chars": TEXT_CHARS,
            "percent": PERCENT,
        }
        found: Samples = ask("bench.compressors", "twice", options, timeout_s=ASK_MAX_S)
        return found

    return Contender(name, run)


def list_contenders() -> tuple[Contender, ...]:
    """List those that are installed here."""
    ours = _contender(OURS, "ours", remembers=True)
    if importlib.util.find_spec("langchain_community") is None:
        return (ours,)
    return (
        ours,
        _contender(PEER, "langchain", remembers=False),
        _contender(PEER_CACHED, "langchain", remembers=True),
    )


def judge(figures: Figures) -> list[Verdict]:
    first, first_clock = figures.ratio(OURS, PEER), figures.ratio(OURS, PEER, FIRST)
    second = figures.ratio(OURS, PEER_CACHED, SECOND_CPU)
    return [
        judge_at_most("the first time less work than LangChain's compressor", first, 1.0, " ×"),
        judge_at_most("the first time sooner on the clock, too", first_clock, 1.0, " ×"),
        judge_at_most("the second time less work, with its vectors kept", second, 1.0, " ×"),
        judge_at_most(
            "the second time nothing is embedded", figures.value(OURS, REPEATED), 0, " texts"
        ),
    ]


MEASURE = Measure(
    name="compression",
    title="P6 200 kB cut to a quarter",
    contenders=list_contenders(),
    columns=(FIRST_CPU, FIRST, EMBEDDED, SECOND_CPU, SECOND, REPEATED),
    judge=judge,
    ratios_to=(PEER,),
    notes=(
        "weights and vocabulary are loaded; cutting, embedding, choosing and counting are "
        "measured, in processor time; the embedder is the same, builtin/static",
    ),
)
