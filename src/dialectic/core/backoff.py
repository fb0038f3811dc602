"""Exponential back-off: the delay before the next retry. Pure: randomness is passed in."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TypeAlias

# Enough to reach any maximum; more would overflow.
DOUBLINGS_MAX = 32

Uniform: TypeAlias = Callable[[float, float], float]
"""Draws a number from a range, like `random.uniform`."""


def compute_delay_s(
    tries: int, first_s: float, max_s: float, uniform: Uniform | None = None
) -> float:
    """Compute the delay after a number of tries, from 0; it doubles up to the maximum.

    With `uniform`, adds jitter: the delay is random between half and all of it.
    """
    longest_s = min(first_s * 2.0 ** min(tries, DOUBLINGS_MAX), max_s)
    return longest_s if uniform is None else uniform(longest_s / 2, longest_s)


def iterate_delays(first_s: float, max_s: float, uniform: Uniform | None = None) -> Iterator[float]:
    """Yield the delays of successive tries, without end."""
    return (compute_delay_s(tries, first_s, max_s, uniform) for tries in itertools.count())
