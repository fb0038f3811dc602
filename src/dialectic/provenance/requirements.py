"""Which requirements have a step, which steps a requirement, and what meets the request. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dialectic.core.points import Met, SourceKind
from dialectic.core.process.definition import Holds
from dialectic.provenance.chain import Chains
from dialectic.provenance.marks import find_figures
from dialectic.provenance.points import Item, find_ids, list_items
from dialectic.provenance.texts import Role

# What makes a sentence of the request a constraint, apart from a figure.
_CONSTRAINT = re.compile(
    r"\b(?:must|shall|needs? to|has to|have to|required?|not|no|never|only|at (?:most|least)|"
    r"under|below|above|over|within|without|before|until|maximum|minimum|up to|cannot|"
    r"muss|müssen|darf|dürfen|nicht|kein\w{0,2}|nur|höchstens|mindestens|unter|über|binnen|"
    r"innerhalb|ohne|vor|bis|doit|doivent|jamais|seulement|sans|debe|nunca|solo|sin)\b"
    r"|n['’]t\b|[必须應应不最]",
    re.IGNORECASE,
)
_COVERS = re.compile(r"^[ \t>*-]*\**Covers\**:\**(.*)$", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement, and the steps that cover it."""

    text: int
    item: int
    id: str
    met: Met
    steps: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a checklist, and the ids of the requirements it serves."""

    item: int
    met: Met
    requirements: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Constraint:
    """A sentence of the request that binds, and the requirements that say the same."""

    text: int
    point: int
    # Items of the text that has the requirements.
    requirements: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """How a document covers what it was asked for."""

    # The text that has the requirements; None if none has.
    base: int | None = None
    requirements: tuple[Requirement, ...] = ()
    steps: tuple[Step, ...] = ()
    constraints: tuple[Constraint, ...] = ()


def judge_plan(chains: Chains, target: int | None) -> Plan:
    """Judge whether requirements have steps, steps requirements and constraints either."""
    if target is None or chains.lineage.texts[target].role is not Role.EDITOR:
        return Plan()
    lineage = chains.lineage
    base = _find_base(chains, target)
    wanted = [] if base is None else list_items(lineage.points[base], Holds.REQUIREMENT)
    steps = list_items(lineage.points[target], Holds.STEP)
    constraints = _list_constraints(chains, target, base, wanted)
    if base is None or not steps:
        return Plan(base, (), (), constraints)
    same = _compare(chains, target, steps, base, wanted)
    content = lineage.texts[target].content
    named = [find_ids(content[step.start : step.end]) for step in steps]
    around = [_read_milestone(chains, target, step) for step in steps]
    ids = {item.id for item in wanted if item.id}
    found = []
    for place, item in enumerate(wanted):
        by_id = [n for n, told in enumerate(named) if item.id and item.id in told]
        by_id = by_id or [n for n, told in enumerate(around) if item.id and item.id in told]
        by_words = [] if by_id else [int(n) for n in np.nonzero(same[:, place])[0]]
        met = Met.BY_ID if by_id else Met.BY_WORDS if by_words else Met.NOT
        places = tuple(steps[n].n for n in by_id or by_words)
        found.append(Requirement(base, item.n, item.id, met, places))
    served = []
    for n, step in enumerate(steps):
        told = sorted((named[n] or around[n]) & ids, key=_sort_id)
        words = [wanted[int(place)].id for place in np.nonzero(same[n])[0]]
        met = Met.BY_ID if told else Met.BY_WORDS if words else Met.NOT
        served.append(Step(step.n, met, tuple(told or filter(None, words))))
    return Plan(base, tuple(found), tuple(served), constraints)


def _sort_id(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _find_base(chains: Chains, target: int) -> int | None:
    """Find the text whose requirements count: the target's own, else the nearest that it read.

    Of several that were read, the lead's counts: the others start from its numbers.
    """
    lineage = chains.lineage
    level = [target]
    while level:
        found = [n for n in level if list_items(lineage.points[n], Holds.REQUIREMENT)]
        if found:
            texts = lineage.texts
            return min(found, key=lambda n: (not texts[n].is_lead, texts[n].model_index or 0, n))
        level = sorted({parent for n in level for parent in lineage.parents[n]})
    return None


def _compare(
    chains: Chains, target: int, steps: Sequence[Item], base: int, wanted: Sequence[Item]
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Say which step says what which requirement says."""
    scores = chains.alignment.score(target, base) >= chains.alignment.constants.hop
    same = np.zeros((len(steps), len(wanted)), dtype=np.bool_)
    for mine, step in enumerate(steps):
        for theirs, item in enumerate(wanted):
            same[mine, theirs] = scores[np.ix_(step.points, item.points)].any()
    return same


def _read_milestone(chains: Chains, target: int, step: Item) -> frozenset[str]:
    """Read the ids that the milestone above a step says it covers."""
    content = chains.lineage.texts[target].content
    start = content.rfind("\n### ", 0, step.start)
    if start < content.rfind("\n## ", 0, step.start):
        return frozenset()
    end = next(
        (
            item.start
            for item in chains.lineage.points[target].items
            if item.is_entry and item.start > start
        ),
        step.start,
    )
    covers = _COVERS.findall(content[start:end])
    return frozenset[str]().union(*map(find_ids, covers))


def _list_constraints(
    chains: Chains, target: int, base: int | None, wanted: Sequence[Item]
) -> tuple[Constraint, ...]:
    """List the sentences of the request that bind, with the requirements that say the same."""
    lineage, found = chains.lineage, []
    for text in sorted(lineage.closures[target]):
        if lineage.texts[text].kind is not SourceKind.REQUEST:
            continue
        points = [point for point in lineage.points[text].points if is_constraint(point.normal)]
        if base is None:
            found += [Constraint(text, point.n) for point in points]
            continue
        scores = chains.alignment.score(base, text) >= chains.alignment.constants.hop
        found += [
            Constraint(
                text,
                point.n,
                tuple(item.n for item in wanted if scores[list(item.points), point.n].any()),
            )
            for point in points
        ]
    return tuple(found)


def is_constraint(normal: str) -> bool:
    """Return whether a sentence binds: it has a figure, or a word such as must, not or only."""
    return bool(find_figures(normal)) or _CONSTRAINT.search(normal) is not None
