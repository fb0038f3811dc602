"""The figures of a document, with who said each of them first, or that it was made up. Pure.

A figure is followed along the links of its point, from text to text, as long as one that was read
has it. Where that ends in a thesis, a critique or a given text, it began there. Where it ends in a
merging step, that step made it up. Amounts, dates, shares, versions and limits count; the numbers
of steps, milestones and headings do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from dialectic.core.points import Relation
from dialectic.core.process.definition import Holds
from dialectic.provenance.chain import Chains
from dialectic.provenance.marks import Figure, find_figures
from dialectic.provenance.points import Point

# Words before a number that only counts things through.
_COUNTED = re.compile(
    r"(?:\b(?:milestones?|phases?|steps?|sections?|iterations?|items?|points?|option|figure|table|"
    r"depends on|no|nr|schritte?|phase|abschnitt|meilenstein)\b[.:]?|[#§])\s*(?:\d+\s*(?:,|and|to|"
    r"[-–])\s*)*$",
    re.IGNORECASE,
)
_ORDINAL = re.compile(r"(?:st|nd|rd|th)\b")
# A text that was read may say a figure in a point that is not linked, if it is of the same thing.
SAME_THING_SCORE = 0.2
# Of one figure, the other figures that are told.
OTHERS_MAX = 10


@dataclass(frozen=True, slots=True)
class Said:
    """A figure in a point of a text."""

    text: int
    point: int
    value: float
    # Where it is written in the text.
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Traced:
    """A figure of the document, where it was said first, and what others say instead."""

    figure: Said
    # The text that said it first; it made the figure up if it is an editor's.
    first_text: int
    first_point: int
    is_made_up: bool
    # Figures that what was read has in its place.
    others: tuple[Said, ...] = ()


def list_figures(chains: Chains, text: int) -> list[Traced]:
    """List the figures of a document in reading order, with where each began."""
    return [
        _trace(chains, said)
        for point in chains.lineage.points[text].points
        if point.holds is not Holds.ASIDE
        for said in _find_said(chains, text, point)
    ]


def _find_said(chains: Chains, text: int, point: Point) -> Iterator[Said]:
    written = chains.lineage.texts[text].content[point.start : point.end]
    for figure in find_countable(written):
        start = point.start + figure.start
        yield Said(text, point.n, figure.value, start, point.start + figure.end)


def find_countable(written: str) -> list[Figure]:
    """Find the figures of a passage that measure something."""
    body = re.match(
        r"\s*(?:(?:[-*+•>]|\d{1,9}[.)])\s+)*(?:\[[ xX]\]\s+)?(?:\d{1,9}[.)]\s+)?", written
    )
    first = body.end() if body else 0
    return [
        figure
        for figure in find_figures(written)
        if figure.start >= first
        and not _COUNTED.search(written[max(0, figure.start - 40) : figure.start])
        and not _ORDINAL.match(written, _end_of_digits(written, figure))
    ]


def _end_of_digits(written: str, figure: Figure) -> int:
    end = figure.start
    while end < len(written) and (written[end].isdigit() or written[end] in ".,"):
        end += 1
    return end


@lru_cache(maxsize=20_000)
def _list_values(written: str) -> frozenset[float]:
    return frozenset(figure.value for figure in find_figures(written, spelled=True))


def _has(chains: Chains, text: int, point: int, value: float) -> bool:
    return value in _list_values(chains.lineage.points[text].points[point].normal)


def _trace(chains: Chains, said: Said) -> Traced:
    text, point = said.text, said.point
    others: dict[tuple[int, int], Said] = {}
    while True:
        for one in _list_others(chains, text, point, said.value):
            others.setdefault((one.text, one.start), one)
        found = _find_before(chains, text, point, said.value)
        if found is None:
            break
        text, point = found
        if chains.lineage.texts[text].is_origin:
            break
    is_made_up = not chains.lineage.texts[text].is_origin
    return Traced(said, text, point, is_made_up, tuple(others.values())[:OTHERS_MAX])


def _list_others(chains: Chains, text: int, point: int, value: float) -> Iterator[Said]:
    """List the figures that what was read has in the place of a figure."""
    for link in chains.alignment.list_links_of(text, point):
        if link.relation is Relation.CHANGED and not _has(
            chains, link.source, link.source_point, value
        ):
            source = chains.lineage.points[link.source].points[link.source_point]
            yield from _find_said(chains, link.source, source)


def _find_before(chains: Chains, text: int, point: int, value: float) -> tuple[int, int] | None:
    """Find where a text has a figure from: a linked point, else a point about the same thing."""
    lineage = chains.lineage
    if lineage.texts[text].is_origin:
        return None
    for link in chains.alignment.list_links_of(text, point):
        if _has(chains, link.source, link.source_point, value):
            return link.source, link.source_point
    best: tuple[float, int, int] | None = None
    for parent in lineage.parents[text]:
        scores = None
        for one in lineage.points[parent].points:
            if value not in _list_values(one.normal):
                continue
            scores = chains.alignment.score(text, parent) if scores is None else scores
            score = float(scores[point, one.n])
            if score >= SAME_THING_SCORE and (best is None or score > best[0]):
                best = score, parent, one.n
    return None if best is None else best[1:]
