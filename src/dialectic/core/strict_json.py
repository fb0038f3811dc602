"""Strict JSON: limits that are checked before parsing, a strict parser, and type checks. Pure.

Every parsed value takes memory, and every invalid one takes more for its error: the size and depth
of untrusted JSON are checked first.

The parser rejects what others accept (NaN, infinite numbers, duplicate keys): readers interpret it
differently, and PostgreSQL cannot store it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn, TypeAlias

Json: TypeAlias = dict[str, Any]
"""A JSON object whose fields are not listed as a type."""
JsonObject: TypeAlias = Mapping[str, object]
"""A JSON object of others, not checked yet: its values are read with `read_…` and `find_…`."""

# The highest count that is accepted; no real call comes near it.
COUNT_MAX = 2**31 - 1

WINDOW_BYTES = 1 << 16
_IN, _OUT = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _IN + 2 * _OUT)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


def has_too_many(body: bytes, values_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Tell whether a body has more values than the limit, by counting commas.

    Values nested without a comma count as one: their depth is limited already.
    """
    if body.count(b",") < values_max:
        return False
    commas = sum(outside.count(b",") for outside in _list_outside(body, window_bytes))
    return commas >= values_max


def is_too_deep(body: bytes, depth_max: int, *, window_bytes: int = WINDOW_BYTES) -> bool:
    """Tell whether brackets outside strings are nested deeper than the limit, without parsing.

    A body may have millions of short strings and lists, so single values are not looped over.
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
    """Yield, window by window, the opening and closing brackets outside strings."""
    for outside in _list_outside(body, window_bytes):
        yield outside.translate(_STEPS, _NO_BRACKETS)


def _list_outside(body: bytes, window_bytes: int) -> Iterator[bytes]:
    """Yield, window by window, the bytes outside strings."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_inside = 0
    for start in range(0, len(plain), window_bytes):
        parts = plain[start : start + window_bytes].split(b'"')
        yield b"".join(parts[is_inside::2])
        is_inside = (is_inside + len(parts) - 1) % 2


SHOWN_CHARS_MAX = 2_000


class MalformedJson(ValueError):
    """The input is malformed; `shown` is the malformed part."""

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
    except ValueError as error:  # also raised for a number of thousands of digits
        why = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise MalformedJson(f"JSON does not parse: {why}", text) from None


def require_object(value: object, name: str) -> JsonObject:
    """Require an object; None becomes an empty one."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise MalformedJson(f"`{name}` must be an object, not {type(value).__name__}")
    return value


def require_list(value: object, name: str) -> list[object]:
    """Require a list; None becomes an empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedJson(f"`{name}` must be a list, not {type(value).__name__}")
    return value


def require_text(value: object, name: str) -> str:
    """Require a string; None becomes an empty one."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MalformedJson(f"`{name}` must be a string, not {type(value).__name__}")
    return value


def read_object(data: JsonObject, name: str) -> JsonObject:
    """Read an object under a key; empty if there is none."""
    return require_object(data.get(name), name)


def read_objects(data: JsonObject, name: str) -> list[JsonObject]:
    """Read a list of objects under a key; empty if there is none."""
    return [require_object(item, name) for item in require_list(data.get(name), name)]


def read_text(data: JsonObject, name: str) -> str:
    """Read a string under a key; empty if there is none."""
    return require_text(data.get(name), name)


def find_text(value: object) -> str | None:
    """Return an untrusted value if it is a non-empty string."""
    return value if isinstance(value, str) and value else None


def find_count(value: object) -> int | None:
    """Return an untrusted value if it is a whole number from 0 to `COUNT_MAX`.

    `True` is rejected: bool is a subclass of int.
    """
    return value if type(value) is int and 0 <= value <= COUNT_MAX else None


def add_counts(values: Sequence[object]) -> object:
    """Add up counts; return the first value that is not a count, if any."""
    total = 0
    for value in values:
        if (count := find_count(value)) is None:
            return value
        total += count
    return total


def _build_object(pairs: list[tuple[str, Any]]) -> Json:
    built = dict(pairs)
    if len(built) < len(pairs):
        raise MalformedJson("JSON has a duplicate key")
    return built


def _refuse_constant(name: str) -> NoReturn:
    raise MalformedJson(f"JSON contains {name}, which is not a number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise MalformedJson("JSON contains a number that is too large")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float
)
