"""Chains: links joined from a point to where it began. Pure.

A chain holds only if its two ends say the same directly. Chains end at theses, critiques, texts
that were given, and what a person wrote. A critique that only quotes its thesis leads to the
thesis. A point without a chain was added where its links end.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dialectic.core.points import Relation
from dialectic.provenance.align import Alignment, Link
from dialectic.provenance.texts import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Reach = NDArray[np.bool_]


# A point only quotes if this share of it is quoted: `Claim: “…”`.
QUOTED_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a point began: a point of an origin, and the links that lead there."""

    source: int
    source_point: int
    score: float
    # From the point towards its origin; the last link ends there.
    links: tuple[Link, ...]

    @property
    def relation(self) -> Relation:
        """The strongest change on the way; verbatim only if every link is."""
        found = {link.relation for link in self.links}
        for one in (Relation.CHANGED, Relation.ROUNDED, Relation.MERGED, Relation.REWORDED):
            if one in found:
                return one
        return Relation.VERBATIM


class Hops(enum.Enum):
    """Which links of a text a chain may take."""

    ALL = "all"
    # Those that neither change a figure nor negate.
    UNCHANGED = "unchanged"
    # An origin passes on only what it quotes.
    QUOTED = "quoted"

    def allow(self, relation: Relation) -> bool:
        if self is Hops.QUOTED:
            return relation is Relation.VERBATIM
        return self is Hops.ALL or relation is not Relation.CHANGED


