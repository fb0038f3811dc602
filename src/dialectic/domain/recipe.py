"""A stage as the tables hold it: its recipe and its promised documents as JSON. Pure.

The keys are those of the process file; what a file leaves to its default is written out, so that
a query need not know the defaults.
"""

from __future__ import annotations

from typing import Any

from dialectic.domain.process import InputRule, Stage, Step


def build_input_rules(stage: Stage) -> dict[str, Any]:
    """Build a stage's recipe: what its seed prompt reads, then its steps, if it has any."""
    rules: dict[str, Any] = {
        "prompt_template_name": stage.prompt_template_name,
        "sources": [_build_source(rule, stage) for rule in stage.inputs_required],
    }
    if stage.steps:
        rules["processing_strategy"] = {"type": "task_isolation"}
        rules["steps"] = [
            _build_step(number, step, stage) for number, step in enumerate(stage.steps, start=1)
        ]
    return rules


def build_expected_output(stage: Stage) -> dict[str, Any]:
    """Build what a stage makes: the type of its contributions, and the documents cut from them."""
    documents = [
        document.model_dump(mode="json", exclude_none=True)
        for document in stage.expected_output_artifacts
    ]
    return {
        "output_type": stage.output_type,
        "documents": documents,
        "expected_output_tokens": stage.expected_output_tokens,
        "compressor": stage.compressor.value,
    }


def _build_step(number: int, step: Step, stage: Stage) -> dict[str, Any]:
    return {
        "step": number,
        **step.model_dump(mode="json", exclude={"inputs_required"}),
        "inputs_required": [_build_source(rule, stage) for rule in step.inputs_required],
    }


def _build_source(rule: InputRule, stage: Stage) -> dict[str, Any]:
    return {**rule.model_dump(mode="json"), "stage_slug": rule.stage_slug or stage.slug}
