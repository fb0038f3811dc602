"""Pages of lists: cursors that clients hand back unread. Pure."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Generic, TypeVar
from uuid import UUID

from fastapi import Query
from pydantic import BaseModel, Field

from dialectic.errors import InvalidCursor
from dialectic.store.lists import Page

T = TypeVar("T")
LIMIT_MAX = 200
LIMIT_DEFAULT = 50
DIGITS_MAX = 19

Cursor = Annotated[
    str | None,
    Query(description="`next_cursor` of the page before this one.", max_length=200),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="How many at most.")]


class Listing(BaseModel, Generic[T]):
    """One page of a list."""

    items: list[T]
    next_cursor: str | None = Field(
        description="Give it as `cursor` to read on; null if there is no more."
    )


def build_cursor(kind: str, *key: datetime | UUID | int) -> str:
    """Build a cursor of a row's key; the kind of list keeps those of others away."""
    parts = [part.isoformat() if isinstance(part, datetime) else str(part) for part in key]
    return base64.urlsafe_b64encode(json.dumps([kind, *parts]).encode()).decode().rstrip("=")


def parse_cursor(kind: str, cursor: str) -> list[str]:
    """Read the parts of a key out of a cursor of this kind of list."""
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        found = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, RecursionError):
        raise InvalidCursor from None
    if not isinstance(found, list) or not all(isinstance(part, str) for part in found):
        raise InvalidCursor
    if not found or found[0] != kind:
        raise InvalidCursor
    return found[1:]


def parse_number(kind: str, cursor: str) -> int:
    """Read the number out of a cursor of a list that has numbers."""
    match parse_cursor(kind, cursor):
        case [number] if number.isascii() and number.isdecimal() and len(number) < DIGITS_MAX:
            return int(number)
        case _:
            raise InvalidCursor


def build_page(kind: str, cursor: str | None, limit: int) -> Page:
    """Build the page that a client asks for; one row more tells whether there is another."""
    if cursor is None:
        return Page(limit + 1)
    match parse_cursor(kind, cursor):
        case [when, row_id]:
            try:
                at = datetime.fromisoformat(when)
                key = (at, UUID(row_id))
            except ValueError:
                raise InvalidCursor from None
            if at.tzinfo is None or not datetime(1970, 1, 1, tzinfo=UTC) < at:
                raise InvalidCursor
            return Page(limit + 1, key)
        case _:
            raise InvalidCursor


def build_listing(
    kind: str, rows: Sequence[dict[str, Any]], limit: int
) -> tuple[Sequence[dict[str, Any]], str | None]:
    """Cut what was fetched to a page, with the cursor of the next one if there is more."""
    if len(rows) <= limit:
        return rows, None
    last = rows[limit - 1]
    return rows[:limit], build_cursor(kind, last["created_at"], last["id"])
