"""Waits double up to a longest one, and chance only shortens them."""

from __future__ import annotations

import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.backoff import compute_delay_s, iterate_delays


def test_waits_double_until_the_longest_one() -> None:
    delays = itertools.islice(iterate_delays(0.05, 1.0), 7)
    assert list(delays) == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


@given(st.integers(0, 10**9), st.integers())
def test_chance_shortens_a_wait_by_half_at_most(tries: int, seed: int) -> None:
    longest_s = compute_delay_s(tries, 0.2, 10.0)
    assert longest_s <= 10.0
    delay_s = compute_delay_s(tries, 0.2, 10.0, random.Random(seed).uniform)
    assert longest_s / 2 <= delay_s <= longest_s
