"""Anonymous statistics for operators: open work of all tenants, and counters of processes.

Events that have no row, such as deadlocks, are counted in the process, which flushes its counters
to the database.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dialectic.db.queries import build_row, load_queries

if TYPE_CHECKING:
    import asyncpg

    from dialectic.db.pool import Database

SQL = load_queries("figures")
PATIENCE_S = 2.0

Fetch: TypeAlias = "Callable[..., Awaitable[list[asyncpg.Record]]]"


class CounterName(enum.StrEnum):
    """The names of the counters, as the database stores them."""

    DEADLOCK = "deadlock"
    SERIALIZATION = "serialization"
    LOCK_TIMEOUT = "lock_timeout"
    FINISH_REASON_UNKNOWN = "finish_reason_unknown"


class Counters:
    """How often each event happened since the last flush."""

    def __init__(self) -> None:
        self._counts: Counter[CounterName] = Counter()

    def count(self, what: CounterName) -> None:
        """Add one to a counter."""
        self._counts[what] += 1

    def take(self) -> Mapping[CounterName, int]:
        """Return the counts and reset them to zero."""
        taken, self._counts = self._counts, Counter()
        return taken

    async def flush(self, fetch: Fetch) -> None:
        """Add the counts to the database; keep them for the next flush if that fails.

        If the response is lost, counts may be added twice. That is acceptable: they are
        approximate.
        """
        counts = self.take()
        if not counts:
            return
        try:
            await fetch(SQL["add_tallies"], [str(name) for name in counts], list(counts.values()))
        except BaseException:
            self._counts.update(counts)
            raise


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
    return build_row(Statistics, row)


async def ping(db: Database) -> None:
    """Check that the database responds, within `PATIENCE_S`."""
    await db.fetch(SQL["ping"], patience_s=PATIENCE_S)
