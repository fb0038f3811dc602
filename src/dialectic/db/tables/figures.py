"""Anonymous statistics for operators: open work, and counters."""

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
    """Open work, waiting work, and totals so far."""

    open_jobs: Mapping[str, int]
    holds_pending: int
    files_waiting: int
    files_discarded: int
    events_unnumbered: int
    # Calls whose reported usage was implausible, and calls that cost more than their hold.
    usages_doubted: int
    overruns: int
    # Real money only.
    overrun_credits: int
    tallies: Mapping[str, int]


async def load_statistics(db: Database) -> Statistics:
    """Load the statistics of all tenants."""
    (row,) = await db.fetch(SQL["load_figures"], patience_s=PATIENCE_S)
    return Statistics(**dict(row))


async def flush_counters(fetch: Fetch, counters: Counters) -> None:
    """Add this process's counts to the database; keep them for the next flush if that fails.

    If the response is lost, counts may be added twice. That is acceptable: they are approximate.
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
    """Check that the database responds, within `PATIENCE_S`."""
    await db.fetch(SQL["ping"], patience_s=PATIENCE_S)
