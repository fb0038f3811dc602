"""What stands above a document that is shown: the facts, and what of its prompt was shortened."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from dialectic.cli.commands.documents import _describe, _describe_chunk, _line
from dialectic.contract.contributions import (
    ChunkRecord,
    ContributionLine,
    ContributionRecord,
    ReadVersion,
    TurnSummary,
)
from dialectic.core.documents.prompts import Manifest
from tests.cases import each_case
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
    "read_versions": [],
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


# -- what was read ---------------------------------------------------------------------------------

THESIS, EDIT = UUID(int=7), UUID(int=8)
EDITED = ReadVersion(contribution_id=THESIS, version_id=EDIT, version=2, is_by_user=True)


def test_a_document_is_said_to_be_about_the_edit_that_was_read() -> None:
    results = {"read": [{"label": "Thesis A", "contribution_id": str(THESIS)}]}
    changes = {
        "target_contribution_id": THESIS,
        "read_versions": [EDITED],
        "results": results,
    }
    assert describe(changes)[2:] == [
        f"  about {EDIT} (version 2, edited by a person)",
        f"  read Thesis A: {EDIT} (version 2, edited by a person)",
    ]


VERSIONS = {
    "the first": ({"version_id": THESIS, "version": 1, "is_by_user": False}, f"{THESIS}"),
    "a regenerated one": ({"is_by_user": False}, f"{EDIT} (version 2, regenerated)"),
    "an unknown one": (
        {"version_id": None, "version": None, "is_by_user": False},
        f"{THESIS} (which version is unknown)",
    ),
}


@each_case(("changes", "said"), list(VERSIONS.values()), ids=list(VERSIONS))
def test_an_imported_document_names_its_sources_without_labels(
    changes: dict[str, Any], said: str
) -> None:
    read = [EDITED.model_copy(update=changes)]
    assert describe({"read_versions": read})[2:] == [f"  read {said}"]


def test_a_list_marks_what_was_written_from_an_edit() -> None:
    row = ContributionLine.model_construct(
        **{**ROW, "is_incomplete": False, "read_versions": [EDITED]}
    )
    assert _line(row).endswith("synthesis.md  (read edited 00000000)")
    unedited = EDITED.model_copy(update={"is_by_user": False})
    assert _line(row.model_copy(update={"read_versions": [unedited]})).endswith("synthesis.md")
