"""What happens in this process that leaves no row and someone should know of, counted by name.

Knows nobody who is told of it: whoever tells takes what was counted.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Mapping


class CounterName(enum.StrEnum):
    """What is counted; the database keeps it under these names."""

    DEADLOCK = "deadlock"
    SERIALIZATION = "serialization"
    LOCK_TIMEOUT = "lock_timeout"
    FINISH_REASON_UNKNOWN = "finish_reason_unknown"


class Counters:
    """How often each happened since someone was told."""

    def __init__(self) -> None:
        self._counts: Counter[CounterName] = Counter()

    def count(self, what: CounterName) -> None:
        """Count one more."""
        self._counts[what] += 1

    def take(self) -> Mapping[CounterName, int]:
        """Take what was counted, to tell it; counting begins anew."""
        taken, self._counts = self._counts, Counter()
        return taken

    def put_back(self, counts: Mapping[CounterName, int]) -> None:
        """Put back what could not be told."""
        self._counts.update(counts)
