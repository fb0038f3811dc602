"""Load named SQL statements from sql/queries/*.sql, each under a `-- name:` line."""

from __future__ import annotations

import functools
import re
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@functools.cache
def load_queries(area: str) -> dict[str, str]:
    """Load the statements of one area, by name."""
    text = files("dialectic.db.sql").joinpath("queries", f"{area}.sql").read_text(encoding="utf-8")
    parts = _NAME.split(text)
    return {name: body.strip() for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def list_areas() -> list[str]:
    """List all areas, for the test that prepares every statement."""
    folder = files("dialectic.db.sql").joinpath("queries")
    return sorted(entry.name.removesuffix(".sql") for entry in folder.iterdir())
