"""A finished document is shown once what it lost; a useless answer changes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dialectic.core.documents.front_matter import split_document
from dialectic.core.documents.turns import LOOK, Ask, name_reason
from dialectic.core.models.messages import FinishReason, Role
from dialectic.core.process.definition import ExpectedDocument
from dialectic.pipeline.assemble import build_request, list_parts
from dialectic.pipeline.gather import Item, Material, Repair, gather
from dialectic.pipeline.interpret import Continue, Finish, Limits
from dialectic.pipeline.looks import Look
from dialectic.pipeline.repair import SECTIONS_ADDED, close_early, decide_outcome, give_up
from dialectic.pipeline.second_look import OMISSIONS_MAX, UNREAD, list_omissions, prepare_look
from dialectic.pipeline.write import write
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.unit.pipeline.job_contexts import build_critique, build_job, build_scene, build_text
from tests.unit.pipeline.test_assemble import CARD
from tests.unit.pipeline.test_repair import build_reply
from tests.unit.pipeline.test_write import answer

QUICK = load_process("quick")
STAGE = QUICK.load_stage("synthesis")
KEYS = "Every family that books the hall gets its own door code by text message."
DEPOSIT = "A deposit of 40 euros is held on the card and released after the inspection."
HEATING = "The heating is switched on two hours before a booking by a relay in the boiler room."
DOGS = "Guide dogs are welcome in all three rooms at any time of the year."
TAX = "The treasurer exports the ledger to the tax office at the end of each quarter."
LIFT = "The lift is out of order on Sundays, so the upper room cannot be promised then."
INPUTS = (
    Item("Thesis A", f"## Summary\n\n{TAX}\n\n## Feature specification\n\n- {KEYS}\n- {DEPOSIT}\n"),
    Item("Thesis B", f"## Feature specification\n\n- {KEYS}\n- {HEATING}\n- {DOGS}\n"),
    Item("Critique A2", f"## Critique\n\n### O1: The lift\n\n{LIFT}\n"),
)
KEPT = f"## Product requirements\n\n- R1: {KEYS}\n- R2: {DEPOSIT}\n\n## Risks\n\n- {LIFT}\n"
TEXT = (
    f"## Product requirements\n\n- R1: {KEYS}\n- R2: {DEPOSIT}\n\n"
    "## Rejected points\n\n- “Guide dogs are welcome in all three rooms” (Thesis B): the fire "
    "officer forbids animals upstairs.\n"
)
THESIS = build_text("thesis", 3)
JOB = build_job("antithesis")
BASE = gather(build_scene(THESIS), JOB, build_critique(2, THESIS))
SOURCES = tuple(
    (header, QUICK.load_stage(slug), slug)
    for header, slug in (("Thesis", "thesis"), ("Critique", "antithesis"))
)
MATERIAL = replace(
    BASE,
    words=replace(BASE.words, inputs=INPUTS),
    expected=(),
    repair=None,
    originals=(),
    look=Look(
        template=QUICK.prompts["second_look"],
        stage=STAGE,
        output_type="synthesis",
        sources=SOURCES,
    ),
)
LIMITS = Limits(continues=True, continuations_max=3)
STOP = FinishReason.STOP
ANSWER = (
    f"## Added\n\n### Product requirements\n\n- R3: {HEATING}\n\n"
    "## Left out on purpose\n\n- M1: The lift is repaired before the first booking is taken.\n"
)


def decide(
    text: str, material: Material = MATERIAL, finish: FinishReason = STOP
) -> Finish | Continue:
    return decide_outcome(build_reply(text, finish), material, LIMITS)[1]


def look_after(text: str = TEXT, material: Material = MATERIAL) -> Material:
    """The material of the turn of the look."""
    outcome = decide(text, material)
    assert isinstance(outcome, Continue)
    saved = write(JOB, material, answer(text, STOP), outcome).chunk
    assert saved is not None
    return prepare_look(replace(material, chunks=(*material.chunks, saved.said)))


def list_lost(text: str, inputs: tuple[Item, ...] = INPUTS) -> set[str]:
    material = replace(MATERIAL, words=replace(MATERIAL.words, inputs=inputs))
    return {one.text for one in list_omissions(material, text)}


def test_what_is_neither_kept_nor_refused_is_lost_and_a_summary_does_not_count() -> None:
    lost = list_lost(TEXT)
    assert HEATING in lost
    assert any(LIFT in one for one in lost)
    assert not any(said in one for one in lost for said in (KEYS, DEPOSIT, DOGS, TAX))


def test_the_order_of_the_inputs_does_not_matter() -> None:
    assert list_lost(TEXT, INPUTS[::-1]) == list_lost(TEXT)


def test_what_only_one_input_has_comes_first_with_its_label_and_heading() -> None:
    first = list_omissions(MATERIAL, "## Product requirements\n\nNothing at all is in here yet.\n")
    shared = [one for one in first if one.text == KEYS]
    assert first.index(shared[0]) == len(first) - 1
    (heating,) = [one for one in first if one.text == HEATING]
    assert (heating.label, heating.heading) == ("Thesis B", "Feature specification")


def test_at_most_eighty_points_are_asked_about() -> None:
    many = "".join(f"- Room {n} of the hall seats {n}0 people on {n} rows.\n" for n in range(90))
    inputs = (Item("Thesis A", f"## Feature specification\n\n{many}"),)
    material = replace(MATERIAL, words=replace(MATERIAL.words, inputs=inputs))
    found = list_omissions(material, "## Product requirements\n\nThe weather was fine all day.\n")
    assert len(found) == OMISSIONS_MAX


def test_a_document_that_lost_nothing_is_finished_and_says_so() -> None:
    rest = f"- R3: {HEATING}\n- R4: {DOGS}\n"
    outcome = decide(KEPT.replace("\n\n## Risks", f"\n{rest}\n## Risks"))
    assert isinstance(outcome, Finish)
    assert outcome.flags == ("second_look: 0 omissions, 0 added, 0 refused, 0 left",)


def test_a_look_is_asked_for_once_with_the_document_and_the_points_and_not_the_inputs() -> None:
    material = look_after()
    assert material.ask is Ask.LOOK
    assert name_reason(material.chunks[-1]) == "look_requested"
    (message,) = build_request(material, CARD, {}).messages
    assert message.role is Role.USER
    assert TEXT.strip() in message.content
    assert HEATING in message.content
    assert "Thesis A" not in message.content.replace(TEXT, "")
    assert list_parts(material) == []
    outcome = decide(ANSWER, material)
    assert isinstance(outcome, Finish)


def test_what_is_added_and_what_is_refused_is_in_the_document_and_counted() -> None:
    material = look_after()
    assert material.look is not None
    lift = next(
        n for n, one in enumerate(material.look.omissions, start=1) if "lift" in one.text.lower()
    )
    outcome = decide(ANSWER.replace("M1", f"M{lift}"), material)
    assert isinstance(outcome, Finish)
    assert f"- R2: {DEPOSIT}\n- R3: {HEATING}\n" in outcome.text
    assert "(Critique A2): The lift is repaired before" in outcome.text
    count = len(material.look.omissions)
    summary = f"{count} omissions, 1 added, 1 refused, {count - 2} left"
    assert outcome.flags == (f"second_look: {summary}",)
    written = write(JOB, material, answer(ANSWER, STOP), outcome)
    assert written.contribution is not None
    fields, _ = split_document(written.files[0].data.decode())
    assert (fields["second_look"], fields["turns"]) == (summary, 2)


@each_case(
    ("text", "finish"),
    [
        ("", STOP),
        ("I would rather not.", STOP),
        (ANSWER, FinishReason.LENGTH),
        (ANSWER, FinishReason.FILTER),
        (ANSWER, FinishReason.TOOL),
        ("## Added\n\n### Product requirements\n\n```\n- R3", STOP),
    ],
)
def test_a_look_that_is_cut_refused_or_malformed_leaves_the_document_as_it_was(
    text: str, finish: FinishReason
) -> None:
    assert decide(text, look_after(), finish) == Finish(TEXT, is_incomplete=False, flags=(UNREAD,))


def test_a_look_that_cannot_be_asked_for_leaves_the_document_as_it_was() -> None:
    material = look_after()
    assert give_up(material) == close_early(material)
    assert give_up(material) == Finish(TEXT, is_incomplete=False, flags=(UNREAD,))


def test_a_document_that_is_cut_off_gets_no_look() -> None:
    outcome = decide_outcome(
        build_reply(TEXT, FinishReason.LENGTH), MATERIAL, replace(LIMITS, continues=False)
    )[1]
    assert isinstance(outcome, Finish)
    assert outcome.is_incomplete
    assert not any(flag.startswith("second_look") for flag in outcome.flags)


def test_a_look_follows_the_repair_and_keeps_what_it_added() -> None:
    stack = ExpectedDocument(key="tech_stack", title="Tech stack", heading="## Tech stack")
    repair = Repair("repair", QUICK.prompts["repair"])
    material = replace(MATERIAL, expected=(stack,), repair=repair)
    asked = decide(TEXT, material)
    assert isinstance(asked, Continue)
    saved = write(JOB, material, answer(TEXT, STOP), asked).chunk
    assert saved is not None
    material = replace(material, chunks=(saved.said,))
    added = "## Tech stack\n\nA ledger and a relay.\n"
    material = look_after(added, material)
    assert SECTIONS_ADDED in material.chunks[-1].flags
    outcome = decide(ANSWER, material)
    assert isinstance(outcome, Finish)
    assert outcome.text.startswith("## Product requirements")
    assert "## Tech stack\n\nA ledger and a relay." in outcome.text
    assert HEATING in outcome.text


def test_a_step_without_a_look_is_never_shown_what_it_lost() -> None:
    outcome = decide(TEXT, replace(MATERIAL, look=None))
    assert outcome == Finish(TEXT, is_incomplete=False)


@pytest.mark.parametrize("slug", [stage.slug for stage in QUICK.order])
def test_in_the_quick_process_synthesis_and_checklist_have_a_look(slug: str) -> None:
    assert QUICK.load_stage(slug).has_second_look == (slug in ("synthesis", "paralysis"))
    assert not any(stage.has_second_look for stage in load_process("standard").order)
    assert LOOK.endswith(":")
