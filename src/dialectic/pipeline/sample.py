"""Sample: which children of a step are left out where the recipe asks for fewer. Pure.

The choice depends on nothing but places, so it is the same before the work and while it is done,
whoever is slow and whoever fails. It goes round: every model does as much as the others, every
document is read as often as the others, and what is about a model's own work goes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dialectic.domain.process import Step
from dialectic.pipeline.strategies import Child


def keep_sample(
    step: Step, children: Sequence[Child], *, model_index: int, models: int
) -> list[Child]:
    """Keep those of all the children that one model could have which the step asks for."""
    kept = list(children)
    if step.readers_max is not None and step.readers_max < models:
        kept = [
            child
            for place, child in enumerate(kept)
            if (place - model_index) % models < step.readers_max
        ]
    if step.per_source_max is not None:
        kept = list(_keep_per_source(kept, step.per_source_max, model_index))
    return kept


def _keep_per_source(children: Sequence[Child], most: int, model_index: int) -> Iterator[Child]:
    groups: dict[object, list[Child]] = {}
    for child in children:
        groups.setdefault(child.source_group, []).append(child)
    for child in children:
        group = groups[child.source_group]
        if (group.index(child) - model_index) % len(group) < most:
            yield child
