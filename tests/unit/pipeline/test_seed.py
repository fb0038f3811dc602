"""The seed prompt of a stage: what every model is sent, or what a stage with steps is about."""

from __future__ import annotations

import pytest

from dialectic.pipeline.assemble import assemble, build_seed_prompt, compose_prompt
from dialectic.pipeline.gather import gather
from dialectic.providers.catalog import Catalog
from tests.unit.pipeline.job_contexts import (
    CRITIQUES,
    MODELS,
    PROCESS,
    SESSION,
    THESES,
    build_feedback,
    build_job,
    build_plan,
    build_scene,
)

SCENE = build_scene(*THESES, *CRITIQUES, feedback=[build_feedback("thesis", "Cheaper.")])


@pytest.mark.parametrize("slug", ["thesis", "verdict"])
def test_in_a_stage_without_steps_it_is_exactly_what_every_model_is_sent(
    slug: str, catalog: Catalog
) -> None:
    stage = PROCESS.load_stage(slug)
    seed = build_seed_prompt(SCENE, stage)
    for author, name in enumerate(MODELS, start=1):
        material = gather(SCENE, build_job(slug), build_plan(author, slug))
        request = assemble(material, catalog.load_card(name))
        assert request.messages[0].content == seed.text == compose_prompt(material.words)


def test_in_a_stage_with_steps_it_lists_what_is_read_by_name_and_holds_none_of_it() -> None:
    seed = build_seed_prompt(SCENE, PROCESS.load_stage("antithesis"))
    assert "model-1_1_thesis.md, model-2_2_thesis.md, model-3_3_thesis.md" in seed.text
    assert not [text for text in (*THESES, *CRITIQUES) if text.content in seed.text]
    assert "Cheaper." in seed.text


def test_it_is_in_the_folder_of_its_stage_and_iteration() -> None:
    scene = build_scene(iteration=2)
    seed = build_seed_prompt(scene, PROCESS.load_stage("thesis"))
    short = str(SESSION)[:8]
    assert seed.path == f"bakery/session_{short}/iteration_2/1_thesis/seed_prompt.md"
    assert (seed.resource_type, seed.stage_slug, seed.iteration_number) == (
        "seed_prompt",
        "thesis",
        2,
    )


def test_the_same_scene_makes_the_same_bytes() -> None:
    stage = PROCESS.load_stage("verdict")
    shuffled = build_scene(
        *reversed(CRITIQUES), *THESES, feedback=[build_feedback("thesis", "Cheaper.")]
    )
    assert build_seed_prompt(SCENE, stage).text == build_seed_prompt(shuffled, stage).text
