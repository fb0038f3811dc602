"""What is installed here: the models and the processes that a session can use. No database."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dialectic.contract.models import (
    HealthState,
    KnownModel,
    ListedModel,
    Model,
    ModelHealth,
    ProcessDetail,
    ProcessOutline,
    ProcessSummary,
    StageOutline,
    StepOutline,
)
from dialectic.core.money.price import is_play
from dialectic.core.process.definition import Process, Step
from dialectic.processes import loader
from dialectic.processes.loader import Listed
from dialectic.providers.catalog import Catalog
from dialectic.providers.model_list import Row, build_listing, build_snippet, load_cached_models


@dataclass(frozen=True, slots=True)
class Experience:
    """What is known of models from earlier calls: of endpoints, and of the tenant's documents."""

    # By the name of an endpoint.
    health: Mapping[str, ModelHealth] = field(default_factory=dict)
    # By the name of a model: the median duration, and whether the user has used it.
    p50_ms: Mapping[str, int] = field(default_factory=dict)
    used: Collection[str] = ()
    # The models of a run that names none, by seat.
    defaults: Sequence[str] = ()

    def describe(self, endpoint: str, model: str) -> ModelHealth:
        """Describe the health of a model."""
        unknown = ModelHealth(state=HealthState.UNKNOWN, until=None, p50_ms=None)
        known = self.health.get(endpoint, unknown)
        p50_ms = self.p50_ms.get(model)
        if known.state is HealthState.UNKNOWN and p50_ms is not None:
            known = unknown.model_copy(update={"state": HealthState.OK})
        return known.model_copy(update={"p50_ms": p50_ms})


NO_EXPERIENCE = Experience()


def list_models(
    catalog: Catalog, home: Path, experience: Experience = NO_EXPERIENCE
) -> list[Model]:
    """List the known models, their prices, and what is missing to use them."""
    rows = build_listing(catalog, load_cached_models(home))
    return [describe_model(row, experience) for row in rows]


def describe_model(row: Row, experience: Experience = NO_EXPERIENCE) -> Model:
    """Describe one model of the list."""
    provider, _, label = row.name.partition("/")
    state = {
        "name": row.name,
        "label": label,
        "provider": provider,
        "state": row.state.name.lower(),
        "is_usable": row.state.is_usable,
        "missing": row.missing,
        "note": row.note,
        "is_play": row.card is not None and is_play(row.card),
        "health": experience.describe(provider, row.name),
        "used_by_you": row.name in experience.used,
        "default_seats": [
            seat for seat, name in enumerate(experience.defaults, 1) if name == row.name
        ],
    }
    if row.card is None:
        return ListedModel.model_validate(
            {**state, "origin": "listed", "config": build_snippet(row)}
        )
    facts = {name: getattr(row.card, name) for name in FACTS}
    return KnownModel.model_validate({**facts, **state, "origin": str(row.origin)})


FACTS = (
    "facts_of", "context_window_tokens", "max_input_tokens", "max_output_tokens",
    "input_credits_per_token", "output_credits_per_token", "tokenizer", "is_reasoning",
    "supports_system_prompt",
)  # fmt: skip


def list_processes(own: Path) -> list[ProcessSummary]:
    """List the processes that have a name; a broken one says why, the others are complete."""
    return [_describe_listed(one) for one in loader.list_processes(own)]


def list_domains(own: Path) -> list[str]:
    """List the domains of the processes that have a name."""
    names = [name for one in list_processes(own) for name in one.domains]
    return list(dict.fromkeys(names))


def _describe_listed(one: Listed) -> ProcessSummary:
    if isinstance(one.found, Process):
        return describe_process(one.found, is_shipped=one.folder is None)
    return ProcessSummary(
        name=one.name,
        title="",
        description="",
        domains=[],
        stages=[],
        is_shipped=one.folder is None,
        problem=one.found.message,
    )


def describe_process(process: Process, *, is_shipped: bool) -> ProcessDetail:
    """Describe a process with its definition and prompts."""
    return ProcessDetail(
        name=process.name,
        title=process.file.title,
        description=process.file.description,
        domains=list(process.file.domains),
        stages=[stage.slug for stage in process.order],
        is_shipped=is_shipped,
        problem=None,
        content_hash=process.content_hash,
        definition=process.as_definition(),
    )


def outline_process(process: Process, *, seats: int) -> ProcessOutline:
    """Describe what a process does with a number of seats: stages, steps, calls, prompts."""
    from dialectic.pipeline.outline import build_outline  # a list of models does not need it

    outline = build_outline(process, models=seats)
    stages = []
    for stage in process.order:
        steps = []
        for part in stage.parts:
            figures = outline.load_step(stage.slug, part.output_type)
            steps.append(
                StepOutline(
                    name=figures.name,
                    title=part.label,
                    description=part.description,
                    strategy=part.granularity_strategy.value if isinstance(part, Step) else None,
                    output_type=part.output_type,
                    is_intermediate=isinstance(part, Step) and part.is_intermediate,
                    prompt=part.prompt_template_name,
                    calls=figures.calls,
                    calls_per_seat=figures.per_model,
                )
            )
        stages.append(
            StageOutline(
                slug=stage.slug,
                title=stage.display_name,
                description=stage.description,
                position=process.position(stage.slug),
                system_prompt=stage.system_prompt_name,
                calls=sum(step.calls for step in steps),
                steps=steps,
            )
        )
    return ProcessOutline(name=process.name, seats=seats, calls=outline.calls, stages=stages)
