"""A plan job deals out what can begin, awaits the rest, and never changes its mind."""

from __future__ import annotations

from collections import Counter
from random import Random
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dialectic.core.documents.file_paths import (
    ContributionName,
    Intermediate,
    StageFolder,
    build_path,
)
from dialectic.core.process.definition import Process
from dialectic.errors import Fate, PlanError
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.problems import check_error, refusing
from tests.properties import examples
from tests.unit.pipeline.played_session import (
    PlayedSession,
    is_hit,
    processes,
    with_failures_allowed,
)
from tests.unit.small_process import (
    CONTENT,
    build,
    build_content,
    build_input,
    build_stage,
    build_step,
    changed,
)

STANDARD = load_process("standard")
PAIR = "pairwise_synthesis_chunk"
A, B, C = "offline/architect", "offline/builder", "offline/critic"

seeds = st.integers(0, 10**6)
model_lists = st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=3)


def play(*models: str) -> PlayedSession:
    return PlayedSession(STANDARD, models).play_in_order()


# A whole session --------------------------------------------------------------------------------


@each_case("models", [1, 2, 3, 4, 5])
def test_a_session_plans_as_many_documents_as_its_outline_says(models: int) -> None:
    played = play(*[f"offline/m{n}" for n in range(models)])
    n = models
    assert played.count_documents() == [n, n * n, n**3, n * n, n, n, n]
    assert all(plan.has_ended for plan in played.plans)


def test_every_model_criticises_every_thesis_once() -> None:
    played = play(A, B, C)
    theses = {d.id: d.model_index for d in played.documents.values() if d.type == "thesis"}
    critiques = played.list_payloads("antithesis")
    assert Counter((p.model_index, p.target_contribution_id) for p in critiques) == Counter(
        (index, thesis) for index in (1, 2, 3) for thesis in theses
    )
    for payload in critiques:
        (read,) = payload.inputs
        assert read.contribution_id == payload.target_contribution_id == payload.source_group
        assert payload.origin == theses[read.contribution_id]
        assert payload.naming.kind == "about"


def test_what_is_all_there_is_complete_though_its_maker_has_not_moved_on() -> None:
    played = play(A, B)
    maker, reader = (played.find_plan("synthesis", index) for index in (1, 2))
    maker.current_step, maker.has_ended = 2, False
    reader.current_step, reader.has_ended = 3, False
    decision = played.decide(reader)
    assert [child.step_number for child in decision.children] == [3]
    assert decision.awaits == ()


def test_every_pair_is_a_thesis_and_a_critique_of_it() -> None:
    played = play(A, B, C)
    for payload in played.list_payloads(PAIR):
        thesis, critique = (played.documents[read.contribution_id] for read in payload.inputs)
        assert (thesis.type, critique.type) == ("thesis", "antithesis")
        assert critique.source_group == thesis.id == payload.source_group
        assert payload.target_contribution_id == thesis.id
        assert [read.rule for read in payload.inputs] == [0, 1]


def test_a_reduction_reads_its_models_own_pairs_of_one_thesis() -> None:
    played = play(A, B, C)
    for payload in played.list_payloads("reduced_synthesis"):
        pairs = [played.documents[read.contribution_id] for read in payload.inputs]
        assert len(pairs) == 3
        assert {pair.source_group for pair in pairs} == {payload.source_group}
        assert {pair.model_index for pair in pairs} == {payload.model_index}


def test_a_final_synthesis_reads_all_reductions_of_all_models_and_descends_from_none() -> None:
    played = play(A, B, C)
    everything = {d.id for d in played.documents.values() if d.type == "reduced_synthesis"}
    for payload in played.list_payloads("synthesis"):
        assert {read.contribution_id for read in payload.inputs} == everything
        assert (payload.source_group, payload.target_contribution_id) == (None, None)
        assert (payload.ordinal, payload.origin) == (1, payload.model_index)


# Any order of arrival ---------------------------------------------------------------------------


def compare(one: PlayedSession, other: PlayedSession) -> None:
    assert one.children == other.children
    assert one.documents == other.documents
    assert [plan.has_ended for plan in one.plans] == [plan.has_ended for plan in other.plans]


@examples(40)
@given(model_lists, seeds)
def test_the_standard_process_plans_the_same_in_any_order_with_any_number_of_looks(
    models: list[str], seed: int
) -> None:
    compare(
        PlayedSession(STANDARD, models).play_in_order(),
        PlayedSession(STANDARD, models, chance=Random(seed)).play_at_random(),
    )


