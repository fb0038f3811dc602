"""Reductions: what a process can leave out to save money, in the order it declares. Pure.

A reduction makes another version of the process, in which steps read less. Planning, quotes and
documents need no special case for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dialectic.core.process.definition import (
    Process,
    ProcessFile,
    Scope,
    Shrink,
    Stage,
    Step,
    Strategy,
)
from dialectic.errors import Remedy, RemedyAction, UsageError

# These strategies make many jobs, of which some can be left out; others need every job.
_CAN_SAMPLE = (Strategy.PER_SOURCE_DOCUMENT, Strategy.PAIRWISE_BY_ORIGIN)


def list_sample_errors(where: str, step: Step) -> Iterator[str]:
    """Find the errors of a step that reads less."""
    for key in _list_keys(step):
        if step.granularity_strategy not in _CAN_SAMPLE:
            known = " and ".join(_CAN_SAMPLE)
            yield f"{where}: `{key}`: only steps with {known} can read less."
    if step.readers_max is not None and any(r.scope is Scope.OWN for r in step.list_sources()):
        yield (
            f"{where}: `readers_max`: a document of scope 'own' has only one reader; use scope "
            "'all', or remove `readers_max`."
        )


def list_shrink_errors(file: ProcessFile) -> Iterator[str]:
    """Find the errors in a process's list of reductions."""
    stages = {stage.slug: stage for stage in file.stages}
    for number, rung in enumerate(file.shrink, start=1):
        where = f"`shrink` {number}"
        stage = stages.get(rung.stage_slug)
        if stage is None:
            known = ", ".join(stages)
            yield f"{where}: `stage_slug` is {rung.stage_slug!r}, which is not a stage of {known}."
            return
        before = next((step for step in stage.steps if step.name == rung.step), None)
        if before is None:
            known = ", ".join(step.name for step in stage.steps) or "none"
            yield f"{where}: stage {stage.slug!r} has no `step` {rung.step!r}. It has: {known}."
            return
        if not _list_keys(rung):
            yield f"{where}: nothing is left out; give `readers_max` or `per_source_max`."
        for key in _list_keys(rung):
            now, then = getattr(before, key), getattr(rung, key)
            if now is not None and now <= then:
                yield f"{where}: `{key}` is {then}, but it is already {now}; use a smaller number."
        yield from list_sample_errors(where, _apply(rung, stages))


def _list_keys(part: Step | Shrink) -> list[str]:
    return [key for key in ("readers_max", "per_source_max") if getattr(part, key) is not None]


def _apply(rung: Shrink, stages: dict[str, Stage]) -> Step:
    """Replace the step in its stage with the one that reads less, and return it."""
    stage = stages[rung.stage_slug]
    update = {key: getattr(rung, key) for key in _list_keys(rung)}
    changed = stage.load_step(rung.step).model_copy(update=update)
    steps = tuple(changed if step.name == changed.name else step for step in stage.steps)
    stages[stage.slug] = stage.model_copy(update={"steps": steps})
    return changed


def shrink_process(process: Process, rungs: int) -> Process:
    """Build the version of a process with its first reductions applied."""
    if not 0 <= rungs <= len(process.file.shrink):
        raise UsageError(
            f"Process {process.name!r} has {len(process.file.shrink)} reductions; "
            f"{rungs} were requested.",
            reason="too_many_left_out",
            subject="shrink",
            limit=len(process.file.shrink),
            remedy=Remedy(RemedyAction.QUOTE_RUN),
        )
    stages = {stage.slug: stage for stage in process.file.stages}
    for rung in process.file.shrink[:rungs]:
        _apply(rung, stages)
    update = {"stages": tuple(stages.values()), "shrink": process.file.shrink[rungs:]}
    return Process(
        file=process.file.model_copy(update=update),
        prompts=process.prompts,
        overlays=process.overlays,
        order=tuple(stages[stage.slug] for stage in process.order),
    )


def decide_shrink(
    process: Process, price_of: Callable[[Process], int], budget_credits: int
) -> int | None:
    """Find the smallest number of reductions that fits a budget; None if none does."""
    for rungs in range(len(process.file.shrink) + 1):
        if price_of(shrink_process(process, rungs)) <= budget_credits:
            return rungs
    return None


def describe_reduction(process: Process, rung: int, *, models: int) -> str:
    """Describe one reduction, counted from 1, with all earlier ones applied."""
    wanted = process.file.shrink[rung - 1]
    step = shrink_process(process, rung).load_stage(wanted.stage_slug).load_step(wanted.step)
    return describe_sample(step, models=models) or f"{step.name}: nothing with so few models"


def describe_sample(step: Step, *, models: int) -> str | None:
    """Describe what a step leaves out with this number of models; None if nothing."""
    said = []
    if step.readers_max is not None and step.readers_max < models:
        said.append(f"each document is read by {step.readers_max} of {models} models")
    if step.per_source_max is not None and step.per_source_max < models:
        said.append(f"of what was made from a document, each model reads {step.per_source_max}")
    return f"{step.name}: {'; '.join(said)}" if said else None


def list_left_out(
    process: Process, *, models: int, until: tuple[str, str] | None = None
) -> tuple[str, ...]:
    """List what a process leaves out, in order, up to a stage's kind of document."""
    said = []
    for stage in process.order:
        for step in stage.steps:
            if (what := describe_sample(step, models=models)) is not None:
                said.append(f"{stage.slug}, {what}")
            if until == (stage.slug, step.output_type):
                return tuple(said)
        if until == (stage.slug, stage.output_type):
            break
    return tuple(said)
