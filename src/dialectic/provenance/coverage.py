"""What became of every point that only one thesis has, judged against one document. Pure.

A refusal is not a loss, and a loss is not a refusal. Where several statuses fit, the first of kept,
changed, refused and dropped counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dialectic.core.points import Status
from dialectic.core.process.definition import Holds
from dialectic.provenance.align import Link
from dialectic.provenance.chain import Chains, Hops
from dialectic.provenance.reasons import read_reason
from dialectic.provenance.texts import Role

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Which = NDArray[np.bool_]

StepName = tuple[str, str]
"""A step of the process: the slug of its stage, and its name or empty."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A point that says that another is refused, and why."""

    text: int
    point: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a point of a thesis."""

    text: int
    point: int
    status: Status
    # Whether only one document of its type has it.
    is_lone: bool
    # Where the document says it, from there to the thesis; of a kept or changed point.
    target: int | None = None
    place: int | None = None
    links: tuple[Link, ...] = ()
    refusal: Refusal | None = None
    # Of a dropped point: the last step that has it, and the first that does not.
    last_seen: StepName | None = None
    lost_at: StepName | None = None
    # The documents of that step that read it and do not have it.
    lost_by: tuple[int, ...] = ()


@dataclass(frozen=True)
class Coverage:
    """What became of the points of all theses."""

    target: int | None
    fates: tuple[Fate, ...] = ()

    def count(self, text: int) -> dict[Status, int]:
        """Count the lone points of a thesis by what became of them."""
        found = Counter(one.status for one in self.fates if one.text == text and one.is_lone)
        return {status: found[status] for status in Status}


def judge_coverage(chains: Chains, target: int | None) -> Coverage:
    """Judge what became of the points of all theses, as far as a document shows it."""
    judge = Judge(chains, target)
    fates = [
        judge.judge(text, point, is_lone=is_lone)
        for text, point, is_lone in list_own_points(chains, Role.THESIS)
    ]
    return Coverage(judge.target, tuple(fates))


def list_own_points(chains: Chains, role: Role) -> list[tuple[int, int, bool]]:
    """List the points of all texts of a role: each lone point, and each shared one once.

    A point is lone if no point of another document of its role scores enough against it.
    """
    alignment, lineage = chains.alignment, chains.lineage
    texts = lineage.list_role(role)
    scorers = {n: alignment.build_group_scorer(n, texts) for n in texts}
    found: list[tuple[int, int, bool]] = []
    for text in texts:
        points = lineage.points[text].points
        is_shared = np.zeros(len(points), dtype=np.bool_)
        is_told = np.zeros(len(points), dtype=np.bool_)
        for other in texts:
            if other == text or not len(alignment.sheets[other]) or not points:
                continue
            best = scorers[text].score(alignment.sheets[other])
            same = best.max(axis=1) >= alignment.constants.hop
            is_shared |= same
            if other < text:
                is_told |= same
        first = {point.key: point.n for point in reversed(points)}
        found += [
            (text, point.n, not is_shared[point.n])
            for point in points
            if point.holds is not Holds.ASIDE
            and point.key not in alignment.common[text]
            and first[point.key] == point.n
            and not is_told[point.n]
        ]
    return found


@dataclass
class Judge:
    """Judges points of origins against one document."""

    chains: Chains
    target: int | None
    _refusals: dict[int, dict[int, Refusal]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Neither a thesis nor a critique has the task to keep what others say.
        texts = self.chains.lineage.texts
        if self.target is not None and texts[self.target].role is not Role.EDITOR:
            self.target = None

    @cached_property
    def editors(self) -> list[int]:
        """The documents on the way from the origins to the document, and the document itself."""
        if self.target is None:
            return []
        texts = self.chains.lineage.texts
        closure = self.chains.lineage.closures[self.target]
        return [n for n in sorted(closure) if texts[n].role is Role.EDITOR]

    @cached_property
    def steps(self) -> list[StepName]:
        """The steps of these documents, in order."""
        depth: dict[StepName, int] = {}
        depths: dict[int, int] = {}
        for n, parents in enumerate(self.chains.lineage.parents):
            depths[n] = 1 + max((depths[each] for each in parents), default=0)
            if n in self.editors:
                name = self.get_step(n)
                depth[name] = max(depth.get(name, 0), depths[n])
        return sorted(depth, key=lambda name: (depth[name], name))

    def get_step(self, text: int) -> StepName:
        one = self.chains.lineage.texts[text]
        return one.stage, one.step

    def holds(self, text: int, *wanted: Holds) -> Which:
        points = self.chains.lineage.points[text].points
        return np.array([point.holds in wanted for point in points], dtype=np.bool_)

    def judge(self, text: int, point: int, *, is_lone: bool) -> Fate:
        """Judge one point of an origin."""
        target = self.target
        if target is None or text not in self.chains.lineage.closures[target]:
            return Fate(text, point, Status.PENDING, is_lone)
        for status, hops in ((Status.KEPT, Hops.UNCHANGED), (Status.CHANGED, Hops.ALL)):
            if (place := self.find_kept(text, point, hops)) is not None:
                links = self.chains.trace(target, place, text, point, hops)
                return Fate(text, point, status, is_lone, target, place, links)
        if (refusal := self.list_refusals(text).get(point)) is not None:
            return Fate(text, point, Status.REFUSED, is_lone, refusal=refusal)
        return self._judge_loss(text, point, is_lone=is_lone)

    def find_kept(self, text: int, point: int, hops: Hops = Hops.ALL) -> int | None:
        """Find the point of the document that says what a point of an origin says."""
        assert self.target is not None
        reach = self.chains.reach(self.target, text, hops)
        if not len(reach):
            return None
        # What is said about a critique is not yet part of the proposal.
        idle = self.holds(self.target, Holds.REFUSED, Holds.ASIDE, Holds.TAKEN)
        found = np.where(reach[:, point] & ~idle)[0]
        if not len(found):
            return None
        scores = self.chains.alignment.score(self.target, text)[found, point]
        return int(found[scores.argmax()])

    def list_refusals(self, text: int) -> dict[int, Refusal]:
        """List the refusals of an origin's points; the latest document counts."""
        if text not in self._refusals:
            self._refusals[text] = {
                one: self._build_refusal(editor, place, text, one)
                for editor in self.editors
                for one, place in self.find_held(editor, text, Holds.REFUSED).items()
            }
        return self._refusals[text]

    def find_held(self, editor: int, text: int, *wanted: Holds) -> dict[int, int]:
        """Find the points of an origin that points of a kind say; each with the best of them."""
        if text not in self.chains.lineage.closures[editor]:
            return {}
        reach = self.chains.reach(editor, text)
        if not reach.any():
            return {}
        reach = reach & self.holds(editor, *wanted)[:, None]
        scores = np.where(reach, self.chains.alignment.score(editor, text), -1.0)
        return {
            int(point): int(scores[:, point].argmax()) for point in np.nonzero(reach.any(axis=0))[0]
        }

    def _build_refusal(self, editor: int, place: int, text: int, point: int) -> Refusal:
        lineage = self.chains.lineage
        points = lineage.points[editor]
        item = points.items[points.points[place].item]
        written = lineage.texts[editor].content[item.start : item.end]
        labels = frozenset(lineage.texts[editor].labels)
        refused = lineage.points[text].points[point].normal
        return Refusal(editor, place, read_reason(written, refused, labels))

    def _judge_loss(self, text: int, point: int, *, is_lone: bool) -> Fate:
        has = {editor: self._is_alive(editor, text, point) for editor in self.editors}
        alive = {self.get_step(editor) for editor, found in has.items() if found}
        last = max((self.steps.index(name) for name in alive), default=-1)
        lost_at = self.steps[last + 1] if last + 1 < len(self.steps) else None
        parents = self.chains.lineage.parents
        lost_by = tuple(
            editor
            for editor in self.editors
            if self.get_step(editor) == lost_at
            and any(each == text or has.get(each, False) for each in parents[editor])
        )
        last_seen = self.steps[last] if last >= 0 else self.get_step(text)
        return Fate(
            text,
            point,
            Status.DROPPED,
            is_lone,
            last_seen=last_seen,
            lost_at=lost_at,
            lost_by=lost_by,
        )

    def _is_alive(self, editor: int, text: int, point: int) -> bool:
        if text not in self.chains.lineage.closures[editor]:
            return False
        reach = self.chains.follow(editor, text)
        if not len(reach):
            return False
        return bool((reach[:, point] & ~self.holds(editor, Holds.ASIDE)).any())


def choose_target(chains: Chains, stages: Sequence[str]) -> int | None:
    """Choose the document to judge by: the lead's of the last stage that has one by an editor."""
    texts = chains.lineage.texts
    for stage in reversed(stages):
        found = [
            n
            for n, text in enumerate(texts)
            if text.stage == stage and text.role is Role.EDITOR and text.is_final
        ]
        if found:
            return min(found, key=lambda n: (not texts[n].is_lead, texts[n].model_index or 0, n))
    return None
