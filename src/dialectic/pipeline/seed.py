"""The seed prompt of a stage: written once, when everything that the stage reads is there."""

from __future__ import annotations

from dialectic.domain.path import build_path
from dialectic.domain.place import SeedPrompt
from dialectic.domain.process import Stage
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.gather import gather_stage_words
from dialectic.pipeline.look import Scene
from dialectic.store.records import NewResource


def build_seed_prompt(scene: Scene, stage: Stage) -> NewResource:
    """Render a stage's prompt; in a stage without steps it is exactly what every model is sent."""
    return NewResource(
        resource_type="seed_prompt",
        path=build_path(SeedPrompt(scene.build_folder(stage))),
        text=compose_prompt(gather_stage_words(scene, stage)),
        session_id=scene.session_id,
        iteration_number=scene.iteration,
        stage_slug=stage.slug,
    )
