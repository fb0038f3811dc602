"""Vocabularies are there without a network, and are the real ones."""

from __future__ import annotations

import os

import pytest

from dialectic.errors import ConfigurationError
from dialectic.vocabulary import ENCODINGS, load_encoding


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("o200k_base", [13225, 11, 2375, 0]), ("cl100k_base", [9906, 11, 1917, 0])],
)
def test_a_vocabulary_gives_the_tokens_that_are_published(name: str, tokens: list[int]) -> None:
    assert load_encoding(name).encode_ordinary("Hello, world!") == tokens


@pytest.mark.parametrize("name", ENCODINGS)
def test_what_was_encoded_is_decoded_again(name: str) -> None:
    text = "Grüße, 世界 👩‍👩‍👧 <|endoftext|>\n\n| a | b |"
    encoding = load_encoding(name)
    assert encoding.decode(encoding.encode_ordinary(text)) == text


def test_loading_leaves_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    load_encoding("o200k_base")
    assert dict(os.environ) == before


def test_an_unknown_vocabulary_is_named_with_those_that_are_known() -> None:
    with pytest.raises(ConfigurationError, match=r"'o100k'.*o200k_base, cl100k_base"):
        load_encoding("o100k")
