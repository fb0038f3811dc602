"""What the doctor says of an endpoint, and when it has nothing to say."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dialectic.cli.commands.doctor import describe_faults, describe_pace
from dialectic.errors import RemedyAction
from dialectic.limits.admission import EndpointState
from tests.problems import check_error

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


WORKING = EndpointState(
    endpoint="openai",
    circuit="closed",
    reason=None,
    message=None,
    opened_at=None,
    probe_in_s=None,
    closed_s=0.0,
    rate_per_minute=None,
    key_refused_at=None,
    key_message=None,
)


def test_of_an_endpoint_that_works_nothing_is_said() -> None:
    assert list(describe_faults(WORKING)) == []
    assert describe_pace(WORKING) is None


def test_an_open_circuit_is_told_with_its_reason_and_its_next_try() -> None:
    row = replace(
        WORKING,
        circuit="open",
        reason="provider_failing",
        message="HTTP 500",
        opened_at=NOON,
        probe_in_s=12.4,
    )
    (failing,) = describe_faults(row)
    check_error(failing, "2026-11-16 12:00", "HTTP 500", "12 s", reason="failing", subject="openai")
    assert failing.remedy is None
    (probing,) = describe_faults(replace(row, circuit="probing", probe_in_s=-3.0))
    check_error(probing, reason="probing")
    (due,) = describe_faults(replace(row, probe_in_s=-3.0))
    check_error(due, " 0 s", reason="failing")


def test_an_empty_account_and_a_refused_key_are_told_with_what_to_do() -> None:
    row = replace(
        WORKING,
        circuit="open",
        reason="provider_quota",
        message="No money",
        opened_at=NOON,
        probe_in_s=3000.0,
        key_refused_at=NOON,
        key_message="Unknown key",
    )
    empty, refused = describe_faults(row)
    noon = "2026-11-16 12:00"
    check_error(empty, noon, "No money", reason="account_empty", action=RemedyAction.RESUME)
    check_error(refused, noon, "Unknown key", reason="key_refused", action=RemedyAction.RETRY)


def test_an_endpoint_that_asked_for_patience_is_told_with_its_pace() -> None:
    assert describe_pace(replace(WORKING, closed_s=7.2, rate_per_minute=41.6)) == (
        "openai: accepts no calls for 7 s, at its request; limited to 42 requests a minute for now."
    )
