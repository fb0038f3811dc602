"""Names of people and vendors become safe parts of a path."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.slug import (
    SLUG_CHARS_MAX,
    disambiguate,
    is_short_id,
    is_slug,
    short_id,
    slugify_name,
)
from dialectic.errors import UsageError
from tests.cases import each_case
from tests.problems import refusing

HOSTILE_NAMES = [
    "",
    ".",
    "..",
    "../../etc",
    "/",
    "///___---",
    "a\0b",
    "x" * 300,
    "CON",
    "nul",
    "Aux",
    "com¹",
    "lpt9",
    "ends with dots...",
    "ends with spaces   ",
    "full\uff0fwidth",
    "🚀",
    "🚀 to the moon",
    "\u202eright to left",
    "\u200f",
    "SHOUTING",
    "_continuation_3",
    "x_continuation_3",
    "_critiquing_",
    "a_from_b_and_c_1_thesis",
    "raw",
    "session_",
    "12345",
    "\ud800",
    "é" * 400,
    "e" + "\u0301" * 5_000,
    "&#x2F;&amp;",
    "日本語の名前",
    "C:\\Windows",
    "-" * 64,
]
names = st.one_of(st.sampled_from(HOSTILE_NAMES), st.text(max_size=400))


@each_case(
    ("name", "slug"),
    [
        ("openai/gpt-4.1", "openai-gpt-4-1"),
        ("A Plan for Café Zürich", "a-plan-for-cafe-zurich"),
        ("../../etc", "etc"),
        ("full\uff0fwidth", "full-width"),
        ("a\0b", "a-b"),
        ("x_continuation_3", "x-continuation-3"),
        ("12345", "12345"),
        ("日本語", "ri-ben-yu"),
        ("AT&amp;T", "at-amp-t"),
    ],
)
def test_a_name_becomes_lower_case_words_joined_by_hyphens(name: str, slug: str) -> None:
    assert slugify_name(name, fallback="name") == slug


@given(names)
def test_every_name_becomes_a_slug_that_is_its_own_slug(name: str) -> None:
    slug = slugify_name(name, fallback="project")
    assert is_slug(slug)
    assert "_" not in slug
    assert slugify_name(name, fallback="project") == slug
    assert slugify_name(slug, fallback="other") == slug


def test_a_name_of_which_nothing_is_left_is_told_apart_by_a_hash() -> None:
    rocket, party = (slugify_name(name, fallback="project") for name in ("🚀", "🎉"))
    assert rocket.startswith("project-")
    assert rocket != party


def test_a_name_that_is_cut_is_told_apart_by_a_hash() -> None:
    one, other = (slugify_name("word " * 60 + end, fallback="x") for end in ("one", "other"))
    assert len(one) <= SLUG_CHARS_MAX
    assert one.startswith("word-word-")
    assert one != other


def test_what_follows_after_a_thousand_characters_still_counts() -> None:
    one, other = (slugify_name(" " * 5_000 + end, fallback="x") for end in ("one", "other"))
    assert one != other


@each_case("name", ["CON", "nul", "Aux", "prn.", "com¹", "LPT9"])
def test_no_slug_is_the_name_of_a_windows_device(name: str) -> None:
    slug = slugify_name(name, fallback="project")
    assert not is_slug(name.lower().rstrip("."))
    assert "-" in slug


@given(names, st.uuids())
def test_a_slug_and_an_id_make_another_slug_within_the_cap(name: str, unique: uuid.UUID) -> None:
    slug = slugify_name(name, fallback="project")
    told_apart = disambiguate(slug, unique)
    assert is_slug(told_apart)
    assert told_apart.endswith(f"-{unique.hex[:8]}")
    assert disambiguate(slug, str(unique).upper()) == told_apart


def test_a_short_id_is_the_beginning_of_an_id() -> None:
    assert short_id("3F2504E0-4F89-11D3-9A0C-0305E82C3301") == "3f2504e0"
    assert short_id(uuid.UUID(int=1)) == "00000000"


@each_case("unique", ["", "1234567", "not-an-id", "../../..", "\uff11" * 8])
def test_a_text_that_does_not_begin_with_eight_digits_is_not_an_id(unique: str) -> None:
    assert not is_short_id(unique)
    with refusing(UsageError, reason="not_an_id"):
        short_id(unique)


@each_case("fallback", ["", "Upper", "a_b", "-a", "a/b"])
def test_a_fallback_must_be_a_slug_itself(fallback: str) -> None:
    with refusing(UsageError, reason="not_a_slug"):
        slugify_name("🚀", fallback=fallback)
