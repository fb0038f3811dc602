"""Dissent and figures."""

from __future__ import annotations

from uuid import UUID

from dialectic.core.points import DissentKind
from dialectic.provenance.answers import list_objections
from dialectic.provenance.coverage import Judge
from dialectic.provenance.dissent import Dissent, find_dissent
from dialectic.provenance.figures import list_figures
from dialectic.provenance.texts import Role
from tests.cases import each_case
from tests.unit.provenance.lineages import ask, chain, place, write

SPACE = UUID(int=3)
TABLE = "## Tech stack\n\n| part | what |\n|---|---|\n"


def differ(*texts: str) -> list[Dissent]:
    written = [write(f"T{n}", "thesis", text, seat=n + 1) for n, text in enumerate(texts)]
    chains = chain(*written)
    return find_dissent(chains.alignment, chains.lineage.list_role(Role.THESIS), space=SPACE)


def test_two_figures_for_one_thing_are_one_dissent_with_its_sides() -> None:
    (found,) = differ(
        "Each booking needs a deposit of 25 euros, paid to the caretaker.",
        "Each booking needs a deposit of 40 euros, left with the caretaker.",
        "Every booking needs a deposit of 25 euros for the caretaker.",
    )
    assert found.kind is DissentKind.FIGURE
    assert sorted(position.models for position in found.positions) == [(1, 3), (2,)]


def test_models_that_all_say_both_do_not_differ() -> None:
    both = "The kitchen needs 12 chairs by May.\n\nThe kitchen needs 40 chairs by May."
    assert differ(both, both) == []
    assert len(differ(both, "The kitchen needs 40 chairs by May.")) == 1


@each_case(
    ("one", "other", "kind"),
    [
        (
            "Guests may bring dogs into the main hall.",
            "Guests may not bring dogs into the main hall.",
            DissentKind.POLARITY,
        ),
        (
            f"{TABLE}| Storage for bookings | PostgreSQL server |\n",
            f"{TABLE}| Storage for bookings | shared spreadsheet |\n",
            DissentKind.CHOICE,
        ),
        (
            "## Tech stack\n\n- **Storage for bookings**: PostgreSQL server",
            "## Tech stack\n\n- **Storage for bookings**: shared spreadsheet",
            DissentKind.CHOICE,
        ),
        (
            "The caretaker keeps all keys of the hall in a box.",
            "All keys of the hall are kept in a box by the caretaker.",
            None,
        ),
        (
            "The deposit is 25 euros for each booking.",
            "The boiler runs 40 hours on a single tank.",
            None,
        ),
    ],
)
def test_documents_differ_by_negation_or_by_choice(
    one: str, other: str, kind: DissentKind | None
) -> None:
    found = {dissent.kind for dissent in differ(one, other)}
    assert found == (set() if kind is None else {kind})


def test_the_id_depends_on_the_positions_and_not_on_their_order() -> None:
    texts = (
        "The deposit is 25 euros for each booking.",
        "The deposit is 40 euros for each booking.",
    )
    assert [one.id for one in differ(*texts)] == [one.id for one in differ(*reversed(texts))]


def test_one_author_does_not_differ_from_himself() -> None:
    chains = chain(
        write("x", "thesis", "The deposit is 25 euros for each booking."),
        write("y", "thesis", "The deposit is 40 euros for each booking."),
    )
    assert not find_dissent(chains.alignment, chains.lineage.list_role(Role.THESIS), space=SPACE)


def test_an_objection_that_one_editor_took_and_another_refused_is_a_split() -> None:
    thesis = write("A", "thesis", "Each booking needs a deposit of 25 euros.")
    critique = write(
        "critique",
        "antithesis",
        "## Critique\n\n### O1: A deposit keeps all pupils away\n\nVerdict: wrong.",
        "A",
        seat=2,
    )
    answers = {1: "Points taken", 2: "Points refused"}
    editors = [
        write(
            f"editor {seat}",
            "pairwise_synthesis_chunk",
            f"## {heading}\n\n- O1: “A deposit keeps all pupils away”: the school was asked.\n",
            "A",
            "critique",
            seat=seat,
        )
        for seat, heading in answers.items()
    ]
    final = write("final", "synthesis", "## Architecture\n\nNothing of it.", "editor 1", "editor 2")
    chains = chain(thesis, critique, *editors, final)
    objections = list_objections(Judge(chains, place(chains, "final")))
    (found,) = find_dissent(chains.alignment, [], objections, space=SPACE)
    assert found.kind is DissentKind.SPLIT
    assert [position.models for position in found.positions] == [(1,), (2,)]


def test_a_decision_that_names_two_sources_is_declared() -> None:
    reduced = write(
        "reduced",
        "reduced_synthesis",
        "## Decisions\n\n- Reduced A1 wants cash, Reduced A2 wants cards; cash was chosen.\n",
        "x",
        "y",
        labels={"Reduced A1": "x", "Reduced A2": "y"},
    )
    chains = chain(reduced)
    (found,) = find_dissent(chains.alignment, [0], space=SPACE)
    assert found.kind is DissentKind.DECLARED


# -- figures ---------------------------------------------------------------------------------------


def test_a_figure_is_traced_to_who_said_it_first_or_to_the_step_that_made_it_up() -> None:
    request = ask("It must cost under 40 euros a month for the village hall.")
    thesis = write("A", "thesis", "Each booking needs a deposit of 25 euros.", "request")
    pair = write(
        "pair",
        "pairwise_synthesis_chunk",
        "## Improved proposal\n\nA booking needs 25 euros as a deposit.\n\n"
        "The boiler is serviced by 17 plumbers.\n",
        "A",
        "request",
    )
    final = write(
        "final",
        "synthesis",
        "## Architecture\n\n1. Each booking needs 25 euros deposit.\n2. The boiler is serviced by "
        "17 plumbers.\n3. Running costs stay under 40 euros a month.\n",
        "pair",
        "request",
    )
    chains = chain(request, thesis, pair, final)
    names = {place(chains, name): name for name in ("request", "A", "pair", "final")}
    found = {
        one.figure.value: (names[one.first_text], one.is_made_up)
        for one in list_figures(chains, place(chains, "final"))
    }
    assert found == {25: ("A", False), 17: ("pair", True), 40: ("request", False)}


def test_a_figure_that_replaced_another_names_the_other() -> None:
    thesis = write("A", "thesis", "Each booking needs a deposit of 25 euros.")
    final = write(
        "final", "synthesis", "## Architecture\n\nEach booking needs a deposit of 40 euros.", "A"
    )
    chains = chain(thesis, final)
    (found,) = list_figures(chains, place(chains, "final"))
    assert found.is_made_up
    assert [other.value for other in found.others] == [25]
