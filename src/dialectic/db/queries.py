"""Run named SQL statements from sql/queries/*.sql, and turn their rows into typed objects.

A column fills the field of the same name; a statement renames columns where they differ. Pydantic
converts what the driver returns as plain values: enums, sets, tuples, objects inside JSON.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import TypeAdapter

from dialectic.core.strict_json import Json

if TYPE_CHECKING:
    import asyncpg

    from dialectic.db.pool import Connection, Database

T = TypeVar("T")
FOLDER = Path(__file__).parent / "sql" / "queries"

_ADAPTERS: dict[object, TypeAdapter[Any]] = {}
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load_queries(area: str) -> dict[str, str]:
    """Load the statements of one area, by the names in their `-- name:` lines."""
    text = (FOLDER / f"{area}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def list_areas() -> list[str]:
    """List all areas, for the test that prepares every statement."""
    return sorted(entry.name.removesuffix(".sql") for entry in FOLDER.iterdir())


def build_row(kind: type[T], row: asyncpg.Record | Json) -> T:
    """Build an object from the columns that are named like its fields."""
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    built: T = _ADAPTERS[kind].validate_python(dict(row))
    return built


async def list_rows(
    source: Connection | Database, kind: type[T], statement: str, *arguments: Any
) -> list[T]:
    """Run a statement and build one object per row."""
    return [build_row(kind, row) for row in await source.fetch(statement, *arguments)]


async def find_row(
    source: Connection | Database, kind: type[T], statement: str, *arguments: Any
) -> T | None:
    """Run a statement that returns at most one row; None if it returns none."""
    found = await list_rows(source, kind, statement, *arguments)
    return found[0] if found else None


async def get_row(
    source: Connection | Database, kind: type[T], statement: str, *arguments: Any
) -> T:
    """Run a statement that always returns a row."""
    return (await list_rows(source, kind, statement, *arguments))[0]


async def list_plain(connection: Connection, statement: str, *arguments: Any) -> list[Json]:
    """Run a statement whose rows only pass through, for example to a list of the API."""
    return [dict(row) for row in await connection.fetch(statement, *arguments)]
