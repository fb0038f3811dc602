"""The ledger of dissents, and whether a document follows rulings."""

from __future__ import annotations

from uuid import UUID

from dialectic.contract.dissents import Dissent, DissentStatus
from dialectic.core.points import DissentKind, Obedience
from dialectic.provenance.chain import Chains
from dialectic.provenance.obedience import judge_obedience
from dialectic.provenance.report import Report
from dialectic.provenance.ruled_words import RuledWords
from tests.cases import each_case
from tests.unit.provenance.lineages import chain, place, write

SESSION = UUID(int=7)
STAGES = ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
LOW = "Each booking needs a deposit of 25 euros, paid to the caretaker."
HIGH = "Each booking needs a deposit of 40 euros, paid to the caretaker."
OTHER = "The calendar is public and can be read without signing in."
A = write("A", "thesis", f"{LOW}\n\n{OTHER}", seat=1)
B = write("B", "thesis", HIGH, seat=2)


def find(chains: Chains, nth: int = 1) -> list[Dissent]:
    return Report(chains).build_dissents(STAGES, SESSION, nth)


def merge(name: str, text: str, seat: int = 1) -> Chains:
    return chain(
        A, B, write(name, "synthesis", f"## Architecture\n\n{text}\n", "A", "B", seat=seat)
    )


def test_a_dissent_names_its_positions_and_who_holds_them() -> None:
    (found,) = find(chain(A, B))
    assert (found.kind, found.stage) == (DissentKind.FIGURE, "thesis")
    assert {tuple(one.seats): one.says for one in found.positions} == {(1,): LOW, (2,): HIGH}
    assert [one.places[0].text for one in found.positions] == [one.says for one in found.positions]
    assert found.status is DissentStatus.OPEN


def test_its_id_stays_when_more_is_written_and_differs_between_iterations() -> None:
    (before,), (after, *_) = find(chain(A, B)), find(merge("final", LOW))
    (other,) = find(chain(A, B), nth=2)
    assert (before.id, before.positions[0].id) == (after.id, after.positions[0].id)
    assert other.id != before.id


@each_case(
    ("merged", "status"),
    [
        (LOW, DissentStatus.SETTLED),
        (f"{LOW}\n\n{HIGH}", DissentStatus.OPEN),
        (OTHER, DissentStatus.OPEN),
    ],
)
def test_a_dissent_is_settled_when_the_newest_stage_says_one_position(
    merged: str, status: DissentStatus
) -> None:
    found = [one for one in find(merge("final", merged)) if one.stage == "thesis"]
    assert [one.status for one in found] == [status]


def test_models_that_agree_have_no_dissent() -> None:
    same = "Every booking needs a deposit of 25 euros for the caretaker."
    assert find(chain(A, write("C", "thesis", same, seat=2))) == []


@each_case(
    ("upheld", "rejected", "text", "obeyed"),
    [
        (LOW, (HIGH,), LOW, Obedience.KEPT),
        (LOW, (HIGH,), HIGH, Obedience.BROKEN),
        (LOW, (HIGH,), f"{LOW}\n\n{HIGH}", Obedience.UNCLEAR),
        (LOW, (HIGH,), OTHER, Obedience.UNCLEAR),
        ("", (OTHER,), LOW, Obedience.KEPT),
        ("", (OTHER,), OTHER, Obedience.BROKEN),
        ("Thirty.", (), LOW, Obedience.UNCLEAR),
        (
            "Bookings need a deposit of 30 euros, paid to the caretaker.",
            (),
            "Each booking needs a deposit of 30 euros, paid to the caretaker.",
            Obedience.KEPT,
        ),
    ],
)
def test_whether_a_ruling_is_followed_is_read_from_the_document(
    upheld: str, rejected: tuple[str, ...], text: str, obeyed: Obedience
) -> None:
    ruling = RuledWords(UUID(int=9), upheld, rejected)
    final = write("final", "synthesis", f"## Architecture\n\n{text}\n", "A", "B")
    chains = chain(A, B, final, *ruling.list_texts())
    found = judge_obedience(chains.alignment, place(chains, "final"), [ruling])
    assert found == {ruling.id: obeyed}


def test_what_a_document_refuses_does_not_break_a_ruling() -> None:
    ruling = RuledWords(UUID(int=9), "", (HIGH,))
    text = f"## Improved proposal\n\n{OTHER}\n\n## Rejected points\n\n- {HIGH}: too dear.\n"
    final = write("final", "pairwise_synthesis_chunk", text, "A", "B")
    chains = chain(A, B, final, *ruling.list_texts())
    found = judge_obedience(chains.alignment, place(chains, "final"), [ruling])
    assert found == {ruling.id: Obedience.KEPT}
