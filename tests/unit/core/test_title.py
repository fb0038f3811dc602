"""A title is the first sentence of a prompt, in whole words and in its own script."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.slug import TITLE_CHARS_MAX, is_slug, slugify_title
from dialectic.core.text import clean_line
from dialectic.core.title import TITLE_COLUMNS_MAX, derive_title, measure, shorten
from tests.cases import each_case

TITLES = {
    "A booking service for a village hall.": "A booking service for a village hall",
    "A booking service for a village hall that volunteers can run. It must be cheap.": (
        "A booking service for a village hall that volunteers can run"
    ),
    "# Plan\n\nText": "Plan",
    "- **A bee hotel** for schools": "A bee hotel for schools",
    "1. Buy wood. 2. Build.": "Buy wood",
    "Should we move to Lisbon? We are four.": "Should we move to Lisbon?",
    "Ask Dr. Smith about the clinic. Then plan.": "Ask Dr. Smith about the clinic",
    "Use e.g. version 2.0 of it. Then stop.": "Use e.g. version 2.0 of it",
    "町の図書館を夜も開ける計画。予算は少ない。": "町の図書館を夜も開ける計画",
    "Ein Café für Radfahrer in Köln. Und ohne Streit.": "Ein Café für Radfahrer in Köln",
    "План школы. Дёшево.": "План школы",
    "خطة للمدرسة؟ نعم": "خطة للمدرسة؟",
    "\n\n   \n": "project",
    "***": "project",
}


@each_case("prompt", TITLES)
def test_a_title_is_the_first_sentence(prompt: str) -> None:
    assert derive_title(prompt) == TITLES[prompt]


def test_a_long_sentence_ends_with_a_clause_or_a_whole_word() -> None:
    clause = derive_title(
        "An appointment system for a clinic with 14 staff, 9,000 patients and two buildings in "
        "different towns that share a telephone line"
    )
    assert clause == "An appointment system for a clinic with 14 staff…"
    words = derive_title("A " + "very " * 30 + "long sentence")
    assert words.endswith("very…")
    assert measure(words) <= TITLE_COLUMNS_MAX


def test_a_long_sentence_without_spaces_is_cut_between_characters() -> None:
    title = derive_title("図" * 100)
    assert title == "図" * ((TITLE_COLUMNS_MAX - 1) // 2) + "…"


@given(st.text(max_size=400))
def test_a_title_is_one_short_line_that_the_prompt_holds(prompt: str) -> None:
    title = derive_title(prompt)
    assert title
    assert measure(title) <= TITLE_COLUMNS_MAX
    assert (
        title.removesuffix("…") in clean_line(prompt.replace("**", "").replace("`", ""))
        or title == "project"
    )


@given(st.text(max_size=200), st.integers(2, 80))
def test_a_shortened_text_fits(text: str, columns: int) -> None:
    assert measure(shorten(text, columns)) <= columns


def test_a_folder_has_whole_words_and_no_hash() -> None:
    title = "A booking service for a village hall that volunteers can run every single day"
    assert slugify_title(title, fallback="project") == (
        "a-booking-service-for-a-village-hall-that-volunteers"
    )


@given(st.text(max_size=200))
def test_every_title_has_a_folder(title: str) -> None:
    slug = slugify_title(title, fallback="project")
    assert is_slug(slug)
    assert len(slug) <= max(TITLE_CHARS_MAX, 64)
