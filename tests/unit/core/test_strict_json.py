"""JSON is what the standard says, and nothing more."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.strict_json import (
    SHOWN_CHARS_MAX,
    MalformedJson,
    find_count,
    find_text,
    parse_json,
    require_list,
    require_object,
    require_text,
)
from tests.cases import each_case

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(value=VALUES)
def test_what_is_written_is_read(value: Any) -> None:
    assert parse_json(json.dumps(value)) == value


@given(text=st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(MalformedJson):
        assert parse_json(text) == json.loads(text)


@each_case(
    "text",
    [
        "NaN",
        "[-Infinity]",
        "1e400",
        '{"a": 1, "a": 1}',
        '{"b": {"a": 1, "a": 1}}',
        "9" * 5_000,
        "[" * 50_000,
        "{}{}",
        "{'a': 1}",
        '"a\nb"',
        "",
    ],
)
def test_what_others_let_pass_is_refused(text: str) -> None:
    with pytest.raises(MalformedJson) as caught:
        parse_json(text)
    assert caught.value.shown == text[:SHOWN_CHARS_MAX]


@pytest.mark.parametrize(
    ("require", "good", "empty", "bad"),
    [
        (require_object, {"a": 1}, {}, [[], "a", 7]),
        (require_list, [1], [], [{}, "a", 7]),
        (require_text, "a", "", [[], {}, 7, True]),
    ],
)
def test_values_are_of_their_kind_or_absent(
    require: Any, good: Any, empty: Any, bad: list[Any]
) -> None:
    assert require(good, "it") == good
    assert require(None, "it") == empty
    for value in bad:
        with pytest.raises(MalformedJson, match="`it`"):
            require(value, "it")


@each_case("value", [-1, 1.0, "1", True, None, [], 10**30 * -1])
def test_only_whole_numbers_from_zero_up_are_counts(value: Any) -> None:
    assert find_count(value) is None
    assert (find_count(0), find_count(7)) == (0, 7)


def test_an_empty_text_says_nothing() -> None:
    assert [find_text(value) for value in ("a", "", None, 7)] == ["a", None, None, None]
