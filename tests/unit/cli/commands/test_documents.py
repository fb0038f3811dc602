"""What stands above a document that is shown: the facts, and what of its prompt was shortened."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from dialectic.cli.commands.documents import _describe, _describe_chunk
from dialectic.contract.contributions import ChunkRecord, ContributionRecord, TurnSummary
from dialectic.core.documents.prompts import Manifest
from tests.unit.core.documents.test_manifest import MANIFEST

FITTED = Manifest(tokens_before=3_000, tokens_after=3_000, tokens_max=4_000)
ROW: dict[str, Any] = {
    "id": UUID(int=1),
    "contribution_type": "synthesis",
    "model_name": "sim/writer",
    "edit_version": 1,
    "stage": "synthesis",
    "iteration_number": 1,
    "storage_path": "bakery/synthesis.md",
    "target_contribution_id": None,
    "results": None,
    "chunks": [],
    "flags": [],
    "is_stale": False,
    "is_latest_edit": True,
    "manifest": None,
}
CHUNK: dict[str, Any] = {
    "id": UUID(int=2),
    "turn_index": 0,
    "tokens_used_output": 300,
    "finish_reason": "length",
    "manifest": FITTED.as_json(),
}


def describe(changes: dict[str, Any]) -> list[str]:
    return _describe(ContributionRecord.model_construct(**{**ROW, **changes}))


def build_turn(**changes: Any) -> TurnSummary:
    return TurnSummary.model_construct(**{**CHUNK, **changes})


def test_a_prompt_that_was_shortened_is_told_of_text_by_text() -> None:
    lines = describe({"manifest": MANIFEST.as_json()})
    assert lines[2:] == [
        "  prompt shortened from 9,900 to 3,890 tokens, at most 4,000; 200 credits",
        "    Reference documents: 8,000 to 1,990 tokens by extract/1 sim/vectors, worth 0.25",
        "    1 other(s) kept whole",
    ]


def test_a_prompt_that_fitted_takes_one_line_and_one_without_a_manifest_none() -> None:
    assert describe({"manifest": FITTED.as_json()})[2:] == [
        "  prompt of 3,000 tokens, at most 4,000: nothing was shortened"
    ]
    assert len(describe({})) == 2


def test_each_turn_of_a_document_tells_of_its_own_prompt() -> None:
    later = {"id": UUID(int=3), "turn_index": 1, "manifest": MANIFEST.as_json()}
    turns = [build_turn(), build_turn(**later)]
    lines = describe({"chunks": turns, "manifest": MANIFEST.as_json()})
    assert lines[2].startswith("  turn 0:")
    assert lines[3] == "    prompt of 3,000 tokens, at most 4,000: nothing was shortened"
    assert lines[4].startswith("  turn 1:")
    assert sum("prompt shortened" in line for line in lines) == 1
    alone = _describe_chunk(
        ChunkRecord.model_construct(
            **{**CHUNK, **later},
            root_contribution_id=UUID(int=1),
            model_name="sim/writer",
            stage="synthesis",
            iteration_number=1,
            storage_path="bakery/_work/synthesis_continuation_1.md",
            flags=[],
        )
    )
    assert sum("prompt shortened" in line for line in alone) == 1
