"""Ways to find planted points again, as contenders: ours, parts of ours, and no lineage at all.

`python -m bench.point_search tune` searches the constants on the half of the forms that serves to
tune; nothing of the other half is read there.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.child import Options, serve
from bench.planted import STEPS, Document, Material, choose_forms, plant, strip_labels
from bench.planted_dissent import measure_dissent
from dialectic.core.points import Status
from dialectic.core.process.definition import Holds
from dialectic.provenance.align import CONSTANTS, Alignment, Constants
from dialectic.provenance.chain import Chains
from dialectic.provenance.coverage import judge_coverage
from dialectic.provenance.figures import list_figures
from dialectic.provenance.marks import find_figures
from dialectic.provenance.score import Weights, limit_threads
from dialectic.provenance.texts import Lineage, Role, build_lineage
from dialectic.retrieval.built_in import load_static_model

MATERIALS = {
    "reworded": (("facts", "ideas"), True),
    "verbatim": (("facts", "ideas"), False),
    "far": (("far",), True),
    "german": (("german",), True),
    "chinese": (("chinese",), True),
}
SEEDS = 8


@dataclass
class Tally:
    """What was found, against what is true."""

    counts: Counter[str]

    def add(self, name: str, *, found: bool, true: bool) -> None:
        self.counts[f"{name} found"] += found
        self.counts[f"{name} true"] += true
        self.counts[f"{name} both"] += found and true

    def precision(self, name: str) -> float:
        return self.counts[f"{name} both"] / max(self.counts[f"{name} found"], 1)

    def recall(self, name: str) -> float:
        return self.counts[f"{name} both"] / max(self.counts[f"{name} true"], 1)

    def f1(self, name: str) -> float:
        p, r = self.precision(name), self.recall(name)
        return 2 * p * r / (p + r) if p + r else 0.0


def draw(name: str, half: int, *, models: int = 3, seeds: int = SEEDS) -> Iterator[Material]:
    """Draw the lineages of one kind of material. German and Chinese have too few forms to halve."""
    names, reworded = MATERIALS[name]
    if name in ("german", "chinese"):
        forms = [*choose_forms(names, 0), *choose_forms(names, 1)]
    else:
        forms = choose_forms(names, half)
    for seed in range(seeds):
        yield plant(f"{name} {half} {seed}", forms, models=models, reworded=reworded)


def locate(document: Document, lineage: Lineage, place: int) -> dict[int, set[int]]:
    """Find the planted points in the points of a text, by their words."""
    text = lineage.texts[place].content
    found: dict[int, set[int]] = {}
    spoken = document.passages | document.refuses
    for point in lineage.points[place].points:
        written = text[point.start : point.end]
        for number, words in spoken.items():
            if words in written or (len(written) > 15 and _bare(written) in words):
                found.setdefault(point.n, set()).add(number)
    return found


def _bare(written: str) -> str:
    return written.strip("|-* \n")


# -- ours, and parts of ours -----------------------------------------------------------------------


def search(material: Material, constants: Constants, tally: Tally) -> None:
    """Search by chains of links along the lineage."""
    lineage = build_lineage(material.texts)
    chains = Chains(Alignment(lineage, constants))
    target = lineage.find(material.target)
    assert target is not None
    final = locate(material.documents[material.target], lineage, target)
    coverage = judge_coverage(chains, target)
    fates = {(fate.text, fate.point): fate for fate in coverage.fates}
    truth = {point.number: point for point in material.points}
    for thesis in lineage.list_role(Role.THESIS):
        begun = locate(material.documents[lineage.texts[thesis].id], lineage, thesis)
        reach = chains.reach(target, thesis)
        _count_origins(tally, reach, final, begun)
        for place, numbers in begun.items():
            if (fate := fates.get((thesis, place))) is None:
                status, lost = None, None
            else:
                status, lost = fate.status, fate.lost_at
            for number in numbers:
                point = truth[number]
                for kind in ("dropped", "refused", "changed"):
                    tally.add(kind, found=status == kind, true=point.fate == kind)
                if point.fate == "dropped" and status is Status.DROPPED:
                    tally.add("step", found=_is_step(lost, point.step), true=True)


def search_figures(material: Material, tally: Tally) -> None:
    """Find the figures that were made up on the way, and the step that did it."""
    lineage = build_lineage(material.texts)
    chains = Chains(Alignment(lineage))
    target = lineage.find(material.target)
    assert target is not None
    document = material.documents[material.target]
    truth = {point.number: point for point in material.points}
    final = locate(document, lineage, target)
    for figure in list_figures(chains, target):
        for number in final.get(figure.figure.point, ()):
            point = truth[number]
            told = point.changed[0] if point.changed else point.wordings[0]
            if figure.figure.value not in {each.value for each in find_figures(told)}:
                continue
            is_changed = point.fate == "changed"
            tally.add("figure", found=figure.is_made_up, true=is_changed)
            if is_changed and figure.is_made_up:
                first = lineage.texts[figure.first_text]
                tally.counts["figure step"] += _is_step((first.stage, first.step), point.step)


def _count_origins(
    tally: Tally,
    reach: Any,
    final: Mapping[int, set[int]],
    begun: Mapping[int, set[int]],
) -> None:
    """Count the pairs of passage and origin in which either is planted."""
    for mine, theirs in zip(*np.nonzero(reach), strict=True):
        said, meant = final.get(int(mine), set()), begun.get(int(theirs), set())
        if said or meant:
            tally.counts["origin found"] += 1
            tally.counts["origin both"] += bool(said & meant)
    for numbers in begun.values():
        for said in final.values():
            tally.counts["origin true"] += bool(numbers & said)


NAMES = {"pairwise": STEPS[0], "per_thesis": STEPS[1], "final": STEPS[2]}


def _is_step(found: tuple[str, str] | None, true: str) -> bool:
    return found is not None and (NAMES.get(found[1]) or found[0]) == true


# -- without lineage -------------------------------------------------------------------------------


def search_whole(material: Material, constants: Constants, tally: Tally) -> None:
    """Compare every document with the theses directly, without what was read."""
    lineage = build_lineage(material.texts)
    alignment = Alignment(lineage, constants)
    target = lineage.find(material.target)
    assert target is not None
    final = locate(material.documents[material.target], lineage, target)
    truth = {point.number: point for point in material.points}
    editors = lineage.list_role(Role.EDITOR)
    for thesis in lineage.list_role(Role.THESIS):
        begun = locate(material.documents[lineage.texts[thesis].id], lineage, thesis)
        same = {n: alignment.score(n, thesis) >= constants.hop for n in editors}
        _count_origins(tally, same[target], final, begun)
        for place, numbers in begun.items():
            kept = _has(lineage, target, same[target][:, place], refused=False)
            refused = any(_has(lineage, n, same[n][:, place], refused=True) for n in editors)
            alive = [
                STEPS.index(lineage.texts[n].type)
                for n in editors
                if _has(lineage, n, same[n][:, place], refused=False)
            ]
            status = "kept" if kept else "refused" if refused else "dropped"
            step = STEPS[min(max(alive, default=-1) + 1, len(STEPS) - 1)]
            for number in numbers:
                point = truth[number]
                for kind in ("dropped", "refused", "changed"):
                    tally.add(kind, found=status == kind, true=point.fate == kind)
                if point.fate == "dropped" and status == "dropped":
                    tally.add("step", found=step == point.step, true=True)


def _has(lineage: Lineage, text: int, row: Any, *, refused: bool) -> bool:
    points = lineage.points[text].points
    return any(
        (points[int(n)].holds is Holds.REFUSED) is refused
        and points[int(n)].holds is not Holds.ASIDE
        for n in np.nonzero(row)[0]
    )


# -- constants -------------------------------------------------------------------------------------

# Each contender with the constants that are best for it on the half that serves to tune.
CONTENDERS: dict[str, tuple[Any, Constants]] = {
    "ours": (search, CONSTANTS),
    "words": (
        search,
        replace(CONSTANTS, hop=0.28, near_best=0.6, anchor=0.24, weights=Weights(1.0)),
    ),
    "vectors": (
        search,
        replace(CONSTANTS, hop=0.36, near_best=0.8, anchor=0.32, weights=Weights(0.0)),
    ),
    "whole": (search_whole, replace(CONSTANTS, weights=Weights(0.5))),
    # No score is this high, so only what authors declare is a link.
    "labels": (search, replace(CONSTANTS, hop=9.0)),
}


def rate(tally: Tally) -> float:
    """Rate constants: by losses first, then by origins."""
    return 2 * tally.f1("dropped") + tally.f1("origin") + tally.recall("step")


def tune(name: str, materials: Sequence[Material]) -> None:
    """Try constants on the tuning half and print the best."""
    method, start = CONTENDERS[name]
    shares = {"words": (1.0,), "vectors": (0.0,)}.get(name, (0.5, 0.6))
    hops = {"words": (0.2, 0.24, 0.28, 0.32), "vectors": (0.36, 0.4, 0.45, 0.5)}.get(
        name, (0.28, 0.31, 0.34, 0.37)
    )
    drifts, nears = ((0.04,), (0.8,)) if name == "whole" else ((0.04,), (0.6, 0.7, 0.8))
    tried = []
    for words, hop, drift, near in itertools.product(shares, hops, drifts, nears):
        constants = replace(
            start,
            hop=hop,
            anchor=hop - drift,
            near_best=near,
            weights=replace(start.weights, words_share=words),
        )
        tally = Tally(Counter())
        for material in materials:
            method(material, constants, tally)
        tried.append((rate(tally), words, hop, drift, near, summarize(tally)))
    for one in sorted(tried, key=lambda each: -each[0])[:8]:
        print(name, *one[:5], {k: round(v, 3) for k, v in one[5].items()}, flush=True)


def summarize(tally: Tally) -> dict[str, float]:
    found = {}
    for kind in ("origin", "dropped", "refused", "changed"):
        found[f"{kind} precision"] = tally.precision(kind)
        found[f"{kind} recall"] = tally.recall(kind)
    found["step"] = (
        tally.precision("step") and tally.counts["step both"] / tally.counts["step true"]
    )
    return found


# -- what is measured ------------------------------------------------------------------------------


def measure(options: Options) -> dict[str, list[float]]:
    """Measure one contender on the half that serves to report."""
    method, constants = CONTENDERS[options["contender"]]
    found: dict[str, list[float]] = {}
    # Others are measured where the aim is to be better than they are.
    for name in MATERIALS if options["contender"] == "ours" else ("reworded",):
        tally = Tally(Counter())
        for material in draw(name, 1):
            given = (
                material if options["contender"] in ("ours", "labels") else strip_labels(material)
            )
            method(given, constants, tally)
        found |= {f"{name} {key}": [value] for key, value in summarize(tally).items()}
    if options["contender"] == "ours":
        found |= measure_figures() | measure_dissent()
    return found


def measure_figures() -> dict[str, list[float]]:
    """Measure how many made-up figures are found, over facts alone."""
    tally = Tally(Counter())
    for seed in range(3 * SEEDS):
        search_figures(plant(f"figures {seed}", choose_forms(["facts"], 1)), tally)
    steps = tally.counts["figure step"] / max(tally.counts["figure both"], 1)
    return {
        "figure precision": [tally.precision("figure")],
        "figure recall": [tally.recall("figure")],
        "figure step": [steps],
    }


def measure_time(options: Options) -> dict[str, list[float]]:
    """Measure the processor time of everything that is derived from one iteration."""
    load_static_model()
    found = {}
    for models in options["models"]:
        material = next(draw("reworded", 1, models=models, seeds=1))
        started = time.process_time()
        lineage = build_lineage(material.texts)
        chains = Chains(Alignment(lineage))
        judge_coverage(chains, lineage.find(material.target))
        for text in range(len(lineage.texts)):
            for point in lineage.points[text].points:
                chains.list_chains(text, point.n)
        found[f"cpu {models}"] = [time.process_time() - started]
    return found


if __name__ == "__main__":
    limit_threads()
    if sys.argv[1] == "tune":
        drawn = list(draw("reworded", 0, seeds=6))
        for contender in sys.argv[2:] or ("ours", "words", "vectors", "whole"):
            tune(contender, drawn)
    else:
        serve({"measure": measure, "time": measure_time})
