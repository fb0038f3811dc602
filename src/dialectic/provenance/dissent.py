"""On what documents of one step differ: figures, negations, choices, answers to objections. Pure.

Finds dissent and decides nothing. Positions on one subject are one dissent.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID, uuid5

import numpy as np

from dialectic.core.points import Answer, DissentKind
from dialectic.core.process.definition import Holds
from dialectic.provenance.align import Alignment
from dialectic.provenance.answers import Objection
from dialectic.provenance.marks import Figure, find_figures, is_opposite, read_marks
from dialectic.provenance.points import Point, build_key
from dialectic.retrieval.weigh import find_words, rate, stem

# Two names mean the same thing, and two headings too, if they share this much.
SAME_NAME = 0.8
# Two claims with figures of the same unit are about the same thing from this score on.
SAME_FIGURE = 0.40
SUBJECT_CHARS_MAX = 300
# A choice names a thing; a longer value is a statement.
VALUE_WORDS_MAX = 8
_NAMED = re.compile(r"\s*(?:[-*+]\s+)?\*\*([^*\n]{2,80}?)(?::\*\*|\*\*\s*:)\s*(\S.*)", re.DOTALL)
_ROW = re.compile(r"\s*\|([^|\n]{2,80})\|([^|\n]{2,200})\|")


@dataclass(frozen=True, slots=True)
class Position:
    """What some documents say on a subject; the first of its places is quoted."""

    places: tuple[tuple[int, int], ...]
    says: str
    models: tuple[int, ...]
    # Of an objection that editors answered differently: what these did.
    answer: Answer | None = None


@dataclass(frozen=True, slots=True)
class Dissent:
    """A subject on which documents differ."""

    id: UUID
    kind: DissentKind
    subject: str
    weight: float
    positions: tuple[Position, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    kind: DissentKind
    one: tuple[int, int]
    other: tuple[int, int]


def find_dissent(
    alignment: Alignment, group: Sequence[int], objections: Sequence[Objection] = (), *, space: UUID
) -> list[Dissent]:
    """Find on what the documents of one step differ, the weightiest first.

    `objections` are those with their answers by the same documents or on the way to them. `space`
    tells sessions, iterations and stages apart.
    """
    pairs = [*_find_pairs(alignment, sorted(group))]
    found = [*_cluster(alignment, pairs, space), *_find_declared(alignment, sorted(group), space)]
    found += _find_splits(alignment, objections, space)
    unique = {one.id: one for one in found}
    return sorted(unique.values(), key=lambda one: (-one.weight, one.id.bytes))


# -- pairs of points -------------------------------------------------------------------------------


def _find_pairs(alignment: Alignment, group: Sequence[int]) -> Iterator[_Pair]:
    lineage = alignment.lineage
    keys = {n: {point.key for point in lineage.points[n].points} for n in group}
    for place, one in enumerate(group):
        scorer = alignment.build_group_scorer(one, group)
        for other in group[place + 1 :]:
            if _is_same_author(alignment, one, other):
                continue
            scores = scorer.score(alignment.sheets[other])
            for mine, theirs in zip(*np.nonzero(scores >= SAME_FIGURE), strict=True):
                first = lineage.points[one].points[int(mine)]
                second = lineage.points[other].points[int(theirs)]
                # Documents that both say both do not differ: they number their milestones alike.
                says_both = first.key in keys[other] and second.key in keys[one]
                if not (_is_claim(first) and _is_claim(second)) or says_both:
                    continue
                is_sure = bool(scores[mine, theirs] >= alignment.constants.sure)
                kind = _decide_kind(first, second, is_sure=is_sure)
                if kind is not None:
                    yield _Pair(kind, (one, first.n), (other, second.n))
            yield from _find_choices(alignment, one, other)


def _is_same_author(alignment: Alignment, one: int, other: int) -> bool:
    texts = alignment.lineage.texts
    first, second = texts[one].model_index, texts[other].model_index
    return first is not None and first == second


def _is_claim(point: Point) -> bool:
    return point.holds not in (Holds.ASIDE, Holds.REFUSED, Holds.QUESTION, Holds.TAKEN)


def _decide_kind(one: Point, other: Point, *, is_sure: bool) -> DissentKind | None:
    """Decide how two claims differ; figures of a named unit also if it is not sure."""
    mine, theirs = read_marks(one.normal), read_marks(other.normal)
    if mine.figures - theirs.figures and theirs.figures - mine.figures:
        own = [f for f in find_figures(one.normal, spelled=True) if f.value not in theirs.figures]
        rest = [f for f in find_figures(other.normal, spelled=True) if f.value not in mine.figures]
        pairs = [(first, second) for first in own for second in rest]
        if any(_is_same_unit(*each) and (is_sure or each[0].unit) for each in pairs):
            return DissentKind.FIGURE
    return DissentKind.POLARITY if is_sure and is_opposite(mine, theirs) else None


def _is_same_unit(one: Figure, other: Figure) -> bool:
    return stem(one.unit or " ") == stem(other.unit or " ")


# -- choices ---------------------------------------------------------------------------------------


def _list_named(alignment: Alignment, text: int) -> list[tuple[Point, str, str]]:
    """List the points that give a name a value: table rows and items that begin with a name."""
    content, found = alignment.lineage.texts[text].content, []
    for point in alignment.lineage.points[text].points:
        written = content[point.start : point.end]
        match = _ROW.match(written) or _NAMED.match(written)
        is_named = match is not None and len(find_words(match[2])) <= VALUE_WORDS_MAX
        if match is not None and is_named and _is_claim(point):
            found.append((point, match[1].strip(), match[2].strip()))
    return found


def _find_choices(alignment: Alignment, one: int, other: int) -> Iterator[_Pair]:
    theirs = _list_named(alignment, other)
    for point, name, value in _list_named(alignment, one):
        for second, other_name, other_value in theirs:
            if (
                _compare(name, other_name) >= SAME_NAME
                and _compare(value, other_value) < alignment.constants.hop
                and _compare(" ".join(point.headings[-1:]), " ".join(second.headings[-1:]))
                >= SAME_NAME
            ):
                yield _Pair(DissentKind.CHOICE, (one, point.n), (other, second.n))


def _compare(one: str, other: str) -> float:
    """Compare two short texts by their words."""
    first, second = set(map(stem, find_words(one))), set(map(stem, find_words(other)))
    whole = sum(map(rate, first)) + sum(map(rate, second))
    if not whole:
        return 1.0 if build_key(one) == build_key(other) else 0.0
    return 2 * sum(map(rate, first & second)) / whole


# -- clusters --------------------------------------------------------------------------------------


def _cluster(alignment: Alignment, pairs: Sequence[_Pair], space: UUID) -> Iterator[Dissent]:
    """Join the pairs that share a point or its words into dissents."""
    leader: dict[tuple[DissentKind, tuple[int, int]], tuple[DissentKind, tuple[int, int]]] = {}

    def find(node: tuple[DissentKind, tuple[int, int]]) -> tuple[DissentKind, tuple[int, int]]:
        while leader.setdefault(node, node) != node:
            node = leader[node]
        return node

    for pair in pairs:
        first, second = find((pair.kind, pair.one)), find((pair.kind, pair.other))
        # By the smaller place, so that the order of pairs does not matter.
        low, high = sorted((first, second), key=lambda node: node[1])
        leader[high] = low
    groups: dict[tuple[DissentKind, tuple[int, int]], set[tuple[int, int]]] = {}
    for node in list(leader):
        groups.setdefault(find(node), set()).add(node[1])
    for (kind, _), places in groups.items():
        if (built := _build(alignment, kind, places, space)) is not None:
            yield built


def _build(
    alignment: Alignment, kind: DissentKind, places: Collection[tuple[int, int]], space: UUID
) -> Dissent | None:
    sides: dict[object, list[tuple[int, int]]] = {}
    # By seats: the numbers of texts follow ids, and ids are drawn at random.
    for place in sorted(places, key=lambda each: (_get_seat(alignment, each), each)):
        sides.setdefault(_name_side(alignment, kind, place), []).append(place)
    if len(sides) < 2:
        return None
    positions = tuple(_build_position(alignment, side) for side in sides.values())
    # Nor do models that all say all of it.
    if len({one.models for one in positions}) < 2:
        return None
    return _finish(kind, positions, space)


def _name_side(alignment: Alignment, kind: DissentKind, place: tuple[int, int]) -> object:
    point = _get_point(alignment, place)
    marks = read_marks(point.normal)
    if kind is DissentKind.FIGURE:
        return tuple(sorted(marks.figures))
    return marks.is_negated if kind is DissentKind.POLARITY else point.key


def _get_seat(alignment: Alignment, place: tuple[int, int]) -> int:
    """Get the seat that wrote the text of a place; a person's comes first."""
    seat = alignment.lineage.texts[place[0]].model_index
    return -1 if seat is None else seat


