"""A process is accepted whole or refused with the place and the field that is wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.domain.process import Process, build_process
from dialectic.errors import InvalidProcess, NotFound

PROMPTS = {"role": "You write.", "thesis": "{{ request }}", "critique": "{{ request }}!"}
Content = dict[str, Any]


def build_stage(slug: str, **changes: Any) -> Content:
    return {
        "slug": slug,
        "display_name": slug.title(),
        "system_prompt_name": "role",
        "prompt_template_name": "thesis",
        "output_type": slug,
        **changes,
    }


CONTENT: Content = {
    "name": "small",
    "title": "A small process",
    "starting_stage": "thesis",
    "stages": [build_stage("synthesis"), build_stage("thesis"), build_stage("antithesis")],
    "transitions": [
        {"source": "antithesis", "target": "synthesis"},
        {"source": "thesis", "target": "antithesis"},
    ],
}


def build(content: Content, prompts: dict[str, str] | None = None) -> Process:
    return build_process(content, PROMPTS if prompts is None else prompts, place="here.toml")


def changed(change: Callable[[Content], Any]) -> Content:
    content = copy.deepcopy(CONTENT)
    change(content)
    return content


def test_stages_stand_in_the_order_of_the_transitions_not_of_the_file() -> None:
    process = build(CONTENT)
    assert [stage.slug for stage in process.order] == ["thesis", "antithesis", "synthesis"]
    assert [process.position(s) for s in ("thesis", "antithesis", "synthesis")] == [1, 2, 3]


def test_an_unknown_stage_is_not_found_and_the_known_ones_are_named() -> None:
    with pytest.raises(NotFound, match=r"no stage 'paralysis'.*thesis, antithesis, synthesis"):
        build(CONTENT).load_stage("paralysis")


FAULTS: list[tuple[Callable[[Content], Any], str]] = [
    (lambda c: c.pop("name"), "`name`"),
    (lambda c: c.update(name="Not A Slug"), "`name`"),
    (lambda c: c.update(stages=[]), "`stages`"),
    (lambda c: c.update(colour="blue"), "`colour`"),
    (lambda c: c["stages"][1].pop("output_type"), "`stages.1.output_type`"),
    (lambda c: c["stages"][2].update(slug="../etc"), "`stages.2.slug`"),
    (lambda c: c["stages"][0].update(display_name=""), "`stages.0.display_name`"),
    (lambda c: c["stages"][0].update(strategy="dance"), "`stages.0.strategy`"),
    (lambda c: c["transitions"][1].pop("target"), "`transitions.1.target`"),
    (
        lambda c: c["stages"][2].update(system_prompt_name="nobody"),
        "stage 'antithesis': `system_prompt_name` is 'nobody', but there is no prompts/nobody.md",
    ),
    (
        lambda c: c["stages"][1].update(prompt_template_name="nothing"),
        "stage 'thesis': `prompt_template_name` is 'nothing'",
    ),
    (lambda c: c.update(starting_stage="start"), "`starting_stage` is 'start', which is no stage"),
    (lambda c: c["stages"].append(build_stage("thesis")), "two stages have the same slug"),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "moon"}),
        "a transition names 'moon', which is no stage",
    ),
    (
        lambda c: c["transitions"].append({"source": "moon", "target": "thesis"}),
        "a transition names 'moon', which is no stage",
    ),
    (
        lambda c: c["transitions"].append({"source": "thesis", "target": "synthesis"}),
        "stage 'thesis' has two transitions out of it",
    ),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "thesis"}),
        "the transitions lead in a circle to 'thesis'",
    ),
    (
        lambda c: c["transitions"].append({"source": "synthesis", "target": "synthesis"}),
        "the transitions lead in a circle to 'synthesis'",
    ),
    (lambda c: c["transitions"].pop(0), "stage 'synthesis' is not reached from the start"),
    (lambda c: c.update(starting_stage="synthesis"), "is not reached from the start"),
]


@pytest.mark.parametrize(("change", "words"), FAULTS, ids=[words for _, words in FAULTS])
def test_a_fault_is_refused_with_the_file_and_the_field(
    change: Callable[[Content], Any], words: str
) -> None:
    with pytest.raises(InvalidProcess) as caught:
        build(changed(change))
    assert caught.value.message.startswith("here.toml: ")
    assert words in caught.value.message


def test_a_process_keeps_the_prompts_it_uses_and_no_others() -> None:
    assert build(CONTENT).prompts == {"role": "You write.", "thesis": "{{ request }}"}


def test_the_hash_follows_every_word_and_nothing_but_the_words() -> None:
    first = build(CONTENT)
    again = build(copy.deepcopy(CONTENT), dict(reversed(PROMPTS.items())))
    assert first.content_hash == again.content_hash
    others = [
        build(CONTENT, {**PROMPTS, "role": "You write!"}),
        build(changed(lambda c: c.update(title="Another title"))),
        build(changed(lambda c: c["stages"][0].update(description="More."))),
        build(changed(lambda c: c["stages"][1].update(prompt_template_name="critique"))),
    ]
    assert len({process.content_hash for process in (first, *others)}) == 1 + len(others)


def test_a_prompt_that_is_not_used_does_not_change_the_hash() -> None:
    assert build(CONTENT).content_hash == build(CONTENT, {**PROMPTS, "more": "x"}).content_hash


def test_a_pinned_process_is_read_back_as_it_was() -> None:
    process = build(CONTENT)
    definition = process.as_definition()
    assert build(definition["file"], definition["prompts"]) == process


@given(st.permutations(["a", "b", "c", "d", "e"]), st.randoms(use_true_random=False))
def test_any_chain_is_walked_from_its_start_to_its_end(order: list[str], chance: Any) -> None:
    stages, arrows = (
        [build_stage(slug) for slug in order],
        [{"source": a, "target": b} for a, b in pairwise(order)],
    )
    chance.shuffle(stages)
    chance.shuffle(arrows)
    content = {**CONTENT, "starting_stage": order[0], "stages": stages, "transitions": arrows}
    assert [stage.slug for stage in build(content).order] == order
