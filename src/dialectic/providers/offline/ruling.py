"""What becomes of each criticism when a thesis and its critiques are merged. Pure.

A criticism that touches what the request demands, or what the voice cares for, weighs more. Most
are taken; a statement the voice can spare is dropped for one of them, and the lightest are refused.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, replace

from dialectic.providers.offline.language import stems_of
from dialectic.providers.offline.reading import Brief, Point, Remark, Source

RULINGS_MAX = 8
_OBJECTS = frozenset(("claims", "gaps", "feasibility", "risks", "verdict"))


class Effect(enum.StrEnum):
    """What a criticism does to the statement it is about."""

    CHANGED = "changed"
    DROPPED = "dropped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Ruling:
    """One criticism, the statement it is about (if any), and what becomes of it."""

    critic: str
    objection: str
    author: str
    claim: str
    effect: Effect
    remedy: str  # what the statement says in addition, if it is changed


def rule_on_criticism(
    brief: Brief, weigh: Callable[[frozenset[str]], float], mend: Callable[[str], str]
) -> list[Ruling]:
    """Decide about every criticism that the critiques of the brief make, weightiest first."""
    critiques = [source for source in brief.sources if source.is_critique]
    claims = [
        (source.label, point)
        for source in brief.sources
        if not source.is_critique
        for point in source.points
    ]
    found = [
        Ruling(
            critique.label,
            remark.objection,
            *_find_claim(remark.quoted, claims),
            effect=Effect.CHANGED,
            remedy=remark.remedy,
        )
        for critique in critiques
        for remark in critique.remarks or _read_objections(critique)
    ]
    found.sort(key=lambda ruling: -weigh(stems_of(f"{ruling.objection} {ruling.claim}")))
    weighed = found[:RULINGS_MAX]
    taken = len(weighed) - len(weighed) // 3
    spare = [ruling.claim for ruling in weighed[:taken] if ruling.claim]
    dropped = spare[-1] if len(spare) > 1 else None
    return [
        replace(
            ruling,
            effect=Effect.REFUSED if place >= taken else _effect(ruling, dropped),
            remedy=ruling.remedy or mend(ruling.claim or ruling.objection),
        )
        for place, ruling in enumerate(weighed)
    ]


def _effect(ruling: Ruling, dropped: str | None) -> Effect:
    return Effect.DROPPED if ruling.claim and ruling.claim == dropped else Effect.CHANGED


def _read_objections(critique: Source) -> list[Remark]:
    """Read the objections of a critique that does not quote what it is about."""
    return [
        Remark(point.text, point.text, "")
        for point in critique.points
        if point.part in _OBJECTS or point.kind in _OBJECTS
    ]


def _find_claim(quoted: str, claims: list[tuple[str, Point]]) -> tuple[str, str]:
    """Find the statement that is meant: the one with the same words, or most of them."""
    stems = stems_of(quoted)
    best, share = ("", ""), 0.3
    for label, point in claims:
        if point.text == quoted:
            return label, point.text
        common = len(stems & point.stems) / max(1, len(stems | point.stems))
        if common > share:
            best, share = (label, point.text), common
    return best
