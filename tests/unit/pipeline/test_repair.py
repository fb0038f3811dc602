"""A finished answer that copies or lacks something is asked for it once; then its flags say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dialectic.core.documents.echoes import ECHO
from dialectic.core.documents.shortcomings import COPY
from dialectic.core.documents.stitching import Chunk
from dialectic.core.documents.turns import REPEATED, REWRITE, SECTIONS, Ask, name_reason
from dialectic.core.models.messages import FinishReason, Reply, Role, Usage, UsageSource
from dialectic.core.process.definition import ExpectedDocument
from dialectic.errors import ProviderFiltered
from dialectic.pipeline.assemble import build_request
from dialectic.pipeline.gather import Item, Material, Repair, gather
from dialectic.pipeline.interpret import NO_PROGRESS, REPEATS_ITSELF, Continue, Finish, Limits
from dialectic.pipeline.repair import (
    SECTIONS_ADDED,
    close_early,
    decide_outcome,
    give_up,
)
from dialectic.pipeline.write import write
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.unit.pipeline.job_contexts import build_critique, build_job, build_scene, build_text
from tests.unit.pipeline.test_assemble import CARD
from tests.unit.pipeline.test_write import answer

THESIS = build_text("thesis", 3)
JOB = build_job("antithesis")
RISKS = ExpectedDocument(key="risks", title="Risks", heading="## Risks")
GAPS = ExpectedDocument(key="gaps", title="Gaps", heading="## Gaps", synonyms=("Holes",))
ORIGINAL = " ".join(f"Part {n} of the proposal costs {n * 3} coins." for n in range(20))
MATERIAL = replace(
    gather(build_scene(THESIS), JOB, build_critique(2, THESIS)),
    expected=(RISKS, GAPS),
    repair=Repair("repair", load_process("standard").prompts["repair"]),
    originals=(Item("Thesis A", ORIGINAL),),
)
OFF = replace(MATERIAL, repair=None)
LIMITS = Limits(continues=True, continuations_max=3)
STOP, LENGTH = FinishReason.STOP, FinishReason.LENGTH
WHOLE = "## Risks\n\nMany.\n\n## Gaps\n\nFew.\n"
HALF = "## Risks\n\nMany.\n"


def build_reply(text: str, finish: FinishReason = STOP) -> Reply:
    return Reply(
        text=text,
        finish_reason=finish,
        raw_finish_reason=finish.value,
        usage=Usage(10, 500, UsageSource.REPORTED),
        request_id=None,
        raw={},
    )


def go_on(
    material: Material, text: str, outcome: Continue, finish: FinishReason = STOP
) -> Material:
    """The material of the turn after this one."""
    saved = write(JOB, material, answer(text, finish), outcome).chunk
    assert saved is not None
    return replace(material, chunks=(*material.chunks, saved.said))


def decide(text: str, material: Material, finish: FinishReason = STOP) -> Finish | Continue:
    return decide_outcome(build_reply(text, finish), material, LIMITS)[1]


def ask_after(text: str, material: Material = MATERIAL) -> Material:
    outcome = decide(text, material)
    assert isinstance(outcome, Continue)
    return go_on(material, text, outcome)


def test_a_whole_answer_is_finished_at_once() -> None:
    assert decide(WHOLE, MATERIAL) == Finish(WHOLE, is_incomplete=False)


def test_missing_sections_are_asked_for_by_their_keys() -> None:
    outcome = decide("Nothing.\n", MATERIAL)
    assert outcome == Continue((f"{SECTIONS}risks", f"{SECTIONS}gaps"))
    assert ask_after("Nothing.\n").ask is Ask.SECTIONS


def test_a_process_without_a_repair_prompt_asks_for_nothing() -> None:
    assert decide(HALF, OFF) == Finish(HALF, is_incomplete=False)
    assert decide(ORIGINAL, OFF) == Finish(ORIGINAL, is_incomplete=False, flags=(COPY,))


def test_the_request_for_sections_is_the_last_message_and_names_just_them() -> None:
    material = ask_after(HALF)
    request = build_request(material, CARD, {})
    assert [message.role for message in request.messages] == [Role.USER, Role.ASSISTANT, Role.USER]
    assert "- `## Gaps`" in request.messages[-1].content
    assert "## Risks" not in request.messages[-1].content


@each_case(
    ("reply", "added"),
    [
        ("## Gaps\n\nFew.\n", "## Gaps\n\nFew.\n"),
        ("Sure!\n\n### 1. Holes\n\nFew.\n\n## Risks\n\nOther.\n", "### Gaps\n\nFew.\n"),
        ("```markdown\n## Gaps\nFew.\n```", "## Gaps\n\nFew.\n"),
        ("Few gaps, and each of them is described at some length here. " * 2, None),
    ],
)
def test_what_was_asked_for_is_appended_under_its_heading_and_nothing_else(
    reply: str, added: str | None
) -> None:
    outcome = decide(reply, ask_after(HALF))
    wanted = added or f"## Gaps\n\n{reply.strip()}\n"
    assert outcome == Finish(f"{HALF}\n{wanted}", is_incomplete=False, flags=(SECTIONS_ADDED,))


@each_case("reply", ["I have nothing to add.", "## Risks\n\nOther risks.\n", " \n"])
def test_an_answer_without_the_sections_changes_nothing(reply: str) -> None:
    assert decide(reply, ask_after(HALF)) == Finish(HALF, is_incomplete=False)


@each_case("finish", [FinishReason.FILTER, FinishReason.TOOL, FinishReason.ERROR])
def test_a_refused_repair_leaves_the_document_and_its_record(finish: FinishReason) -> None:
    material = ask_after(HALF)
    outcome = decide("No.", material, finish)
    assert outcome == Finish(HALF, is_incomplete=False)
    written = write(JOB, material, answer("No.", finish), outcome)
    assert written.chunk is None
    assert written.contribution is not None
    assert written.contribution.flags[-2:] == (f"{SECTIONS}gaps", "missing:gaps")
    assert sum(file.path.endswith("_raw.json") for file in written.files) == 1


def test_sections_that_were_cut_off_make_the_document_incomplete() -> None:
    outcome = decide("## Gaps\n\nFe", ask_after(HALF), LENGTH)
    assert isinstance(outcome, Finish)
    assert (outcome.is_incomplete, outcome.flags) == (True, (SECTIONS_ADDED, "cut_off"))


def test_a_section_is_not_appended_inside_an_open_code_fence() -> None:
    text = "## Risks\n\n```python\nrun()\n"
    unclosed = go_on(MATERIAL, text, Continue())
    outcome = decide("", unclosed)
    assert isinstance(outcome, Continue)
    assert outcome.flags == (f"{SECTIONS}gaps",)
    done = decide("## Gaps\n\nFew.\n", go_on(unclosed, "", outcome))
    assert isinstance(done, Finish)
    assert done.text == "## Risks\n\n```python\nrun()\n```\n\n## Gaps\n\nFew.\n"


def test_a_copy_of_an_input_is_asked_for_again_and_replaced() -> None:
    outcome = decide(ORIGINAL, MATERIAL)
    assert outcome == Continue((f"{REWRITE}Thesis A",))
    material = go_on(MATERIAL, ORIGINAL, outcome)
    request = build_request(material, CARD, {})
    assert '"Thesis A"' in request.messages[-1].content
    assert decide(WHOLE, material) == Finish(WHOLE, is_incomplete=False)


def test_a_copy_that_comes_again_is_kept_and_flagged() -> None:
    material = ask_after(ORIGINAL)
    assert decide(ORIGINAL, material) == Finish(ORIGINAL, is_incomplete=False, flags=(COPY,))


def test_something_is_asked_for_again_once_only() -> None:
    assert decide(HALF, ask_after(ORIGINAL)) == Finish(HALF, is_incomplete=False)


def test_a_refused_rewrite_leaves_the_copy_with_its_flag() -> None:
    material = ask_after(ORIGINAL)
    copy = Finish(ORIGINAL, is_incomplete=False, flags=(COPY,))
    assert decide("No.", material, FinishReason.FILTER) == copy
    assert give_up(material) == close_early(material) == copy


def test_a_refused_first_answer_is_still_an_error() -> None:
    with pytest.raises(ProviderFiltered):
        decide("No.", MATERIAL, FinishReason.FILTER)


def test_a_rewrite_may_be_continued_and_the_copy_is_not_part_of_it() -> None:
    material = ask_after(ORIGINAL)
    outcome = decide(WHOLE[:30], material, LENGTH)
    assert outcome == Continue()
    material = go_on(material, WHOLE[:30], outcome, LENGTH)
    assert decide(WHOLE[30:], material) == Finish(WHOLE, is_incomplete=False)


def test_an_incomplete_answer_is_not_repaired() -> None:
    limits = replace(LIMITS, continues=False)
    outcome = decide_outcome(build_reply(HALF, LENGTH), MATERIAL, limits)[1]
    assert isinstance(outcome, Finish)
    assert outcome.is_incomplete


# -- turns without new text -----------------------------------------------------------------------

SAID = "\n".join(f"{n}. Step {n} of the plan is described here at length." for n in range(12))


@each_case(("text", "finish", "flag"), [(SAID, LENGTH, REPEATS_ITSELF), ("", STOP, NO_PROGRESS)])
def test_a_turn_without_new_text_is_asked_for_once_more_and_left_out(
    text: str, finish: FinishReason, flag: str
) -> None:
    begun = SAID + "\n\nand then"
    material = go_on(OFF, begun, Continue(), LENGTH)
    material = go_on(material, SAID, Continue(), LENGTH) if finish is LENGTH else material
    base = [chunk.text for chunk in material.base]
    outcome = decide(text, material, finish)
    assert outcome == Continue((REPEATED,))
    again = go_on(material, text, outcome, finish)
    assert [chunk.text for chunk in again.base] == base
    assert name_reason(again.chunks[-1]) == REPEATED
    closed = decide(text, again, finish)
    assert isinstance(closed, Finish)
    assert (closed.is_incomplete, flag in closed.flags) == (True, True)
    messages = build_request(again, CARD, {}).messages
    assert all(message.content.strip() for message in messages)


# -- echoes ---------------------------------------------------------------------------------------


def test_an_echo_is_cut_from_the_text_and_flagged() -> None:
    reply, outcome = decide_outcome(
        build_reply(f"<<<BEGIN Plan [0123456789ab]>>>\n{WHOLE}"), MATERIAL, LIMITS
    )
    assert reply.text == WHOLE
    assert outcome == Finish(WHOLE, is_incomplete=False, flags=(ECHO,))


def test_the_flag_of_an_echo_in_an_earlier_turn_reaches_the_document() -> None:
    reply, outcome = decide_outcome(
        build_reply(f"<<<END [0123456789ab]>>>\n{WHOLE[:20]}", LENGTH), MATERIAL, LIMITS
    )
    assert outcome == Continue((ECHO,))
    material = go_on(MATERIAL, reply.text, Continue((ECHO,)), LENGTH)
    end = decide(WHOLE[20:], material)
    assert isinstance(end, Finish)
    written = write(JOB, material, answer(WHOLE[20:], STOP), end)
    assert written.contribution is not None
    assert ECHO in written.contribution.flags


def test_chunks_without_flags_only_continue_the_text() -> None:
    chunk: Chunk = go_on(MATERIAL, "Text", Continue(), LENGTH).chunks[-1]
    assert name_reason(chunk) == "cut_off"
