"""What was said is found in its document, and tokens never break a character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import Message, Role
from dialectic_simulator.conversation import Ask
from dialectic_simulator.script import Manner
from dialectic_simulator.text import (
    build_pieces,
    build_vector,
    count_ask_tokens,
    count_tokens,
    cut_tokens,
    decide_rest,
    measure_common,
    measure_written,
    split_tokens,
)

tokenizers = st.sampled_from(["o200k_base", "cl100k_base", "chars:1", "chars:4"])
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
prose = st.text("ab \n|#é👩‍🌾", max_size=120)


@given(texts, tokenizers, st.integers(1, 9))
def test_pieces_are_whole_characters_and_join_to_the_text(
    text: str, tokenizer: str, size: int
) -> None:
    tokens = split_tokens(text, tokenizer)
    pieces = build_pieces(tokens, size)
    assert "".join(piece.text for piece in pieces) == text
    assert sum(piece.tokens for piece in pieces) == len(tokens) == count_tokens(text, tokenizer)


@given(texts, tokenizers, st.integers(0, 60))
def test_a_cut_is_the_longest_beginning_of_whole_characters(
    text: str, tokenizer: str, count: int
) -> None:
    tokens = split_tokens(text, tokenizer)
    kept = cut_tokens(tokens, count)
    assert text.startswith(b"".join(kept).decode())
    assert len(kept) <= count
    for longer in range(len(kept) + 1, min(count, len(tokens)) + 1):
        with pytest.raises(UnicodeDecodeError):
            b"".join(tokens[:longer]).decode()


def test_a_request_is_counted_with_what_frames_it() -> None:
    turns = (Message(Role.USER, "abcd"), Message(Role.ASSISTANT, "ab"), Message(Role.USER, "a"))
    assert count_ask_tokens(Ask("m", turns=turns), "chars:1") == 7 + 3 * 3 + 3
    assert count_ask_tokens(Ask("m", system="xy", turns=turns), "chars:1") == 7 + 2 + 4 * 3 + 3
    assert count_ask_tokens(Ask("m", inputs=("abc", "d")), "chars:1") == 4


@given(prose, st.integers(0, 120))
def test_a_beginning_is_found_to_the_character(document: str, length: int) -> None:
    written = document[:length]
    assert measure_written(document, written) == len(written)


@given(prose, st.integers(0, 120))
def test_a_beginning_without_its_blanks_is_found_behind_its_last_word(
    document: str, length: int
) -> None:
    written = document[:length]
    place = measure_written(document, "".join(written.split()))
    assert document[:place].split() == [] or document[:place].rstrip() == document[:place]
    assert "".join(document[:place].split()) == "".join(written.split())


def test_a_shortened_middle_is_found_by_its_end() -> None:
    document = "".join(f"Sentence number {n} says something of its own.\n" for n in range(40))
    written = document[:100] + "[…]" + document[900:1_200]
    assert measure_written(document, written) == 1_200


def test_what_is_not_of_the_document_goes_on_after_what_is_common() -> None:
    assert measure_written("abcdef", "abXYZ") == 2


@given(prose, prose)
def test_what_two_texts_have_in_common_is_measured(a: str, b: str) -> None:
    count = measure_common(a, b)
    assert a[:count] == b[:count]
    assert a[count : count + 1] != b[count : count + 1] or count == min(len(a), len(b))


def test_an_opening_gets_the_document_whatever_spoils_its_continuation() -> None:
    for manner in (Manner(restart=True), Manner(empty=True), Manner(overlap=3)):
        assert decide_rest("abcdef", "", manner) == "abcdef"
    assert decide_rest("abcdef", "abcd", Manner(overlap=3)) == "bcdef"
    assert decide_rest("abcdef", "abcd", Manner(overlap=30)) == "abcdef"


@given(texts, st.integers(1, 300))
def test_a_vector_has_its_size_and_length_one(text: str, dimensions: int) -> None:
    vector = build_vector(text, dimensions)
    assert len(vector) == dimensions
    assert sum(value * value for value in vector) == pytest.approx(1.0)
    assert vector == build_vector(text, dimensions)