@examples(60)
@given(processes(), model_lists, seeds)
def test_any_process_plans_the_same_in_any_order_with_any_number_of_looks(
    process: Process, models: list[str], seed: int
) -> None:
    assume(build_outline(process, models=len(models)).calls <= 100)
    compare(
        PlayedSession(process, models).play_in_order(),
        PlayedSession(process, models, chance=Random(seed)).play_at_random(),
    )


LENIENT = build(with_failures_allowed(changed(lambda _: None)))


@examples(60)
@given(model_lists, st.sampled_from([5, 20, 50, 90]), seeds)
def test_what_fails_leaves_the_rest_the_same_in_any_order(
    models: list[str], rate: int, seed: int
) -> None:
    compare(
        PlayedSession(LENIENT, models, is_hit(rate)).play_in_order(),
        PlayedSession(LENIENT, models, is_hit(rate), Random(seed)).play_at_random(),
    )


@examples(40)
@given(processes(), model_lists, st.sampled_from([5, 30, 80]), seeds)
def test_no_failure_leaves_a_plan_job_waiting_for_ever(
    process: Process, models: list[str], rate: int, seed: int
) -> None:
    assume(build_outline(process, models=len(models)).calls <= 100)
    played = PlayedSession(process, models, is_hit(rate), Random(seed)).play_at_random()
    assert all(plan.has_ended for plan in played.plans)


def test_a_failed_critique_costs_its_own_pairs_and_nothing_else() -> None:
    whole = PlayedSession(LENIENT, [A, B, C]).play_in_order()
    lost = next(child.id for child in whole.children.values() if child.step_number == 1)
    played = PlayedSession(LENIENT, [A, B, C], lambda job_id: job_id == lost).play_in_order()
    assert played.count_documents() == [3, 8, 24, 9, 3]
    sizes = sorted(len(payload.inputs) for payload in played.list_payloads("group"))
    assert sizes == [2, 2, 2, 3, 3, 3, 3, 3, 3]
    assert all(plan.has_ended for plan in played.plans)


def test_a_thesis_without_any_critique_left_is_not_carried_on() -> None:
    whole = PlayedSession(LENIENT, [A, B, C]).play_in_order()
    about_first = {
        child.id
        for child in whole.children.values()
        if child.payload.output_type == "antithesis" and child.payload.origin == 1
    }
    played = PlayedSession(LENIENT, [A, B, C], lambda job_id: job_id in about_first).play_in_order()
    assert played.count_documents() == [3, 6, 18, 6, 3]


def test_a_model_that_failed_leaves_the_others_to_go_on() -> None:
    failing = PlayedSession(LENIENT, [A, B, C]).find_plan("thesis", 2).id
    played = PlayedSession(LENIENT, [A, B, C], lambda job_id: job_id == failing).play_in_order()
    assert played.count_documents() == [2, 6, 18, 6, 3]


# Names and ids ----------------------------------------------------------------------------------


def list_paths(played: PlayedSession) -> list[str]:
    """The path of every planned document, by its payload alone."""
    return [
        build_path(
            Intermediate(
                StageFolder("garden", "0a1b2c3d", 1, 1, plan.stage.slug),
                ContributionName(
                    child.payload.seat_name,
                    child.payload.ordinal,
                    child.payload.output_type,
                    child.payload.naming,
                ),
            )
        )
        for plan in played.plans
        for child in plan.children.values()
    ]


def check_names(played: PlayedSession) -> None:
    paths = list_paths(played)
    assert len(set(paths)) == len(paths)
    for step in played.outline.steps:
        names = Counter(
            (payload.seat_name, payload.ordinal)
            for plan in played.plans
            for payload in [child.payload for child in plan.children.values()]
            if (plan.stage.slug, payload.output_type) == (step.stage_slug, step.output_type)
        )
        ordinals: dict[str, list[int]] = {}
        for name, ordinal in names.elements():
            ordinals.setdefault(name, []).append(ordinal)
        for found in ordinals.values():
            assert sorted(found) == list(range(1, step.per_model + 1))


@examples(60)
@given(processes(), model_lists)
def test_in_any_process_a_seats_documents_of_a_kind_are_counted_from_one_without_gaps(
    process: Process, models: list[str]
) -> None:
    """Also where the same model was chosen several times, so no two share a file name."""
    assume(build_outline(process, models=len(models)).calls <= 200)
    check_names(PlayedSession(process, models).play_in_order())


