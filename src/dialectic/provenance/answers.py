"""Which objections were answered, and how: taken, refused, kept, or passed over. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from dialectic.core.points import Answer
from dialectic.core.process.definition import Holds
from dialectic.provenance.coverage import Judge, Refusal
from dialectic.provenance.points import Item, find_ids, list_items
from dialectic.provenance.reasons import is_empty_reason, read_reason
from dialectic.provenance.texts import Role


@dataclass(frozen=True, slots=True)
class Objection:
    """An objection of a critique and its answer."""

    text: int
    item: int
    answer: Answer
    # The texts whose editors took it, and the refusals.
    taken_by: tuple[int, ...] = ()
    refusals: tuple[Refusal, ...] = ()

    @property
    def is_open(self) -> bool:
        return self.answer in (Answer.UNANSWERED, Answer.REFUSED_EMPTILY)


def list_objections(judge: Judge) -> list[Objection]:
    """List the objections of all critiques with their answers."""
    lineage = judge.chains.lineage
    return [
        _judge(judge, text, item)
        for text in lineage.list_role(Role.CRITIQUE)
        for item in list_items(lineage.points[text], Holds.OBJECTION)
    ]


def _judge(judge: Judge, text: int, item: Item) -> Objection:
    target = judge.target
    if target is None or text not in judge.chains.lineage.closures[target]:
        return Objection(text, item.n, Answer.PENDING)
    own = _list_own(judge, text, item)
    taken: list[int] = []
    refusals: list[Refusal] = []
    for editor in judge.editors:
        if text not in judge.chains.lineage.closures[editor]:
            continue
        answers = _find_answers(judge, editor, text, item, own)
        if Holds.TAKEN in answers:
            taken.append(editor)
        if (place := answers.get(Holds.REFUSED)) is not None:
            refusals.append(_build_refusal(judge, editor, place, text, item))
    is_kept = any(judge.find_kept(text, point) is not None for point in own)
    return Objection(
        text,
        item.n,
        _decide(is_taken=bool(taken), is_kept=is_kept, refusals=refusals),
        tuple(taken),
        tuple(refusals),
    )


def _decide(*, is_taken: bool, is_kept: bool, refusals: list[Refusal]) -> Answer:
    if is_taken:
        return Answer.TAKEN
    if refusals:
        is_empty = all(is_empty_reason(refusal.reason) for refusal in refusals)
        if is_kept:
            return Answer.KEPT
        return Answer.REFUSED_EMPTILY if is_empty else Answer.REFUSED
    return Answer.KEPT if is_kept else Answer.UNANSWERED


def _list_own(judge: Judge, text: int, item: Item) -> list[int]:
    """List the points of an objection, without those that only quote the thesis."""
    quoted = judge.chains.list_quoted(text)
    return [point for point in item.points if point not in quoted] or list(item.points)


def _find_answers(
    judge: Judge, editor: int, text: int, item: Item, own: list[int]
) -> dict[Holds, int]:
    """Find the items of an editor that answer an objection: by its number, else by its words."""
    numbers = _list_numbers(judge, editor, text)
    by_number = {
        holds: one.n
        for holds in (Holds.TAKEN, Holds.REFUSED)
        for one in reversed(list_items_of(judge, editor, holds))
        if item.id in numbers and item.id in _read_ids(judge, editor, one)
    }
    if by_number:
        return by_number
    points = judge.chains.lineage.points[editor]
    found: dict[Holds, int] = {}
    for holds in (Holds.TAKEN, Holds.REFUSED):
        held = judge.find_held(editor, text, holds)
        places = [points.points[held[point]].item for point in own if point in held]
        # An item that names other objections answers those.
        free = [n for n in places if not _read_ids(judge, editor, points.items[n]) & numbers]
        if free:
            found[holds] = free[0]
    return found


def _read_ids(judge: Judge, text: int, item: Item) -> frozenset[str]:
    return find_ids(judge.chains.lineage.texts[text].content[item.start : item.end])


def list_items_of(judge: Judge, text: int, holds: Holds) -> list[Item]:
    """List all items of a kind, whether they are numbered or not."""
    return [item for item in judge.chains.lineage.points[text].items if item.holds is holds]


def _list_numbers(judge: Judge, editor: int, text: int) -> frozenset[str]:
    """List the numbers by which an editor can mean an objection of one critique alone."""
    lineage = judge.chains.lineage
    numbers: dict[int, frozenset[str]] = {
        parent: frozenset(
            item.id for item in list_items_of(judge, parent, Holds.OBJECTION) if item.id
        )
        for parent in lineage.parents[editor]
        if lineage.texts[parent].role is Role.CRITIQUE
    }
    others = frozenset[str]().union(*(found for n, found in numbers.items() if n != text))
    return numbers.get(text, frozenset()) - others


def _build_refusal(judge: Judge, editor: int, place: int, text: int, item: Item) -> Refusal:
    lineage = judge.chains.lineage
    refusing = lineage.points[editor].items[place]
    written = lineage.texts[editor].content[refusing.start : refusing.end]
    refused = lineage.texts[text].content[item.start : item.end]
    reason = read_reason(written, refused, frozenset(lineage.texts[editor].labels))
    point = refusing.points[0] if refusing.points else -1
    return Refusal(editor, point, reason)