def _get_point(alignment: Alignment, place: tuple[int, int]) -> Point:
    return alignment.lineage.points[place[0]].points[place[1]]


def _build_position(alignment: Alignment, places: Sequence[tuple[int, int]]) -> Position:
    models = {alignment.lineage.texts[text].model_index for text, _ in places}
    known = tuple(sorted(model for model in models if model is not None))
    return Position(tuple(places), _get_point(alignment, places[0]).normal, known)


def _finish(kind: DissentKind, positions: tuple[Position, ...], space: UUID) -> Dissent:
    hashes = sorted(hashlib.sha256(one.says.encode()).hexdigest() for one in positions)
    subject = positions[0].says[:SUBJECT_CHARS_MAX]
    return Dissent(
        uuid5(space, f"{kind.value}:{':'.join(hashes)}"),
        kind,
        subject,
        round(_weigh(positions), 3),
        positions,
    )


def _weigh(positions: Sequence[Position]) -> float:
    """Weigh a dissent: the worth of its words, times how even its sides are; from 0 to 1."""
    words = sorted({stem(word) for word in find_words(positions[0].says)})
    worth = sum(map(rate, words)) / max(len(words), 1)
    sizes = sorted(max(len(one.models), 1) for one in positions)
    evenness = 2 * sum(sizes[:-1]) / sum(sizes)
    return worth * min(evenness, 1.0)


