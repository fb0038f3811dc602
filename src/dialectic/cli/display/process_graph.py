"""Draws a process as text: stages, steps, their inputs and outputs, and the calls.

Pure: uses no files and no terminal.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from dialectic.cli.terminal import count
from dialectic.core.process.definition import (
    InputRule,
    Makers,
    OnChildFailure,
    Overflow,
    Process,
    Scope,
    Stage,
    Step,
)
from dialectic.core.process.reductions import describe_sample
from dialectic.pipeline.outline import Outline, StepOutline

WIDTH = 80


@dataclass(frozen=True, slots=True)
class Pen:
    """The characters of frames and arrows, and the line width."""

    flat: str
    upright: str
    corners: str
    down: str
    times: str
    width: int = WIDTH

    @property
    def inner(self) -> int:
        return self.width - 4


def build_plain_pen(width: int = WIDTH) -> Pen:
    """Build a pen with ASCII characters."""
    return Pen("-", "|", "++++", "v", "x", width)


def build_frame_pen(width: int = WIDTH) -> Pen:
    """Build a pen with box-drawing characters."""
    return Pen("─", "│", "╭╮╰╯", "▼", "×", width)


def draw_process(process: Process, outline: Outline, pen: Pen) -> list[str]:
    """Draw a process, with call counts for the outline's number of models."""
    lines = [f"{process.name}: {process.file.title}"]
    lines += textwrap.wrap(process.file.description, pen.width)
    lines += ["", *_label("domains", _describe_domains(process), pen.width), ""]
    for position, stage in enumerate(process.order, start=1):
        if position > 1:
            lines += _draw_arrow(_describe_feedback(stage), pen)
        figures = [step for step in outline.steps if step.stage_slug == stage.slug]
        lines += _draw_stage(position, stage, figures, outline.models, pen)
    total = f"{count_calls(outline)} for {count(outline.models, 'model')}"
    return [*lines, "", *textwrap.wrap(f"{total}: {_list_calls(process, outline)}", pen.width)]


def count_calls(outline: Outline) -> str:
    """Count the calls of a process; second looks are made only where something was lost."""
    if not outline.looks:
        return count(outline.calls, "call")
    return f"{outline.calls} to {count(outline.calls + outline.looks, 'call')}"


def _list_calls(process: Process, outline: Outline) -> str:
    return " + ".join(str(outline.count_calls(stage.slug).total()) for stage in process.order)


def _describe_domains(process: Process) -> str:
    return ", ".join(
        f"{domain} (adds guidance)" if domain in process.overlays else domain
        for domain in process.file.domains
    )


def _describe_feedback(stage: Stage) -> str:
    stages = [rule.stage_slug or stage.slug for rule in stage.inputs_required if rule.is_feedback]
    return f"feedback on {', '.join(stages)}" if stages else ""


def _draw_arrow(note: str, pen: Pen) -> list[str]:
    return [f"    {pen.upright}", f"    {pen.down} {note}".rstrip()]


def _draw_stage(
    position: int, stage: Stage, figures: Sequence[StepOutline], models: int, pen: Pen
) -> Iterator[str]:
    calls = count(sum(step.calls for step in figures), "call")
    yield _draw_edge(pen.corners[:2], f" {position} {stage.slug} ", f" {calls} ", pen)
    for line in _fill_stage(stage, figures, models, pen):
        yield f"{pen.upright} {_pad(line, pen.inner)} {pen.upright}"
    yield _draw_edge(pen.corners[2:], "", "", pen)


def _draw_edge(corners: str, left: str, right: str, pen: Pen) -> str:
    middle = pen.flat * (pen.width - 4 - len(left) - len(right))
    return f"{corners[0]}{pen.flat}{left}{middle}{right}{pen.flat}{corners[1]}"


