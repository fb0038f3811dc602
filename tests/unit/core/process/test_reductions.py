"""What a process can leave out, in which order, and how much of it a budget asks for."""

from __future__ import annotations

from typing import Any

import pytest

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.core.process.reductions import (
    decide_shrink,
    describe_reduction,
    describe_sample,
    list_left_out,
    shrink_process,
)
from dialectic.errors import InvalidProcess, RemedyAction, UsageError
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process
from tests.cases import each_case
from tests.problems import refusing
from tests.unit.small_process import build, changed

STANDARD = load_process("standard")


def count_calls(process: Process, models: int = 3) -> int:
    return build_outline(process, models=models).calls


def with_shrink(*rungs: dict[str, Any]) -> dict[str, Any]:
    return changed(lambda content: content.update(shrink=list(rungs)))


def rung(stage: str = "synthesis", step: str = "pairs", **keys: Any) -> dict[str, Any]:
    return {"stage_slug": stage, "step": step, **keys}


# -- versions --------------------------------------------------------------------------------------


def test_the_standard_process_shrinks_in_three_steps() -> None:
    calls = [count_calls(shrink_process(STANDARD, n)) for n in range(4)]
    assert calls == [57, 48, 45, 36]
    assert [count_calls(shrink_process(STANDARD, n), 6) for n in range(4)] == [312, 168, 144, 108]


def test_leaving_nothing_out_changes_nothing() -> None:
    assert shrink_process(STANDARD, 0).content_hash == STANDARD.content_hash


def test_a_smaller_version_is_a_sound_process_of_its_own_with_the_rest_still_to_leave_out() -> None:
    smaller = shrink_process(STANDARD, 2)
    definition = smaller.as_definition()
    again = build_process(
        definition["file"],
        definition["prompts"],
        list(definition["overlays"].values()),
        place="pinned",
    )
    assert again == smaller
    assert smaller.content_hash != STANDARD.content_hash
    assert smaller.name == STANDARD.name
    assert smaller.file.shrink == STANDARD.file.shrink[2:]
    assert shrink_process(smaller, 1) == shrink_process(STANDARD, 3)


def test_more_than_there_is_cannot_be_left_out() -> None:
    with refusing(UsageError, reason="too_many_left_out", limit=3, action=RemedyAction.QUOTE_RUN):
        shrink_process(STANDARD, 4)
    with refusing(UsageError, reason="too_many_left_out", limit=0):
        shrink_process(build(), 1)


# -- budgets ---------------------------------------------------------------------------------------


@each_case(
    ("budget", "rungs"),
    [(10**9, 0), (57, 0), (56, 1), (48, 1), (47, 2), (45, 2), (44, 3), (36, 3), (35, None)],
)
def test_as_little_is_left_out_as_a_budget_asks_for(budget: int, rungs: int | None) -> None:
    assert decide_shrink(STANDARD, count_calls, budget) == rungs


def test_a_process_that_can_leave_nothing_out_fits_or_does_not() -> None:
    assert decide_shrink(build(), lambda _: 5, 5) == 0
    assert decide_shrink(build(), lambda _: 6, 5) is None


# -- words -----------------------------------------------------------------------------------------


def test_what_is_left_out_is_said_of_all_that_rests_on_it_and_of_nothing_before() -> None:
    smaller = shrink_process(STANDARD, 2)
    critique = "antithesis, critique: each document is read by 2 of 3 models"
    pairs = "synthesis, pairwise: of what was made from a document, each model reads 2"
    expected = {
        ("thesis", "thesis"): (),
        ("antithesis", "antithesis"): (critique,),
        ("synthesis", "pairwise_synthesis_chunk"): (critique, pairs),
        ("synthesis", "synthesis"): (critique, pairs),
        ("paralysis", "paralysis"): (critique, pairs),
    }
    for kind, said in expected.items():
        assert list_left_out(smaller, models=3, until=kind) == said
    assert list_left_out(smaller, models=3) == (critique, pairs)
    assert list_left_out(STANDARD, models=3) == ()


def test_with_so_few_models_that_nothing_is_left_out_nothing_is_said() -> None:
    assert list_left_out(shrink_process(STANDARD, 2), models=2) == ()
    assert describe_reduction(STANDARD, 1, models=2) == "pairwise: nothing with so few models"


def test_a_step_can_leave_out_two_things() -> None:
    content = changed(lambda c: c["stages"][2]["steps"][0].update(readers_max=1, per_source_max=2))
    step = build(content).load_stage("synthesis").load_step("pairs")
    assert describe_sample(step, models=4) == (
        "pairs: each document is read by 1 of 4 models; of what was made from a document, "
        "each model reads 2"
    )


def test_each_rung_is_described_as_it_will_be() -> None:
    assert [describe_reduction(STANDARD, n, models=4) for n in (1, 2, 3)] == [
        "pairwise: of what was made from a document, each model reads 2",
        "critique: each document is read by 2 of 4 models",
        "pairwise: of what was made from a document, each model reads 1",
    ]


# -- faults ----------------------------------------------------------------------------------------


def change_step(stage: int, step: int, **keys: Any) -> dict[str, Any]:
    def change(content: Any) -> None:
        content["stages"][stage]["steps"][step].update(keys)

    return changed(change)


@each_case(
    ("content", "message"),
    [
        (
            change_step(2, 1, per_source_max=1),
            "stage 'synthesis': step 'groups': `per_source_max`: only steps with "
            "per_source_document and pairwise_by_origin can read less",
        ),
        (change_step(2, 2, readers_max=1), "step 'final': `readers_max`: only steps with"),
        (
            change_step(
                1,
                0,
                readers_max=1,
                inputs_required=[
                    {"type": "thesis", "stage_slug": "thesis", "scope": "own", "header": "T"}
                ],
            ),
            "step 'critique': `readers_max`: a document of scope 'own' has only one reader",
        ),
        (change_step(1, 0, readers_max=0), "step 'critique': `readers_max`"),
        (change_step(1, 0, readers_max="2"), "step 'critique': `readers_max`"),
        (
            with_shrink(rung(stage="lunch", readers_max=1)),
            "`shrink` 1: `stage_slug` is 'lunch', which is not a stage of thesis, antithesis",
        ),
        (
            with_shrink(rung(step="lunch", readers_max=1)),
            "`shrink` 1: stage 'synthesis' has no `step` 'lunch'. It has: pairs, groups, final",
        ),
        (
            with_shrink(rung(stage="thesis", step="thesis", readers_max=1)),
            "stage 'thesis' has no `step` 'thesis'. It has: none",
        ),
        (with_shrink(rung()), "`shrink` 1: nothing is left out; give `readers_max`"),
        (
            with_shrink(rung(per_source_max=1), rung(per_source_max=1)),
            "`shrink` 2: `per_source_max` is 1, but it is already 1; use a smaller number",
        ),
        (
            with_shrink(rung(step="final", readers_max=1)),
            "`shrink` 1: `readers_max`: only steps with",
        ),
        (
            with_shrink(rung(readers_max=1, keep="some")),
            "`keep`: this field does not exist; known fields",
        ),
    ],
)
def test_a_process_that_cannot_shrink_so_is_refused_with_the_place_and_the_way_out(
    content: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidProcess) as caught:
        build(content)
    assert message in caught.value.message
    assert caught.value.message.startswith("here.toml: ")