# -- splits and declared ---------------------------------------------------------------------------


def _find_splits(
    alignment: Alignment, objections: Sequence[Objection], space: UUID
) -> Iterator[Dissent]:
    """Find the objections that one editor took and another refused."""
    lineage = alignment.lineage
    for one in objections:
        takers = {lineage.texts[text].model_index for text in one.taken_by}
        refusers = {lineage.texts[refusal.text].model_index for refusal in one.refusals}
        if not (takers - refusers and refusers - takers):
            continue
        item = lineage.points[one.text].items[one.item]
        says = _get_point(alignment, (one.text, item.points[0])).normal
        sides = {Answer.TAKEN: takers, Answer.REFUSED: refusers}
        positions = tuple(
            Position(
                ((one.text, item.points[0]),),
                f"{answer.value}: {says}",
                tuple(sorted(model for model in models if model is not None)),
                answer,
            )
            for answer, models in sides.items()
        )
        yield _finish(DissentKind.SPLIT, positions, space)


def _find_declared(alignment: Alignment, group: Sequence[int], space: UUID) -> Iterator[Dissent]:
    """Find the decisions of editors that name two sources or more."""
    for text in group:
        one = alignment.lineage.texts[text]
        for point in alignment.lineage.points[text].points:
            if point.holds is not Holds.DECISION:
                continue
            written = one.content[point.start : point.end]
            named = sorted(label for label in one.labels if label in written)
            if len(named) > 1:
                position = _build_position(alignment, [(text, point.n)])
                yield _finish(DissentKind.DECLARED, (position,), space)
