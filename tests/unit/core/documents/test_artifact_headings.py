"""Headings of an answer: what they own, and that no answer can make them slow."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.artifacts import list_sections, raise_headings
from tests.cases import each_case


@each_case(
    ("line", "title"),
    [
        ("# Plan", "Plan"),
        ("#  Plan \t", "Plan"),
        ("# Plan ##", "Plan"),
        ("# C#", "C#"),
        ("# #", ""),
    ],
)
def test_a_closing_row_of_hashes_is_not_part_of_the_title(line: str, title: str) -> None:
    assert list_sections(f"{line}\ntext", 1) == [(title, "text")]


def test_a_section_ends_at_the_next_heading_of_its_level_or_above() -> None:
    text = "# a\n## b\n1\n#### c\n2\n### d\n3\n## e\n# f\n### g\n4\n"
    assert list_sections(text, 2) == [("b", "1\n#### c\n2\n### d\n3"), ("e", "")]
    assert list_sections(text, 4) == [("c", "2")]
    assert list_sections(text, 3) == [("d", "3"), ("g", "4")]


def test_the_headings_of_a_section_rise_with_it_and_none_becomes_a_title() -> None:
    text = "One.\n### Detail\nTwo.\n ##### Deep ##\n```\n### code\n```\n"
    raised = "One.\n## Detail\nTwo.\n #### Deep ##\n```\n### code\n```\n"
    assert raise_headings(text, 1) == raised
    assert raise_headings("#### A\n### B\n## C\n# D\n", 3) == "## A\n## B\n## C\n# D\n"
    assert raise_headings(text, 0) == text


@given(st.lists(st.integers(1, 6), max_size=30))
def test_the_ends_are_those_a_reader_would_find(depths: list[int]) -> None:
    text = "\n".join(f"{'#' * depth} t{place}" for place, depth in enumerate(depths))
    for level in range(1, 7):
        for title, body in list_sections(text, level):
            start = int(title[1:])
            ends = [i for i in range(start + 1, len(depths)) if depths[i] <= level]
            owned = range(start + 1, ends[0] if ends else len(depths))
            assert body == "\n".join(f"{'#' * depths[i]} t{i}" for i in owned)
