"""In-process counters for events that have no row, such as deadlocks and lock timeouts.

Each process flushes them to the database (`figures.flush_counters`).
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping


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

    def put_back(self, counts: Mapping[CounterName, int]) -> None:
        """Add counts back that could not be flushed."""
        self._counts.update(counts)
