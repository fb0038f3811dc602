"""A checked process tells its order, its words and its hash, and can be stored and read back."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process
from dialectic.errors import NotFound
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
    build_stage,
    changed,
)


def read_back(definition: Any) -> Process:
    return build_process(
        definition["file"],
        definition["prompts"],
        list(definition["overlays"].values()),
        place="pinned",
    )


def test_a_process_knows_the_order_of_its_stages() -> None:
    process = build()
    slugs = [stage.slug for stage in process.order]
    assert slugs == ["thesis", "antithesis", "synthesis"]
    assert [process.position(slug) for slug in slugs] == [1, 2, 3]
    following = [process.find_next(slug) for slug in slugs]
    assert [stage and stage.slug for stage in following] == ["antithesis", "synthesis", None]


def test_an_unknown_stage_is_not_found_and_the_known_ones_are_named() -> None:
    with refusing(
        NotFound, "thesis, antithesis, synthesis", reason="no_stage", subject="paralysis"
    ):
        build().load_stage("paralysis")


def test_a_part_is_called_by_its_label_in_progress_messages_or_by_its_name() -> None:
    labels = [part.label for stage in load_process("standard").order for part in stage.parts]
    assert labels[:3] == ["Writing theses", "Writing critiques", "Merging critiques"]
    thesis, _, synthesis = build().order
    assert (thesis.progress_label, thesis.label) == (None, thesis.display_name)
    step = synthesis.steps[0].model_copy(update={"name": "per_thesis"})
    assert (step.progress_label, step.label) == (None, "Per thesis")


def test_a_stage_lists_what_its_steps_make_or_what_it_makes_itself() -> None:
    thesis, _, synthesis = build().order
    assert thesis.list_outputs() == ["thesis"]
    assert synthesis.list_outputs() == ["pair", "group", "synthesis"]


def test_a_domain_adds_its_guidance_to_the_prompts_it_names_and_to_no_others() -> None:
    process = build()
    assert process.get_guidance("Law", "work") == "Cite again."
    assert process.get_guidance("General", "work") == ""
    assert process.get_guidance("Cooking", "open") == ""


def test_a_process_keeps_the_prompts_it_uses_and_no_others() -> None:
    assert build(prompts={**PROMPTS, "more": "{{ nonsense }}"}).prompts == PROMPTS


@given(st.permutations(["a", "b", "c", "d", "e"]), st.randoms(use_true_random=False))
def test_any_chain_is_walked_from_its_start_to_its_end(order: list[str], chance: Random) -> None:
    stages = [build_stage(slug) for slug in order]
    arrows = [{"source": a, "target": b} for a, b in pairwise(order)]
    chance.shuffle(stages)
    chance.shuffle(arrows)
    content = build_content(*stages, starting_stage=order[0], transitions=arrows)
    assert [stage.slug for stage in build(content, overlays=[]).order] == order


# The hash --------------------------------------------------------------------------------------


def list_texts(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """List the paths of all texts inside."""
    entries = node.items() if isinstance(node, dict) else enumerate(node)
    found = []
    for key, value in entries:
        if isinstance(value, str):
            found.append((*path, key))
        elif isinstance(value, dict | list):
            found.extend(list_texts(value, (*path, key)))
    return found


STANDARD: Content = json.loads(json.dumps(load_process("standard").as_definition()))
# Texts for people and models, which may read anything.
WORDS = [
    path
    for path in list_texts(STANDARD)
    # The headings of points must be those of the prompts.
    if (
        (path[-1] in ("title", "description", "display_name", "header", "heading"))
        and "points" not in path
    )
    or (path[0] in ("prompts", "overlays") and path[-1] != "domain")
]


@each_case("path", WORDS, ids=lambda path: ".".join(map(str, path)))
def test_the_hash_changes_with_any_word_of_the_process(path: tuple[Any, ...]) -> None:
    definition = copy.deepcopy(STANDARD)
    node = definition
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] += " x"
    assert read_back(definition).content_hash != read_back(STANDARD).content_hash


@each_case(
    "change",
    [
        {"granularity_strategy": "per_model"},
        {"on_child_failure": "any"},
        {"on_child_failure": "quorum", "quorum_min": 2},
        {"overflow": "combine"},
    ],
    ids=str,
)
def test_the_hash_changes_with_every_setting_of_a_step(change: Content) -> None:
    other = build(changed(lambda c: c["stages"][2]["steps"][2].update(change)))
    assert other.content_hash != build().content_hash


def shuffled(node: Any, chance: Random) -> Any:
    if isinstance(node, list):
        return [shuffled(entry, chance) for entry in node]
    if not isinstance(node, dict):
        return node
    keys = chance.sample(list(node), len(node))
    return {key: shuffled(node[key], chance) for key in keys}


@given(st.randoms(use_true_random=False))
def test_the_order_of_keys_prompts_and_overlays_does_not_touch_the_hash(chance: Random) -> None:
    overlays = chance.sample(OVERLAYS, len(OVERLAYS))
    again = build(shuffled(CONTENT, chance), shuffled(PROMPTS, chance), overlays)
    assert again.content_hash == build().content_hash


def test_what_is_left_out_and_its_default_written_out_are_the_same_process() -> None:
    def write_out(content: Content) -> None:
        content["stages"][0].update(description="", inputs_required=[])
        content["stages"][2]["steps"][2].update(on_child_failure="all", overflow="compress")

    assert build(changed(write_out)).content_hash == build().content_hash


def test_two_processes_of_the_same_content_are_one() -> None:
    process = build()
    assert process == build()
    assert (
        len({process, build(), build(prompts={**PROMPTS, "work": PROMPTS["work"] + " Briefly."})})
        == 2
    )
    assert process != process.content_hash


def test_a_prompt_that_is_not_used_does_not_change_the_hash() -> None:
    assert build(prompts={**PROMPTS, "more": "x"}).content_hash == build().content_hash


# Stored and read back --------------------------------------------------------------------------


@pytest.mark.parametrize("process", [build(), load_process("standard")], ids=lambda p: p.name)
def test_a_pinned_process_is_read_back_as_it_was(process: Process) -> None:
    stored = json.loads(json.dumps(process.as_definition()))
    again = read_back(stored)
    assert again == process
    assert again.content_hash == process.content_hash
    assert again.as_definition() == process.as_definition()
