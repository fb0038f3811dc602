"""What became of points, objections and requirements."""

from __future__ import annotations

from uuid import UUID

from dialectic.contract.provenance import Coverage
from dialectic.core.points import Answer, Met, Status
from dialectic.provenance.chain import Chains
from dialectic.provenance.coverage import choose_target
from dialectic.provenance.reasons import read_reason
from dialectic.provenance.report import Report, is_whole
from dialectic.provenance.texts import Text
from tests.cases import each_case
from tests.unit.provenance.lineages import ask, chain, place, write

SESSION = UUID(int=7)
STAGES = ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
DEPOSIT = "Each booking needs a deposit of 25 euros, paid to the caretaker."
RAISED = "A booking needs a deposit of 40 euros, left with the caretaker."
CALENDAR = "The calendar is public and can be read without signing in."
SHELTER = "Unsold food goes to the shelter the same night."
BELL = "The old bell rings before the last bus leaves the village."
CHOIR = "The choir tests the acoustics before the walls are painted."


A = write("A", "thesis", "\n\n".join([DEPOSIT, CALENDAR, SHELTER, BELL, CHOIR]))
PAIR = write(
    "pair",
    "pairwise_synthesis_chunk",
    "## Improved proposal\n\nWhoever books leaves a deposit of 25 euros with the caretaker.\n\n"
    f"{CALENDAR}\n\n{CHOIR}\n\n"
    "## Rejected points\n\n"
    f"- “{SHELTER}”: the shelter is closed at night (Thesis A).\n",
    "A",
    labels={"Thesis A": "A"},
)
REDUCED = write(
    "reduced",
    "reduced_synthesis",
    f"## Consolidated proposal\n\n{RAISED}\n\n{CALENDAR}\n\n{CHOIR}\n",
    "pair",
)
FINAL = write(
    "final",
    "synthesis",
    f"## Architecture\n\n{RAISED}\n\n{CALENDAR}\n",
    "reduced",
)


def cover(chains: Chains, of: str | None = None) -> Coverage:
    target = choose_target(chains, STAGES) if of is None else place(chains, of)
    return Report(chains).build_coverage(SESSION, 1, target)


def test_every_point_of_a_thesis_has_one_status() -> None:
    coverage = cover(chain(A, PAIR, REDUCED, FINAL))
    found = {one.point.text: one for one in coverage.points}
    assert {text: one.status for text, one in found.items()} == {
        DEPOSIT: Status.CHANGED,
        CALENDAR: Status.KEPT,
        SHELTER: Status.REFUSED,
        BELL: Status.DROPPED,
        CHOIR: Status.DROPPED,
    }
    (counts,) = coverage.theses
    assert (counts.points, counts.kept, counts.changed) == (5, 1, 1)
    assert (counts.refused, counts.dropped, counts.pending) == (1, 2, 0)
    changed, refused = found[DEPOSIT].changed, found[SHELTER].refused
    assert changed is not None
    assert refused is not None
    assert "25" in changed.before.text
    assert "40" in changed.after.text
    assert refused.reason == "the shelter is closed at night."
    assert (found[BELL].last_seen, found[BELL].lost_at) == ("thesis", "synthesis/pairwise")
    lost = found[CHOIR]
    assert (lost.last_seen, lost.lost_at) == ("synthesis/per_thesis", "synthesis/final")
    assert not is_whole(coverage)


def test_before_any_merging_everything_is_pending() -> None:
    critique = write("critique", "antithesis", f"## Critique\n\nClaim: “{DEPOSIT}”\n", "A", seat=2)
    for of in (None, "critique", "A"):
        coverage = cover(chain(A, critique), of)
        assert coverage.of is None
        assert {one.status for one in coverage.points} == {Status.PENDING}
        assert {one.answer for one in coverage.objections} == {Answer.PENDING}


def test_a_shared_point_is_told_once_and_counts_for_no_thesis_alone() -> None:
    other = write("B", "thesis", f"{CALENDAR}\n\nA completely different idea about bees.", seat=2)
    coverage = cover(chain(A, other, PAIR, REDUCED, FINAL))
    shared = [one for one in coverage.points if one.point.text == CALENDAR]
    assert [one.is_lone for one in shared] == [False]
    assert sorted(one.points for one in coverage.theses) == [1, 4]


def test_the_document_to_judge_by_is_the_leads_of_the_last_stage() -> None:
    other = write(
        "other", "synthesis", "## Architecture\n\nA few words of another one.", "reduced", seat=2
    )
    chains = chain(A, PAIR, REDUCED, FINAL, other)
    assert choose_target(chains, STAGES) == place(chains, "final")


@each_case(
    ("written", "reason"),
    [
        (
            "- “Ask for 25 euros” (Thesis A): too costly for pupils here.",
            "too costly for pupils here.",
        ),
        ("- O3: “Ask for 25 euros”. Reason: no.", "no."),
        ("- “Ask for 25 euros”", ""),
        ("- Ask for 25 euros: pupils cannot pay that much", "pupils cannot pay that much"),
        ("| “Ask for 25 euros” | the law forbids it | major |", "the law forbids it major"),
    ],
)
def test_the_reason_is_the_rest_of_the_item(written: str, reason: str) -> None:
    assert read_reason(written, "Ask for 25 euros", frozenset({"Thesis A"})) == reason


