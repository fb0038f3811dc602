"""A process as a picture: it fits, it counts right, and it leaves nothing out."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from dialectic.cli.display.process_graph import Pen, build_frame_pen, build_plain_pen, draw_process
from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process
from tests.cases import each_case

PROMPTS = {"role": "You write.", "ask": "{{ request }} {{ inputs }} {{ guidance }}"}
CONTENT: dict[str, Any] = {
    "name": "small",
    "title": "A small process",
    "starting_stage": "first",
    "stages": [
        {
            "slug": "first",
            "display_name": "First",
            "system_prompt_name": "role",
            "prompt_template_name": "ask",
            "output_type": "draft",
        },
        {
            "slug": "second",
            "display_name": "Second",
            "system_prompt_name": "role",
            "prompt_template_name": "ask",
            "output_type": "review",
            "steps": [
                {
                    "name": "look",
                    "prompt_template_name": "ask",
                    "granularity_strategy": "per_source_document",
                    "output_type": "review",
                    "inputs_required": [
                        {"type": "draft", "stage_slug": "first", "header": "Draft"}
                    ],
                }
            ],
        },
    ],
    "transitions": [{"source": "first", "target": "second"}],
}


def build(**changes: Any) -> Process:
    """A process of two stages, with changes of its only step."""
    content = copy.deepcopy(CONTENT)
    content["stages"][1]["steps"][0].update(changes)
    return build_process(content, PROMPTS, [], place="here")


def draw(process: Process, *, models: int = 3, pen: Pen | None = None) -> list[str]:
    return draw_process(process, build_outline(process, models=models), pen or build_plain_pen())


def find_line(lines: list[str], words: str) -> str:
    (found,) = [line for line in lines if words in line]
    return found


@each_case("pen", [build_plain_pen(), build_frame_pen(), build_frame_pen(100), build_frame_pen(40)])
@each_case("models", [1, 2, 12])
def test_every_line_of_a_box_is_as_long_as_the_pen_says_and_no_line_is_longer(
    pen: Pen, models: int
) -> None:
    lines = draw(load_process("standard"), models=models, pen=pen)
    assert all(len(line) <= pen.width for line in lines)
    boxed = [line for line in lines if line[0:1] in (pen.upright, *pen.corners)]
    assert {len(line) for line in boxed} == {pen.width}


def test_a_plain_picture_needs_no_character_beyond_ascii() -> None:
    assert "\n".join(draw(load_process("standard"))).isascii()


def test_stages_are_in_order_with_arrows_between_them() -> None:
    lines = draw(load_process("standard"))
    heads = [line.split()[1:3] for line in lines if line.startswith("+- ")]
    assert heads == [
        ["1", "thesis"],
        ["2", "antithesis"],
        ["3", "synthesis"],
        ["4", "parenthesis"],
        ["5", "paralysis"],
    ]
    assert sum(line.startswith("    v") for line in lines) == 4


@pytest.mark.parametrize(
    ("models", "calls"),
    [(2, "24 calls for 2 models: 2 + 4 + 14 + 2 + 2"), (1, "7 calls for 1 model")],
)
def test_calls_are_counted_for_the_number_of_models(models: int, calls: str) -> None:
    assert draw(load_process("standard"), models=models)[-1].startswith(calls)


def test_a_step_tells_its_strategy_its_inputs_its_output_and_its_calls() -> None:
    lines = draw(load_process("standard"))
    assert find_line(lines, "pairwise: pairwise_by_origin").endswith("3 x 9 = 27 calls |")
    assert find_line(lines, "pairwise_synthesis_chunk (step pairwise, its own)")
    assert find_line(lines, "antithesis (stage antithesis, all models)")
    assert find_line(lines, "pairwise_synthesis_chunk (intermediate)")
    assert find_line(lines, "documents  product_requirements, architecture, tech_stack")


def test_a_step_that_reads_all_models_of_its_own_stage_says_that_it_waits() -> None:
    lines = draw(load_process("standard"))
    (waits,) = [number for number, line in enumerate(lines) if "waits for all models" in line]
    assert "final: all_to_one" in lines[waits + 1]


def test_what_differs_from_the_defaults_is_shown_and_the_defaults_are_not() -> None:
    usual = "\n".join(draw(build()))
    assert "needs" not in usual
    assert "overflow" not in usual
    changed = draw(build(on_child_failure="quorum", quorum_min=2, overflow="combine"))
    assert find_line(changed, "needs    at least 2 of its jobs to succeed")
    assert find_line(changed, "overflow combine")


def test_domains_are_named_with_those_that_add_something() -> None:
    assert find_line(draw(build()), "domains    General")
    shipped = find_line(draw(load_process("standard")), "domains")
    assert "Software Development (adds guidance)" in shipped


def test_names_of_any_length_stay_inside_the_box() -> None:
    long = build(name="a" * 40, granularity_strategy="per_source_document")
    assert all(len(line) <= 80 for line in draw(long, models=32))
