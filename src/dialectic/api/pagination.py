"""Pagination with opaque cursors.

Callers pass the functions that fetch rows and build views.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, TypeAlias
from uuid import UUID

from fastapi import Depends, Query

from dialectic.api.dependencies import Reading, RequestContext
from dialectic.app.transaction import Transaction
from dialectic.contract.base import Page, T
from dialectic.core.session_state import Phase
from dialectic.core.stream_position import format_id
from dialectic.core.strict_json import Json
from dialectic.db.pool import Connection
from dialectic.db.tables.board import Moment, read_moment
from dialectic.db.tables.lists import PageQuery, Rows
from dialectic.errors import InvalidCursor

# How the kind of a list ends whose order is by name, not by time.
BY_NAME = ":name"
LIMIT_MAX = 200
LIMIT_DEFAULT = 50
DIGITS_MAX = 19

Cursor = Annotated[
    str | None,
    Query(description="`next_cursor` of the previous page.", max_length=200),
]
Archived = Annotated[
    bool | None,
    Query(description="True for archived projects only, false for all others; absent for both."),
]
Phases = Annotated[
    list[Phase] | None,
    Query(description="Only sessions in one of these phases; of a project, its last session."),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="Maximum number of items.")]


def build_cursor(kind: str, *key: datetime | UUID | int | str) -> str:
    """Build a cursor from a row's key; it is valid only for its kind of list."""
    parts = [part.isoformat() if isinstance(part, datetime) else str(part) for part in key]
    return base64.urlsafe_b64encode(json.dumps([kind, *parts]).encode()).decode().rstrip("=")


def parse_cursor(kind: str, cursor: str) -> list[str]:
    """Parse the key of a cursor for this kind of list."""
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
    """Parse the number of a cursor for a numbered list."""
    match parse_cursor(kind, cursor):
        case [number] if number.isascii() and number.isdecimal() and len(number) < DIGITS_MAX:
            return int(number)
        case _:
            raise InvalidCursor


def build_page(kind: str, cursor: str | None, limit: int) -> PageQuery:
    """Build the query of a page; one extra row shows whether another page follows."""
    if cursor is None:
        return PageQuery(limit + 1)
    match parse_cursor(kind, cursor):
        case [first, row_id]:
            try:
                key = (first if kind.endswith(BY_NAME) else _parse_time(first), UUID(row_id))
            except ValueError:
                raise InvalidCursor from None
            return PageQuery(limit + 1, key)
        case _:
            raise InvalidCursor


def _parse_time(text: str) -> datetime:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None or not datetime(1970, 1, 1, tzinfo=UTC) < at:
        raise InvalidCursor
    return at


@dataclass(frozen=True, slots=True)
class ListRequest:
    """A request for one page of a list."""

    context: RequestContext
    cursor: str | None
    limit: int

    async def page(
        self,
        kind: str,
        fetch: Callable[[Connection, PageQuery], Awaitable[Rows]],
        build: Callable[[Json], T],
    ) -> Page[T]:
        """Return a page ordered by time and id, and where the event stream continues after it."""
        query, tenant_id = build_page(kind, self.cursor, self.limit), self.context.account.tenant_id

        async def read(connection: Connection) -> tuple[Moment, Rows]:
            return await read_moment(connection), await fetch(connection, query)

        moment, rows = await self.context.engine.db.read(tenant_id, read)
        page = build_listing(kind, rows, self.limit, build, ("created_at", "id"))
        page.cursor = format_id(tenant_id, moment.seq, moment.horizon)
        return page

    async def page_of_lines(
        self,
        kind: str,
        fetch: Callable[[Transaction, PageQuery], Awaitable[Rows]],
        build: Callable[[Json], T],
        key: tuple[str, str] = ("created_at", "id"),
    ) -> Page[T]:
        """Return a page of what a use case lists, ordered by time or name and id."""
        query, tenant_id = build_page(kind, self.cursor, self.limit), self.context.account.tenant_id

        async def read(tx: Transaction) -> tuple[Moment, Rows]:
            # The moment first: what changes meanwhile is told again, which is harmless.
            return await read_moment(tx.connection), await fetch(tx, query)

        moment, rows = await self.context.run(read)
        page = build_listing(kind, rows, self.limit, build, key)
        page.cursor = format_id(tenant_id, moment.seq, moment.horizon)
        return page

    async def page_of(
        self,
        load: Callable[[Connection, UUID], Awaitable[object]],
        parent_id: UUID,
        kind: str,
        fetch: Callable[[Connection, PageQuery, UUID], Awaitable[Rows]],
        build: Callable[[Json], T],
    ) -> Page[T]:
        """Return a page of what belongs to a parent; `load` raises if the parent does not exist."""

        async def read(connection: Connection, query: PageQuery) -> Rows:
            await load(connection, parent_id)
            return await fetch(connection, query, parent_id)

        return await self.page(kind, read, build)

    async def numbered_page(
        self,
        kind: str,
        fetch: Callable[[Connection, int | None, int], Awaitable[Rows]],
        build: Callable[[Json], T],
    ) -> Page[T]:
        """Return a page ordered by number, highest first."""
        before = None if self.cursor is None else parse_number(kind, self.cursor)
        rows = await self.context.transact(lambda c: fetch(c, before, self.limit + 1))
        return build_listing(kind, rows, self.limit, build, ("id",))


def build_listing(
    kind: str, rows: Rows, limit: int, build: Callable[[Json], T], key: tuple[str, ...]
) -> Page[T]:
    """Build a page of the fetched rows; if there are more, with the key of its last row."""
    following = None
    if len(rows) > limit:
        following = build_cursor(kind, *(rows[limit - 1][column] for column in key))
    return Page(items=[build(row) for row in rows[:limit]], next_cursor=following)


def _open_list(
    context: Reading, cursor: Cursor = None, limit: Limit = LIMIT_DEFAULT
) -> ListRequest:
    return ListRequest(context, cursor, limit)


Listing: TypeAlias = Annotated[ListRequest, Depends(_open_list)]


def list_whole(items: Iterable[T]) -> Page[T]:
    """Return a short list as one page."""
    return Page(items=list(items), next_cursor=None)
