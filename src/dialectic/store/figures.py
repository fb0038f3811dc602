"""How the work of all tenants stands, in figures that name nobody: for operators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dialectic.store.database import Database
from dialectic.store.queries import load_queries

SQL = load_queries("figures")
PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Figures:
    """What is under way and what waits."""

    open_jobs: Mapping[str, int]
    holds_pending: int
    files_waiting: int
    events_unnumbered: int


async def load_figures(db: Database) -> Figures:
    """Load the figures, over all tenants."""
    (row,) = await db.fetch(SQL["load_figures"], patience_s=PATIENCE_S)
    return Figures(**dict(row))


async def ping(db: Database) -> None:
    """Ask the database for a sign of life, without much patience."""
    await db.fetch(SQL["ping"], patience_s=PATIENCE_S)
