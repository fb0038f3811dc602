"""How deep JSON is nested and how much is in it is told without parsing it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.strict_json import has_too_many, is_too_deep

texts = st.text(alphabet='[]{},"\\ax\n', max_size=12)
values = st.recursive(
    st.none() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=20,
)


def measure(value: Any) -> int:
    match value:
        case list():
            return 1 + max((measure(one) for one in value), default=0)
        case dict():
            return 1 + max((measure(one) for one in value.values()), default=0)
        case _:
            return 0


@given(values, st.integers(1, 6), st.sampled_from([1, 2, 7, 1 << 18]))
def test_depth_is_what_the_parser_finds_wherever_it_is_cut(
    value: Any, depth_max: int, window_bytes: int
) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    found = is_too_deep(body, depth_max, window_bytes=window_bytes)
    assert found == (measure(value) > depth_max)


@pytest.mark.parametrize(
    "body",
    [b"[" * 1_000_000, b'{"a":' * 500_000, b"[" * 100 + b"]" * 100 + b"[" * 65],
    ids=["lists", "objects", "side by side"],
)
def test_what_never_ends_is_too_deep(body: bytes) -> None:
    assert is_too_deep(body, 64)


def test_what_is_long_and_flat_is_not() -> None:
    assert not is_too_deep(b"[" + b"[],{}," * 100_000 + b"[]]", 64)


def test_what_is_cut_off_is_not_deep() -> None:
    assert not is_too_deep(b"[" + b"[]," * 100 + b'[{"a":', 64)


def count_commas(value: Any) -> int:
    match value:
        case list() | dict():
            inner = value.values() if isinstance(value, dict) else value
            return max(0, len(value) - 1) + sum(map(count_commas, inner))
        case _:
            return 0


@given(values, st.integers(1, 6), st.sampled_from([1, 2, 7, 1 << 18]))
def test_values_are_counted_as_the_parser_finds_them(
    value: Any, values_max: int, window_bytes: int
) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    found = has_too_many(body, values_max, window_bytes=window_bytes)
    assert found == (count_commas(value) >= values_max)


def test_a_long_text_is_one_value() -> None:
    assert not has_too_many(json.dumps({"prompt": 'a, "b", [c], ' * 100_000}).encode(), 10)
