"""The claims of theses, their critics and their fates."""

from __future__ import annotations

from dialectic.contract.claims import Claim
from dialectic.core.documents.markdown_blocks import find_blocks
from dialectic.core.points import Status, Verdict
from dialectic.provenance.chain import Chains
from dialectic.provenance.claims import ClaimFinder, count_seats, read_note, read_verdict
from dialectic.provenance.coverage import choose_target
from tests.cases import each_case
from tests.unit.provenance.lineages import chain, get_id, write

STAGES = ["thesis", "antithesis", "synthesis", "parenthesis", "paralysis"]
DEPOSIT = "Each booking needs a deposit of 25 euros, paid to the caretaker."
RAISED = "Each booking needs a deposit of 40 euros, paid to the caretaker."
CALENDAR = "The calendar is public and can be read without signing in."
BELL = "The old bell rings before the last bus leaves the village."
THESIS = f"## Idea\n\n{DEPOSIT}\n\n- {CALENDAR}\n\n{BELL}\n"

A = write("A", "thesis", THESIS)
CRITIQUE = write(
    "critique",
    "antithesis",
    f"## Critique\n\n- “{CALENDAR}” Keep it unchanged.\n\n"
    f"### O1: Too little money\n\nClaim: “{DEPOSIT}”\nVerdict: unproven, because no figure "
    f"was given\nBetter: ask the members first.\n\n### O2: The bell\n\nClaim: “{BELL}”\n"
    "Verdict: wrong, the bell was sold.\n",
    "A",
    seat=2,
)
SYNTHESIS = write(
    "synthesis", "synthesis", f"## Architecture\n\n{DEPOSIT}\n\n{CALENDAR}\n\n{BELL}\n", "A"
)
PLAN = write("plan", "parenthesis", f"## Plan\n\n{RAISED}\n\n{CALENDAR}\n", "synthesis")


def find(chains: Chains) -> dict[str, Claim]:
    claims = ClaimFinder(chains, choose_target(chains, STAGES), STAGES).list_claims()
    return {one.text: one for one in claims}


def test_every_claim_has_its_critics_with_what_they_want() -> None:
    found = find(chain(A, CRITIQUE, SYNTHESIS, PLAN))
    wanted = {text: [critic.verdict for critic in one.critics] for text, one in found.items()}
    assert wanted == {
        DEPOSIT: [Verdict.CHANGE],
        CALENDAR: [Verdict.KEEP],
        BELL: [Verdict.DROP],
    }
    (critic,) = found[DEPOSIT].critics
    assert (critic.note, critic.better) == (
        "unproven, because no figure was given",
        "ask the members first.",
    )
    assert (critic.seat, critic.document_id) == (2, get_id("critique"))
    assert {text for text, one in found.items() if one.is_contested} == {DEPOSIT, BELL}


def test_every_claim_has_its_fate_in_each_stage_that_merges() -> None:
    found = find(chain(A, CRITIQUE, SYNTHESIS, PLAN))
    fates = {text: [(one.stage, one.fate) for one in each.fates] for text, each in found.items()}
    assert fates == {
        DEPOSIT: [("synthesis", Status.KEPT), ("parenthesis", Status.CHANGED)],
        CALENDAR: [("synthesis", Status.KEPT), ("parenthesis", Status.KEPT)],
        BELL: [("synthesis", Status.KEPT), ("parenthesis", Status.DROPPED)],
    }
    assert found[DEPOSIT].fates[1].text == RAISED
    assert found[DEPOSIT].fates[1].document_ids == [get_id("plan")]
    (seat,) = count_seats(list(found.values()))
    assert (seat.made, seat.kept, seat.changed, seat.dropped) == (3, 1, 1, 1)


def test_a_claim_names_its_block_and_its_offsets() -> None:
    blocks = {block.id: THESIS[block.start : block.end] for block in find_blocks(THESIS)}
    for text, one in find(chain(A)).items():
        assert one.block_id is not None
        assert text in blocks[one.block_id]
        assert text in THESIS[one.start : one.end]


def test_before_a_stage_merges_everything_is_pending() -> None:
    found = find(chain(A, CRITIQUE))
    assert {one.final for one in found.values()} == {Status.PENDING}
    assert not any(one.fates for one in found.values())


def test_the_id_of_a_claim_stays_when_more_is_written() -> None:
    before, after = find(chain(A)), find(chain(A, CRITIQUE, SYNTHESIS, PLAN))
    assert {text: one.id for text, one in before.items()} == {
        text: one.id for text, one in after.items()
    }


@each_case(
    ("written", "verdict"),
    [
        ("Verdict: wrong, the sum is 12.\nSeverity: major", Verdict.DROP),
        ("**Verdict:** incomplete\n**Severity:** minor", Verdict.CHANGE),
        ("Verdict: wrong. Better: say twelve.", Verdict.CHANGE),
        ("Verdict: wrong\nBetter: drop it altogether", Verdict.DROP),
        ("“Open on Sundays” must be kept.", Verdict.KEEP),
        ("The risk is that nobody comes.", Verdict.UNCLEAR),
        ("", Verdict.UNCLEAR),
    ],
)
def test_what_a_critic_wants_is_read_from_its_words(written: str, verdict: Verdict) -> None:
    assert read_verdict(written) is verdict


def test_a_long_note_is_shortened() -> None:
    assert len(read_note("word " * 1000)) <= 600
