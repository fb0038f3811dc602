"""Build the responses from what was found. Pure; equal texts give equal responses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from dialectic.contract import provenance as contract
from dialectic.contract.claims import Claim, SeatClaims
from dialectic.contract.dissents import Dissent
from dialectic.core.points import Met, Relation, Status
from dialectic.core.strict_json import Json
from dialectic.provenance import METHOD
from dialectic.provenance.align import Link
from dialectic.provenance.answers import Objection, list_objections
from dialectic.provenance.chain import Chains, Origin
from dialectic.provenance.claims import ClaimFinder, count_seats
from dialectic.provenance.coverage import Fate, Judge, Refusal, StepName, judge_coverage
from dialectic.provenance.figures import Said, Traced, list_figures
from dialectic.provenance.points import Item
from dialectic.provenance.requirements import Constraint, Requirement, Step, judge_plan
from dialectic.provenance.texts import Role


class Report:
    """Builds responses about one lineage."""

    def __init__(self, chains: Chains, versions: contract.VersionsKnown = "known") -> None:
        self._chains, self._versions = chains, versions
        self._lineage = chains.lineage

    def get_place(self, text_id: UUID) -> int:
        """Get the place of a text in the lineage."""
        found = self._lineage.find(text_id)
        assert found is not None, "a report is about a text of its lineage"
        return found

    # -- places ------------------------------------------------------------------------------------

    def place(self, text: int, start: int, end: int) -> contract.Place:
        return contract.Place(**self._describe(text, start, end))

    def _describe(self, text: int, start: int, end: int) -> Json:
        one = self._lineage.texts[text]
        return {
            "kind": one.kind,
            "id": one.document_id or one.id,
            "version_id": one.id,
            "label": one.label,
            "model": one.model,
            "seat": one.model_index,
            "stage": one.stage,
            "step": one.step,
            "type": one.type,
            "start": start,
            "end": end,
            "text": one.content[start:end].strip(),
        }

    def place_point(self, text: int, point: int) -> contract.Place:
        one = self._lineage.points[text].points[point]
        return self.place(text, one.start, one.end)

    def _place_item(self, text: int, item: Item) -> contract.Place:
        return self.place(text, item.start, item.end)

    def _get_id(self, text: int) -> UUID:
        one = self._lineage.texts[text]
        return one.document_id or one.id

    # -- provenance --------------------------------------------------------------------------------

    def build_provenance(self, text: int, depth: contract.Depth = "origin") -> contract.Provenance:
        """Build where the passages of a document come from."""
        one = self._lineage.texts[text]
        points = self._lineage.points[text]
        passages = [self._trace(text, point.n, depth) for point in points.points]
        return contract.Provenance(
            contribution_id=self._get_id(text),
            version_id=one.id,
            method=METHOD,
            depth=depth,
            versions=self._versions,
            unread=points.unread,
            passages=passages,
            by_seat=_count_seats(passages),
        )

    def _trace(self, text: int, n: int, depth: contract.Depth) -> contract.TracedPassage:
        point = self._lineage.points[text].points[n]
        direct = self._chains.alignment.list_links_of(text, n)
        chains = self._chains.list_chains(text, n)
        if depth == "direct":
            sources = [
                self._build_source(link.score, link.source, link.source_point, [link])
                for link in direct
            ]
        else:
            sources = [self._build_origin(origin) for origin in chains]
        end = None if chains else self._chains.get_end(text, n)
        return contract.TracedPassage(
            n=n,
            start=point.start,
            end=point.end,
            heading=list(point.headings),
            holds=point.holds,
            relation=self._chains.alignment.decide_point(text, n),
            new_at=None if end is None else self._get_id(end),
            new_by=None if end is None else self._lineage.texts[end].kind,
            sources=sources,
        )

    def _build_origin(self, origin: Origin) -> contract.PointSource:
        return self._build_source(origin.score, origin.source, origin.source_point, origin.links)

    def _build_source(
        self, score: float, text: int, point: int, links: Iterable[Link]
    ) -> contract.PointSource:
        one = self._lineage.points[text].points[point]
        chain = Origin(text, point, score, tuple(links))
        return contract.PointSource(
            **self._describe(text, one.start, one.end),
            score=score,
            is_sure=score >= self._chains.alignment.constants.sure,
            relation=chain.relation,
            via=[self._get_id(link.source) for link in chain.links[:-1]],
        )

    # -- coverage ----------------------------------------------------------------------------------

    def build_coverage(
        self, session_id: UUID, iteration: int, target: int | None
    ) -> contract.Coverage:
        """Build what became of every point, objection, requirement and figure."""
        coverage = judge_coverage(self._chains, target)
        judge = Judge(self._chains, target)
        plan = judge_plan(self._chains, judge.target)
        lineage = self._lineage
        base, of = plan.base, judge.target
        return contract.Coverage(
            session_id=session_id,
            iteration=iteration,
            method=METHOD,
            versions=self._versions,
            of=None if of is None else self.place(of, 0, 0),
            theses=[
                self._count(text, coverage.count(text)) for text in lineage.list_role(Role.THESIS)
            ],
            points=sorted((self._build_fate(one) for one in coverage.fates), key=_rank_fate),
            objections=[self._build_objection(one) for one in list_objections(judge)],
            requirements=[self._build_requirement(one, of) for one in plan.requirements],
            steps=[self._build_step(one, of) for one in plan.steps if of is not None],
            constraints=[self._build_constraint(one, base) for one in plan.constraints],
            figures=[
                self._build_figure(one)
                for one in (list_figures(self._chains, of) if of is not None else [])
            ],
            unread=sum(points.unread for points in lineage.points),
        )

    def build_claims(
        self, target: int | None, stages: Sequence[str]
    ) -> tuple[list[Claim], list[SeatClaims]]:
        """Build the claims of all theses, and what became of them by seat."""
        claims = ClaimFinder(self._chains, target, stages).list_claims()
        return claims, count_seats(claims)

    def build_dissents(self, stages: Sequence[str], session_id: UUID, nth: int) -> list[Dissent]:
        """Build what the documents of each stage do not agree on."""
        from dialectic.provenance.ledger import Ledger

        ledger = Ledger(self._chains, self, stages, session_id=session_id, nth=nth)
        return ledger.list_dissents()

    def _build_requirement(self, one: Requirement, of: int | None) -> contract.RequirementFate:
        item = self._lineage.points[one.text].items[one.item]
        return contract.RequirementFate(
            requirement=self._place_item(one.text, item),
            number=one.id,
            met=one.met,
            steps=[self._name_item(of, step) for step in one.steps if of is not None],
        )

    def _build_step(self, one: Step, of: int) -> contract.StepFate:
        return contract.StepFate(
            step=self._place_item(of, self._lineage.points[of].items[one.item]),
            met=one.met,
            requirements=list(one.requirements),
        )

    def _build_constraint(self, one: Constraint, base: int | None) -> contract.ConstraintFate:
        named = [self._name_item(base, item) for item in one.requirements if base is not None]
        return contract.ConstraintFate(
            constraint=self.place_point(one.text, one.point), requirements=named
        )

    def _name_item(self, text: int, item: int) -> str:
        """Name an item by its number, else by its first words."""
        one = self._lineage.points[text].items[item]
        if one.id:
            return one.id
        return self._lineage.points[text].points[one.points[0]].normal[:80] if one.points else ""

    def _count(self, text: int, counts: dict[Status, int]) -> contract.ThesisCoverage:
        return contract.ThesisCoverage(
            thesis=self.place(text, 0, 0),
            points=sum(counts.values()),
            **{status.value: number for status, number in counts.items()},
        )

    def _build_fate(self, fate: Fate) -> contract.PointFate:
        of = fate.links[0] if fate.links else None
        return contract.PointFate(
            point=self.place_point(fate.text, fate.point),
            status=fate.status,
            is_lone=fate.is_lone,
            found=self._find_place(fate) if of is not None else None,
            changed=self._build_hop(fate) if fate.status is Status.CHANGED else None,
            refused=None if fate.refusal is None else self._build_refusal(fate.refusal),
            last_seen=_name_step(fate.last_seen),
            lost_at=_name_step(fate.lost_at),
            lost_by=[self._get_id(text) for text in fate.lost_by],
        )

    def _find_place(self, fate: Fate) -> contract.Place | None:
        if fate.place is None or fate.target is None:
            return None
        return self.place_point(fate.target, fate.place)

    def _build_hop(self, fate: Fate) -> contract.Hop | None:
        """Build the step of a chain that changed a point: what it read, and what it wrote."""
        text, point = fate.target, fate.place
        for link in fate.links:
            if text is None or point is None:
                break
            if link.relation is Relation.CHANGED:
                return contract.Hop(
                    before=self.place_point(link.source, link.source_point),
                    after=self.place_point(text, point),
                )
            text, point = link.source, link.source_point
        return None

    def _build_refusal(self, refusal: Refusal) -> contract.Refused:
        if refusal.point < 0:
            return contract.Refused(place=self.place(refusal.text, 0, 0), reason=refusal.reason)
        place = self.place_point(refusal.text, refusal.point)
        return contract.Refused(place=place, reason=refusal.reason)

    def _build_objection(self, one: Objection) -> contract.ObjectionFate:
        item = self._lineage.points[one.text].items[one.item]
        return contract.ObjectionFate(
            objection=self._place_item(one.text, item),
            number=item.id,
            answer=one.answer,
            taken_by=[self._get_id(text) for text in one.taken_by],
            refused=[self._build_refusal(refusal) for refusal in one.refusals],
        )

    def _build_figure(self, one: Traced) -> contract.FigureOrigin:
        return contract.FigureOrigin(
            figure=self._quote(one.figure),
            place=self.place_point(one.figure.text, one.figure.point),
            first=self.place_point(one.first_text, one.first_point),
            is_made_up=one.is_made_up,
            made_up_at=self._name_step_of(one.first_text) if one.is_made_up else "",
            others=[self.place(other.text, other.start, other.end) for other in one.others],
        )

    def _name_step_of(self, text: int) -> str:
        one = self._lineage.texts[text]
        return _name_step((one.stage, one.step))

    def _quote(self, said: Said) -> str:
        return self._lineage.texts[said.text].content[said.start : said.end]


_WORST_FIRST = (Status.DROPPED, Status.CHANGED, Status.REFUSED, Status.PENDING, Status.KEPT)


def _rank_fate(fate: contract.PointFate) -> tuple[int, bool, str, int]:
    """Order points: the worst first, those of one thesis alone before shared ones."""
    order = _WORST_FIRST.index(fate.status)
    return order, not fate.is_lone, str(fate.point.version_id), fate.point.start


def _name_step(name: StepName | None) -> str:
    return "" if name is None else "/".join(filter(None, name))


def _count_seats(passages: Iterable[contract.TracedPassage]) -> list[contract.SeatShare]:
    counts: dict[int, int] = {}
    for passage in passages:
        for seat in {one.seat for one in passage.sources[:1] if one.seat is not None}:
            counts[seat] = counts.get(seat, 0) + 1
    return [contract.SeatShare(seat=seat, passages=counts[seat]) for seat in sorted(counts)]


def is_whole(coverage: contract.Coverage) -> bool:
    """Return whether nothing is dropped, unanswered or without a step."""
    return not (
        any(one.status is Status.DROPPED for one in coverage.points)
        or any(one.answer.value in ("unanswered", "refused_emptily") for one in coverage.objections)
        or any(one.met is Met.NOT for one in coverage.requirements)
    )
