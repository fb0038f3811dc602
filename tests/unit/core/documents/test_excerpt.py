"""A card shows how a document begins, in words and without markup."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.documents.excerpt import (
    CARD_CHARS_MAX,
    EXCERPT_CHARS_MAX,
    TITLE_CHARS_MAX,
    Card,
    build_card,
    build_excerpt,
)
from dialectic.core.process.definition import ExpectedDocument
from tests.cases import each_case

THESIS = """\
---
model: offline/skeptic
---
# Use a calendar that exists

## Business case

The hall needs **fewer** decisions, not _more_ software.
A [hosted calendar](https://example.org/c "c") does that.

| who | what |
|---|---|
| Anna | keys |
"""


def test_headings_front_matter_tables_and_markup_are_left_out() -> None:
    assert build_excerpt(THESIS) == (
        "The hall needs fewer decisions, not more software. A hosted calendar does that."
    )


@each_case(
    ("text", "excerpt"),
    [
        ("", ""),
        ("# Only a title", ""),
        ("Title\n=====\n\nThe text.", "The text."),
        ("One.\n\n---\n\nTwo.", "One. Two."),
        ("- [ ] call *Anna*\n- [x] buy bread", "call Anna buy bread"),
        ("> A note before it.\n\nThe text.", "The text."),
        ("> 1. **Risk:** it rains", "Risk: it rains"),
        ("```python\nprint(1)\n```\nAfter the code.", "After the code."),
        ("~~~\n```\nstill code\n~~~\nProse.", "Prose."),
        ("```markdown\n# Plan\nAll of it is fenced.\n```", "All of it is fenced."),
        ("<!-- a\nnote -->Seen.", "Seen."),
        ("hid&#8203;den&#0; &#x202e;signs", "hidden\ufffd signs"),
        ("Two <b>bold</b> words<br/> &amp; more", "Two bold words & more"),
        ("![A map](map.png) shows `the_hall`.", "A map shows the_hall."),
        ("See [the rules][1].\n\n[1]: https://example.org", "See the rules."),
        ("2 * 3 = 6, a_b and c_d, 5*4", "2 * 3 = 6, a_b and c_d, 5*4"),
        (r"Not \*bold\* here", "Not *bold* here"),
        ("***All three***, ~~gone~~ and __strong__", "All three, gone and strong"),
        ("#hashtag is no heading", "#hashtag is no heading"),
        ("  spaced \t out \n\n  twice ", "spaced out twice"),
    ],
)
def test_what_is_prose(text: str, excerpt: str) -> None:
    assert build_excerpt(text) == excerpt


def test_a_long_text_is_cut_after_a_sentence() -> None:
    text = "This sentence has exactly six words. " * 40
    excerpt = build_excerpt(text)

    assert excerpt.endswith("words.")
    assert EXCERPT_CHARS_MAX // 2 <= len(excerpt) <= EXCERPT_CHARS_MAX


def test_a_long_sentence_is_cut_between_words() -> None:
    excerpt = build_excerpt("word " * 200)

    assert excerpt.endswith("word…")
    assert len(excerpt) <= EXCERPT_CHARS_MAX


def test_a_text_without_spaces_is_cut_between_characters() -> None:
    assert build_excerpt("公民館の予約" * 100, chars_max=50) == ("公民館の予約" * 100)[:49] + "…"


@given(st.text(alphabet="ab *_`~#>|[]()<!-\\\n.1&;", max_size=400), st.integers(1, 120))
def test_an_excerpt_is_short_and_one_line_whatever_the_text(text: str, chars_max: int) -> None:
    excerpt = build_excerpt(text, chars_max=chars_max)

    assert len(excerpt) <= chars_max
    assert excerpt == " ".join(excerpt.split())


@each_case("piece", ["*", "_a", "[", "`", "<a", "<!--", "> ", "~~~\n", "\\", "![](", "**a "])
def test_hostile_markup_takes_no_time(piece: str) -> None:
    started = time.process_time()
    build_excerpt(piece * 500_000)

    assert time.process_time() - started < 1.0


EXPECTED = (ExpectedDocument(key="risks", title="Risks", heading="## Risks"),)


def test_the_title_of_a_card_is_a_heading_that_the_process_did_not_ask_for() -> None:
    text = "## Summary\n\nFirst. Second.\n\n## Risks\n\nNone.\n\n### O1: Keys get *lost*\n\nOften."
    card = build_card(text, EXPECTED, "- `## Summary`: in short.")
    assert card == Card("O1: Keys get lost", "First. Second. None. Often.", 13)


def test_without_such_a_heading_the_first_sentence_is_the_title() -> None:
    card = build_card("## Risks\n\nKeys get lost. Find a neighbour. Ask twice.", EXPECTED)
    assert (card.title, card.excerpt) == ("Keys get lost.", "Find a neighbour. Ask twice.")
    assert build_card("") == Card("", "", 0)


@given(st.text(max_size=2000))
def test_a_card_is_short_whatever_the_document_says(text: str) -> None:
    card = build_card(text, EXPECTED, text)
    assert len(card.title) <= TITLE_CHARS_MAX
    assert len(card.excerpt) <= CARD_CHARS_MAX
