"""What a second look adds goes into its sections; what it leaves out has its reason; all stays."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.artifacts import extract_documents
from dialectic.core.documents.second_look import (
    LEFT_OUT,
    LookAnswer,
    Omission,
    find_next_step,
    merge_look,
    read_look,
)
from dialectic.core.process.definition import ExpectedDocument
from tests.cases import each_case

DOCUMENT = """> A notice.

## Summary

All in all.

## Actionable checklist

### Milestone 1: One

- [ ] 1. Count the keys
  - Depends on: nothing
- [x] 2. Post the list
  - Depends on: 1

### Milestone 2: Two

- [ ] 3. Open the door
  - Depends on: 2

## Risks

| Risk | Sign |
| --- | --- |
| Rain | clouds |

## Advice

Proceed.
"""
OMISSIONS = [Omission("Thesis B", "Risks", f"Point {n} costs {n}0 coins.") for n in range(1, 5)]


def merge(document: str, answer: str, title: str = LEFT_OUT) -> str:
    look = read_look(answer)
    assert look is not None
    merged = merge_look(document, look, OMISSIONS, refused_title=title)
    assert is_within(document, merged)
    assert merge_look(merged, look, OMISSIONS, refused_title=title) == merged
    return merged


def is_within(part: str, whole: str) -> bool:
    """Tell whether a text is what is left of another without some of its characters."""
    rest = iter(whole)
    return all(each in rest for each in part)


def test_steps_go_on_with_the_next_free_number_in_their_milestone() -> None:
    merged = merge(
        DOCUMENT,
        "## Added\n\n### Milestone 1: One\n\n- [ ] 7. Buy a lock\n  - Depends on: 2\n"
        "- [ ] 8. Fit it\n  - Depends on: 7\n\n## Left out on purpose\n\nNone.\n",
    )
    first = merged.partition("### Milestone 2")[0]
    assert "- [ ] 4. Buy a lock\n  - Depends on: 2\n- [ ] 5. Fit it\n  - Depends on: 4\n" in first
    assert merged.count("- [ ]") == 4
    assert find_next_step(merged) == 6


def test_rows_go_on_with_their_table_and_sentences_stand_apart() -> None:
    answer = (
        "## Added\n\n### Risks\n\n| Risk | Sign |\n| --- | --- |\n| Frost | ice |\n\n"
        "### Advice\n\nAsk the neighbours.\n"
    )
    merged = merge(DOCUMENT, answer)
    assert "| Rain | clouds |\n| Frost | ice |\n\n## Advice\n\nProceed.\n\nAsk the ne" in merged


def test_a_reason_quotes_its_point_and_stands_where_refusals_stand() -> None:
    answer = (
        "## Added\n\nNothing.\n\n## Left out on purpose\n\n"
        "- **M1, M3**: Both cost more than they save.\n- M9: no such point\n- Wishes in general\n"
    )
    merged = merge(DOCUMENT, answer)
    assert merged.endswith(
        "## Left out on purpose\n\n"
        "- “Point 1 costs 10 coins.” (Thesis B): Both cost more than they save.\n"
        "- “Point 3 costs 30 coins.” (Thesis B): Both cost more than they save.\n"
        "- Wishes in general\n"
    )
    there = merge(
        DOCUMENT + "\n## Rejected points\n\n- “Tea”: too hot.\n", answer, "Rejected points"
    )
    assert "too hot.\n- “Point 1" in there
    assert LEFT_OUT not in there


def test_what_belongs_nowhere_gets_a_section_at_the_end() -> None:
    answer = "## Added\n\n### Weather\n\nIt rains.\n\n# Big\n\nToo big.\n\n## Left out on purpose\n"
    merged = merge(DOCUMENT, answer)
    assert merged.endswith("## Added\n\nWeather:\n\nIt rains.\n\nBig:\n\nToo big.\n")


def test_headings_of_an_addition_make_no_sections() -> None:
    answer = "## Added\n\n### Advice\n\nMore.\n\n#### Deep\n\nDeeper.\n"
    section = ExpectedDocument(key="advice", title="Advice", heading="## Advice")
    found = extract_documents(merge(DOCUMENT, answer), [section]).found["advice"]
    assert found == "Proceed.\n\nMore.\n\nDeep:\n\nDeeper."


def test_a_document_that_ends_in_an_open_fence_is_closed_before_anything_is_added() -> None:
    document = "## A\n\n```sh\nls\n"
    merged = merge(document, "## Added\n\n### A\n\nMore.\n")
    assert merged == "## A\n\n```sh\nls\n```\n\nMore.\n"


@each_case(
    "answer",
    [
        "",
        "Sorry, I cannot do that.",
        "## Something\n\nelse",
        "## Added\n\n## Left out on purpose\n",
        "## Added\n\nNone.\n\n## Left out on purpose\n\nNothing.\n",
        "## Added\n\n### Advice\n\n```\nnever closed",
        '{"added": []}',
    ],
)
def test_an_answer_without_the_form_or_without_content_is_not_read(answer: str) -> None:
    assert read_look(answer) is None


def test_a_fence_around_the_answer_and_other_words_for_its_headings_are_read() -> None:
    look = read_look(
        "```markdown\n# Additions\n\n## Advice\n\nMore (M2).\n\n# Not added\n\nM1 - x y\n```"
    )
    assert look == LookAnswer("## Advice\n\nMore.", {1: "x y"})


LINES = st.sampled_from(
    [
        *"## A|### B|# Added|## Left out on purpose|### A|text|- item|  - Depends on: 3".split("|"),
        *"- [ ] 1. step|- [ ] step|* [x] 12. done|M1: why|- M2, M3: because of it".split("|"),
        "| a | b |",
        "|---|---|",
        "| c |",
        "```",
        "~~~",
        "<<<BEGIN x [ab]>>>",
        "<<<END [ab]>>>",
        "<h2>B</h2>",
        "Title\n====",
        "**A**",
        "",
        "\r",
    ]
)
TEXTS = st.lists(LINES, max_size=14).map("\n".join)


@given(TEXTS.filter(lambda text: "<<<" not in text), TEXTS, TEXTS)
def test_whatever_is_said_all_of_the_document_stays_and_a_second_time_changes_nothing(
    document: str, added: str, left: str
) -> None:
    look = read_look(f"## Added\n\n{added}\n\n## Left out on purpose\n\n{left}")
    if look is None:
        return
    merged = merge_look(document, look, OMISSIONS, refused_title="A")
    assert is_within(document, merged)
    assert merge_look(merged, look, OMISSIONS, refused_title="A") == merged


def test_a_long_document_with_many_additions_takes_a_moment() -> None:
    document = "".join(f"## Part {n}\n\n{'word ' * 40}\n\n" for n in range(2_000))
    answer = "## Added\n\n" + "".join(f"### Part {n}\n\n- new {n}\n\n" for n in range(2_000))
    started_s = time.process_time()
    merge(document, answer)
    assert time.process_time() - started_s < 5
