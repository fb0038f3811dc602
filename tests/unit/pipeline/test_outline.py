"""The figures of a process are known before it runs, and they are those of the real run."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dialectic.core.job import derive_contribution_id
from dialectic.core.process.definition import Process, Scope
from dialectic.errors import PlanError
from dialectic.pipeline.outline import (
    STEP_CALLS_MAX,
    DocumentKey,
    Outline,
    build_outline,
    leave_out_lost,
    list_calls,
    seat_stages,
)
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.pipeline.played_session import PlayedSession, processes
from tests.unit.small_process import build, build_content, build_input, build_stage, build_step

STANDARD = load_process("standard")


@each_case(
    ("models", "calls"),
    [
        (1, [1, 1, 1, 1, 1, 1, 1]),
        (2, [2, 4, 8, 4, 2, 2, 2]),
        (3, [3, 9, 27, 9, 3, 3, 3]),
        (4, [4, 16, 64, 16, 4, 4, 4]),
        (5, [5, 25, 125, 25, 5, 5, 5]),
    ],
)
def test_the_standard_process_makes_as_many_calls_as_promised(
    models: int, calls: list[int]
) -> None:
    outline = build_outline(STANDARD, models=models)
    assert [step.calls for step in outline.steps] == calls
    assert outline.calls == sum(calls)
    assert [outline.count_calls(stage.slug).total() for stage in STANDARD.order] == [
        calls[0],
        calls[1],
        sum(calls[2:5]),
        calls[5],
        calls[6],
    ]


def test_three_models_make_fifty_seven_calls() -> None:
    assert build_outline(STANDARD, models=3).calls == 57


def test_steps_are_named_and_a_stage_without_steps_goes_by_its_own_name() -> None:
    steps = build_outline(STANDARD, models=2).steps
    assert [(step.stage_slug, step.name) for step in steps] == [
        ("thesis", "thesis"),
        ("antithesis", "critique"),
        ("synthesis", "pairwise"),
        ("synthesis", "per_thesis"),
        ("synthesis", "final"),
        ("parenthesis", "parenthesis"),
        ("paralysis", "paralysis"),
    ]


def test_an_outline_can_end_with_a_stage() -> None:
    outline = build_outline(STANDARD, models=3, until="antithesis")
    assert [step.calls for step in outline.steps] == [3, 9]
    assert outline.count_calls("paralysis").total() == 0


def test_groups_are_as_large_as_the_scope_makes_them() -> None:
    outline = build_outline(STANDARD, models=3)
    critiques = outline.load_step("antithesis", "antithesis")
    pairs = outline.load_step("synthesis", "pairwise_synthesis_chunk")
    assert (critiques.group_size(Scope.OWN), critiques.group_size(Scope.ALL)) == (1, 3)
    assert (pairs.group_size(Scope.OWN), pairs.group_size(Scope.ALL)) == (3, 9)


def test_a_step_that_is_not_there_cannot_be_asked_for() -> None:
    with pytest.raises(AssertionError, match="no step of stage 'thesis' makes 'moon'"):
        build_outline(STANDARD, models=2).load_step("thesis", "moon")


def test_the_same_type_in_two_stages_is_two_kinds() -> None:
    both = [build_input("essay", "first"), build_input("essay", "second")]
    process = build(
        build_content(
            build_stage("first", output_type="essay"),
            build_stage("second", output_type="essay"),
            build_stage("third", build_step("all", "all_to_one", "whole", *both)),
        ),
        overlays=[],
    )
    played = PlayedSession(process, ["offline/a", "offline/b"]).play_in_order()
    assert [step.calls for step in played.outline.steps] == [2, 2, 2]
    assert [len(set(p.inputs)) for p in played.list_payloads("whole")] == [4, 4]


def build_avalanche(steps: int) -> Process:
    """Every step writes about everything of the step before."""
    chain = [build_step("step0", "per_source_document", "kinda", build_input("start", "start"))]
    chain += [
        build_step(
            f"step{n}",
            "per_source_document",
            f"kind{chr(97 + n)}",
            build_input(f"kind{chr(96 + n)}"),
        )
        for n in range(1, steps)
    ]
    return build(build_content(build_stage("start"), build_stage("more", *chain)), overlays=[])


def test_a_process_that_grows_beyond_all_bounds_is_refused_with_the_number() -> None:
    started_s = time.thread_time()
    with refusing(PlanError, "'more'", reason="too_many_calls", limit=STEP_CALLS_MAX) as caught:
        build_outline(build_avalanche(20), models=12)
    assert re.fullmatch("step[0-9]+", caught.value.subject or "")
    assert time.thread_time() - started_s < 10.0
    assert build_outline(build_avalanche(20), models=1).calls == 21


def test_twenty_models_in_the_standard_process_are_not_too_many() -> None:
    assert max(step.calls for step in build_outline(STANDARD, models=20).steps) == 8_000


def build_small_outline(process: Process, models: int) -> Outline:
    outline = build_outline(process, models=models)
    assume(outline.calls <= 300)
    return outline


@given(processes(), st.integers(1, 4))
def test_in_any_process_all_models_make_the_same_number_and_groups_come_out_even(
    process: Process, models: int
) -> None:
    outline = build_small_outline(process, models)
    for step in outline.steps:
        assert step.calls == step.per_model * models
        assert [len(ranks) for ranks in step.ranks] == [step.per_model] * models
        assert step.per_model % step.group_size(Scope.OWN) == 0
        assert step.calls % step.group_size(Scope.ALL) == 0
        assert all(sorted(set(ranks)) == list(ranks) for ranks in step.ranks)


@given(processes(), st.integers(1, 3))
def test_in_any_process_the_figures_are_those_of_a_run_in_which_all_goes_well(
    process: Process, models: int
) -> None:
    outline = build_small_outline(process, models)
    played = PlayedSession(process, [f"offline/m{n}" for n in range(models)]).play_in_order()
    assert all(plan.has_ended for plan in played.plans)
    assert played.count_documents() == [step.calls for step in outline.steps]


# -- single calls ----------------------------------------------------------------------------------


@given(processes(), st.integers(1, 3))
def test_in_any_process_the_calls_are_those_that_a_run_makes_and_read_what_it_reads(
    process: Process, models: int
) -> None:
    played = PlayedSession(process, [f"offline/m{n}" for n in range(models)]).play_in_order()
    keys = {
        d.id: DocumentKey(d.stage_slug, d.type, d.model_index, d.rank)
        for d in played.documents.values()
    }
    made = {
        keys[derive_contribution_id(child.id)]: {
            keys[given.contribution_id] for given in child.payload.inputs
        }
        for child in played.children.values()
    }
    calls = list_calls(process, models=models)
    assert {call.makes for call in calls} == set(keys.values())
    assert len(calls) == len(keys)
    dealt = {call.makes: set(call.reads) for call in calls if call.makes in made}
    assert dealt == made


@given(processes(), st.integers(1, 3))
def test_what_a_call_reads_is_listed_before_it(process: Process, models: int) -> None:
    seen: set[DocumentKey] = set()
    for call in list_calls(process, models=models):
        assert seen.issuperset(call.reads)
        seen.add(call.makes)


def test_a_stage_without_steps_reads_what_it_is_given() -> None:
    (first, second) = [
        call for call in list_calls(STANDARD, models=2) if call.makes.stage_slug == "parenthesis"
    ]
    syntheses = {DocumentKey("synthesis", "synthesis", n, 1) for n in (1, 2)}
    assert set(first.reads) == set(second.reads) == syntheses


def test_a_stage_is_planned_for_the_seats_that_take_part_in_it() -> None:
    seats = (("antithesis", (2, 3, 4)), ("synthesis", (3,)))
    outline = build_outline(STANDARD, models=4, seats=(("thesis", (1, 2)), *seats))
    counts = {stage.slug: outline.count_calls(stage.slug).total() for stage in STANDARD.order}
    # Two theses; six critiques; six pairs, two reductions and one synthesis by one seat.
    assert counts["thesis"] == 2
    assert counts["antithesis"] == 6
    assert counts["synthesis"] == 6 + 2 + 1
    assert outline.load_step("antithesis", "antithesis").get_ranks(1) == ()


def test_all_seats_in_every_stage_are_the_plain_outline() -> None:
    seats = tuple((stage.slug, (1, 2, 3)) for stage in STANDARD.order)
    assert build_outline(STANDARD, models=3, seats=seats) == build_outline(STANDARD, models=3)


def test_without_a_lost_seat_the_calls_of_a_smaller_session_are_left() -> None:
    lost = tuple((stage.slug, (3,)) for stage in STANDARD.order)
    kept = leave_out_lost(STANDARD, list_calls(STANDARD, models=3), lost)
    assert len(kept) == len(list_calls(STANDARD, models=2))
    assert {call.makes.model_index for call in kept} == {1, 2}
    assert all(read.model_index != 3 for call in kept for read in call.reads)


def test_what_a_lost_seat_wrote_before_it_was_lost_is_read() -> None:
    lost = (("antithesis", (3,)),)
    calls = list_calls(STANDARD, models=3, until="synthesis")
    written = [c.makes for c in calls if c.makes.output_type == "antithesis"][-1:]
    kept = leave_out_lost(STANDARD, calls, lost, written)
    pairs = [c for c in kept if c.makes.output_type == "pairwise_synthesis_chunk"]
    # Two seats wrote six critiques, and the lost one wrote one of its three.
    assert len(pairs) == 3 * 7


# -- the lead alone --------------------------------------------------------------------------------

QUICK = load_process("quick")


@each_case(("models", "calls"), [(1, 5), (2, 7), (3, 9), (4, 11), (5, 13)])
def test_the_quick_process_makes_2n_and_3_calls_and_at_most_two_looks(
    models: int, calls: int
) -> None:
    outline = build_outline(QUICK, models=models)
    assert (outline.calls, outline.looks) == (calls, 2)
    assert [step.calls for step in outline.steps] == [models, models, 1, 1, 1]


def test_what_the_lead_makes_is_made_by_its_seat_and_read_by_all() -> None:
    seats = seat_stages(QUICK, (1, 2, 3), lead=2)
    assert dict(seats) == {
        "thesis": (1, 2, 3),
        "antithesis": (1, 2, 3),
        "synthesis": (2,),
        "parenthesis": (2,),
        "paralysis": (2,),
    }
    calls = list_calls(QUICK, models=3, seats=seats)
    (checklist,) = [call for call in calls if call.makes.stage_slug == "paralysis"]
    assert checklist.makes.model_index == 2
    assert {read.kind[1] for read in checklist.reads} == {"parenthesis", "synthesis"}
    (synthesis,) = [call for call in calls if call.makes.stage_slug == "synthesis"]
    assert len(synthesis.reads) == 6
    # A lead that has left is replaced by the first that has not.
    assert dict(seat_stages(QUICK, (2, 3), lead=1))["synthesis"] == (2,)


def test_each_critic_of_the_quick_process_reads_one_thesis_of_another_model() -> None:
    for models in (2, 3, 4, 5):
        calls = list_calls(QUICK, models=models, until="antithesis")
        pairs = [
            (call.makes.model_index, call.reads[0].model_index) for call in calls if call.reads
        ]
        assert len(pairs) == models == len({thesis for _, thesis in pairs})
        assert all(critic != thesis for critic, thesis in pairs)
