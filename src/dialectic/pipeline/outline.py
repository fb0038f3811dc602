"""Outline: how many jobs a process makes for n models, known before the first one runs.

Pure. It plays the process through with stand-in documents and the very strategies that plan the
real ones, so the figures cannot disagree with the work.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID, uuid5

from dialectic.domain.process import InputRule, Process, Scope, Stage, Step
from dialectic.errors import PlanError
from dialectic.pipeline.strategies import Document, InputSet, deal

# Twenty models in the standard process make 8,000 pairs in one step.
STEP_CALLS_MAX = 10_000

_STAND_INS = UUID(int=0)


@dataclass(frozen=True, slots=True)
class StepOutline:
    """A step in figures; a stage without steps is one step of one call per model."""

    stage_slug: str
    name: str
    output_type: str
    per_model: int
    calls: int
    # From how many theses one model's documents descend, and those of all models together.
    origins_per_model: int
    origins: int
    # For each model, the ranks its strategy gives when all goes well, in order.
    ranks: tuple[tuple[int, ...], ...]

    def group_size(self, scope: Scope) -> int:
        """How many documents in a scope descend from one thesis."""
        if scope is Scope.OWN:
            return self.per_model // self.origins_per_model
        return self.calls // self.origins

    def find_rank(self, model_index: int, rank: int) -> int:
        """Find the place of a child among its model's children of this step, from 1."""
        return self.ranks[model_index - 1].index(rank) + 1


@dataclass(frozen=True, slots=True)
class Outline:
    """A process in figures, for a number of models."""

    models: int
    steps: tuple[StepOutline, ...]

    @property
    def calls(self) -> int:
        return sum(step.calls for step in self.steps)

    def count_units(self, stage_slug: str) -> int:
        """Count the planned documents of a stage."""
        return sum(step.calls for step in self.steps if step.stage_slug == stage_slug)

    def load_step(self, stage_slug: str, output_type: str) -> StepOutline:
        for step in self.steps:
            if (step.stage_slug, step.output_type) == (stage_slug, output_type):
                return step
        message = f"no step of stage {stage_slug!r} makes {output_type!r}"
        raise AssertionError(message)


@dataclass(frozen=True, slots=True)
class _Played:
    figures: StepOutline
    documents: tuple[Document, ...]


@functools.lru_cache(maxsize=64)  # tens of milliseconds for a dozen models, and every job asks
def build_outline(process: Process, *, models: int, until: str | None = None) -> Outline:
    """Play a process through for a number of models, up to and including a stage."""
    assert models >= 1, "a process is played by at least one model"
    made: dict[tuple[str, str], _Played] = {}
    for stage in process.order:
        for step in stage.steps or (None,):
            played = _play(stage, step, made, models)
            made[(stage.slug, played.figures.output_type)] = played
        if stage.slug == until:
            break
    return Outline(models, tuple(played.figures for played in made.values()))


def _play(
    stage: Stage, step: Step | None, made: Mapping[tuple[str, str], _Played], models: int
) -> _Played:
    name, output_type = (step.name, step.output_type) if step else (stage.slug, stage.output_type)
    documents: list[Document] = []
    ranks: list[tuple[int, ...]] = []
    for model_index in range(1, models + 1):
        children = _play_model(stage, step, made, model_index, models)
        for number, (_, source_group, origin) in enumerate(children, start=1):
            document_id = uuid5(_STAND_INS, f"{stage.slug}:{output_type}:{model_index}:{number}")
            documents.append(
                Document(document_id, output_type, model_index, number, source_group, origin)
            )
        ranks.append(tuple(rank for rank, _, _ in children))
        if len(documents) > STEP_CALLS_MAX:
            raise PlanError(
                f"Step {name!r} of stage {stage.slug!r} would make more than {STEP_CALLS_MAX} "
                f"calls with {models} model(s). Take fewer models, or let the step read less."
            )
    return _Played(
        StepOutline(
            stage_slug=stage.slug,
            name=name,
            output_type=output_type,
            per_model=len(documents) // models,
            calls=len(documents),
            origins_per_model=len({d.origin for d in documents if d.model_index == 1}),
            origins=len({d.origin for d in documents}),
            ranks=tuple(ranks),
        ),
        tuple(documents),
    )


def _play_model(
    stage: Stage,
    step: Step | None,
    made: Mapping[tuple[str, str], _Played],
    model_index: int,
    models: int,
) -> list[tuple[int, UUID | None, int]]:
    """Deal one model's part out: rank, source group and origin of each child."""
    if step is None:
        return [(1, None, model_index)]
    rules = [rule for rule in step.inputs_required if not rule.is_feedback]
    inputs = [_read(rule, stage, made, model_index) for rule in rules]
    origins = {d.id: d.origin for inputs_of_kind in inputs for d in inputs_of_kind.documents}
    return [
        (
            child.rank,
            child.source_group,
            origins[child.sources[0]] if child.source_group else model_index,
        )
        for child in deal(step.granularity_strategy, inputs, models=models)
    ]


def _read(
    rule: InputRule, stage: Stage, made: Mapping[tuple[str, str], _Played], model_index: int
) -> InputSet:
    played = made[(rule.stage_slug or stage.slug, rule.type)]
    return InputSet(
        documents=tuple(
            d for d in played.documents if rule.scope is Scope.ALL or d.model_index == model_index
        ),
        is_complete=True,
        per_model=played.figures.per_model,
        group_size=played.figures.group_size(rule.scope),
    )
