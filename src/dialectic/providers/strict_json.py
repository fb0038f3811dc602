"""JSON as it must be, and values of the kind they must be. Knows no vendor.

What other parsers let pass (NaN, endless numbers, a key given twice) is refused: each reader would
understand it differently, and none of it can be kept in the database.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, NoReturn

from dialectic.domain.message import COUNT_MAX

SHOWN_CHARS_MAX = 2_000


class Garbled(ValueError):
    """What came makes no sense; `shown` is the part of it that did not."""

    def __init__(self, why: str, shown: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.shown = shown[:SHOWN_CHARS_MAX]


def parse_json(text: str) -> Any:
    """Parse one JSON value, strictly."""
    try:
        return _DECODER.decode(text)
    except Garbled as error:
        raise Garbled(error.why, text) from None
    except RecursionError:
        raise Garbled("JSON is nested too deeply", text) from None
    except ValueError as error:  # also for a number of thousands of digits
        why = error.msg if isinstance(error, json.JSONDecodeError) else "a number is too long"
        raise Garbled(f"JSON does not parse: {why}", text) from None


def require_object(value: Any, name: str) -> dict[str, Any]:
    """Require an object; an absent one is empty."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Garbled(f"`{name}` is no object but {type(value).__name__}")
    return value


def require_list(value: Any, name: str) -> list[Any]:
    """Require a list; an absent one is empty."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise Garbled(f"`{name}` is no list but {type(value).__name__}")
    return value


def require_text(value: Any, name: str) -> str:
    """Require a text; an absent one is empty."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Garbled(f"`{name}` is no text but {type(value).__name__}")
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
        raise Garbled("JSON gives a key twice")
    return built


def _refuse_constant(name: str) -> NoReturn:
    raise Garbled(f"JSON holds {name}, which is no number")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Garbled("JSON holds a number beyond all bounds")
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_build_object, parse_constant=_refuse_constant, parse_float=_parse_float
)
