"""Limits let in what is allowed, over any length of time, and no more."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic_simulator.conversation import Refused
from dialectic_simulator.limits import Limits
from dialectic_simulator.script import Section


def is_let_in(limits: Limits, tokens: int, now_s: float) -> bool:
    try:
        limits.enter("m", tokens, now_s)
    except Refused:
        return False
    return True


@given(
    st.integers(1, 600),
    st.sampled_from([1.0, 10.0, 60.0]),
    st.lists(st.floats(0.0, 20.0), min_size=1, max_size=200),
)
def test_no_more_requests_pass_than_the_rate_and_one_window_allow(
    per_minute: int, window_s: float, pauses_s: list[float]
) -> None:
    limits = Limits(Section(requests_per_minute=per_minute, limit_window_s=window_s))
    now_s, let_in = 0.0, 0
    for pause_s in pauses_s:
        now_s += pause_s
        let_in += is_let_in(limits, 1, now_s)
    allowed = max(1.0, per_minute * window_s / 60) + per_minute * now_s / 60
    assert 1 <= let_in <= allowed + 1e-6


@given(st.lists(st.integers(1, 3_000), min_size=1, max_size=60))
def test_who_waits_as_long_as_told_is_let_in(amounts: list[int]) -> None:
    limits = Limits(Section(requests_per_minute=30, tokens_per_minute=3_000, limit_window_s=10))
    now_s = 0.0
    for amount in amounts:
        for _ in range(3):
            try:
                limits.enter("m", amount, now_s)
            except Refused as refused:
                now_s += float(refused.trouble.retry_after or "nan")
            else:
                break
        else:
            pytest.fail(f"{amount} is never let in")
        limits.leave(0)


def test_what_is_refused_takes_nothing() -> None:
    limits = Limits(Section(requests_per_minute=2, tokens_per_minute=100))
    assert is_let_in(limits, 90, 0.0)
    assert not is_let_in(limits, 50, 0.0)
    assert is_let_in(limits, 10, 0.0)
    assert not is_let_in(limits, 1, 0.0)


def test_an_endpoint_without_limits_shows_none_and_lets_all_in() -> None:
    limits = Limits(Section())
    assert all(is_let_in(limits, 10**9, 0.0) for _ in range(1_000))
    assert limits.describe().named == {}
    assert limits.running == 1_000
