"""The ledger of an iteration: on what the documents of each stage differ, and if it lasts. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import UUID, uuid5

from dialectic.contract import dissents as contract
from dialectic.core.points import DissentKind
from dialectic.provenance.answers import list_objections
from dialectic.provenance.chain import Chains, Hops
from dialectic.provenance.coverage import Judge
from dialectic.provenance.dissent import Dissent, Position, find_dissent
from dialectic.provenance.report import Report
from dialectic.provenance.texts import Role

PLACES_MAX = 20


class Ledger:
    """Finds the dissents of one lineage, stage by stage."""

    def __init__(
        self, chains: Chains, report: Report, stages: Sequence[str], *, session_id: UUID, nth: int
    ) -> None:
        self._chains, self._lineage, self._report = chains, chains.lineage, report
        self._stages, self._session_id, self._nth = stages, session_id, nth

    def list_dissents(self) -> list[contract.Dissent]:
        """List the dissents of all stages, the weightiest first."""
        found = list(self._find())
        return sorted(found, key=lambda one: (-one.weight, one.id.bytes))

    def _find(self) -> Iterator[contract.Dissent]:
        for number, stage in enumerate(self._stages):
            group = self._list_documents(stage)
            if not group:
                continue
            space = uuid5(self._session_id, f"dissent:{self._nth}:{stage}")
            is_first = not any(self._is_merging(each) for each in self._stages[:number])
            # Answers to objections are given where critiques are merged, and repeated later.
            asked = is_first and self._is_merging(stage)
            objections = list_objections(Judge(self._chains, group[0])) if asked else []
            later = [n for each in self._stages[number + 1 :] for n in self._list_documents(each)]
            for one in find_dissent(self._chains.alignment, group, objections, space=space):
                yield self._build(one, stage, self._select_last(later))

    def _list_documents(self, stage: str) -> list[int]:
        """List the documents of a stage that stand side by side, the lead's first."""
        texts = self._lineage.texts
        return sorted(
            (
                n
                for n, text in enumerate(texts)
                if text.stage == stage
                and (text.role is Role.THESIS or (text.role is Role.EDITOR and text.is_final))
            ),
            key=lambda n: (not texts[n].is_lead, texts[n].model_index or 0, n),
        )

    def _is_merging(self, stage: str) -> bool:
        texts = self._lineage.texts
        return any(texts[n].role is Role.EDITOR for n in self._list_documents(stage))

    def _select_last(self, later: Sequence[int]) -> list[int]:
        texts = self._lineage.texts
        return [n for n in later if texts[n].stage == texts[later[-1]].stage] if later else []

    def _build(self, one: Dissent, stage: str, last: Sequence[int]) -> contract.Dissent:
        is_settled = self._is_settled(one, last)
        status = contract.DissentStatus.SETTLED if is_settled else contract.DissentStatus.OPEN
        return contract.Dissent(
            id=one.id,
            iteration=self._nth,
            stage=stage,
            kind=one.kind,
            subject=one.subject,
            weight=one.weight,
            status=status,
            positions=[self._build_position(one.id, position) for position in one.positions],
        )

    def _build_position(self, dissent_id: UUID, one: Position) -> contract.DissentPosition:
        return contract.DissentPosition(
            id=uuid5(dissent_id, one.says),
            says=one.says,
            seats=list(one.models),
            answer=one.answer,
            places=[self._report.place_point(*place) for place in one.places[:PLACES_MAX]],
        )

    def _is_settled(self, one: Dissent, last: Sequence[int]) -> bool:
        """Say whether the newest documents all say the same one of its positions."""
        if not last or one.kind in (DissentKind.SPLIT, DissentKind.DECLARED):
            return False
        said = [
            {number for number, each in enumerate(one.positions) if self._is_said(document, each)}
            for document in last
        ]
        return all(len(each) == 1 for each in said) and len(set().union(*said)) == 1

    def _is_said(self, document: int, position: Position) -> bool:
        closure, judge = self._lineage.closures[document], Judge(self._chains, document)
        return any(
            judge.find_kept(text, point, Hops.UNCHANGED) is not None
            for text, point in position.places
            if text in closure
        )
