"""The words of one turn: the request, what the user said, its own inputs, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import ContributionName, Relation
from dialectic.core.process.definition import Length
from dialectic.errors import PlanError
from dialectic.pipeline.assemble import compose_prompt, list_parts
from dialectic.pipeline.gather import SELF_CRITIQUE, Item, Words, gather, gather_stage_words
from dialectic.pipeline.load import GivenText, Ruling, Target, Text
from dialectic.pipeline.rulings import RULINGS
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.pipeline.job_contexts import (
    CRITIQUES,
    MODELS,
    PROCESS,
    THESES,
    build_critique,
    build_feedback,
    build_job,
    build_plan,
    build_scene,
    build_text,
)

THESIS, ANTITHESIS, VERDICT = PROCESS.order


# -- inputs ---------------------------------------------------------------------------------------


def test_the_lead_document_among_the_inputs_is_the_base_of_the_stage() -> None:
    one_each = {text.model_index: text for text in CRITIQUES}
    words = gather_stage_words(build_scene(*one_each.values(), lead_model_index=2), VERDICT)
    (base,) = (item for item in words.inputs if item.label == words.base)
    assert base.source_id == one_each[2].id
    several = [text for text in CRITIQUES if text.model_index == 2]
    assert len(several) > 1
    assert gather_stage_words(build_scene(*CRITIQUES), VERDICT).base == ""


def test_a_project_adds_its_overlay_to_every_prompt_and_indents_its_further_lines() -> None:
    scene = build_scene(*THESES, overlay="Never by mail.\nBe brief.")
    for stage in (THESIS, ANTITHESIS):
        assert gather_stage_words(scene, stage).overlay == "Never by mail.\nBe brief."
    words = replace(gather_stage_words(scene, THESIS), template="- {{ overlay }}")
    assert compose_prompt(words) == "- Never by mail.\n  Be brief.\n"
    bare = replace(words, template="Plan it.\n")
    added = "\n\n# For this project\n\nNever by mail.\nBe brief.\n"
    assert compose_prompt(bare) == f"Plan it.{added}", "also where a process has no place for it"
    assert compose_prompt(replace(bare, overlay="")) == "Plan it.\n"


def test_a_length_grows_with_the_inputs_as_they_are_in_the_prompt() -> None:
    length = Length(words_min=100, share_of_input=0.5, words_max=400)
    words = replace(
        gather_stage_words(build_scene(*THESES), THESIS),
        template="{{ words }}",
        length=length,
    )
    for read, floor in ((0, "100"), (300, "150"), (600, "300"), (5_000, "400")):
        given = replace(words, inputs=(Item("A", "word " * read),))
        assert compose_prompt(given).strip() == floor


def test_the_words_of_a_first_turn_are_read_back_with_length_and_overlay() -> None:
    scene = build_scene(*THESES, overlay="Short.")
    words = replace(gather_stage_words(scene, THESIS), length=Length(words_min=70))
    assert Words.from_opening(words.as_opening(), PROCESS, words.template) == words


def test_the_seed_prompt_of_a_stage_with_steps_holds_their_instructions_without_inputs() -> None:
    scene = build_scene(*THESES)
    words = gather_stage_words(scene, ANTITHESIS)
    shown = replace(
        words,
        template="{% for step in steps %}{{ step.name }}: {{ step.instructions }}{% endfor %}",
    )
    text = compose_prompt(shown)
    for step in ANTITHESIS.steps:
        assert f"{step.name}: [Original request]" in text
        assert f"[{step.inputs_required[0].header}]" in text
    assert "<<<BEGIN" not in text


def test_the_first_stage_reads_the_request_alone() -> None:
    material = gather(build_scene(), build_job("thesis"), build_plan())
    assert material.words.inputs == ()
    assert material.words.request.text == "Bread."
    assert material.system == "You write."
    assert material.name == ContributionName("offline-architect", 1, "thesis", Relation())
    assert material.folder.stage == "thesis"


@each_case("author", [1, 2, 3])
@each_case("text", THESES, ids=lambda text: str(text.model_index))
def test_a_turn_reads_its_own_inputs_though_more_is_on_the_table(author: int, text: Text) -> None:
    scene = build_scene(*THESES, *CRITIQUES)
    material = gather(scene, build_job("antithesis"), build_critique(author, text))
    assert [item.source_id for item in material.words.inputs] == [text.id]
    prompt = compose_prompt(material.words)
    for other in (*THESES, *CRITIQUES):
        assert (other.content in prompt) is (other is text)
    is_own = author == text.model_index
    assert material.flags == ((SELF_CRITIQUE,) if is_own else ())
    assert material.target_contribution_id == material.source_group == text.id
    assert material.name.relation == Relation("about", ("offline-skeptic",))


def test_a_critique_must_not_repeat_its_thesis_and_nothing_the_request() -> None:
    critique = gather(build_scene(*THESES), build_job("antithesis"), build_critique(1, THESES[1]))
    assert [item.text for item in critique.originals] == ["Bread.", THESES[1].content]
    thesis = gather(build_scene(), build_job("thesis"), build_plan())
    assert [item.text for item in thesis.originals] == ["Bread."]


def test_what_reads_several_documents_must_repeat_none_and_what_reads_one_may() -> None:
    plan = build_plan(output_type="verdict")
    several = gather(build_scene(*CRITIQUES), build_job("verdict"), plan)
    assert len(several.originals) == 1 + len(CRITIQUES)
    one = gather(build_scene(CRITIQUES[0]), build_job("verdict"), plan)
    assert len(one.originals) == 1


def test_a_process_without_a_repair_prompt_has_no_repair() -> None:
    assert gather(build_scene(), build_job("thesis"), build_plan()).repair is None


def test_a_stage_without_steps_reads_all_that_its_rules_ask_for_and_no_other_type() -> None:
    words = gather_stage_words(build_scene(*THESES, *CRITIQUES), VERDICT)
    assert {item.source_id for item in words.inputs} == {text.id for text in CRITIQUES}


def test_a_stage_that_lacks_what_it_must_read_cannot_begin() -> None:
    with refusing(PlanError, "'verdict'", reason="nothing_to_read", subject="antithesis"):
        gather_stage_words(build_scene(*THESES), VERDICT)


def test_a_stage_with_steps_only_lists_what_it_reads() -> None:
    words = gather_stage_words(build_scene(*THESES), ANTITHESIS)
    assert words.inputs == ()
    assert words.listing == tuple(f"model-{n}_{n}_thesis.md" for n in (1, 2, 3))


def test_a_second_iteration_begins_with_the_outcomes_of_the_first() -> None:
    outcomes = [build_text("verdict", author) for author in (1, 2)]
    words = gather_stage_words(build_scene(*outcomes, iteration=2), THESIS)
    assert {item.text for item in words.inputs} == {text.content for text in outcomes}
    assert all(item.label.startswith("Outcome of iteration 1 ") for item in words.inputs)


# -- labels ---------------------------------------------------------------------------------------


@given(st.uuids(version=4))
def test_labels_name_no_author_and_tell_all_documents_apart(session: UUID) -> None:
    scene = build_scene(*CRITIQUES, session_id=session)
    words = gather_stage_words(scene, VERDICT)
    labels = [item.label for item in words.inputs]
    assert sorted(labels) == sorted(f"Antithesis {a}{n}" for a in "ABC" for n in (1, 2, 3))
    assert not [name for name in MODELS if name in " ".join(labels)]


def test_the_order_is_the_readers_own_and_always_the_same() -> None:
    def read(iteration: int) -> list[object]:
        words = gather_stage_words(build_scene(*CRITIQUES, iteration=iteration), VERDICT)
        return [item.source_id for item in words.inputs]

    assert read(1) == read(1)
    orders = {tuple(read(iteration)) for iteration in range(1, 20)}
    assert len(orders) > 10


def test_a_document_keeps_its_letter_for_every_reader() -> None:
    labels = set()
    for author in (1, 2, 3):
        material = gather(
            build_scene(*THESES), build_job("antithesis"), build_critique(author, THESES[0])
        )
        labels.add(material.words.inputs[0].label)
    assert len(labels) == 1


# -- what the user said ---------------------------------------------------------------------------

SAID = [
    build_feedback("thesis", "Cheaper."),
    build_feedback("thesis", "Sooner."),
    build_feedback("antithesis", "Too harsh."),
]


def test_feedback_on_earlier_stages_is_heard_one_item_per_stage_oldest_first() -> None:
    scene = build_scene(*THESES, *CRITIQUES, feedback=SAID)
    heard = {
        stage.slug: [(item.label, item.text) for item in gather_stage_words(scene, stage).feedback]
        for stage in (THESIS, ANTITHESIS, VERDICT)
    }
    assert heard["thesis"] == []
    assert heard["antithesis"] == [("What the user said", "Cheaper.\n\nSooner.")]
    assert heard["verdict"] == [
        ("User feedback on the stage Thesis", "Cheaper.\n\nSooner."),
        ("User feedback on the stage Antithesis", "Too harsh."),
    ]


def test_rulings_are_one_item_in_every_later_stage_and_iteration() -> None:
    made = (
        Ruling("thesis", 1, "Bread for all.", "keep", "Bread for all.", ""),
        Ruling("antithesis", 1, "Rolls too.", "drop", None, "Too dear."),
        Ruling("antithesis", 1, "How much?", "keep", "Ten loaves.", ""),
        Ruling("antithesis", 1, "When?", "own", None, "On Sundays."),
    )
    heard: dict[tuple[int, str], list[str]] = {}
    for iteration in (1, 3):
        scene = build_scene(*THESES, *CRITIQUES, iteration=iteration, rulings=made)
        for stage in (THESIS, ANTITHESIS, VERDICT):
            items = gather_stage_words(scene, stage).feedback
            assert {item.label for item in items} <= {RULINGS}
            heard[iteration, stage.slug] = [
                line for item in items for line in item.text.splitlines()[2:]
            ]
    first = "1. On “Bread for all.”: keep this as it is."
    every = [
        first,
        "2. On “Rolls too.”: leave this out. Too dear.",
        "3. On “How much?”: this holds: “Ten loaves.”.",
        "4. On “When?”: On Sundays.",
    ]
    assert (heard[1, "thesis"], heard[1, "antithesis"]) == ([], [first])
    assert [heard[1, "verdict"], *(heard[3, stage.slug] for stage in PROCESS.order)] == [every] * 4


def test_rulings_are_never_shortened_and_are_in_prompts_without_a_place_for_feedback() -> None:
    scene = build_scene(*THESES, rulings=(Ruling("thesis", 1, "Bread.", "drop", None, ""),))
    words = gather_stage_words(scene, ANTITHESIS)
    bare = replace(words, template="Plan it.\n", steps=())
    assert compose_prompt(bare).count("leave this out") == 1
    material = gather(
        build_scene(*THESES, *CRITIQUES, rulings=scene.rulings),
        build_job("verdict"),
        build_plan(output_type="verdict"),
    )
    assert RULINGS in {item.label for item in material.words.feedback}
    assert RULINGS not in {part.label for part in list_parts(material)}


def test_the_next_iteration_hears_everything_that_was_said_about_this_one() -> None:
    later = build_feedback("thesis", "Now warmer.", iteration=2)
    last = build_feedback("verdict", "Again.")
    scene = build_scene(*THESES, iteration=2, feedback=[*SAID, last, later])
    first = [(item.label, item.text) for item in gather_stage_words(scene, THESIS).feedback]
    assert first == [
        ("User feedback on the stage Thesis, iteration 1", "Cheaper.\n\nSooner."),
        ("User feedback on the stage Antithesis, iteration 1", "Too harsh."),
        ("User feedback on the stage Verdict, iteration 1", "Again."),
    ]
    second = [item.text for item in gather_stage_words(scene, ANTITHESIS).feedback]
    assert second == ["Cheaper.\n\nSooner.", "Too harsh.", "Again.", "Now warmer."]


def test_what_is_said_about_one_document_names_it_by_its_label() -> None:
    about = Target("thesis", origin=2, model_index=2, is_origin=True)
    said = [
        build_feedback("thesis", "Lovely.", target=about),
        build_feedback("thesis", "", rating=2, target=about),
    ]
    scene = build_scene(*THESES, feedback=said)
    material = gather(scene, build_job("antithesis"), build_critique(1, THESES[1]))
    (item,) = material.words.feedback
    label = material.words.inputs[0].label
    assert item.text == f"On {label}: Lovely.\n\nOn {label}: Rated 2 of 5."


# -- marks and the rest ---------------------------------------------------------------------------


def test_context_is_labelled_by_its_kind() -> None:
    scene = build_scene(context=(GivenText("domain_standards", "With tax."),))
    (item,) = gather_stage_words(scene, THESIS).context
    assert (item.label, item.text) == ("Domain standards", "With tax.")


def test_the_domain_adds_its_guidance_to_each_prompt() -> None:
    scene = build_scene(*THESES, domain="Law")
    assert gather_stage_words(scene, THESIS).guidance == "Cite."
    material = gather(scene, build_job("antithesis"), build_critique(1, THESES[0]))
    assert material.words.guidance == "Cite again."


@pytest.mark.parametrize("author", [1, 2, 3])
def test_only_the_lead_is_the_lead_and_only_final_documents_are_cut(author: int) -> None:
    scene = build_scene(*CRITIQUES)
    material = gather(scene, build_job("verdict"), build_plan(author, "verdict"))
    assert material.is_lead is (author == 2)
    assert [each.key for each in material.expected] == ["risks"]
    assert (material.rank, material.origin, material.source_group) == (1, author, None)
    assert not material.is_intermediate


def test_an_author_of_two_of_several_documents_does_not_criticise_himself() -> None:
    payload = build_critique(1, THESES[0]).model_copy(
        update={"target_contribution_id": None, "source_group": uuid4()}
    )
    assert gather(build_scene(*THESES), build_job("antithesis"), payload).flags == ()
