"""A small process for tests: proposals, a critique of each, and a merger in three steps."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from typing import Any

from dialectic.core.process.check import build_process
from dialectic.core.process.definition import Process

Content = dict[str, Any]

PROMPTS = {
    "role": "You write.",
    "open": "{{ request }} {{ guidance }}",
    "seed": "{{ request }} {{ listing }}",
    "work": "{{ request }} {{ feedback }} {{ inputs }} {{ guidance }}",
}


def build_input(kind: str, stage: str | None = None, **changes: Any) -> Content:
    rule = {"type": kind, "header": kind.title(), **changes}
    return rule if stage is None else {**rule, "stage_slug": stage}


def build_step(name: str, strategy: str, output: str, *inputs: Content, **changes: Any) -> Content:
    return {
        "name": name,
        "prompt_template_name": "work",
        "granularity_strategy": strategy,
        "output_type": output,
        "inputs_required": list(inputs),
        **changes,
    }


def build_stage(slug: str, *steps: Content, **changes: Any) -> Content:
    """A stage whose steps are all but the last intermediate, as they must be."""
    return {
        "slug": slug,
        "display_name": slug.title(),
        "system_prompt_name": "role",
        "prompt_template_name": "seed" if steps else "open",
        "output_type": steps[-1]["output_type"] if steps else slug,
        "steps": [{"is_intermediate": step is not steps[-1], **step} for step in steps],
        **changes,
    }


def build_content(*stages: Content, **changes: Any) -> Content:
    """A process of stages that follow each other as they are given."""
    slugs = [stage["slug"] for stage in stages]
    return {
        "name": "small",
        "title": "A small process",
        "starting_stage": slugs[0],
        "domains": ["General", "Law"],
        "stages": list(stages),
        "transitions": [
            {"source": source, "target": target} for source, target in itertools.pairwise(slugs)
        ],
        **changes,
    }


CONTENT = build_content(
    build_stage("thesis"),
    build_stage(
        "antithesis",
        build_step(
            "critique", "per_source_document", "antithesis", build_input("thesis", "thesis")
        ),
    ),
    build_stage(
        "synthesis",
        build_step(
            "pairs",
            "pairwise_by_origin",
            "pair",
            build_input("thesis", "thesis"),
            build_input("antithesis", "antithesis"),
        ),
        build_step("groups", "per_source_group", "group", build_input("pair", scope="own")),
        build_step("final", "all_to_one", "synthesis", build_input("group")),
        expected_output_artifacts=[
            {"key": "risks", "title": "Risks", "heading": "## Risks"},
            {"key": "plan", "title": "Plan", "json_key": "plan"},
        ],
    ),
)
OVERLAYS: list[Content] = [
    {"domain": "Law", "guidance": {"open": "Cite.", "work": "Cite again."}},
    {"domain": "General", "guidance": {"open": "Explain."}},
]


def build(
    content: Content = CONTENT,
    prompts: dict[str, str] = PROMPTS,
    overlays: list[Content] = OVERLAYS,
) -> Process:
    return build_process(content, prompts, overlays, place="here.toml")


def changed(change: Callable[[Content], Any]) -> Content:
    content = copy.deepcopy(CONTENT)
    change(content)
    return content
