"""What each seat brought: only what is still there counts."""

from __future__ import annotations

from uuid import UUID

from dialectic.provenance.report import Report
from dialectic.provenance.worth import SeatCost, Tally, build_models, build_seat, tally_seats
from tests.unit.provenance.lineages import chain, place, write

OWN = "The hall lends seventeen folding bicycles to guests from the railway station."
SHARED = "Every booking needs a deposit, which the caretaker keeps until the keys are back."
LOST = "A brass band rehearses in the cellar on Thursdays without any rent at all."


def tally(*finals: str) -> dict[int, Tally]:
    written = [
        write("T0", "thesis", f"{OWN}\n\n{SHARED}", seat=1),
        write("T1", "thesis", f"{LOST}\n\n{SHARED}", seat=2),
        write("T2", "thesis", SHARED, seat=3),
    ]
    editor = write("E", "synthesis", "\n\n".join(finals), "T0", "T1", "T2", seat=1)
    chains = chain(*written, editor)
    target = place(chains, "E")
    coverage = Report(chains).build_coverage(UUID(int=1), 1, target)
    authors = {text.document_id or text.id: text.model_index for text in chains.lineage.texts}
    return tally_seats(coverage, authors, overruled=[2, 2])


def test_a_seat_brought_the_points_of_its_own_that_the_document_says() -> None:
    found = tally(OWN, SHARED)
    assert [(one.points, len(one.kept)) for one in found.values()] == [(1, 1), (1, 0), (0, 0)]
    assert found[1].kept[0].text == OWN


def test_what_an_editor_read_and_does_not_have_is_its_omission() -> None:
    found = tally(OWN, SHARED)
    assert [one.omissions for one in found.values()] == [1, 0, 0]
    assert [one.overruled for one in found.values()] == [0, 2, 0]


def test_a_copy_of_another_model_brings_no_point() -> None:
    written = [
        write("T0", "thesis", f"{OWN}\n\n{LOST}", seat=1),
        write("T1", "thesis", f"{OWN}\n\n{LOST}", seat=2),
    ]
    chains = chain(*written, write("E", "synthesis", f"{OWN}\n\n{LOST}", "T0", "T1", seat=1))
    coverage = Report(chains).build_coverage(UUID(int=1), 1, place(chains, "E"))
    authors = {text.document_id or text.id: text.model_index for text in chains.lineage.texts}
    assert {one.points for one in tally_seats(coverage, authors).values()} == {0}


def test_models_are_added_up_over_sessions_exactly() -> None:
    cost = SeatCost(seat=1, calls=3, charged_credits=1_250_000, elapsed_ms=90_000)
    place_of = tally(OWN, SHARED)[1].kept
    seat = build_seat("a/x", Tally(points=2, kept=place_of), cost)
    assert (seat.charged, seat.minutes, seat.kept_per_dollar) == ("1.25", 1.5, 0.8)
    free = build_seat("b/y", Tally(), SeatCost(seat=2, charged_play_credits=10))
    assert (free.kept_per_dollar, free.kept_per_minute) == (None, None)
    (first, second) = build_models([[seat, free], [seat]])
    assert (first.model, first.sessions, first.charged, first.calls) == ("a/x", 2, "2.5", 6)
    assert (first.kept, first.kept_per_dollar) == (2, 0.8)
    assert (second.model, second.sessions, second.charged_play) == ("b/y", 1, "0.00001")
