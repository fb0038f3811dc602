"""P5: how long it takes to assemble a prompt of 200 kB and count its tokens, new and known."""

from __future__ import annotations

import importlib.util

from bench.child import ask
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server

REPEATS = 10
ASK_MAX_S = 300.0
COLD_MAX_MS, WARM_MAX_MS, MEGABYTE_MAX_MS = 150.0, 5.0, 500.0

OURS, PEER = "dialectic", "langchain trim_messages + tiktoken"
COUNTED = "dialectic, 1 MB of Markdown"
COLD = Column("cold ms", "cold_ms", digits=1)
WARM = Column("warm ms", "warm_ms")
MEGABYTE = Column("1 MB ms", "megabyte_ms", digits=0)
FIRST = Column("first of a process, CPU ms", "first_cpu_ms", digits=0)


def _contender(name: str, action: str) -> Contender:
    def run(server: Server) -> Samples:
        del server  # no database is asked
        found: Samples = ask("bench.prompts", action, {"repeats": REPEATS}, timeout_s=ASK_MAX_S)
        return found

    return Contender(name, run)


def list_contenders() -> tuple[Contender, ...]:
    """List those that are installed here."""
    ours = (_contender(OURS, "assemble"), _contender(COUNTED, "count"))
    has_peer = importlib.util.find_spec("langchain_core") is not None
    return (*ours, _contender(PEER, "trim")) if has_peer else ours


def judge(figures: Figures) -> list[Verdict]:
    return [
        judge_at_most(
            f"200 kB of new sources, assembled and counted, at most {COLD_MAX_MS:g} ms",
            figures.value(OURS, COLD),
            COLD_MAX_MS,
            " ms",
        ),
        judge_at_most(
            f"of known sources at most {WARM_MAX_MS:g} ms",
            figures.value(OURS, WARM),
            WARM_MAX_MS,
            " ms",
        ),
        *(
            judge_at_most(
                f"1 MB of Markdown, {what}, at most {MEGABYTE_MAX_MS:g} ms",
                figures.value(COUNTED, column),
                MEGABYTE_MAX_MS,
                " ms",
            )
            for what, column in (
                ("vocabulary loaded", MEGABYTE),
                ("with the vocabulary still to be loaded", FIRST),
            )
        ),
    ]


MEASURE = Measure(
    name="assembly",
    title="P5 A prompt assembled and counted",
    contenders=list_contenders(),
    columns=(COLD, WARM, MEGABYTE, FIRST),
    judge=judge,
    ratios_to=(PEER,),
    notes=(
        "ten sources of 20 kB; cold: the vocabulary is loaded and every text is new; warm: the "
        "same once more",
    ),
)
