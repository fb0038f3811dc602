"""How all work stands, and what was counted: figures that name nobody, for operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from dialectic.db.counters import Counters
from dialectic.db.pool import CONNECTION_LOST, Database
from dialectic.db.queries import load_queries
from dialectic.errors import DialecticError

SQL = load_queries("figures")
PATIENCE_S = 2.0

Fetch: TypeAlias = Callable[..., Awaitable[list[asyncpg.Record]]]


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is under way, what waits, and what happened so far."""

    open_jobs: Mapping[str, int]
    holds_pending: int
    files_waiting: int
    files_discarded: int
    events_unnumbered: int
    # Calls whose usage was not believed, and those that cost more than was held for them.
    usages_doubted: int
    overruns: int
    # Of real money alone.
    overrun_credits: int
    tallies: Mapping[str, int]


async def load_statistics(db: Database) -> Statistics:
    """Load the figures, over all tenants."""
    (row,) = await db.fetch(SQL["load_figures"], patience_s=PATIENCE_S)
    return Statistics(**dict(row))


async def flush_counters(fetch: Fetch, counters: Counters) -> None:
    """Add what was counted here to what all processes have counted, or keep it for the next time.

    What an answer is lost for may be counted twice: that something happened matters, and how often,
    not the very number.
    """
    counts = counters.take()
    if not counts:
        return
    try:
        await fetch(SQL["add_tallies"], [str(name) for name in counts], list(counts.values()))
    except (DialecticError, asyncpg.PostgresError, *CONNECTION_LOST):
        counters.put_back(counts)
        raise


async def ping(db: Database) -> None:
    """Ask the database for a sign of life, without much patience."""
    await db.fetch(SQL["ping"], patience_s=PATIENCE_S)