@pytest.mark.parametrize("models", [(A, A), (A, B, A), (A, A, A)])
def test_the_same_model_chosen_twice_works_like_two_models(models: tuple[str, ...]) -> None:
    played = play(*models)
    n = len(models)
    assert played.count_documents() == [n, n * n, n**3, n * n, n, n, n]
    assert len(played.children) == n * n + n**3 + n * n + n
    check_names(played)


def test_a_child_keeps_its_number_when_its_siblings_never_come() -> None:
    whole = PlayedSession(LENIENT, [A, B, C]).play_in_order()
    played = PlayedSession(LENIENT, [A, B, C], is_hit(30)).play_in_order()
    same = whole.children.keys() & played.children.keys()
    assert 0 < len(same) < len(whole.children)
    assert all(
        played.children[i].payload.ordinal == whole.children[i].payload.ordinal for i in same
    )


def test_names_tell_what_a_document_was_made_from() -> None:
    names = {path.rpartition("/")[2] for path in list_paths(play(A, B))}
    assert {
        "offline-architect_critiquing_offline-builder_2_antithesis.md",
        "offline-builder_from_offline-architect_and_offline-architect_1_pairwise_synthesis_chunk.md",
        "offline-builder_1_final_synthesis.md",
    } <= names


def test_twelve_models_with_long_names_still_have_file_names() -> None:
    played = PlayedSession(STANDARD, [f"vendor{n}/{'long-name-' * 8}{n}" for n in range(12)])
    plan = played.find_plan("synthesis", 1)
    for stage in ("thesis", "antithesis"):
        for index in range(1, 13):
            job = played.find_plan(stage, index)
            played.replan(job)
            for child in list(job.children.values()):
                played.run(job, child)
    decision = played.decide(plan)
    plan.children.update({child.id: child for child in decision.children})
    assert len(set(list_paths(played))) == 12 * 12 + 12 * 12


# What is awaited --------------------------------------------------------------------------------


def test_a_plan_job_deals_out_each_thesis_as_it_arrives_and_awaits_the_others() -> None:
    played = PlayedSession(STANDARD, [A, B])
    plan = played.find_plan("antithesis", 1)
    decision = played.decide(plan)
    assert (decision.children, decision.awaits) == ((), ("thesis",))
    assert decision.is_step_open
    played.replan(played.find_plan("thesis", 2))
    decision = played.decide(plan)
    (child,) = decision.children
    assert (child.step_number, child.payload.origin, child.payload.ordinal) == (1, 2, 2)
    assert (decision.awaits, decision.is_step_open) == (("thesis",), True)
    played.replan(played.find_plan("thesis", 1))
    decision = played.decide(plan)
    assert [c.payload.ordinal for c in decision.children] == [1, 2]
    assert (decision.awaits, decision.is_step_open) == ((), False)


def test_a_thesis_that_failed_is_not_awaited_any_longer() -> None:
    played = PlayedSession(STANDARD, [A, B])
    played.replan(played.find_plan("thesis", 2))
    played.find_plan("thesis", 1).has_ended = True
    decision = played.decide(played.find_plan("antithesis", 1))
    assert len(decision.children) == 1
    assert not decision.is_step_open


def test_a_plan_job_awaits_what_all_its_steps_to_come_will_read() -> None:
    played = PlayedSession(STANDARD, [A, B])
    decision = played.decide(played.find_plan("synthesis", 1))
    assert decision.awaits == ("thesis", "antithesis", f"{PAIR}@1", "reduced_synthesis")


def start_synthesis(played: PlayedSession) -> None:
    """Bring a session to where both models have planned all their pairs."""
    for stage in ("thesis", "antithesis", "synthesis"):
        for index in (1, 2):
            job = played.find_plan(stage, index)
            played.replan(job)
            if stage == "antithesis":
                for child in list(job.children.values()):
                    played.run(job, child)
                played.replan(job)


def test_a_thesis_is_reduced_as_soon_as_its_own_pairs_are_there() -> None:
    played = PlayedSession(STANDARD, [A, B])
    start_synthesis(played)
    plan = played.find_plan("synthesis", 1)
    first = [child for child in plan.children.values() if child.payload.origin == 1]
    for child in first:
        played.run(plan, child)
    decision = played.decide(plan)
    early = [child for child in decision.children if child.step_number == 2]
    assert [child.payload.origin for child in early] == [1]
    assert {read.contribution_id for read in early[0].payload.inputs} == {
        document.id for document in played.documents.values() if document.type == PAIR
    }
    assert (decision.awaits, decision.is_step_open) == ((f"{PAIR}@1", "reduced_synthesis"), False)


