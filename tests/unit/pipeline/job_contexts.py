"""A scene as a job finds it, without a database: a session of the small process and its texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from dialectic.core.documents.file_paths import Relation
from dialectic.core.job import ExecutePayload, Input, Job, PlanPayload
from dialectic.core.process.definition import Process
from dialectic.pipeline.load import Feedback, JobContext, Target, Text
from dialectic.pipeline.outline import build_outline
from tests.unit.small_process import build, build_content, build_input, build_stage, build_step

SESSION = UUID("00000000-0000-4000-8000-00000000000a")
MODELS = ("offline/architect", "offline/pragmatist", "offline/skeptic")
PROMPTS = {
    "role": "You write.",
    "open": "{{ request }}{% for b in context + feedback + inputs %}\n{{ b }}{% endfor %} "
    "{{ guidance }}",
    "seed": "{{ request }} {{ feedback | join }} {{ listing | join(', ') }}",
    "work": "{{ request }}{% for b in feedback + inputs %}\n{{ b }}{% endfor %} {{ guidance }}",
}
PROCESS = build(
    build_content(
        build_stage("thesis"),
        build_stage(
            "antithesis",
            build_step(
                "critique", "per_source_document", "antithesis", build_input("thesis", "thesis")
            ),
            inputs_required=[
                build_input("thesis", "thesis"),
                {
                    "type": "feedback",
                    "stage_slug": "thesis",
                    "required": False,
                    "header": "What the user said",
                },
            ],
        ),
        build_stage(
            "verdict",
            prompt_template_name="open",
            inputs_required=[build_input("antithesis", "antithesis")],
            expected_output_artifacts=[{"key": "risks", "title": "Risks", "heading": "## Risks"}],
        ),
    ),
    PROMPTS,
)


def build_text(kind: str, author: int, origin: int | None = None, **changes: Any) -> Text:
    """A document of a model; one that is about another's has an origin of its own."""
    about = author if origin is None else origin
    values: dict[str, Any] = {
        "id": uuid5(SESSION, f"{kind} {author} {about}"),
        "version_id": uuid5(SESSION, f"{kind} {author} {about}"),
        "source_group": None if origin is None else uuid5(SESSION, f"thesis {about} {about}"),
        "type": kind,
        "stage_slug": kind,
        "model_index": author,
        "rank": about,
        "origin": about,
        "path": f"p/1_{kind}/model-{author}_{about}_{kind}.md",
        "content": f"The {kind} of {author} on {about}.",
        **changes,
    }
    return Text(**values)


# What three models write in the first two stages: each criticises each.
THESES = [build_text("thesis", author) for author in (1, 2, 3)]
CRITIQUES = [
    build_text("antithesis", author, origin) for author in (1, 2, 3) for origin in (1, 2, 3)
]


def build_scene(
    *texts: Text,
    iteration: int = 1,
    feedback: Sequence[Feedback] = (),
    process: Process = PROCESS,
    **changes: Any,
) -> JobContext:
    values: dict[str, Any] = {
        "session_id": SESSION,
        "iteration": iteration,
        "project_id": UUID(int=1),
        "project_slug": "bakery",
        "project_name": "Bakery",
        "is_first": True,
        "user_id": UUID(int=2),
        "wallet_id": UUID(int=3),
        "request": "Bread.",
        "domain": "General",
        "overlay": "",
        "models": MODELS,
        "model_ids": tuple(UUID(int=10 + n) for n in range(len(MODELS))),
        "lead_model_index": 2,
        "process": process,
        "outline": build_outline(process, models=len(MODELS)),
        "is_autopilot": True,
        "continues": True,
        "max_output_tokens": None,
        "max_retries": 3,
        "seeded": frozenset(),
        "waiting": frozenset(),
        "feedback": tuple(feedback),
        "context": (),
        "texts": {text.id: text for text in texts},
        **changes,
    }
    return JobContext(**values)


def build_feedback(
    stage: str,
    said: str,
    *,
    iteration: int = 1,
    rating: int | None = None,
    target: Target | None = None,
) -> Feedback:
    return Feedback(stage, iteration, said, rating, target)


def build_plan(model_index: int = 1, output_type: str = "thesis") -> PlanPayload:
    return PlanPayload(
        model_id=UUID(int=9 + model_index),
        model_name=MODELS[model_index - 1],
        model_index=model_index,
        ordinal=1,
        slot=1,
        output_type=output_type,
    )


def build_critique(author: int, text: Text) -> ExecutePayload:
    return ExecutePayload(
        model_id=UUID(int=9 + author),
        model_name=MODELS[author - 1],
        model_index=author,
        ordinal=text.model_index,
        output_type="antithesis",
        step_name="critique",
        inputs=(Input(contribution_id=text.id, rule=0),),
        rank=text.model_index,
        origin=text.origin,
        source_group=text.id,
        target_contribution_id=text.id,
        naming=Relation("about", ("offline-skeptic",)),
    )


def build_job(stage_slug: str, iteration: int = 1) -> Job:
    return Job(
        tenant_id=UUID(int=5),
        id=uuid5(SESSION, stage_slug),
        session_id=SESSION,
        stage_slug=stage_slug,
        iteration_number=iteration,
        attempt=1,
        retry_count=0,
        max_retries=3,
        current_step=1,
        throttled_s=0.0,
        payload_json={},
    )
