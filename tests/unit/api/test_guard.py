"""How deep JSON is nested is told without parsing it, and as the parser would."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.api.guard import is_too_deep

texts = st.text(alphabet='[]{}"\\ax\n', max_size=12)
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


@given(values, st.integers(1, 6))
def test_depth_is_what_the_parser_finds(value: Any, depth_max: int) -> None:
    body = json.dumps(value, ensure_ascii=False).encode()
    assert is_too_deep(body, depth_max) == (measure(value) > depth_max)


@pytest.mark.parametrize(
    "body",
    [b"[" * 1_000_000, b'{"a":' * 500_000, b"[" * 100 + b"]" * 100 + b"[" * 65],
    ids=["lists", "objects", "side by side"],
)
def test_what_never_ends_is_too_deep(body: bytes) -> None:
    assert is_too_deep(body, 64)


def test_what_is_long_and_flat_is_not() -> None:
    assert not is_too_deep(b"[" + b"[],{}," * 100_000 + b"[]]", 64)
