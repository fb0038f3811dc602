"""A request as a value: built here, sent by a client.

Each noun has a module with its calls. A call knows its path, its body, how to parse its response,
and whether it may be retried when its outcome is unknown. The client knows the server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar
from uuid import uuid4

from pydantic import BaseModel, ValidationError

from dialectic.contract.base import Page, RequestBody
from dialectic.errors import InvalidValue

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=RequestBody)
PREFIX = "/api/v1"
Query: TypeAlias = Mapping[str, str | list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call(Generic[T]):
    """A request, and how to parse its response."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: Query = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: RequestBody | None = None
    # The file that is streamed as the body.
    file: Path | None = None
    # The idempotency key: the server runs the call once per key. "" until the client sets it.
    key: str | None = None
    timeout_s: float | None = None

    @property
    def can_repeat(self) -> bool:
        """Whether a retry is safe even if the first request was executed."""
        return self.method == "GET" or self.key is not None


def build_query(**wishes: object) -> Query:
    """Build a query string; None values are left out, the values of a list repeat the name."""

    def show(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {
        name: list(map(show, value)) if isinstance(value, list) else show(value)
        for name, value in wishes.items()
        if value is not None
    }


def fill(kind: type[R], /, **fields: object) -> R:
    """Build a request body; None values are left out."""
    try:
        return kind(**{name: value for name, value in fields.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"]))
        raise InvalidValue(
            f"{where}: {first['msg']}.", reason="validation_failed", subject=where
        ) from None


def ignore_body(_body: bytes) -> None:
    """Parse an empty response."""


def get(path: str, kind: type[M], /, **query: object) -> Call[M]:
    """Build a read request."""
    return Call(method="GET", path=path, read=kind.model_validate_json, query=build_query(**query))


def get_bytes(path: str, /, **query: object) -> Call[bytes]:
    """Build a read request whose response is not JSON."""
    return Call(method="GET", path=path, read=bytes, query=build_query(**query))


def act(
    path: str,
    kind: type[M],
    body: RequestBody | None = None,
    *,
    key: str | None = None,
    method: str = "POST",
    timeout_s: float | None = None,
) -> Call[M]:
    """Build a write request, which gets an idempotency key."""
    return Call(
        method=method,
        path=path,
        read=kind.model_validate_json,
        body=body,
        key=key or "",
        timeout_s=timeout_s,
    )


def add_key(call: Call[T]) -> Call[T]:
    """Give a write call its idempotency key, before the first attempt."""
    return replace(call, key=str(uuid4())) if call.key == "" else call


def build_next(call: Call[Page[T]], page: Page[T]) -> Call[Page[T]] | None:
    """Build the call for the page after this one; None after the last."""
    if page.next_cursor is None:
        return None
    return replace(call, query={**call.query, "cursor": page.next_cursor})
