"""How deep JSON is nested and how much is in it, told without parsing it. Pure.

Each value is made in memory, and each that is wrong is an error of its own, which takes far more:
what strangers send is measured before it is read.

JSON as it must be, and values of the kind they must be. Knows no vendor.

What other parsers let pass (NaN, endless numbers, a key given twice) is refused: each reader would
understand it differently, and none of it can be kept in the database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any, NoReturn

from dialectic.core.models.messages import COUNT_MAX

WINDOW_BYTES = 1 << 16
_IN, _OUT = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _IN + 2 * _OUT)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def has_too_many(body: bytes, values_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Say whether lists and objects hold more values than that, by the commas between them.

    What is nested without a comma is counted as one: its depth is limited already.
    """
    if body.count(b",") < values_max:
        return False
    commas = sum(outside.count(b",") for outside in _list_outside(body, window_bytes))
    return commas >= values_max


def is_too_deep(body: bytes, depth_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Say whether brackets outside of texts are nested deeper than that; nothing is parsed.

    A body may be made of millions of the shortest texts and lists: none is looked at one by one.
    """
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    depth = 0
    for steps in _list_steps(body, window_bytes):
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > depth_max:
            return True
        depth += steps.count(_IN) - steps.count(_OUT)
    return False


def _list_steps(body: bytes, window_bytes: int) -> Iterator[bytes]:
    """List, window by window, the steps in and out that stand outside of texts."""
    for outside in _list_outside(body, window_bytes):
        yield outside.translate(_STEPS, _NO_BRACKETS)


def _list_outside(body: bytes, window_bytes: int) -> Iterator[bytes]:
    """List, window by window, what stands outside of texts."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_inside = 0
    for start in range(0, len(plain), window_bytes):
        parts = plain[start : start + window_bytes].split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside = (is_inside + len(parts) - 1) % 2


SHOWN_CHARS_MAX = 2_000


class MalformedJson(ValueError):
    """What came makes no sense; `shown` is the part of it that did not."""

    def __init__(self, why: str, shown: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.shown = shown[:SHOWN_CHARS_MAX]


def parse_json(text: str) -> Any:
    """Parse one JSON value, strictly."""
    try:
        return _DECODER.decode(text)
    except MalformedJson as error:
        raise MalformedJson(error.why, text) from None
    except RecursionError:
        raise MalformedJson("JSON is nested too deeply", text) from None
    except ValueError as error:  # also for a number of thousands of digits
        why = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise MalformedJson(f"JSON does not parse: {why}", text) from None


def require_object(value: Any, name: str) -> dict[str, Any]:
    """Require an object; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedJson(f"`{name}` is no object but {type(value).__name__}")
    return value


def require_list(value: Any, name: str) -> list[Any]:
    """Require a list; an absent one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedJson(f"`{name}` is no list but {type(value).__name__}")
    return value


def require_text(value: Any, name: str) -> str:
    """Require a text; an absent one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedJson(f"`{name}` is no text but {type(value).__name__}")
    return value


def find_text(value: Any) -> str | None:
    """Find a text that says something, among values nobody vouches for."""
    return value if isinstance(value, str) and value else None


def find_count(value: Any) -> int | None:
    """Find a count: a whole number, not negative, nor beyond all that is counted here.

    True is none, although Python says so.
    """
    return value if type(value) is int and 0 <= value <= COUNT_MAX else None


def add_counts(values: Sequence[Any]) -> Any:
    """Add up counts; what is none of them is given back as it came."""
    for value in values:
        if find_count(value) is None:
            return value
    return sum(values)


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise MalformedJson("JSON gives a key twice")
    return built


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"JSON holds {name}, which is no number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedJson("JSON holds a number beyond all bounds")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float
)
