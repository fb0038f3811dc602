"""Link each point of a document to the points of what it read that say the same. Pure.

Links are looked for along the lineage only, document pair by document pair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dialectic.core.points import Relation
from dialectic.core.process.definition import Holds
from dialectic.provenance.marks import is_changed, is_rounded, read_marks
from dialectic.provenance.points import Point
from dialectic.provenance.score import Scale, Scorer, Weights, build_sheets
from dialectic.provenance.texts import Lineage

if TYPE_CHECKING:
    from dialectic.provenance.score import Floats

# A whole point within another is a quotation from this many words on.
QUOTED_WORDS_MIN = 5
# What each of several parents gives of a point's worth, and no other gives, if it was merged.
MERGED_SHARE = 0.3
SCORE_DIGITS = 3
# Of one point, the links to one other text.
CANDIDATES_MAX = 16


@dataclass(frozen=True, slots=True)
class Constants:
    """What decides a link; tuned on one half of the planted points, measured on the other."""

    # A point is linked to a point of a document that its author read.
    hop: float = 0.34
    # And only to those that score at least this share of its best link.
    near_best: float = 0.7
    # A chain holds only if its two ends score this much directly: meaning must not drift.
    anchor: float = 0.30
    # A link is shown as sure, or below this as likely.
    sure: float = 0.50
    # Or to those that give this share of its worth which the best link does not give.
    added: float = 0.2
    weights: Weights = field(default_factory=Weights)


CONSTANTS = Constants()


@dataclass(frozen=True, slots=True)
class Link:
    """A point of a document says what a point of something that its author read says."""

    point: int
    source: int
    source_point: int
    score: float
    relation: Relation
    # Whether the author named the source in brackets.
    is_declared: bool = False


def list_candidates(matrix: Floats, hop: float) -> Iterator[tuple[int, int]]:
    """List the pairs of points that score enough: of one point, the best in each other text.

    A text that says the same a thousand times would otherwise have a million links.
    """
    for mine, row in enumerate(matrix):
        columns = np.flatnonzero(row >= hop)
        if len(columns) > CANDIDATES_MAX:
            best = np.argsort(-row[columns], kind="stable")[:CANDIDATES_MAX]
            columns = np.sort(columns[best])
        for theirs in columns:
            yield mine, int(theirs)


class Alignment:
    """The links of a lineage. Everything is computed when it is first asked for."""

    def __init__(self, lineage: Lineage, constants: Constants = CONSTANTS) -> None:
        self.lineage, self.constants = lineage, constants
        self.sheets, vocabulary = build_sheets([points.points for points in lineage.points])
        self._rates = vocabulary.rates
        self._scorers: dict[int, Scorer] = {}
        self._links: dict[int, list[Link]] = {}
        self._links_of: dict[int, dict[int, list[Link]]] = {}
        self._scores: dict[tuple[int, int], Floats] = {}

    @cached_property
    def _holders(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """How many points of each text hold each stem."""
        size = len(self._rates)
        rows = [np.bincount(sheet.flat, minlength=size) for sheet in self.sheets]
        return np.array(rows, dtype=np.float64).reshape(len(self.sheets), size)

    @cached_property
    def _totals(self) -> list[Floats]:
        return [sheet.vectors.sum(axis=0, dtype=np.float64) for sheet in self.sheets]

    def get_scorer(self, text: int) -> Scorer:
        """Get the scorer of a text: the set at hand is the text and all that it descends from."""
        if text not in self._scorers:
            scale = self._build_scale(self.lineage.closures[text])
            self._scorers[text] = Scorer(self.sheets[text], scale, self.constants.weights)
        return self._scorers[text]

    def build_group_scorer(self, text: int, group: Iterable[int]) -> Scorer:
        """Build a scorer for texts that stand side by side: the set at hand is all of them."""
        return Scorer(self.sheets[text], self._build_scale(group), self.constants.weights)

    def _build_scale(self, members: Iterable[int]) -> Scale:
        filled = [n for n in sorted(members) if len(self.sheets[n])]
        holders = self._holders[filled].sum(axis=0).astype(np.int64)
        total = sum((self._totals[n] for n in filled), np.zeros(1))
        count = sum(len(self.sheets[n]) for n in filled)
        return Scale.build(count, holders, np.asarray(total), self._rates)

    def score(self, text: int, other: int) -> Floats:
        """Score all points of a text against all points of another."""
        if (text, other) not in self._scores:
            found = self.get_scorer(text).score(self.sheets[other])
            self._scores[text, other] = np.round(found, SCORE_DIGITS + 3)
        return self._scores[text, other]

    @cached_property
    def common(self) -> list[frozenset[str]]:
        """What each text says that is a formula: half of its lineage says it word for word.

        Words that documents took from each other are not formulas, so at least two must say it
        that have not read it anywhere.
        """
        keys = [frozenset(point.key for point in each.points) for each in self.lineage.points]
        first = [
            each - frozenset[str]().union(*(keys[n] for n in self.lineage.parents[place]))
            for place, each in enumerate(keys)
        ]
        found = []
        for place, own in enumerate(keys):
            members = self.lineage.closures[place]
            said = Counter(key for n in members for key in keys[n] & own)
            begun = Counter(key for n in members for key in first[n] & own)
            half = len(members) / 2
            found.append(frozenset(key for key in own if said[key] >= half and begun[key] > 1))
        return found

    def can_be_source(self, text: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Say which points others may link to: not asides, which repeat the rest of their text."""
        points = self.lineage.points[text].points
        return np.array([point.holds is not Holds.ASIDE for point in points], dtype=bool)

    # -- links -------------------------------------------------------------------------------------

    def list_links(self, text: int) -> list[Link]:
        """List the links of a text's points to what its author read, best first for each point."""
        if text not in self._links:
            self._links[text] = self._find_links(text)
        return self._links[text]

    def list_links_of(self, text: int, point: int) -> list[Link]:
        """List the links of one point, best first."""
        if text not in self._links_of:
            grouped: dict[int, list[Link]] = {}
            for link in self.list_links(text):
                grouped.setdefault(link.point, []).append(link)
            self._links_of[text] = grouped
        return self._links_of[text].get(point, [])

    def _find_links(self, text: int) -> list[Link]:
        parents = [n for n in self.lineage.parents[text] if len(self.sheets[n])]
        points = self.lineage.points[text].points
        if not parents or not points:
            return []
        scores = [self._mask(text, parent) for parent in parents]
        best = np.max([each.max(axis=1) for each in scores], axis=0)
        floor = np.maximum(self.constants.hop, self.constants.near_best * best)
        declared = self._find_declared(text, parents, scores)
        known = self._list_best_words(parents, scores, best)
        links = []
        for parent, matrix in zip(parents, scores, strict=True):
            for mine, theirs in list_candidates(matrix, self.constants.hop):
                place = mine, parent, theirs
                if matrix[mine, theirs] < floor[mine] and not self._adds(text, place, known):
                    continue
                is_declared = declared.pop(place, None) is not None
                links.append(
                    self._build(place, text, float(matrix[mine, theirs]), is_declared=is_declared)
                )
        links += [
            self._build(place, text, score, is_declared=True) for place, score in declared.items()
        ]
        return sorted(links, key=_rank)

    def _list_best_words(
        self, parents: Sequence[int], scores: Sequence[Floats], best: Floats
    ) -> list[frozenset[int]]:
        """List the words of each point's best source."""
        found: list[frozenset[int]] = [frozenset()] * len(best)
        for parent, matrix in zip(parents, scores, strict=True):
            columns = matrix.argmax(axis=1)
            for mine, theirs in enumerate(columns):
                if not found[mine] and matrix[mine, theirs] == best[mine]:
                    found[mine] = frozenset(self.sheets[parent].words[theirs])
        return found

    def _adds(
        self, text: int, place: tuple[int, int, int], known: Sequence[frozenset[int]]
    ) -> bool:
        """Say whether a weaker source gives a part of the point that the best one does not have.

        A point that joins two others would otherwise lose the one with fewer words.
        """
        mine, parent, theirs = place
        words = self.sheets[text].words[mine]
        added = set(words) & set(self.sheets[parent].words[theirs]) - known[mine]
        scorer = self.get_scorer(text)
        return scorer.sum_worth(added) >= self.constants.added * float(scorer.worth[mine])

    def _mask(self, text: int, parent: int) -> Floats:
        """Score against a parent; formulas and asides score nothing, but in an earlier version."""
        one, other = self.lineage.texts[text], self.lineage.texts[parent]
        if one.document_id is not None and one.document_id == other.document_id:
            return self.score(text, parent)
        matrix = np.where(self.can_be_source(parent)[None, :], self.score(text, parent), 0.0)
        if common := self.common[text]:
            keep = [p.key not in common for p in self.lineage.points[text].points]
            matrix = matrix * np.array(keep)[:, None]
        return matrix

    def _find_declared(
        self, text: int, parents: Sequence[int], scores: Sequence[Floats]
    ) -> dict[tuple[int, int, int], float]:
        """Find the best point of each source that a passage names, if it scores enough."""
        told = self.lineage.texts[text].labels
        place = {self.lineage.texts[parent].id: n for n, parent in enumerate(parents)}
        found = {}
        for point in self.lineage.points[text].points:
            for label in point.labels:
                if (number := place.get(told[label])) is None:
                    continue
                row = scores[number][point.n]
                theirs = int(row.argmax())
                if row[theirs] >= self.constants.anchor:
                    found[point.n, parents[number], theirs] = float(row[theirs])
        return found

    def _build(
        self, place: tuple[int, int, int], text: int, score: float, *, is_declared: bool
    ) -> Link:
        mine, parent, theirs = place
        return replace(self.build_link(text, mine, parent, theirs, score), is_declared=is_declared)

    def build_link(self, text: int, mine: int, source: int, theirs: int, score: float) -> Link:
        """Build the link of a point to a point of any text that its own descends from."""
        child = self.lineage.points[text].points[mine]
        relation = decide_relation(child, self.lineage.points[source].points[theirs])
        return Link(mine, source, theirs, round(score, SCORE_DIGITS), relation)

    def decide_point(self, text: int, point: int) -> Relation:
        """Decide how a whole point relates to what its author read."""
        own = self.list_links_of(text, point)
        if not own:
            return Relation.NEW
        if own[0].relation is Relation.VERBATIM:
            return Relation.VERBATIM
        return Relation.MERGED if self._is_merged(text, point, own) else own[0].relation

    def _is_merged(self, text: int, point: int, links: Sequence[Link]) -> bool:
        given: Mapping[int, set[int]] = defaultdict(set)
        for link in links:
            given[link.source] |= set(self.sheets[link.source].words[link.source_point])
        if len(given) < 2:
            return False
        sets = list(given.values())
        shares = self.get_scorer(text).share_words(point, [tuple(each) for each in sets])
        whole = max(float(self.get_scorer(text).worth[point]), 1.0)
        alone = shares[(shares > 0).sum(axis=1) == 1].sum(axis=0) / whole
        return int((alone >= MERGED_SHARE).sum()) >= 2


def _rank(link: Link) -> tuple[int, float, bool, int, int]:
    """Order links by point, the best first; of equal scores a quotation."""
    is_other = link.relation is not Relation.VERBATIM
    return link.point, -link.score, is_other, link.source, link.source_point


def decide_relation(child: Point, source: Point) -> Relation:
    """Decide how a point differs from one that it says the same as."""
    if child.key == source.key:
        return Relation.VERBATIM
    if source.key.count(" ") + 1 >= QUOTED_WORDS_MIN and f" {source.key} " in f" {child.key} ":
        return Relation.VERBATIM
    mine, theirs = read_marks(child.normal), read_marks(source.normal)
    if is_rounded(mine, theirs):
        return Relation.ROUNDED
    return Relation.CHANGED if is_changed(mine, theirs) else Relation.REWORDED