def run_all(played: PlayedSession, model_index: int, *, steps: int) -> None:
    plan = played.find_plan("synthesis", model_index)
    while plan.current_step <= steps:
        played.replan(plan)
        for child in list(plan.children.values()):
            if child.id not in played.ended:
                played.run(plan, child)


@pytest.mark.parametrize("ends", ["passes the step", "fails"])
def test_the_last_step_waits_until_every_other_model_has_passed_or_failed(ends: str) -> None:
    played = PlayedSession(STANDARD, [A, B])
    start_synthesis(played)
    run_all(played, 1, steps=2)
    plan, other = played.find_plan("synthesis", 1), played.find_plan("synthesis", 2)
    assert (plan.current_step, other.current_step) == (3, 1)
    decision = played.decide(plan)
    assert (decision.children, decision.awaits) == ((), ("reduced_synthesis",))
    assert decision.is_step_open
    if ends == "fails":
        other.has_ended = True
    else:
        run_all(played, 2, steps=2)
    decision = played.decide(plan)
    (child,) = decision.children
    assert len(child.payload.inputs) == (2 if ends == "fails" else 4)
    assert (decision.awaits, decision.is_step_open) == ((), False)


def test_a_plan_job_that_does_not_exist_yet_is_still_awaited() -> None:
    played = PlayedSession(STANDARD, [A, B])
    played.replan(played.find_plan("thesis", 1))
    played.plans.remove(played.find_plan("thesis", 2))
    assert played.decide(played.find_plan("antithesis", 1)).is_step_open


def test_steps_that_are_over_are_not_planned_again() -> None:
    played = play(A, B)
    plan = played.find_plan("synthesis", 1)
    plan.current_step = 3
    assert {child.step_number for child in played.decide(plan).children} == {3}
    plan.current_step = 4
    decision = played.decide(plan)
    assert (decision.children, decision.awaits, decision.is_step_open) == ((), (), False)


# Nothing to do ----------------------------------------------------------------------------------


def test_a_step_with_nothing_to_work_on_is_an_error_that_says_what_was_found() -> None:
    played = PlayedSession(STANDARD, [A, B])
    for index in (1, 2):
        played.find_plan("thesis", index).has_ended = True
    with pytest.raises(PlanError) as caught:
        played.decide(played.find_plan("antithesis", 1))
    check_error(caught.value, reason="nothing_to_read", subject="critique")
    check_error(caught.value, "'antithesis'", "per_source_document", "0 of 'thesis'")
    assert caught.value.fate is Fate.FAIL


def build_summary(*, required: bool) -> Process:
    """Everything into one, where the critiques may be missing or not."""
    summary = build_step(
        "all",
        "all_to_one",
        "summary",
        build_input("feedback", "thesis", required=False),
        build_input("thesis", "thesis"),
        build_input("antithesis", "antithesis", required=required),
    )
    return build(build_content(*CONTENT["stages"][:2], build_stage("summary", summary)))


def lose_critiques(process: Process) -> PlayedSession:
    played = PlayedSession(process, [A, B])
    for index in (1, 2):
        played.replan(played.find_plan("thesis", index))
        played.find_plan("antithesis", index).has_ended = True
    return played


def test_an_input_that_a_step_cannot_do_without_is_an_error_when_none_will_come() -> None:
    played = lose_critiques(build_summary(required=True))
    with refusing(PlanError, "2 of 'thesis'", "0 of 'antithesis'", reason="nothing_to_read"):
        played.decide(played.find_plan("summary", 1))


def test_an_input_that_is_not_required_may_be_missing() -> None:
    played = lose_critiques(build_summary(required=False))
    (child,) = played.decide(played.find_plan("summary", 1)).children
    assert len(child.payload.inputs) == 2


def test_an_input_names_the_rule_that_asked_for_it_by_its_place_in_the_step() -> None:
    played = PlayedSession(build_summary(required=True), [A, B]).play_in_order()
    for payload in played.list_payloads("summary"):
        kinds = [
            (played.documents[read.contribution_id].type, read.rule) for read in payload.inputs
        ]
        assert Counter(kinds) == {("thesis", 1): 2, ("antithesis", 2): 4}


def test_ids_of_children_are_those_of_their_work_in_this_session_alone() -> None:
    one, other = play(A, B), PlayedSession(STANDARD, (A, B))
    other.plans = [
        type(plan)(UUID(int=plan.id.int ^ 1), plan.stage, plan.payload) for plan in other.plans
    ]
    assert not one.children.keys() & other.play_in_order().children.keys()
