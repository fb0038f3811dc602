"""The claims of theses: which critics take each up, and what each stage made of it. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from uuid import UUID, uuid5

from dialectic.contract import claims as contract
from dialectic.core.documents.markdown_blocks import Block, find_blocks
from dialectic.core.points import Status, Verdict
from dialectic.provenance.align import Link
from dialectic.provenance.chain import Chains, Hops
from dialectic.provenance.coverage import Judge, list_own_points
from dialectic.provenance.points import Item
from dialectic.provenance.texts import Role, Text

NOTE_CHARS_MAX = 600
# The parts of an objection as critics are asked to write them: `Verdict: unproven, because …`.
_PART = r"(?is)(?:^|[\s*_]){0}:[*_]*\s*(.+?)(?=\s+[*_-]*(?:{1}):|\n\s*\n|\Z)"
_NAMES = "Claim|Verdict|Severity|Certainty|Better|Sure of this"
_VERDICT = re.compile(_PART.format("Verdict", _NAMES))
_BETTER = re.compile(_PART.format("Better", _NAMES))
_WRONG = re.compile(r"(?i)\W*(?:wrong|false)\b")
_WEAK = re.compile(r"(?i)\W*(?:unproven|incomplete|partly)\b")
_REMOVE = re.compile(r"(?i)\W*(?:drop|remove|delete|strike|cut|leave (?:it|this|that) out)\b")
_KEEP = re.compile(r"(?i)\b(?:keep|kept|keeps|retain(?:ed)?|unchanged)\b")


def derive_claim_id(document_id: UUID, key: str) -> UUID:
    """Derive the id of a claim from its thesis and its words: it stays while these do."""
    return uuid5(document_id, f"claim:{key}")


class ClaimFinder:
    """Finds the claims of one lineage, judged against one document."""

    def __init__(self, chains: Chains, target: int | None, stages: Sequence[str]) -> None:
        self._chains, self._lineage, self._stages = chains, chains.lineage, stages
        self._judge = Judge(chains, target)
        self._judges: dict[int, Judge] = {}
        self._blocks: dict[int, list[Block]] = {}

    def list_claims(self) -> list[contract.Claim]:
        """List the claims of all theses, by thesis and in reading order."""
        found = [
            self._build(text, point, is_lone=is_lone)
            for text, point, is_lone in list_own_points(self._chains, Role.THESIS)
        ]
        return sorted(found, key=lambda one: (one.seat or 0, str(one.document_id), one.start))

    def _build(self, text: int, n: int, *, is_lone: bool) -> contract.Claim:
        one, point = self._lineage.texts[text], self._lineage.points[text].points[n]
        critics = [self._build_critic(link, critique) for critique, link in self._find(text, n)]
        return contract.Claim(
            id=derive_claim_id(get_document_id(one), point.key),
            seat=one.model_index,
            stage=one.stage,
            document_id=get_document_id(one),
            block_id=self._find_block(text, point.start),
            start=point.start,
            end=point.end,
            text=point.normal,
            is_lone=is_lone,
            critics=critics,
            fates=[self._decide_fate(stage, text, n) for stage in self._finals],
            final=self._judge.judge(text, n, is_lone=is_lone).status,
            is_contested=any(each.verdict in (Verdict.CHANGE, Verdict.DROP) for each in critics),
        )

    def _find_block(self, text: int, start: int) -> str | None:
        if text not in self._blocks:
            self._blocks[text] = find_blocks(self._lineage.texts[text].content)
        return find_block(self._blocks[text], start)

    # -- critics -----------------------------------------------------------------------------------

    @cached_property
    def _links(self) -> dict[tuple[int, int], list[tuple[int, Link]]]:
        """The links of critiques, by the point that they take up."""
        found: dict[tuple[int, int], list[tuple[int, Link]]] = {}
        for critique in self._lineage.list_role(Role.CRITIQUE):
            for link in self._chains.alignment.list_links(critique):
                place = link.source, link.source_point
                found.setdefault(place, []).append((critique, link))
        return found

    def _find(self, text: int, point: int) -> Iterator[tuple[int, Link]]:
        """Find the best link of each critique to a claim; one that judges it comes first."""
        found: dict[int, Link] = {}
        for critique, link in self._links.get((text, point), ()):
            known = found.get(critique)
            if known is None or self._rank(critique, link) < self._rank(critique, known):
                found[critique] = link
        yield from found.items()

    def _rank(self, critique: int, link: Link) -> tuple[bool, float, int]:
        verdict = read_verdict(self._quote_item(critique, link))
        return verdict is Verdict.UNCLEAR, -link.score, link.point

    def _get_item(self, critique: int, link: Link) -> Item:
        points = self._lineage.points[critique]
        return points.items[points.points[link.point].item]

    def _quote_item(self, critique: int, link: Link) -> str:
        item = self._get_item(critique, link)
        return self._lineage.texts[critique].content[item.start : item.end]

    def _build_critic(self, link: Link, critique: int) -> contract.ClaimCritic:
        one, written = self._lineage.texts[critique], self._quote_item(critique, link)
        return contract.ClaimCritic(
            seat=one.model_index,
            document_id=get_document_id(one),
            block_id=self._find_block(critique, self._get_item(critique, link).start),
            verdict=read_verdict(written),
            note=read_note(written),
            better=_read_part(_BETTER, written),
        )

    # -- fates -------------------------------------------------------------------------------------

    @cached_property
    def _finals(self) -> dict[str, list[int]]:
        """The final documents of each stage that merges, the lead's first."""
        texts = self._lineage.texts
        found = {
            stage: sorted(
                (
                    n
                    for n, text in enumerate(texts)
                    if text.stage == stage and text.role is Role.EDITOR and text.is_final
                ),
                key=lambda n: (not texts[n].is_lead, texts[n].model_index or 0, n),
            )
            for stage in self._stages
        }
        return {stage: documents for stage, documents in found.items() if documents}

    def _get_judge(self, document: int) -> Judge:
        if document not in self._judges:
            self._judges[document] = Judge(self._chains, document)
        return self._judges[document]

    def _decide_fate(self, stage: str, text: int, point: int) -> contract.ClaimFate:
        documents = [n for n in self._finals[stage] if text in self._lineage.closures[n]]
        for status, hops in ((Status.KEPT, Hops.UNCHANGED), (Status.CHANGED, Hops.ALL)):
            places = {
                n: place
                for n in documents
                if (place := self._get_judge(n).find_kept(text, point, hops)) is not None
            }
            if places:
                return self._build_fate(stage, status, places)
        for document in documents[:1]:
            refusal = self._get_judge(document).list_refusals(text).get(point)
            if refusal is not None:
                places = {refusal.text: refusal.point}
                fate = self._build_fate(stage, Status.REFUSED, places)
                return fate.model_copy(update={"text": refusal.reason or fate.text})
        status = Status.DROPPED if documents else Status.PENDING
        return self._build_fate(stage, status, {})

    def _build_fate(self, stage: str, status: Status, places: dict[int, int]) -> contract.ClaimFate:
        texts, first = self._lineage.texts, next(iter(places.items()), None)
        block, words, job_id = None, "", None
        if first is not None:
            point = self._lineage.points[first[0]].points[first[1]]
            block, words = self._find_block(first[0], point.start), point.normal
            job_id = texts[first[0]].job_id
        return contract.ClaimFate(
            stage=stage,
            fate=status,
            document_ids=[get_document_id(texts[n]) for n in places],
            block_id=block,
            text=words,
            job_id=job_id,
        )


