"""What a document rests on, computed so that it cannot be talked up. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from dialectic.contract.strength import MissingReason, MissingSeat, NoteCode, Strength, StrengthNote
from dialectic.provenance.texts import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A document that another descends from, or that document itself."""

    id: UUID
    role: Role
    seat: int | None
    model: str
    # Of a critique: the documents that it read.
    sources: frozenset[UUID] = frozenset()
    is_incomplete: bool = False
    # The tokens of its inputs, and what was left of them; equal if nothing was shortened.
    tokens_before: int = 0
    tokens_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """All that is known about a document and what it descends from."""

    contribution_id: UUID
    version_id: UUID
    iteration: int
    # The seats that were asked, with their models.
    asked: Mapping[int, str]
    read: Sequence[Read]
    # By seat, the stages that ended without it, and those seats that a person dropped.
    lost: Mapping[int, Sequence[str]]
    dropped: frozenset[int] = frozenset()
    has_critiques: bool = True
    reduced: Sequence[str] = ()
    is_stale: bool = False
    open_dissents: int | None = None
    broken_rulings: int | None = None


def build_strength(basis: Basis) -> Strength:
    """Build what a document rests on; without notes it is as strong as it can be."""
    written = [one for one in basis.read if one.seat is not None]
    seats = sorted({one.seat for one in written if one.seat is not None})
    models = sorted({one.model for one in written})
    theses = [one for one in basis.read if one.role is Role.THESIS]
    critiques = [one for one in basis.read if one.role is Role.CRITIQUE]
    critics = {one.id: _list_critics(one, critiques) for one in theses}
    before = sum(one.tokens_before for one in basis.read)
    found = Strength(
        contribution_id=basis.contribution_id,
        version_id=basis.version_id,
        iteration=basis.iteration,
        seats_asked=len(basis.asked),
        seats=seats,
        models=models,
        is_single_model=len(models) == 1,
        missing=_list_missing(basis, seats),
        theses=len(theses),
        critiques=len(critiques),
        critiques_per_thesis=round(len(critiques) / len(theses), 2) if theses else None,
        uncriticised=[one.id for one in theses if basis.has_critiques and not critics[one.id]],
        self_criticised=[one.id for one in theses if critics[one.id] == {one.model}],
        documents=len(basis.read),
        shortened=sum(one.tokens_after < one.tokens_before for one in basis.read),
        shortened_share=round(
            sum(one.tokens_before - one.tokens_after for one in basis.read) / max(before, 1), 3
        ),
        cut_off=[one.id for one in basis.read if one.is_incomplete],
        reduced=list(basis.reduced),
        is_stale=basis.is_stale,
        open_dissents=basis.open_dissents,
        broken_rulings=basis.broken_rulings,
        notes=[],
        summary="",
    )
    found.notes = list(_list_notes(found))
    found.summary = "; ".join(note.text for note in found.notes)
    return found


def _list_critics(thesis: Read, critiques: Sequence[Read]) -> set[str]:
    """List the models that criticised a thesis."""
    return {one.model for one in critiques if thesis.id in one.sources}


def _list_missing(basis: Basis, seats: Sequence[int]) -> list[MissingSeat]:
    found = []
    for seat, model in sorted(basis.asked.items()):
        stages = list(basis.lost.get(seat, ()))
        if stages or seat not in seats:
            reason: MissingReason = "failed" if stages else "not_read"
            reason = "dropped" if seat in basis.dropped else reason
            found.append(MissingSeat(seat=seat, model=model, stages=stages, reason=reason))
    return found


_REASONS: Mapping[MissingReason, str] = {
    "failed": "failed",
    "dropped": "left the session",
    "not_read": "is in nothing that was read",
}


def _list_notes(found: Strength) -> Iterator[StrengthNote]:
    """List what makes a document weaker, the gravest first."""
    if found.is_single_model:
        text = f"rests on one model alone, {found.models[0]}"
        yield StrengthNote(code="single_model", text=text)
    for one in found.missing:
        where = f" in {', '.join(one.stages)}" if one.stages else ""
        text = f"seat {one.seat} ({one.model}) {_REASONS[one.reason]}{where}"
        yield StrengthNote(code="missing_seat", text=text)
    for code, number, one_word, words in _list_counts(found):
        if number:
            text = words.format(f"{number} {one_word if number == 1 else _MANY[one_word]}")
            yield StrengthNote(code=code, text=text)
    for what in found.reduced:
        yield StrengthNote(code="reduced", text=f"reduced process: {what}")
    if found.is_stale:
        text = "something that it rests on has changed since"
        yield StrengthNote(code="stale", text=text)


_MANY = {
    "thesis": "theses",
    "document": "documents",
    "dissent": "dissents",
    "ruling": "rulings",
}


def _list_counts(found: Strength) -> tuple[tuple[NoteCode, int, str, str], ...]:
    """List what is counted: its code, the number, what is counted, and the words around it."""
    left_out = f"{found.shortened_share:.0%}"
    return (
        ("uncriticised", len(found.uncriticised), "thesis", "{} without a critique"),
        (
            "self_criticised",
            len(found.self_criticised),
            "thesis",
            "{} criticised by the same model alone",
        ),
        (
            "shortened",
            found.shortened,
            "document",
            f"{{}} written from shortened texts ({left_out} left out)",
        ),
        ("cut_off", len(found.cut_off), "document", "{} cut off"),
        ("open_dissent", found.open_dissents or 0, "dissent", "{} open"),
        ("broken_ruling", found.broken_rulings or 0, "ruling", "{} not followed"),
    )
