"""A failpoint strikes where and when it was told to, and is nothing at all when it was not."""

from __future__ import annotations

import pytest

from dialectic.engine import ACTIONS, POINTS, Failpoints
from dialectic.errors import ConfigurationError, ProviderTransient
from tests.problems import refusing


def test_unarmed_points_do_nothing() -> None:
    failpoints = Failpoints.parse("")
    for point in POINTS:
        failpoints.reach(point)
    assert failpoints.reached == {}


def test_an_armed_point_strikes_the_first_time_and_no_other() -> None:
    failpoints = Failpoints.parse("after_reply=error")
    failpoints.reach("before_send")
    with refusing(ProviderTransient, "after_reply"):
        failpoints.reach("after_reply")
    failpoints.reach("after_reply")


def test_a_point_strikes_the_time_it_was_told_to() -> None:
    failpoints = Failpoints.parse("after_reply=error@3")
    failpoints.reach("after_reply")
    failpoints.reach("after_reply")
    with pytest.raises(ProviderTransient):
        failpoints.reach("after_reply")
    failpoints.reach("after_reply")


def test_several_points_are_counted_apart() -> None:
    failpoints = Failpoints.parse(" after_claim=error@2 , before_commit=error,")
    failpoints.reach("after_claim")
    with pytest.raises(ProviderTransient):
        failpoints.reach("before_commit")
    with pytest.raises(ProviderTransient):
        failpoints.reach("after_claim")


@pytest.mark.parametrize(
    "text",
    [
        "somewhere=kill",
        "after_claim=explode",
        "after_claim",
        "after_claim=",
        "=kill",
        "after_claim=kill@x",
        "after_claim=kill@-1",
        "after_claim=kill@1.5",
        "after_claim=kill@0",
        "after_claim=kill;after_reply=kill",
    ],
)
def test_what_is_not_known_is_refused_with_what_is(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Failpoints.parse(f"before_send=stop, {text}")
    for word in (repr(text), *POINTS, *ACTIONS):
        assert word in caught.value.message


def test_an_unknown_failpoint_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Failpoints.parse("").reach("somewhere")
