"""Finds a row by the beginning of its id, as people type it. Knows which nouns there are, not what
they mean."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from dialectic.errors import NotFound, UsageError
from dialectic.store.database import Connection


@dataclass(frozen=True, slots=True)
class Noun:
    """What an id is of: its name, the statement that finds it, and what lists all of them."""

    name: str
    statement: str
    remedy: str


async def find_id(connection: Connection, noun: Noun, text: str) -> UUID:
    """Find an id by its beginning, if that means only one; raise what else it means."""
    digits = text.replace("-", "").lower()
    if not digits or digits.strip("0123456789abcdef"):
        raise UsageError(f"{text!r} is not the id of a {noun.name}. {noun.remedy}")
    rows = await connection.fetch(noun.statement, digits)
    if not rows:
        raise NotFound(f"There is no {noun.name} {text!r}. {noun.remedy}")
    if len(rows) > 1:
        ids = ", ".join(str(row["id"]) for row in rows)
        raise UsageError(f"More than one {noun.name} begins with {text!r}: {ids}. Give one whole.")
    found: UUID = rows[0]["id"]
    return found
