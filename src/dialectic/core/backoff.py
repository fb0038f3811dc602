"""Exponential back-off: how long to wait before the next try. Pure: chance is passed in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

# Enough to reach any longest wait; more would overflow.
DOUBLINGS_MAX = 32

Uniform: TypeAlias = Callable[[float, float], float]
"""Draws a number between two, as `random.uniform` does."""


def compute_delay_s(
    tries: int, first_s: float, max_s: float, uniform: Uniform | None = None
) -> float:
    """Compute the wait after a number of tries, from 0 on: it doubles up to the longest.

    With `uniform`, callers who failed together return at any time in the second half of the wait.
    """
    longest_s = min(first_s * 2.0 ** min(tries, DOUBLINGS_MAX), max_s)
    return longest_s if uniform is None else uniform(longest_s / 2, longest_s)


def iterate_delays(first_s: float, max_s: float, uniform: Uniform | None = None) -> Iterator[float]:
    """Yield the waits of tries in a row; they never end."""
    return (compute_delay_s(tries, first_s, max_s, uniform) for tries in itertools.count())
