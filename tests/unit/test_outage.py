"""A fault that lasts is logged when it begins, not at every try."""

from __future__ import annotations

from dialectic.engine import Outage
from dialectic.errors import StorageUnavailable, UsageError


def test_a_fault_that_comes_and_goes_is_told_once() -> None:
    outage = Outage()
    assert outage.begins(StorageUnavailable("The disk is full.", reason="full"))
    assert outage.ends()
    assert not outage.begins(StorageUnavailable("The disk is full.", reason="full"))
    assert outage.error is not None


def test_another_kind_of_fault_is_told_and_the_first_is_not_told_again() -> None:
    outage = Outage()
    assert outage.begins(StorageUnavailable("The disk is full.", reason="full"))
    assert outage.begins(UsageError("The name is wrong.", reason="name"))
    assert not outage.begins(StorageUnavailable("The disk is full.", reason="full"))


def test_what_ends_twice_had_one_error() -> None:
    outage = Outage()
    outage.begins(UsageError("The name is wrong.", reason="name"))
    assert outage.ends()
    assert not outage.ends()
