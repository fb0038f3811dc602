"""What is left out of a step is chosen in turn, once for all, and planned for."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from hypothesis import assume, given, reject
from hypothesis import strategies as st

from dialectic.core.job import derive_contribution_id
from dialectic.core.process.definition import Process
from dialectic.errors import PlanError
from dialectic.pipeline.outline import Outline, PlannedCall, build_outline, list_calls
from tests.cases import each_case
from tests.unit.pipeline.played_session import PlayedSession, processes
from tests.unit.small_process import build, changed

MODELS = [f"offline/m{n}" for n in range(6)]


def build_sampled(critique: dict[str, Any] | None = None, **pairs: Any) -> Process:
    """The small process, with less of its critiques and of its pairs."""

    def change(content: Any) -> None:
        content["stages"][1]["steps"][0].update(critique or {})
        content["stages"][2]["steps"][0].update(pairs)

    return build(changed(change))


def list_of(process: Process, output_type: str, models: int) -> list[PlannedCall]:
    calls = list_calls(process, models=models)
    return [call for call in calls if call.makes.output_type == output_type]


@each_case("models", [2, 3, 5])
@each_case("readers", [1, 2])
def test_each_document_is_read_by_a_set_number_of_models_and_by_its_author_last(
    models: int, readers: int
) -> None:
    calls = list_of(build_sampled({"readers_max": readers}), "antithesis", models)
    assert len(calls) == models * readers
    assert set(Counter(call.makes.model_index for call in calls).values()) == {readers}
    assert set(Counter(call.reads[0] for call in calls).values()) == {readers}
    own = [call for call in calls if call.reads[0].model_index == call.makes.model_index]
    assert bool(own) is (readers == models)


@each_case("models", [2, 3, 5])
@each_case("most", [1, 2])
def test_each_model_reads_a_set_number_of_descendants_of_a_document(models: int, most: int) -> None:
    calls = list_of(build_sampled(per_source_max=most), "pair", models)
    assert len(calls) == models * models * most
    per_thesis = Counter((call.makes.model_index, call.reads[0]) for call in calls)
    assert set(per_thesis.values()) == {most}
    per_critique = Counter(call.reads[1] for call in calls)
    assert max(per_critique.values()) - min(per_critique.values()) == 0


def test_asking_for_more_than_there_is_leaves_nothing_out() -> None:
    whole = build_outline(build(), models=3)
    most = build_sampled({"readers_max": 3}, readers_max=9, per_source_max=3)
    assert build_outline(most, models=3) == whole


def test_both_limits_hold_together() -> None:
    process = build_sampled({"readers_max": 2}, per_source_max=1)
    outline = build_outline(process, models=3)
    assert [step.calls for step in outline.steps] == [3, 6, 9, 9, 3]


def build_small_outline(process: Process, models: int) -> Outline:
    try:
        outline = build_outline(process, models=models)
    except PlanError:
        reject()  # refused, for a model would have nothing to do
    assume(outline.calls <= 200)
    return outline


@given(processes(sampled=True), st.integers(1, 4))
def test_in_any_process_that_leaves_something_out_the_figures_are_those_of_a_run(
    process: Process, models: int
) -> None:
    outline = build_small_outline(process, models)
    played = PlayedSession(process, MODELS[:models]).play_in_order()
    assert all(plan.has_ended for plan in played.plans)
    assert played.count_documents() == [step.calls for step in outline.steps]
    for step in outline.steps:
        assert step.calls == sum(len(step.get_ranks(index)) for index in range(1, models + 1))
        assert step.per_model == max(len(ranks) for ranks in step.ranks)
        assert all(step.ranks), "every model has a part in every step"


@given(processes(sampled=True), st.integers(1, 3), st.integers(0, 2**32))
def test_what_is_left_out_does_not_depend_on_who_is_first(
    process: Process, models: int, seed: int
) -> None:
    build_small_outline(process, models)
    names = MODELS[:models]
    ordered = PlayedSession(process, names).play_in_order()
    mixed = PlayedSession(process, names, chance=Random(seed)).play_at_random()
    assert mixed.children == ordered.children
    assert mixed.documents == ordered.documents


@given(processes(sampled=True), st.integers(1, 3))
def test_files_of_one_model_never_share_a_number(process: Process, models: int) -> None:
    build_small_outline(process, models)
    played = PlayedSession(process, ["offline/same"] * models).play_in_order()
    named = Counter(
        (
            played.documents[derive_contribution_id(child.id)].stage_slug,
            payload.output_type,
            payload.seat_name,
            payload.ordinal,
        )
        for child, payload in ((child, child.payload) for child in played.children.values())
    )
    assert max(named.values(), default=1) == 1