# -- objections ------------------------------------------------------------------------------------

SUBJECTS = (
    "boiler roof kitchen piano garden calendar cellar ramp lamps chairs windows fence stage "
    "curtain projector cloakroom fridge stairs chimney gutter"
).split()
FAULTS = (
    "is inspected by nobody during the coldest winter weeks|costs more than the whole budget|"
    "has no owner among the volunteers|was never measured by a surveyor|needs a licence"
).split("|")


HARMED = (
    "choir florist baker pastor dentist sexton barber cobbler farmer plumber nurse tailor brewer "
    "miller roofer glazier potter weaver mason joiner"
).split()


def object_to(number: int) -> str:
    return f"The {SUBJECTS[number]} {FAULTS[number % 5]} and the {HARMED[number]} suffers"


def test_exactly_the_ignored_objections_and_the_empty_refusals_are_named() -> None:
    ignored, empty, refused = {3, 8, 15}, {5, 11}, {0, 7}
    objections = "\n\n".join(
        f"### O{n + 1}: {object_to(n)}\n\nVerdict: this is unproven.\nSeverity: minor."
        for n in range(20)
    )
    taken = "\n".join(
        f"- O{n + 1}: “{object_to(n)}”, which changed the proposal."
        if n % 2
        else f"- That the {SUBJECTS[n]} {FAULTS[n % 5]} while the {HARMED[n]} suffers is so."
        for n in range(20)
        if n not in ignored | empty | refused
    )
    not_taken = "\n".join(
        f"- O{n + 1}: “{object_to(n)}”: {'no' if n in empty else 'the committee looked at it'}."
        for n in sorted(empty | refused)
    )
    critique = write("critique", "antithesis", f"## Critique\n\n{objections}\n", "A", seat=2)
    pair = write(
        "pair",
        "pairwise_synthesis_chunk",
        f"## Improved proposal\n\n{DEPOSIT}\n\n## Points taken\n\n{taken}\n\n"
        f"## Points refused\n\n{not_taken}\n",
        "A",
        "critique",
    )
    coverage = cover(chain(A, critique, pair), "pair")
    found: dict[Answer, set[int]] = {}
    for one in coverage.objections:
        found.setdefault(one.answer, set()).add(int(one.number[1:]) - 1)
    assert found[Answer.UNANSWERED] == ignored
    assert found[Answer.REFUSED_EMPTILY] == empty
    assert found[Answer.REFUSED] == refused
    assert len(coverage.objections) == 20


# -- requirements ----------------------------------------------------------------------------------


def build_plan(left_out: set[int]) -> tuple[Text, Text]:
    plan = "\n".join(
        f"- R{n + 1} (must): the {SUBJECTS[n]} is checked together with the {SUBJECTS[-1 - n]}."
        for n in range(12)
    )
    steps = "\n".join(
        f"- [ ] {n + 1}. Check what {SUBJECTS[n]} needs.\n  - Covers: R{n + 1}\n  - Size: a day"
        if n % 3
        else f"- [ ] {n + 1}. Check the {SUBJECTS[n]} together with the {SUBJECTS[-1 - n]} at once."
        for n in range(12)
        if n not in left_out
    )
    extra = "- [ ] 13. Invite the mayor for a glass of wine.\n"
    return (
        write("plan", "parenthesis", f"## Technical requirements\n\n{plan}\n"),
        write(
            "list",
            "paralysis",
            f"## Actionable checklist\n\n### Milestone 1: Look at everything\n\n{steps}\n{extra}",
            "plan",
        ),
    )


def test_exactly_the_requirements_without_a_step_are_named() -> None:
    coverage = cover(chain(*build_plan({4, 9})))
    assert [one.number for one in coverage.requirements if one.met is Met.NOT] == ["R5", "R10"]
    assert {one.met for one in coverage.requirements} == {Met.NOT, Met.BY_ID, Met.BY_WORDS}
    assert [one.step.text for one in coverage.steps if one.met is Met.NOT] == [
        "- [ ] 13. Invite the mayor for a glass of wine."
    ]


def test_the_milestones_own_line_covers_requirements_too() -> None:
    plan, _ = build_plan(set())
    steps = "### Milestone 1: All of it\n\nCovers: R1-R12\n\n- [ ] 1. Do everything at once now.\n"
    listed = write("list", "paralysis", f"## Actionable checklist\n\n{steps}", "plan")
    coverage = cover(chain(plan, listed))
    assert {one.met for one in coverage.requirements} == {Met.BY_ID}


def test_constraints_of_the_request_are_listed_with_what_meets_them() -> None:
    request = ask(
        "Build a booking service for the village hall. It must cost under 40 euros a month. "
        "Volunteers are mostly retired teachers. Names of children must not be stored."
    )
    plan = write(
        "plan",
        "parenthesis",
        "## Technical requirements\n\n- R1: running it costs less than 40 euros a month.\n"
        "- R2: the calendar opens quickly on old phones.\n",
        "request",
    )
    coverage = cover(chain(request, plan))
    assert {one.constraint.text: one.requirements for one in coverage.constraints} == {
        "It must cost under 40 euros a month.": ["R1"],
        "Names of children must not be stored.": [],
    }