class Chains:
    """Which points of a text lead to which points of its origins."""

    def __init__(self, alignment: Alignment) -> None:
        self.alignment, self.lineage = alignment, alignment.lineage
        self._reach: dict[tuple[int, int, Hops], Reach] = {}
        self._reached: dict[tuple[int, int, Hops], Reach] = {}
        self._anchored: dict[tuple[int, int, Hops], Reach] = {}
        self._hops: dict[tuple[int, Hops], dict[int, Reach]] = {}
        self._quoted: dict[int, frozenset[int]] = {}

    def list_origins(self, text: int) -> list[int]:
        """List the origins that a text descends from, itself excluded."""
        texts = self.lineage.texts
        return sorted(n for n in self.lineage.closures[text] if n != text and texts[n].is_origin)

    def _get_hops(self, text: int, hops: Hops) -> dict[int, Reach]:
        """Get the links of a text as a matrix for each source."""
        key = text, hops
        if key not in self._hops:
            found: dict[int, Reach] = {}
            sheets = self.alignment.sheets
            for link in self.alignment.list_links(text):
                if not hops.allow(link.relation):
                    continue
                if link.source not in found:
                    shape = len(sheets[text]), len(sheets[link.source])
                    found[link.source] = np.zeros(shape, dtype=np.bool_)
                found[link.source][link.point, link.source_point] = True
            self._hops[key] = found
        return self._hops[key]

    def _follow(self, text: int, origin: int, hops: Hops) -> Reach:
        """Say which points of a text lead to which of an origin, whatever their ends score."""
        key = text, origin, hops
        if key not in self._reach:
            sheets = self.alignment.sheets
            reach = np.zeros((len(sheets[text]), len(sheets[origin])), dtype=np.bool_)
            for source, hop in self._get_hops(text, hops).items():
                if source == origin:
                    reach |= hop
                elif origin in self.lineage.closures[source]:
                    further = self._follow(source, origin, self._decide_hops(source, hops))
                    if further.any():
                        reach |= (hop.astype(np.float32) @ further.astype(np.float32)) > 0
            self._reach[key] = reach
        return self._reach[key]

    def _decide_hops(self, source: int, hops: Hops) -> Hops:
        return Hops.QUOTED if self.lineage.texts[source].is_origin else hops

    def reach(self, text: int, origin: int, hops: Hops = Hops.ALL) -> Reach:
        """Say which points of a text say what which points of an origin say.

        By a chain; and where none leads to a point of a thesis, by comparing the two directly: a
        step on the way may have used words that only its reader put right again.
        """
        key = text, origin, hops
        if key not in self._reached:
            followed = self.follow(text, origin, hops)
            self._reached[key] = followed | self._compare(text, origin, hops, followed)
        return self._reached[key]

    def follow(self, text: int, origin: int, hops: Hops = Hops.ALL) -> Reach:
        """Say which points of a text have a chain to which points of an origin."""
        key = text, origin, hops
        if key not in self._anchored:
            followed = self._follow(text, origin, hops)
            if followed.any():
                least = self.alignment.constants.anchor
                followed = followed & (self.alignment.score(text, origin) >= least)
            self._anchored[key] = followed
        return self._anchored[key]

    def _compare(self, text: int, origin: int, hops: Hops, followed: Reach) -> Reach:
        """Compare the points of a thesis that no chain leads to with a text directly."""
        found = np.zeros_like(followed)
        if self.lineage.texts[origin].role is not Role.THESIS or not followed.size:
            return found
        scores, constants = self.alignment.score(text, origin), self.alignment.constants
        open_ = np.flatnonzero(~followed.any(axis=0) & self.alignment.can_be_source(origin))
        best = scores[:, open_].argmax(axis=0)
        reached = scores[best, open_]
        near = np.maximum(constants.hop, constants.near_best * scores.max(axis=1)[best])
        common, points = self.alignment.common[text], self.lineage.points[text].points
        for place in np.flatnonzero(reached >= near):
            mine, theirs = int(best[place]), int(open_[place])
            if points[mine].key not in common:
                link = self._build_direct(text, mine, origin, theirs)
                found[mine, theirs] = hops.allow(link.relation)
        return found

    def _build_direct(self, text: int, mine: int, origin: int, theirs: int) -> Link:
        score = float(self.alignment.score(text, origin)[mine, theirs])
        return self.alignment.build_link(text, mine, origin, theirs, score)

    def list_chains(self, text: int, point: int) -> list[Origin]:
        """List the origins of a point, best first, each with the links that lead there."""
        found = []
        for origin in self.list_origins(text):
            row = self.reach(text, origin)[point]
            if not row.any() or self._only_quotes(origin, row):
                continue
            scores = np.where(row, self.alignment.score(text, origin)[point], 0)
            theirs = int(scores.argmax())
            links = self.trace(text, point, origin, theirs)
            found.append(Origin(origin, theirs, round(float(scores[theirs]), 3), links))
        return sorted(found, key=lambda one: (-one.score, one.source, one.source_point))

    def _only_quotes(self, origin: int, row: Reach) -> bool:
        """Say whether a critique gave only words that it quotes."""
        if self.lineage.texts[origin].role is not Role.CRITIQUE:
            return False
        quoted = self.list_quoted(origin)
        return all(int(place) in quoted for place in np.nonzero(row)[0])

    def list_quoted(self, critique: int) -> frozenset[int]:
        """List the points of a critique that say little more than what they quote."""
        if critique not in self._quoted:
            self._quoted[critique] = frozenset(
                link.point
                for link in self.alignment.list_links(critique)
                if link.relation is Relation.VERBATIM
                and self.lineage.texts[link.source].is_origin
                and self._is_most(critique, link)
            )
        return self._quoted[critique]

    def _is_most(self, text: int, link: Link) -> bool:
        """Say whether what a point quotes is most of it."""
        whole = self.lineage.points[text].points[link.point].key
        part = self.lineage.points[link.source].points[link.source_point].key
        return len(part) >= QUOTED_SHARE * len(whole)

    def trace(
        self, text: int, point: int, origin: int, theirs: int, hops: Hops = Hops.ALL
    ) -> tuple[Link, ...]:
        """Find the links from a point to a point of an origin; the best at each step."""
        links: list[Link] = []
        if not self._follow(text, origin, hops)[point, theirs]:
            return (self._build_direct(text, point, origin, theirs),)
        while text != origin:
            link = next(
                link
                for link in self.alignment.list_links_of(text, point)
                if hops.allow(link.relation) and self._leads(link, origin, theirs, hops)
            )
            links.append(link)
            text, point = link.source, link.source_point
            hops = self._decide_hops(text, hops)
        return tuple(links)

    def _leads(self, link: Link, origin: int, theirs: int, hops: Hops) -> bool:
        if link.source == origin:
            return link.source_point == theirs
        if origin not in self.lineage.closures[link.source]:
            return False
        reach = self._follow(link.source, origin, self._decide_hops(link.source, hops))
        return bool(reach[link.source_point, theirs])

    def get_end(self, text: int, point: int) -> int:
        """Get the text in which a point without an origin was added: where its best links end."""
        while links := self.alignment.list_links_of(text, point):
            text, point = links[0].source, links[0].source_point
        return text
