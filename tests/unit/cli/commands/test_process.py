"""What programs are told of a process."""

from __future__ import annotations

import json

from dialectic.cli.commands.process import describe_process
from dialectic.pipeline.outline import build_outline
from dialectic.processes.loader import load_process


def test_a_described_process_survives_json_and_counts_its_calls() -> None:
    process = load_process("standard")
    outline = build_outline(process, models=2)
    described = describe_process(process, outline, with_prompts=False)
    assert json.loads(json.dumps(described)) == described
    assert described["content_hash"] == process.content_hash
    assert described["calls"] == sum(stage["calls"] for stage in described["stages"]) == 24
    synthesis = described["stages"][2]
    assert [
        (step["name"], step["calls_per_model"], step["calls"])
        for step in synthesis["input_artifact_rules"]["steps"]
    ] == [("pairwise", 4, 8), ("per_thesis", 2, 4), ("final", 1, 2)]
    assert "prompts" not in described


def test_prompts_and_overlays_are_told_when_asked_for() -> None:
    process = load_process("standard")
    described = describe_process(process, build_outline(process, models=1), with_prompts=True)
    assert described["prompts"] == process.prompts
    assert set(described["overlays"]) == set(process.overlays)
