"""How often something may be asked for, by a tenant or an address, in this process."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field

from dialectic.errors import TooManyRequests

KEYS_MAX = 10_000


@dataclass(slots=True)
class RequestRates:
    """A rate for each key; as many requests as one second allows may come at once."""

    per_s: float
    burst: float | None = None
    # When each key has used up what it was allowed, on the monotonic clock.
    used_until: dict[Hashable, float] = field(default_factory=dict)

    def admit(self, key: Hashable, what: str) -> None:
        """Count a request; raise if there were too many."""
        now, burst = time.monotonic(), self.per_s if self.burst is None else self.burst
        until = max(now, self.used_until.get(key, 0.0)) + 1 / self.per_s
        wait_s = until - now - burst / self.per_s
        if wait_s > 1e-9:
            raise TooManyRequests(
                f"Rate limit reached: {self.per_s:g} {what} per second. Retry in {wait_s:.1f} s.",
                retry_after_s=wait_s,
            )
        if key not in self.used_until and len(self.used_until) >= KEYS_MAX:
            self.used_until = {k: at for k, at in self.used_until.items() if at > now}
        self.used_until[key] = until
