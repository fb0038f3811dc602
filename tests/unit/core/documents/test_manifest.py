"""A manifest tells what became of each text of a prompt."""

from __future__ import annotations

from copy import deepcopy
from typing import Any
from uuid import UUID

import pytest

from dialectic.core.documents.prompts import (
    Entry,
    Manifest,
    check_manifest,
    describe_manifest,
    rename_sources,
)
from tests.cases import each_case

THESIS = UUID(int=7)
KEPT = Entry(
    kind="input", label="Thesis A", source_id=THESIS, tokens_before=900, tokens_after=900, value=0.8
)
SHORTENED = Entry(
    kind="context",
    label="Reference documents",
    source_id=None,
    tokens_before=8_000,
    tokens_after=1_990,
    value=0.25,
    compressor="extract/1 sim/vectors",
    budget_tokens=2_000,
    cost_credits=160,
)
MANIFEST = Manifest(
    tokens_before=9_900,
    tokens_after=3_890,
    tokens_max=4_000,
    weighing_credits=40,
    items=(KEPT, SHORTENED),
)


def test_a_manifest_tells_what_was_kept_what_was_shortened_and_what_it_cost() -> None:
    told = MANIFEST.as_json()
    assert [item["status"] for item in told["items"]] == ["kept", "compressed"]
    assert told["items"][0]["source_id"] == str(THESIS)
    assert told["cost_credits"] == 200


def test_people_read_one_line_if_nothing_was_shortened_and_a_few_if_something_was() -> None:
    fitted = Manifest(tokens_before=3_000, tokens_after=3_000, tokens_max=4_000)
    assert describe_manifest(fitted.as_json()) == [
        "prompt of 3,000 tokens, at most 4,000: nothing was shortened"
    ]
    assert describe_manifest(MANIFEST.as_json()) == [
        "prompt shortened from 9,900 to 3,890 tokens, at most 4,000; 200 credits",
        "  Reference documents: 8,000 to 1,990 tokens by extract/1 sim/vectors, worth 0.25",
        "  1 other(s) kept whole",
    ]


def test_a_manifest_goes_with_its_documents_when_they_get_other_ids() -> None:
    renamed = rename_sources(MANIFEST.as_json(), lambda old: UUID(int=old.int + 1))
    assert [item["source_id"] for item in renamed["items"]] == [str(UUID(int=8)), None]


def spoil(change: str) -> Any:
    told = deepcopy(MANIFEST.as_json())
    match change:
        case "no items":
            del told["items"]
        case "unknown key":
            told["more"] = 1
        case "no number":
            told["tokens_after"] = "many"
        case "no label":
            told["items"][0]["label"] = 5
        case "no id":
            told["items"][0]["source_id"] = "a thesis"
        case _:
            told["items"][0] = "a thesis"
    return told


@each_case("change", ["no items", "unknown key", "no number", "no label", "no id", "no item"])
def test_a_stranger_s_manifest_that_is_none_is_refused(change: str) -> None:
    assert check_manifest(MANIFEST.as_json()) == MANIFEST.as_json()
    with pytest.raises(ValueError, match=r"\w"):
        check_manifest(spoil(change))
