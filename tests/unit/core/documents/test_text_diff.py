"""What changed between two texts: exactly the words that differ, in the sections they are in."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dialectic.cli.display.text_diff import list_lines
from dialectic.core.documents.text_diff import (
    SECTIONS_MAX,
    Op,
    SectionState,
    TextDiff,
    compare_texts,
)
from tests.properties import examples

OLD = "# A\n\nThe quick brown fox\njumps.\n\n## B\nsame\n\n## C\ngone\n\n## F\nlast\n"
NEW = (
    "Intro.\n\n# A\n\nThe slow brown fox\njumps high.\n\n## B\n\nsame\n\n"
    "## D\nnew\n\n## E\nx\n\n## F\nlast\n"
)


def read_side(diff: TextDiff, op: Op) -> str:
    return "".join(
        span.text for section in diff.sections for span in section.spans if span.op in (Op.SAME, op)
    )


def test_sections_are_matched_by_heading_and_only_changed_words_are_marked() -> None:
    diff = compare_texts(OLD, NEW)
    assert [(section.heading, section.state.value) for section in diff.sections] == [
        (None, "added"),
        ("A", "changed"),
        ("B", "same"),
        ("C", "removed"),
        ("D", "added"),
        ("E", "added"),
        ("F", "same"),
    ]
    changed = [(s.op.value, s.text.strip()) for s in diff.sections[1].spans if s.op is not Op.SAME]
    assert changed == [("remove", "quick"), ("add", "slow"), ("add", "high")]
    assert (diff.words_added, diff.words_removed) == (7, 3)
    assert not any(section.is_coarse for section in diff.sections)


def test_a_section_in_the_place_of_one_other_was_renamed() -> None:
    [section] = compare_texts("# Old name\n\nSame words.\n", "# New name\n\nSame words.\n").sections
    assert (section.heading, section.state) == ("New name", SectionState.CHANGED)


def test_the_same_text_and_other_white_space_change_nothing() -> None:
    for new in (OLD, OLD.replace("\n", "\n\n"), OLD.replace(" ", "  ")):
        diff = compare_texts(OLD, new)
        assert {section.state for section in diff.sections} == {SectionState.SAME}
        assert (diff.words_added, diff.words_removed) == (0, 0)
    assert compare_texts("", "").sections == ()


WORDS = st.lists(st.sampled_from("abcd"), max_size=12)
TEXTS = st.text(alphabet="# abc.,-\n\u00e9\t", max_size=80)


@examples(500)
@given(TEXTS, TEXTS)
def test_both_texts_can_be_read_from_what_changed(old: str, new: str) -> None:
    diff = compare_texts(old, new)
    assert "".join(read_side(diff, Op.ADD).split()) == "".join(new.split())
    assert "".join(read_side(diff, Op.REMOVE).split()) == "".join(old.split())
    assert diff == compare_texts(old, new)
    for section in diff.sections:
        assert all(span.text for span in section.spans)
        assert (section.state is SectionState.SAME) == all(
            span.op is Op.SAME for span in section.spans
        ) or not "".join(span.text for span in section.spans).strip()


@examples(200)
@given(WORDS, WORDS)
def test_no_shorter_list_of_changes_exists(old: list[str], new: list[str]) -> None:
    diff = compare_texts(" ".join(old), " ".join(new))
    assert diff.words_added + diff.words_removed == measure_distance(old, new)


def measure_distance(old: list[str], new: list[str]) -> int:
    """The number of removed and added words of the shortest script, by the book."""
    row = list(range(len(new) + 1))
    for number, word in enumerate(old, 1):
        before, row[0] = row[:], number
        for place, other in enumerate(new, 1):
            is_same = word == other
            row[place] = before[place - 1] if is_same else 1 + min(before[place], row[place - 1])
    return row[-1]


def test_what_would_take_too_long_is_shown_whole_and_said() -> None:
    draw = random.Random(7)
    old, new = (" ".join(draw.choice("abcdefgh") for _ in range(20_000)) for _ in range(2))
    [section] = compare_texts(old, new).sections
    assert section.is_coarse
    assert [span.op for span in section.spans if span.op is not Op.SAME] == [Op.REMOVE, Op.ADD]


def test_a_text_of_headings_alone_is_one_section() -> None:
    many = "# a\n" * (SECTIONS_MAX + 1)
    [section] = compare_texts(many, f"{many}# b\n").sections
    assert section.heading is None
    assert not section.is_coarse


def test_a_terminal_shows_changed_lines_with_their_words_marked() -> None:
    lines = list(list_lines(compare_texts(OLD, NEW)))
    assert "The [-quick -]{+slow +}brown fox" in lines
    assert not any("same" in line for line in lines)
    assert lines[-1] == "7 words added, 3 words removed"
