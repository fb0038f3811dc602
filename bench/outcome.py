"""P17: what each process keeps of what is right and removes of what is wrong, with seeded agents.

Agents without a language model carry points through the product's own prompts: what an answer
states, rejects and forgets is known exactly, so nothing has to be judged.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict
from bench.server import Server

# As in the first measurements: a third of what each knows is shared, a fifth of all is wrong.
WORLD = {"points": 53, "wrong": 12 / 53, "lone": 0.85}
AGENT = {"knows": 0.95, "notices": 0.7, "misjudges": 0.05, "keeps": 0.97, "drops": 0.8}
AGENTS = {f"agent{number}": {**AGENT, "rule": "vote"} for number in (1, 2, 3)}
SEEDS = int(os.environ.get("BENCH_SEEDS", "6"))
ASK_MAX_S = 1800.0
PROCESSES = ("standard", "quick")
FINALS = ("synthesis", "paralysis")

TRUE_KEPT = Column("right kept", "true_kept", digits=3)
FALSE_REMOVED = Column("wrong removed", "false_removed", digits=3)
STEPS = (
    "pairwise_synthesis_chunk",
    "reduced_synthesis",
    "synthesis",
    "parenthesis",
    "paralysis",
)


def judge_run(run: Mapping[str, Any], kind: str) -> tuple[float, float] | None:
    """Compute the share of right points that documents of a kind have, and of wrong ones not."""
    documents = [one for one in run["documents"] if one["type"] == kind]
    if not documents:
        return None
    stated = _unite(one["states"] for one in run["documents"] if one["type"] == "thesis")
    wrong = stated & set(run["wrong"])
    right = stated - wrong
    if kind in ("pairwise_synthesis_chunk", "reduced_synthesis"):
        # These speak of one thesis each: judge all that are made of one thesis together.
        return _judge_parts(documents, right, wrong)
    return (
        fmean(len(right & set(one["states"])) / len(right) for one in documents),
        fmean(len(wrong - set(one["states"])) / len(wrong) for one in documents),
    )


def _judge_parts(
    documents: Collection[Mapping[str, Any]], right: set[str], wrong: set[str]
) -> tuple[float, float]:
    """Compute the same for documents that are about a part of the points each."""
    known = [set(one["states"]) | set(one["rejects"]) for one in documents]
    kept = [(set(one["states"]), about) for one, about in zip(documents, known, strict=True)]
    return (
        fmean(len(right & states) / max(1, len(right & about)) for states, about in kept),
        fmean(len((wrong & about) - states) / max(1, len(wrong & about)) for states, about in kept),
    )


def judge_critics(run: Mapping[str, Any]) -> dict[str, float]:
    """Compute what a perfect judge of the critiques could do: the bound for every merge.

    A judge who drops what most critics of its thesis object to, and one who drops what any does.
    """
    by_id = {one["id"]: one for one in run["documents"]}
    wrong = set(run["wrong"])
    critics: dict[str, list[bool]] = {}
    for critique in run["documents"]:
        if critique["type"] != "antithesis" or critique["about"] not in by_id:
            continue
        for point in by_id[critique["about"]]["states"]:
            critics.setdefault(point, []).append(point in critique["rejects"])
    most = {point for point, said in critics.items() if sum(said) * 2 > len(said)}
    some = {point for point, said in critics.items() if any(said)}
    known = set(critics)
    return {
        f"{name} {what}": len(part) / max(1, len(whole))
        for name, dropped in (("most", most), ("any", some))
        for what, part, whole in (
            ("true", (known - wrong) - dropped, known - wrong),
            ("false", known & wrong & dropped, known & wrong),
        )
    }


def _unite(lists: Iterable[Collection[str]]) -> set[str]:
    return set(itertools.chain.from_iterable(lists))


def _run(server: Server, process: str) -> Samples:
    options = {
        "process": process,
        "seeds": list(range(SEEDS)),
        "world": WORLD,
        "agents": AGENTS,
    }
    runs = server.ask("bench.ours", "outcome", options, timeout_s=ASK_MAX_S)["runs"]
    samples: dict[str, list[float]] = {
        "calls": [run["calls"] for run in runs],
        "tokens": [run["tokens"] / 1000 for run in runs],
    }
    for kind in STEPS:
        judged = [found for run in runs if (found := judge_run(run, kind)) is not None]
        if judged:
            samples[f"{kind} true"] = [fmean(kept for kept, _ in judged)]
            samples[f"{kind} false"] = [fmean(removed for _, removed in judged)]
    bounds = [judge_critics(run) for run in runs]
    samples |= {name: [fmean(one[name] for one in bounds)] for name in bounds[0]}
    last = next(kind for kind in reversed(STEPS) if f"{kind} true" in samples)
    samples["true_kept"] = samples[f"{last} true"]
    samples["false_removed"] = samples[f"{last} false"]
    return samples


def judge(figures: Figures) -> list[Verdict]:
    found = (figures.value("standard", TRUE_KEPT), figures.value("standard", FALSE_REMOVED))
    if None in found:
        return []
    kept, removed = found
    assert kept is not None
    assert removed is not None
    aim = "the checklist of standard keeps at least 0.95 of what is right and removes 0.80 of wrong"
    return [Verdict(aim, f"{kept:.3f} / {removed:.3f}", met=kept >= 0.95 and removed >= 0.80)]


MEASURE = Measure(
    name="outcome",
    title="P17 What a process keeps of what is right, and removes of what is wrong",
    contenders=tuple(Contender(name, partial(_run, process=name)) for name in PROCESSES),
    columns=(
        TRUE_KEPT,
        FALSE_REMOVED,
        Column("calls", "calls", digits=0),
        Column("1,000 tokens", "tokens", digits=0),
        Column("most critics: right", "most true", digits=3),
        Column("wrong", "most false", digits=3),
        Column("any critic: right", "any true", digits=3),
        Column("wrong", "any false", digits=3),
        *(
            column
            for kind in STEPS
            for column in (
                Column(f"{kind} right", f"{kind} true", digits=3),
                Column(f"{kind} wrong removed", f"{kind} false", digits=3),
            )
        ),
    ),
    judge=judge,
    rounds_max=1,
    notes=(
        f"{SEEDS} seeds (BENCH_SEEDS); agents: " + ", ".join(f"{k} {v}" for k, v in AGENT.items()),
        "most critics, any critic: what a judge would reach who drops what they object to; a merge "
        "that decides by the critiques alone ends between the two",
        "the figures of a step are means over its documents; those of the last one come first",
    ),
)
