"""A request that is built and not sent, and what is common to all answers. Pure.

One module for each noun has the calls and the answers that belong to it. Whoever sends a call knows
the server; a call knows its path, what it carries, how its answer is read, and whether it may be
sent again when nobody knows what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from dialectic.contract.base import RequestBody
from dialectic.errors import InvalidValue

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=RequestBody)
PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how to read the answer to it."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: RequestBody | None = None
    # The name under which it is done once, however often it is sent; "" until it is given one.
    key: str | None = None
    timeout_s: float | None = None

    @property
    def can_repeat(self) -> bool:
        """Whether it may be sent again although it may have been carried out."""
        return self.method == "GET" or self.key is not None


def build_query(**wishes: object) -> dict[str, str]:
    """Write a query as the API reads it; what is None is not said."""
    shown = {name: value for name, value in wishes.items() if value is not None}
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in shown.items()
    }


def fill(kind: type[R], /, **fields: object) -> R:
    """Build the body of a request; a field that is None is left out."""
    try:
        return kind(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"]))
        raise InvalidValue(
            f"{where}: {first['msg']}.", reason="validation_failed", subject=where
        ) from None


def ignore_body(_body: bytes) -> None:
    """Read nothing out of an answer that has nothing in it."""


def get(path: str, kind: type[M], /, **query: object) -> Call[M]:
    """Build a request that changes nothing."""
    return Call(method="GET", path=path, read=kind.model_validate_json, query=build_query(**query))


def get_bytes(path: str, /, **query: object) -> Call[bytes]:
    """Build a request for something that is no JSON."""
    return Call(method="GET", path=path, read=bytes, query=build_query(**query))


def act(
    path: str,
    kind: type[M],
    body: RequestBody | None = None,
    *,
    key: str | None = None,
    method: str = "POST",
) -> Call[M]:
    """Build a request that changes something, once."""
    return Call(method=method, path=path, read=kind.model_validate_json, body=body, key=key or "")
