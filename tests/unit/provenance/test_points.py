"""Points, items and their normal form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.process.definition import Holds
from dialectic.provenance.points import (
    POINTS_MAX,
    build_sections,
    find_ids,
    list_items,
    normalize,
    read_points,
)
from tests.cases import each_case
from tests.properties import examples
from tests.unit.provenance.lineages import STANDARD

LABELS = frozenset({"Thesis A", "Critique A1", "Reduced proposal B3"})


@each_case(
    ("written", "normal", "labels"),
    [
        ("- [ ] 3. Buy **new** chairs.", "Buy new chairs.", ()),
        ("1. `Keys` hang in the _hall_.", "Keys hang in the hall.", ()),
        ("| Deposit | 25 euros |", "Deposit 25 euros", ()),
        ("> “Quoted” and „zitiert“ and «cité».", "Quoted and zitiert and cité.", ()),
        ("Don't ask the caretaker's wife.", "Don't ask the caretaker's wife.", ()),
        ("A deposit is asked for (Thesis A).", "A deposit is asked for.", ("Thesis A",)),
        (
            "It opens late (Reduced proposal B3, Critique A1, O2).",
            "It opens late.",
            ("Reduced proposal B3", "Critique A1"),
        ),
        ("It opens late (as Thesis A says).", "It opens late (as Thesis A says).", ()),
        ("It opens late (Thesis Z).", "It opens late (Thesis Z).", ()),
    ],
)
def test_the_normal_form_is_what_a_passage_says(
    written: str, normal: str, labels: tuple[str, ...]
) -> None:
    assert normalize(written, LABELS) == (normal, labels)


def test_a_passage_of_three_words_or_of_few_letters_is_not_a_point() -> None:
    assert not read_points("Three words only.\n\nA b c d e f.\n").points


def test_a_short_sentence_in_a_script_without_blanks_is_a_point() -> None:
    (point,) = read_points("每次预订须交纳二十五元押金。").points
    assert point.normal == "每次预订须交纳二十五元押金。"


CRITIQUE = """## Summary

The proposal is good in most of its parts.

## Critique

These claims must be kept as they are.

### O1: The deposit keeps pupils away

Claim: “A deposit of 25 euros is asked for.”
Verdict: unproven, since nobody has asked the pupils.

### O2: Keys

- Claim: “Keys hang in the bakery all day.”
- Better: Keys hang with the caretaker at all times.

## 4. Risks and mitigations

| risk | severity |
|---|---|
| The boiler fails in the coldest weeks | major |
| Volunteers leave within the first year | minor |
"""


def read_critique() -> tuple[list[str], list[tuple[str, int]]]:
    stage = STANDARD.load_stage("antithesis")
    read = read_points(CRITIQUE, build_sections(stage, "antithesis"), LABELS)
    items = list_items(read, Holds.OBJECTION)
    return [p.holds.value for p in read.points], [(item.id, len(item.points)) for item in items]


def test_a_section_holds_what_the_process_declares_also_under_a_synonym() -> None:
    holds, _ = read_critique()
    assert holds == ["aside", *["objection"] * 8]


def test_a_numbered_section_and_a_row_are_one_item_each() -> None:
    _, items = read_critique()
    assert items == [("O1", 3), ("O2", 2), ("", 1), ("", 1)]


def test_a_step_is_an_entry_with_its_indented_lines() -> None:
    text = (
        "## Actionable checklist\n\n### Milestone 1: Agree on all the words\n\n"
        "Goal: everyone speaks of the same thing.\n\n"
        "- [ ] 1. Write the list of words that all agree on.\n  - Covers: R1\n"
        "  - Accepted when: the list hangs in the hall for all.\n"
        "- [ ] 2. Refuse a second booking of the same evening.\n  - Covers: R2, R6–R8\n"
    )
    read = read_points(text, build_sections(STANDARD.load_stage("paralysis"), "paralysis"))
    steps = list_items(read, Holds.STEP)
    assert [find_ids(text[one.start : one.end]) for one in steps] == [
        {"R1"},
        {"R2", "R6", "R7", "R8"},
    ]


def test_points_beyond_the_limit_are_counted_and_not_read() -> None:
    text = "\n\n".join(f"This is sentence number {n} of many." for n in range(POINTS_MAX + 7))
    read = read_points(text)
    assert (len(read.points), read.unread) == (POINTS_MAX, 7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "word " * 200_000,
        "x" * 1_000_000,
        '{"a": [1, 2, 3], "b": "a text in JSON with several words"}',
        "```python\nfor each in range(10):\n    print(each, each, each)\n",
        "| a | b |\n|---|---|\n" + "| one two three four | five six seven |\n" * 50,
        "\ud800 lone surrogate in a sentence of words",
        "#### \n### ###\n## \n",
    ],
    ids=["empty", "blank", "one line", "one word", "json", "code", "table", "surrogate", "heads"],
)
def test_offsets_are_exact_in_any_text(text: str) -> None:
    read = read_points(text)
    ends = [0]
    for point in read.points:
        assert 0 <= point.start < point.end <= len(text)
        assert normalize(text[point.start : point.end])[0] == point.normal
        ends.append(point.end)
    assert ends == sorted(ends)


PIECES = st.sampled_from(
    [
        "## Risks",
        "### O3: a title of words",
        "- an entry of several words",
        "  - inner words here too",
        "| one | two three four five |",
        "|---|---|",
        "A sentence of words. And another one follows.",
        "",
        "```",
        "> a quoted line of many words",
        "1. first thing to do now",
        "文字を含む長い文章です。",
    ]
)


@given(st.lists(PIECES, max_size=40))
@examples(200)
def test_each_point_is_in_the_item_that_names_it(lines: list[str]) -> None:
    stage = STANDARD.load_stage("antithesis")
    text = "\n".join(lines)
    read = read_points(text, build_sections(stage, "antithesis"))
    for point in read.points:
        item = read.items[point.item]
        assert point.n in item.points
        assert item.start <= point.start <= point.end <= item.end
    named = [n for item in read.items for n in item.points]
    assert sorted(named) == [point.n for point in read.points]
