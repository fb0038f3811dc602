"""Check what a stage says its sections hold. Pure.

A heading that no prompt asks for would never be found in an answer, so it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dialectic.core.process.definition import SECOND_LOOK, Stage, Step
from dialectic.core.suggestion import find_near


def list_points_errors(where: str, stage: Stage, prompts: Mapping[str, str]) -> Iterator[str]:
    """List what is wrong with the declared sections of a stage."""
    steps = [step.name for step in stage.steps]
    seen: set[tuple[str, str]] = set()
    for rule in stage.points:
        field = f"{where}: `points` {rule.heading!r}"
        if rule.step is not None and rule.step not in steps:
            near = find_near(rule.step, steps)
            hint = f" The nearest is {near!r}." if near is not None else ""
            yield (
                f"{field}: `step` is {rule.step!r}, which the stage does not have. It has: "
                f"{', '.join(steps) or 'none'}.{hint}"
            )
            continue
        names = _list_prompt_names(stage, rule.step)
        asked = [name for name in names if name in prompts and _asks(prompts[name], rule.heading)]
        if not asked:
            files = ", ".join(f"prompts/{name}.md" for name in names)
            yield (
                f"{field}: {files} never asks for this heading, so no answer would have it; "
                f"correct the heading, or write `{rule.heading}` in the prompt."
            )
        covered = {(name, rule.heading.casefold()) for name in asked}
        if covered & seen:
            yield f"{field}: the heading is declared twice; remove one."
        seen |= covered


def _list_prompt_names(stage: Stage, step: str | None) -> list[str]:
    """List the prompts that ask for the answers: of one step, of all steps, or of the stage."""
    parts: list[Step] | list[Stage] = [one for one in stage.steps if step in (None, one.name)] or [
        stage
    ]
    looks = [SECOND_LOOK] if any(part.second_look for part in parts) else []
    return [*(part.prompt_template_name for part in parts), *looks]


def _asks(prompt: str, heading: str) -> bool:
    return f"`{heading}`" in prompt