def _fill_stage(
    stage: Stage, figures: Sequence[StepOutline], models: int, pen: Pen
) -> Iterator[str]:
    if stage.description:
        yield from textwrap.wrap(stage.description, pen.inner)
        yield ""
    if not stage.steps:
        makers = "by the lead" if stage.makers is Makers.LEAD else "per model"
        yield from _spread(f"one call {makers}", _multiply(figures[0], models, pen), pen.inner)
        yield from _label("  prompt", stage.prompt_template_name, pen.inner)
        yield from _label("  reads", _describe_inputs(stage.inputs_required, stage), pen.inner)
        yield from _label("  makes", stage.output_type, pen.inner)
        yield from _describe_look(stage, pen)
    for step, figure in zip(stage.steps, figures if stage.steps else (), strict=True):
        if step is not stage.steps[0]:
            yield from _draw_arrow(_describe_barrier(step, stage), pen)
        makers = " by the lead" if stage.makers is Makers.LEAD else ""
        name = f"{step.name}: {step.granularity_strategy}{makers}"
        yield from _spread(name, _multiply(figure, models, pen), pen.inner)
        yield from _describe_step(step, stage, models, pen)
    if stage.expected_output_artifacts:
        yield ""
        keys = ", ".join(document.key for document in stage.expected_output_artifacts)
        yield from _label("documents", keys, pen.inner)


def _describe_step(step: Step, stage: Stage, models: int, pen: Pen) -> Iterator[str]:
    yield from _label("  prompt", step.prompt_template_name, pen.inner)
    yield from _label("  reads", _describe_inputs(step.inputs_required, stage), pen.inner)
    made = f"{step.output_type} (intermediate)" if step.is_intermediate else step.output_type
    yield from _label("  makes", made, pen.inner)
    if (left_out := describe_sample(step, models=models)) is not None:
        yield from _label("  left out", left_out.partition(": ")[2], pen.inner)
    if step.on_child_failure is not OnChildFailure.ALL:
        yield from _label(
            "  needs", f"at least {step.quorum_min or 1} of its jobs to succeed", pen.inner
        )
    yield from _describe_look(step, pen)
    if step.overflow is not Overflow.COMPRESS:
        yield from _label("  overflow", step.overflow, pen.inner)


def _describe_look(part: Stage | Step, pen: Pen) -> Iterator[str]:
    if part.second_look:
        said = "one more call if points of what it read are lost"
        yield from _label("  looks", said, pen.inner)


def _describe_inputs(rules: Sequence[InputRule], stage: Stage) -> str:
    """Describe the inputs of a step, one kind per line; the request is always an input."""
    read = [_describe_input(rule, stage) for rule in rules if not rule.is_feedback]
    return "\n".join(read) or "the request"


def _describe_input(rule: InputRule, stage: Stage) -> str:
    maker = next((step.name for step in stage.steps if step.output_type == rule.type), "")
    is_inside = rule.stage_slug in (None, stage.slug)
    source = f"step {maker}" if is_inside else f"stage {rule.stage_slug}"
    whose = "all models" if rule.scope is Scope.ALL else "its own"
    return f"{rule.type} ({source}, {whose}{'' if rule.required else ', if any'})"


def _describe_barrier(step: Step, stage: Stage) -> str:
    waits = any(
        rule.scope is Scope.ALL and rule.stage_slug in (None, stage.slug)
        for rule in step.inputs_required
    )
    return "waits for all models" if waits else ""


def _multiply(figure: StepOutline, models: int, pen: Pen) -> str:
    calls = count(figure.calls, "call")
    is_even = models * figure.per_model == figure.calls
    return f"{models} {pen.times} {figure.per_model} = {calls}" if is_even else calls


def _label(label: str, text: str, width: int) -> list[str]:
    """Write a label and, next to it, a text of one or more lines."""
    indent = " " * 11
    room = width - len(indent)
    lines = [line for part in text.splitlines() for line in textwrap.wrap(part, room) or [""]]
    heads = [f"{label:<10} ", *([indent] * (len(lines) - 1))]
    return [f"{head}{line}" for head, line in zip(heads, lines, strict=True)]


def _spread(left: str, right: str, width: int) -> list[str]:
    """Write two texts at the ends of one line, or on two lines if one is too short."""
    if len(left) + len(right) < width:
        return [f"{_pad(left, width - len(right))}{right}"]
    return [left, right.rjust(width)]


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
