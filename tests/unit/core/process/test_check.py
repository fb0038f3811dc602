"""A process is accepted whole, or refused with its place and with what to do about it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.process.check import KINDS_READ, VARIABLES, build_process
from dialectic.core.process.definition import Strategy
from dialectic.errors import ExitCode, InvalidProcess
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.small_process import (
    CONTENT,
    OVERLAYS,
    PROMPTS,
    Content,
    build,
    build_content,
    build_input,
    build_stage,
    build_step,
    changed,
)

Change = Callable[[Content], Any]


def refuse(
    content: Content = CONTENT,
    prompts: dict[str, str] = PROMPTS,
    overlays: list[Content] = OVERLAYS,
) -> str:
    with pytest.raises(InvalidProcess) as caught:
        build(content, prompts, overlays)
    message = caught.value.message
    assert message.startswith("here.toml: ")
    assert message.endswith(".")
    assert "\n" not in message
    return message.removeprefix("here.toml: ")


def named(*faults: tuple[Change, str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("change", "words"), faults, ids=[words for _, words in faults])


def stage(content: Content, slug: str) -> Content:
    return next(found for found in content["stages"] if found["slug"] == slug)


def step(content: Content, name: str) -> Content:
    return next(
        found for entry in content["stages"] for found in entry["steps"] if found["name"] == name
    )


def test_the_standard_process_and_the_small_one_pass() -> None:
    assert [s.slug for s in load_process("standard").order] == [
        "thesis",
        "antithesis",
        "synthesis",
        "parenthesis",
        "paralysis",
    ]
    assert len(build().order) == 3


def test_a_refusal_is_the_callers_to_put_right() -> None:
    with pytest.raises(InvalidProcess) as caught:
        build({})
    assert caught.value.code == "invalid_process"
    assert caught.value.exit_code is ExitCode.USAGE


def test_every_strategy_has_its_number_of_inputs() -> None:
    assert set(KINDS_READ) == set(Strategy)


# Form: fields that are missing, unknown or of another kind ------------------------------------


@named(
    (lambda c: c.pop("name"), "`name`: it is missing"),
    (lambda c: c.update(name="Not A Slug"), "`name`: it must be 1 to 64 of a-z, 0-9 and -"),
    (lambda c: c.update(name=7), "`name`: Input should be a valid string"),
    (lambda c: c.update(title=""), "`title`: "),
    (lambda c: c.update(stages=[]), "`stages`: "),
    (lambda c: c.update(stages={}), "`stages`: "),
    (lambda c: c.update(stages="thesis"), "`stages`: "),
    (lambda c: c["stages"].insert(0, "thesis"), "stage 1: "),
    (lambda c: c.update(stages=[build_stage(f"s{n}") for n in range(21)]), "`stages`: "),
    (lambda c: c.update(domains=[]), "`domains`: "),
    (lambda c: c.update(domains=["Law", 5]), "domains 2: Input should be a valid string"),
    (
        lambda c: c.update(colour="blue"),
        "`colour`: this field does not exist; known fields: name, title, description",
    ),
    (lambda c: stage(c, "thesis").pop("output_type"), "stage 'thesis': `output_type`: it is mis"),
    (lambda c: stage(c, "thesis").pop("slug"), "stage 1: `slug`: it is missing"),
    (lambda c: stage(c, "thesis").update(slug="../etc"), "stage '../etc': `slug`: it must be at"),
    (lambda c: stage(c, "thesis").update(slug="x" * 41), "`slug`: it must be at most 40"),
    (lambda c: stage(c, "thesis").update(display_name=""), "stage 'thesis': `display_name`: "),
    (
        lambda c: stage(c, "thesis").update(strategy="dance"),
        "stage 'thesis': `strategy`: this field does not exist; known fields: slug, display_name",
    ),
    (lambda c: stage(c, "thesis").update(output_type="a-b"), "stage 'thesis': `output_type`: it"),
    (lambda c: stage(c, "thesis").update(output_type="x" * 41), "stage 'thesis': `output_type`: "),
    (lambda c: stage(c, "thesis").update(steps={}), "stage 'thesis': `steps`: "),
    (
        lambda c: step(c, "pairs").update(granularity_strategy="dance"),
        "stage 'synthesis': step 'pairs': `granularity_strategy`: Input should be "
        "'per_source_document', 'pairwise_by_origin'",
    ),
    (
        lambda c: step(c, "pairs").update(on_child_failure="ignore"),
        "stage 'synthesis': step 'pairs': `on_child_failure`: Input should be 'all', 'quorum' or",
    ),
    (
        lambda c: step(c, "pairs").update(overflow="cut"),
        "stage 'synthesis': step 'pairs': `overflow`: Input should be 'compress', 'combine' or",
    ),
    (
        lambda c: step(c, "pairs").update(inputs_required=[]),
        "stage 'synthesis': step 'pairs': `inputs_required`: ",
    ),
    (
        lambda c: step(c, "pairs").update(is_intermediate="yes"),
        "stage 'synthesis': step 'pairs': `is_intermediate`: Input should be a valid boolean",
    ),
    (lambda c: step(c, "pairs").update(quorum_min=True), "`quorum_min`: Input should be a valid"),
    (lambda c: step(c, "pairs").update(quorum_min=0), "`quorum_min`: Input should be greater"),
    (lambda c: step(c, "pairs").update(name="Two words"), "step 'Two words': `name`: it must be"),
    (lambda c: step(c, "pairs").update(on_failure="any"), "step 'pairs': `on_failure`: this field"),
    (
        lambda c: step(c, "final")["inputs_required"][0].update(scope="mine"),
        "stage 'synthesis': step 'final': inputs_required 'group': `scope`: Input should be 'own'",
    ),
    (
        lambda c: step(c, "final")["inputs_required"][0].pop("header"),
        "stage 'synthesis': step 'final': inputs_required 'group': `header`: it is missing",
    ),
    (
        lambda c: step(c, "final")["inputs_required"][0].update(header="two\nlines"),
        "inputs_required 'group': `header`: it must be one line",
    ),
    (
        lambda c: step(c, "final")["inputs_required"][0].update(required="false"),
        "inputs_required 'group': `required`: Input should be a valid boolean",
    ),
    (
        lambda c: step(c, "final")["inputs_required"][0].update(stage="thesis"),
        "`stage`: this field does not exist; known fields: type, stage_slug, scope, required",
    ),
    (lambda c: c["transitions"][1].pop("target"), "transition 2: `target`: it is missing"),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].update(heading="Risks"),
        "stage 'synthesis': expected_output_artifacts 'risks': `heading`: it must be a heading",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].update(heading="####### x"),
        "expected_output_artifacts 'risks': `heading`: it must be a heading",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].update(heading="## a\rb"),
        "expected_output_artifacts 'risks': `heading`: it must be a heading",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][1].update(json_key=""),
        "expected_output_artifacts 'plan': `json_key`: ",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].update(key="Risk List"),
        "expected_output_artifacts 'Risk List': `key`: it must be words",
    ),
)
def test_a_fault_of_form_is_told_by_its_place(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
places: st.SearchStrategy[Callable[[Content], Any]] = st.sampled_from(
    [
        lambda c: c,
        lambda c: stage(c, "synthesis"),
        lambda c: step(c, "pairs"),
        lambda c: step(c, "pairs")["inputs_required"][1],
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0],
        lambda c: c["transitions"][0],
    ]
)


@given(places, st.data(), json_values)
def test_no_value_in_any_field_makes_checking_fail_in_another_way(
    place: Callable[[Content], Any], data: st.DataObject, value: Any
) -> None:
    def put(content: Content) -> None:
        node = place(content)
        node[data.draw(st.sampled_from(sorted(node)) | st.text(max_size=5))] = value

    with contextlib.suppress(InvalidProcess):
        build(changed(put))


# Names ------------------------------------------------------------------------------------------


@named(
    (
        lambda c: c["stages"].append(build_stage("thesis")),
        "stage 'thesis': two stages have this `slug`",
    ),
    (
        lambda c: step(c, "groups").update(name="pairs"),
        "stage 'synthesis': step 'pairs': two steps have this `name`",
    ),
    (
        lambda c: step(c, "groups").update(output_type="pair"),
        "stage 'synthesis': two steps have the `output_type` 'pair'",
    ),
    (lambda c: c["domains"].append("Law"), "`domains`: 'Law' appears twice"),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][1].update(key="risks"),
        "stage 'synthesis': `expected_output_artifacts`: two documents have the `key` 'risks'",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"].append(
            {"key": "more", "title": "More", "heading": "## RISKS"}
        ),
        "`expected_output_artifacts`: two documents have the title or synonym 'RISKS'",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"].append(
            {"key": "more", "title": "More", "json_key": "plan"}
        ),
        "`expected_output_artifacts`: two documents have the `json_key` 'plan'",
    ),
)
def test_two_of_the_same_name_are_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


@each_case("name", ["con", "aux", "com1", "nul"])
def test_a_name_that_no_file_system_takes_is_refused(name: str) -> None:
    assert f"stage {name!r}: `slug`: " in refuse(build_content(build_stage(name)))
    message = refuse(build_content(build_stage("thesis", output_type=name)))
    assert "stage 'thesis': `output_type`: " in message


def test_a_type_that_would_be_misread_in_a_file_name_is_refused() -> None:
    content = changed(lambda c: step(c, "groups").update(output_type="final_synthesis"))
    assert "stage 'synthesis': step 'groups': `output_type`: " in refuse(content)


def test_a_step_cannot_make_what_the_user_writes() -> None:
    content = changed(lambda c: step(c, "groups").update(output_type="feedback"))
    assert "step 'groups': `output_type`: 'feedback' is reserved" in refuse(content)


@pytest.mark.parametrize("kind", ["implementation_recommendation", "a_b_c_d", "x" * 40])
def test_a_type_may_be_as_long_as_a_file_name_lets_it(kind: str) -> None:
    content = build_content(build_stage("thesis", output_type=kind))
    assert build(content, overlays=[]).order[0].output_type == kind


# Prompts ----------------------------------------------------------------------------------------


@named(
    (
        lambda c: stage(c, "antithesis").update(system_prompt_name="nobody"),
        "stage 'antithesis': `system_prompt_name` is 'nobody', but prompts/nobody.md",
    ),
    (
        lambda c: stage(c, "antithesis").update(prompt_template_name="nothing"),
        "stage 'antithesis': `prompt_template_name` is 'nothing', but prompts/nothing.md does",
    ),
    (
        lambda c: step(c, "pairs").update(prompt_template_name="../role"),
        "stage 'synthesis': step 'pairs': `prompt_template_name` is '../role', but prompts/",
    ),
)
def test_a_missing_prompt_is_told_by_the_field_that_wants_it(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


templates = each_case(
    ("name", "place"),
    [
        ("role", "stage 'thesis': `system_prompt_name`"),
        ("open", "stage 'thesis': `prompt_template_name`"),
        ("work", "stage 'antithesis': step 'critique': `prompt_template_name`"),
    ],
)


@templates
def test_a_template_that_uses_what_is_not_given_is_refused(name: str, place: str) -> None:
    message = refuse(prompts={**PROMPTS, name: PROMPTS[name] + "{{ audience }}"})
    assert f"{place}: prompts/{name}.md uses unknown variable 'audience'" in message
    assert f"Known: {', '.join(sorted(VARIABLES))}" in message


@templates
@each_case("broken", ["{% if %}", "{{ x", "{{ 1 | dance }}", "{% for %}"])
def test_a_broken_template_is_refused_with_its_line(name: str, place: str, broken: str) -> None:
    message = refuse(prompts={**PROMPTS, name: f"{PROMPTS[name]}\n{broken}"})
    assert f"{place}: prompts/{name}.md: " in message
    assert "line 2" in message


@templates
def test_a_template_that_is_nested_too_deeply_is_refused(name: str, place: str) -> None:
    assert place in refuse(prompts={**PROMPTS, name: "{{ " + "(" * 5_000 + "1"})


@pytest.mark.parametrize("lost", ["request", "inputs"])
def test_the_prompt_of_a_step_must_show_the_request_and_what_is_read(lost: str) -> None:
    message = refuse(prompts={**PROMPTS, "work": PROMPTS["work"].replace(lost, "domain")})
    assert "stage 'antithesis': step 'critique': `prompt_template_name`: prompts/work.md" in message
    assert f"never uses {lost!r}" in message
    assert f"write {{{{ {lost} }}}} where it belongs" in message


def test_the_prompt_of_a_stage_without_steps_must_show_what_it_reads() -> None:
    reading = build_stage("plan", inputs_required=[build_input("thesis", "thesis")])
    message = refuse(build_content(build_stage("thesis"), reading), overlays=[])
    assert "stage 'plan': `prompt_template_name`: prompts/open.md never uses 'inputs'" in message


def test_a_template_may_use_what_the_language_itself_gives() -> None:
    counting = PROMPTS["open"] + "{% for n in range(3) %}{{ loop.index }}{% endfor %}"
    assert build(prompts={**PROMPTS, "open": counting}).prompts["open"] == counting


# Steps ------------------------------------------------------------------------------------------


@named(
    (
        lambda c: step(c, "final").update(on_child_failure="quorum"),
        "stage 'synthesis': step 'final': `quorum_min`: required with on_child_failure = 'quorum'",
    ),
    (
        lambda c: step(c, "groups").update(overflow="retrieve"),
        "stage 'synthesis': step 'groups': `overflow`: 'retrieve' searches all inputs together",
    ),
    (
        lambda c: step(c, "groups").update(output_type="combined"),
        "stage 'synthesis': step 'groups': `output_type`: 'combined' is reserved",
    ),
    (
        lambda c: stage(c, "thesis").update(output_type="combined"),
        "stage 'thesis': `output_type`: 'combined' is reserved",
    ),
    (
        lambda c: step(c, "final").update(on_child_failure="any", quorum_min=2),
        "stage 'synthesis': step 'final': `quorum_min`: required with on_child_failure = 'quorum'",
    ),
    (
        lambda c: step(c, "final").update(is_intermediate=True),
        "stage 'synthesis': step 'final': `is_intermediate`: the last step makes the stage's",
    ),
    (
        lambda c: step(c, "pairs").pop("is_intermediate"),
        "stage 'synthesis': step 'pairs': `is_intermediate`: only the last step makes the stage's",
    ),
    (
        lambda c: stage(c, "synthesis").update(output_type="summary"),
        "stage 'synthesis': `output_type` is 'summary', but the last step 'final' makes 'synthes",
    ),
    (
        lambda c: step(c, "pairs")["inputs_required"].pop(),
        "stage 'synthesis': step 'pairs': `inputs_required`: pairwise_by_origin reads 2 kind(s) "
        "of contribution, but 1 are named",
    ),
    (
        lambda c: step(c, "critique")["inputs_required"].append(build_input("x", "thesis")),
        "stage 'antithesis': step 'critique': `inputs_required`: per_source_document reads 1 kind",
    ),
    (
        lambda c: step(c, "final").update(inputs_required=[build_input("feedback", "thesis")]),
        "stage 'synthesis': step 'final': `inputs_required`: no kind of contribution is named",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].pop("heading"),
        "stage 'synthesis': `expected_output_artifacts` 'risks': give either `heading` or `json",
    ),
    (
        lambda c: stage(c, "synthesis")["expected_output_artifacts"][0].update(json_key="r"),
        "stage 'synthesis': `expected_output_artifacts` 'risks': give either `heading` or `json",
    ),
    (
        lambda c: stage(c, "synthesis").update(points=[{"heading": "## Riks", "holds": "claim"}]),
        "stage 'synthesis': `points` '## Riks': ",
    ),
    (
        lambda c: stage(c, "synthesis").update(
            points=[{"heading": "## Risks", "holds": "claim", "step": "finale"}]
        ),
        "stage 'synthesis': `points` '## Risks': `step` is 'finale', which the stage does not have",
    ),
)
def test_a_step_or_document_that_contradicts_itself_is_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


def test_a_quorum_with_its_number_passes() -> None:
    content = changed(lambda c: step(c, "final").update(on_child_failure="quorum", quorum_min=2))
    assert build(content).order[2].steps[2].quorum_min == 2


# Inputs -----------------------------------------------------------------------------------------


@named(
    (
        lambda c: step(c, "final").update(inputs_required=[build_input("summary")]),
        "stage 'synthesis': step 'final': `inputs_required`: no earlier step makes 'summary' in "
        "stage 'synthesis'. Made so far: pair, group",
    ),
    (
        lambda c: step(c, "critique").update(inputs_required=[build_input("essay", "thesis")]),
        "stage 'antithesis': step 'critique': `inputs_required`: no earlier step makes 'essay' in "
        "stage 'thesis'. Made so far: thesis",
    ),
    (
        lambda c: step(c, "critique").update(inputs_required=[build_input("thesis")]),
        "no earlier step makes 'thesis' in stage 'antithesis'. Made so far: nothing",
    ),
    (
        lambda c: stage(c, "thesis").update(
            prompt_template_name="work", inputs_required=[build_input("synthesis", "synthesis")]
        ),
        "stage 'thesis': `inputs_required`: stage 'synthesis' does not come before this one. "
        "Earlier: none",
    ),
    (
        lambda c: stage(c, "synthesis").update(inputs_required=[build_input("moon", "moon")]),
        "stage 'synthesis': `inputs_required`: stage 'moon' does not come before this one. "
        "Earlier: thesis, antithesis",
    ),
    (
        lambda c: stage(c, "synthesis").update(inputs_required=[build_input("feedback", "moon")]),
        "stage 'synthesis': `inputs_required`: stage 'moon' does not come before this one",
    ),
    (
        lambda c: stage(c, "synthesis").update(inputs_required=[build_input("feedback")]),
        "stage 'synthesis': `inputs_required`: 'feedback': name the earlier stage with",
    ),
    (
        lambda c: step(c, "final")["inputs_required"].append(build_input("group", scope="own")),
        "step 'final': `inputs_required`: 'group' of stage 'synthesis' is named twice",
    ),
)
def test_an_input_that_nothing_makes_by_then_is_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


@pytest.mark.parametrize("reads", ["pair", "group", "synthesis"])
def test_a_step_cannot_read_itself_or_a_later_step(reads: str) -> None:
    """Which leaves no way for steps to wait for each other in a circle."""
    content = changed(
        lambda c: step(c, "pairs").update(
            granularity_strategy="all_to_one", inputs_required=[build_input(reads)]
        )
    )
    message = refuse(content)
    assert f"step 'pairs': `inputs_required`: no earlier step makes {reads!r}" in message


@named(
    (
        lambda c: step(c, "pairs")["inputs_required"].reverse(),
        "stage 'synthesis': step 'pairs': `inputs_required`: 'thesis' does not descend from "
        "'antithesis', so they form no pairs; name the origin first",
    ),
    (
        lambda c: step(c, "groups").update(inputs_required=[build_input("thesis", "thesis")]),
        "stage 'synthesis': step 'groups': `inputs_required`: 'thesis' descends from nothing, so "
        "it has no groups; use per_source_document or all_to_one",
    ),
    (
        lambda c: step(c, "groups").update(
            granularity_strategy="per_source_document_by_lineage",
            inputs_required=[build_input("thesis", "thesis")],
        ),
        "'thesis' descends from nothing, so it has no groups",
    ),
)
def test_a_strategy_that_would_find_no_lineage_is_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


def test_what_was_recombined_descends_from_nothing_older() -> None:
    recombined = build_step("all", "all_to_one", "whole", build_input("antithesis", "antithesis"))
    pairs = build_step(
        "again",
        "pairwise_by_origin",
        "again",
        build_input("thesis", "thesis"),
        build_input("whole", "middle"),
    )
    content = build_content(
        *CONTENT["stages"][:2], build_stage("middle", recombined), build_stage("end", pairs)
    )
    assert "'whole' does not descend from 'thesis'" in refuse(content)


# Stages and transitions -------------------------------------------------------------------------


@named(
    (
        lambda c: c.update(starting_stage="start"),
        "`starting_stage` is 'start', which is not a stage",
    ),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "moon"}),
        "a transition names 'moon', which is not a stage",
    ),
    (
        lambda c: c["transitions"].append({"source": "moon", "target": "thesis"}),
        "a transition names 'moon', which is not a stage",
    ),
    (
        lambda c: c["transitions"].append({"source": "thesis", "target": "synthesis"}),
        "stage 'thesis' has two transitions out of it; remove one",
    ),
    (
        lambda c: c["transitions"].append(c["transitions"][0]),
        "stage 'thesis' has two transitions out of it; remove one",
    ),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "thesis"}),
        "the transitions form a cycle through 'thesis'",
    ),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "synthesis"}),
        "the transitions form a cycle through 'synthesis'",
    ),
    (
        lambda c: c["transitions"].pop(),
        "stage 'synthesis' is not reached from the start; add a transition to it",
    ),
    (lambda c: c.update(starting_stage="synthesis"), "is not reached from the start"),
)
def test_stages_that_do_not_form_a_chain_are_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


# Domains and overlays ---------------------------------------------------------------------------


@each_case(
    ("overlay", "words"),
    [
        ({}, "`domain`: it is missing"),
        (
            {"domain": "Law", "guide": {}},
            "`guide`: this field does not exist; known fields: domain, g",
        ),
        ({"domain": "Law", "guidance": "x"}, "`guidance`: "),
        ({"domain": "Law", "guidance": {"open": 1}}, "`guidance`: `open`: Input should be a valid"),
        (
            {"domain": "Cooking"},
            "`domain` is 'Cooking', which the process does not have. It has: General,",
        ),
        (
            {"domain": "Law", "guidance": {"close": "x"}},
            "`guidance`: no stage and no step uses a prompt 'close'",
        ),
        (
            {"domain": "Law", "guidance": {"role": "x"}},
            "`guidance`: prompts/role.md never uses 'guidance', so this has no effect",
        ),
        ({"domain": "General"}, "`domain` is 'General', which already has an overlay"),
    ],
)
def test_an_overlay_that_fits_nothing_is_refused(overlay: Content, words: str) -> None:
    assert f"overlay 2: {words}" in refuse(overlays=[{"domain": "General"}, overlay])


def test_an_overlay_is_told_by_its_own_file_where_it_has_one() -> None:
    with refusing(InvalidProcess, "`domain`", "'Cooking'", subject="b.toml"):
        build_process(
            CONTENT,
            PROMPTS,
            [{"domain": "Law"}, {"domain": "Cooking"}],
            place="here.toml",
            overlay_places=["a.toml", "b.toml"],
        )


ANGLE = {"name": "sceptic", "stance": "Doubt it."}


@named(
    (lambda content: content.update(seats=[ANGLE]), "no prompt uses 'stance'"),
    (lambda content: content.update(seats=[ANGLE, ANGLE]), "two seats have the `name` 'sceptic'"),
    (lambda content: content.update(seats=[{**ANGLE, "temperature": 3}]), "seat 'sceptic'"),
    (lambda content: content.update(seats=[{"name": "sceptic"}]), "seat 'sceptic': `stance`"),
    (lambda content: content.update(seats_min=0), "`seats_min`"),
    (lambda content: content.update(angles="never"), "`angles`"),
)
def test_angles_and_a_quorum_that_make_no_sense_are_refused(change: Change, words: str) -> None:
    assert words in refuse(changed(change))


def test_a_process_may_declare_angles_and_a_quorum() -> None:
    prompts = {**PROMPTS, "open": PROMPTS["open"] + " {{ stance }}"}
    content = changed(lambda content: content.update(seats=[ANGLE], seats_min=2, angles="always"))
    file = build(content, prompts, OVERLAYS).file
    assert (file.seats[0].name, file.seats[0].temperature, file.seats_min) == ("sceptic", None, 2)


def test_a_misspelled_field_is_told_before_the_one_that_is_missing_for_it() -> None:
    def misspell(content: Content) -> None:
        thesis = stage(content, "thesis")
        thesis["ouput_type"] = thesis.pop("output_type")

    told = refuse(changed(misspell))
    unknown, missing = told.index("`ouput_type`"), told.index("`output_type`: it is missing")
    assert unknown < missing
    assert "the nearest is `output_type`" in told


def test_more_errors_than_are_shown_are_counted() -> None:
    def add_fields(content: Content) -> None:
        content |= {f"unknown_{number}": 1 for number in range(8)}

    assert refuse(changed(add_fields)).endswith("There are 3 more errors.")


# Makers and second looks ----------------------------------------------------------------------


def by_lead(content: Content, slug: str) -> Content:
    stage(content, slug)["makers"] = "lead"
    return content


@named(
    (
        lambda c: stage(c, "thesis").update(makers="others"),
        "stage 'thesis': `makers`: Input should be 'all' or 'lead'",
    ),
    (
        lambda c: (
            by_lead(c, "thesis"),
            step(c, "critique")["inputs_required"][0].update(scope="own"),
        ),
        "stage 'antithesis': step 'critique': `inputs_required`: `scope`: only the lead makes",
    ),
    (
        lambda c: (by_lead(c, "antithesis"), step(c, "critique").update(readers_max=1)),
        "stage 'antithesis': step 'critique': `readers_max`: only the lead reads here",
    ),
    (
        lambda c: stage(c, "synthesis").update(second_look=True),
        "stage 'synthesis': `second_look`: the stage has steps; set it in the last step",
    ),
    (
        lambda c: step(c, "pairs").update(second_look=True),
        "stage 'synthesis': step 'pairs': `second_look`: only the last step makes",
    ),
    (
        lambda c: stage(c, "thesis").update(second_look=True),
        "stage 'thesis': `second_look`: it reads no documents",
    ),
    (
        lambda c: step(c, "pairs").update(second_look="yes"),
        "stage 'synthesis': step 'pairs': `second_look`: Input should be a valid boolean",
    ),
    (lambda c: c.update(prompts_from="../standard"), "`prompts_from`: it must be 1 to 64 of"),
)
def test_makers_and_looks_that_cannot_work_are_refused_with_their_place(
    change: Change, words: str
) -> None:
    looking = {**PROMPTS, "second_look": load_process("quick").prompts["second_look"]}
    assert refuse(changed(change), looking).startswith(words)


def test_the_lead_may_read_its_own_documents_where_it_alone_reads() -> None:
    def change(content: Content) -> None:
        by_lead(content, "thesis")
        by_lead(content, "antithesis")
        step(content, "critique")["inputs_required"][0]["scope"] = "own"

    assert build(changed(change)).load_stage("thesis").makers == "lead"