def count_seats(claims: Sequence[contract.Claim]) -> list[contract.SeatClaims]:
    """Count what became of the claims of each seat."""
    counts: dict[int, Counter[Status]] = {}
    for claim in claims:
        if claim.seat is not None:
            counts.setdefault(claim.seat, Counter())[claim.final] += 1
    return [
        contract.SeatClaims(
            seat=seat,
            made=count.total(),
            **{status.value: count[status] for status in Status},
        )
        for seat, count in sorted(counts.items())
    ]


def get_document_id(text: Text) -> UUID:
    """Get the id by which readers name a document: that of its first version."""
    return text.document_id or text.id


def find_block(blocks: Sequence[Block], start: int) -> str | None:
    """Find the innermost block that a place of the text is in; None if it is in none."""
    number = bisect_right([block.start for block in blocks], start) - 1
    return blocks[number].id if number >= 0 else None


def read_verdict(written: str) -> Verdict:
    """Read what a critic wants done with a claim from the words of its objection."""
    better, verdict = _read_part(_BETTER, written), _read_part(_VERDICT, written)
    if better:
        return Verdict.DROP if _REMOVE.match(better) else Verdict.CHANGE
    if _WRONG.match(verdict):
        return Verdict.DROP
    if _WEAK.match(verdict):
        return Verdict.CHANGE
    return Verdict.KEEP if _KEEP.search(verdict or written) else Verdict.UNCLEAR


def read_note(written: str) -> str:
    """Read what a critic says about a claim: its verdict, or all of its words."""
    note = _read_part(_VERDICT, written) or " ".join(written.split())
    return note if len(note) <= NOTE_CHARS_MAX else f"{note[: NOTE_CHARS_MAX - 1].rstrip()}…"


def _read_part(pattern: re.Pattern[str], written: str) -> str:
    found = pattern.search(written)
    return "" if found is None else " ".join(found[1].split())
