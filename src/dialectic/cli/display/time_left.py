"""Estimates how long a followed session still takes: its quote, corrected by its own pace. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dialectic.core.money.quote import Duration

# Below this share of the work, the session's own pace says little.
LEARNT_MIN = 0.02
# A pace further off is taken for a disturbance, such as a provider's outage.
FACTOR_MAX = 8.0


@dataclass(frozen=True, slots=True)
class StageShare:
    """How much of a stage is done."""

    finished: int
    planned: int

    @property
    def done(self) -> float:
        return min(1.0, self.finished / self.planned) if self.planned else 1.0


def estimate_left_s(
    durations: Mapping[str, Duration],
    shares: Mapping[str, StageShare],
    before: Mapping[str, StageShare],
    elapsed_s: float,
) -> float:
    """Estimate the remaining seconds of the stages with an expected duration.

    `before` is what was done when the clock started. The more has been done since, the more the
    pace since then counts against the expected one.
    """
    none = StageShare(0, 1)

    def weigh(some: Mapping[str, StageShare]) -> float:
        return sum(each.expected_s * some.get(slug, none).done for slug, each in durations.items())

    whole_s = sum(each.expected_s for each in durations.values())
    done_s = max(0.0, weigh(shares) - weigh(before))
    left_s = max(0.0, whole_s - weigh(shares))
    work_s = done_s + left_s
    if not work_s or done_s / work_s < LEARNT_MIN:
        return max(0.0, left_s - elapsed_s)
    pace = min(max(elapsed_s / done_s, 1 / FACTOR_MAX), FACTOR_MAX)
    learnt = done_s / work_s
    # Half of a deviation counts at once: the square root.
    return left_s * (learnt * pace + (1 - learnt) * math.sqrt(pace))
