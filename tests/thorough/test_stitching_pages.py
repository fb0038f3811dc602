"""No place in a real page is taken for a repetition."""

from __future__ import annotations

from pathlib import Path

from dialectic.core.documents.stitching import (
    join,
)
from tests.cases import each_case

ROOT = Path(__file__).parents[2]


PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("src/**/*.md")])


@each_case("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_place_in_a_real_page_is_taken_for_a_repetition(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    # Every third place, of all the pages there are.
    places = range(1, len(text), 3)
    assert [cut for cut in places if join([text[:cut], text[cut:]]).text != text] == []
