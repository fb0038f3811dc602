"""What a document rests on: every weakness is named, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

from dialectic.contract.strength import NoteCode, Strength
from dialectic.provenance.strength import Basis, Read, build_strength
from dialectic.provenance.texts import Role
from tests.cases import each_case

MODELS = ("a/w", "b/x", "c/y", "d/z", "e/v")
STAGES = ("thesis", "antithesis", "synthesis")
Degraded = tuple[Basis, tuple[NoteCode, ...]]


def name(role: Role, seat: int, about: int = 0) -> UUID:
    return UUID(int=(list(Role).index(role) * 10 + seat) * 10 + about)


def make(seats: int) -> Basis:
    """Describe a run in which all went well: each seat criticises each thesis."""
    numbers = range(1, seats + 1)
    theses = [
        Read(id=name(Role.THESIS, seat), role=Role.THESIS, seat=seat, model=MODELS[seat - 1])
        for seat in numbers
    ]
    critiques = [
        Read(
            id=name(Role.CRITIQUE, seat, about),
            role=Role.CRITIQUE,
            seat=seat,
            model=MODELS[seat - 1],
            sources=frozenset({name(Role.THESIS, about)}),
        )
        for seat in numbers
        for about in numbers
    ]
    merged = Read(
        id=name(Role.EDITOR, 1),
        role=Role.EDITOR,
        seat=1,
        model=MODELS[0],
        tokens_before=900,
        tokens_after=900,
    )
    return Basis(
        contribution_id=merged.id,
        version_id=merged.id,
        iteration=1,
        asked={seat: MODELS[seat - 1] for seat in numbers},
        read=[*theses, *critiques, merged],
        lost={},
        open_dissents=0,
        broken_rulings=0,
    )


def without(basis: Basis, seat: int, *roles: Role) -> list[Read]:
    return [one for one in basis.read if one.seat != seat or one.role not in roles]


def with_last(basis: Basis, last: Read) -> list[Read]:
    return [*basis.read[:-1], last]


def list_degraded(seats: int) -> Iterator[Degraded]:
    clean, last = make(seats), seats
    merged = clean.read[-1]
    everything = (Role.THESIS, Role.CRITIQUE)
    yield replace(clean, read=without(clean, last, *everything)), ("missing_seat",)
    yield (
        replace(clean, read=without(clean, last, *everything), dropped=frozenset({last})),
        ("missing_seat",),
    )
    for stage in STAGES:
        yield replace(clean, lost={last: [stage]}), ("missing_seat",)
    first = name(Role.THESIS, 1)
    yield (
        replace(clean, read=[one for one in clean.read if first not in one.sources]),
        ("uncriticised",),
    )
    own = [one for one in clean.read if first not in one.sources or one.seat == 1]
    yield replace(clean, read=own), ("self_criticised",)
    yield replace(clean, read=with_last(clean, replace(merged, tokens_after=600))), ("shortened",)
    yield replace(clean, read=with_last(clean, replace(merged, is_incomplete=True))), ("cut_off",)
    yield replace(clean, reduced=["synthesis, each editor reads 1 of 3 critiques"]), ("reduced",)
    yield replace(clean, is_stale=True), ("stale",)
    yield replace(clean, open_dissents=2), ("open_dissent",)
    yield replace(clean, broken_rulings=1), ("broken_ruling",)
    alike = [replace(one, model="a/w") for one in clean.read]
    yield replace(clean, read=alike), ("single_model", "self_criticised")


DEGRADED = [each for seats in (3, 4, 5) for each in list_degraded(seats)]


def list_codes(found: Strength) -> tuple[NoteCode, ...]:
    return tuple(dict.fromkeys(note.code for note in found.notes))


def test_a_clean_run_of_any_size_has_no_note() -> None:
    for seats in (2, 3, 4, 5):
        found = build_strength(make(seats))
        assert (found.notes, found.summary) == ([], "")
        assert found.critiques_per_thesis == seats
        assert found.seats == list(range(1, seats + 1))


@each_case(("basis", "codes"), DEGRADED)
def test_each_weakness_is_named_and_no_other(basis: Basis, codes: tuple[NoteCode, ...]) -> None:
    found = build_strength(basis)
    assert list_codes(found) == codes
    assert all(note.text in found.summary for note in found.notes)


def test_forty_ways_to_be_weaker_are_tried() -> None:
    assert len(DEGRADED) >= 40


def test_what_is_not_known_yet_does_not_count_as_a_weakness() -> None:
    found = build_strength(replace(make(3), open_dissents=None, broken_rulings=None))
    assert (found.open_dissents, found.broken_rulings, found.notes) == (None, None, [])


def test_why_a_seat_is_missing_is_told() -> None:
    clean = make(3)
    read = without(clean, 3, Role.THESIS, Role.CRITIQUE)
    cases = {
        "not_read": replace(clean, read=read),
        "dropped": replace(clean, read=read, dropped=frozenset({3})),
        "failed": replace(clean, read=read, lost={3: ["thesis"]}),
    }
    for reason, basis in cases.items():
        (missing,) = build_strength(basis).missing
        assert (missing.seat, missing.model, missing.reason) == (3, "c/y", reason)
