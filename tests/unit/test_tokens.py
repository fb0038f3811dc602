"""Tokens are counted over exactly what is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.domain.message import Message, Request, Role
from dialectic.errors import ConfigurationError
from dialectic.tokens import (
    MESSAGE_OVERHEAD_TOKENS,
    REPLY_PRIMER_TOKENS,
    count_request_tokens,
    find_counter,
)


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("🚀🚀🚀🚀", 1)]
)
def test_every_begun_group_of_characters_is_a_token(text: str, tokens: int) -> None:
    assert find_counter("chars:4")(text) == tokens


@given(st.text(), st.integers(1, 50))
def test_a_count_covers_the_text_and_wastes_less_than_a_token(text: str, size: int) -> None:
    tokens = find_counter(f"chars:{size}")(text)
    assert tokens * size >= len(text) > (tokens - 1) * size or text == ""


@pytest.mark.parametrize(
    "name", ["", "chars", "chars:", "chars:0", "chars:-1", "chars:x", "chars:²", "words:4", "o200k"]
)
def test_an_unknown_tokenizer_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not known.*chars:N") as caught:
        find_counter(name)
    assert repr(name) in caught.value.message


@given(st.text(), st.lists(st.text(), min_size=1, max_size=5).filter(lambda turns: len(turns) % 2))
def test_a_request_is_the_sum_of_its_parts_and_their_frames(system: str, turns: list[str]) -> None:
    roles = (Role.USER, Role.ASSISTANT)
    messages = tuple(Message(roles[i % 2], text) for i, text in enumerate(turns))
    request = Request("offline/any", system, messages, max_output_tokens=10)
    count = find_counter("chars:4")
    expected = REPLY_PRIMER_TOKENS + sum(count(t) + MESSAGE_OVERHEAD_TOKENS for t in turns)
    if system:
        expected += count(system) + MESSAGE_OVERHEAD_TOKENS
    assert count_request_tokens(request, "chars:4") == expected
