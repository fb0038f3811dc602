"""What the doctor says of an endpoint, and when it has nothing to say."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dialectic.cli.commands.doctor import describe_faults, describe_pace

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)


def build_row(**changes: Any) -> dict[str, Any]:
    return {
        "endpoint": "openai",
        "circuit": "closed",
        "reason": None,
        "message": None,
        "opened_at": None,
        "probe_in_s": None,
        "closed_s": 0.0,
        "rate_per_minute": None,
        "key_refused_at": None,
        "key_message": None,
        **changes,
    }


def test_of_an_endpoint_that_works_nothing_is_said() -> None:
    assert list(describe_faults(build_row())) == []
    assert describe_pace(build_row()) is None


def test_an_open_circuit_is_told_with_its_reason_and_its_next_try() -> None:
    row = build_row(
        circuit="open",
        reason="provider_failing",
        message="HTTP 500",
        opened_at=NOON,
        probe_in_s=12.4,
    )
    (words,) = describe_faults(row)
    assert words == (
        "openai: fails since 2026-11-16 12:00 UTC (HTTP 500) and is tried in 12 s; "
        "until then no call goes there."
    )
    (probing,) = describe_faults({**row, "circuit": "probing", "probe_in_s": -3.0})
    assert "is tried just now" in probing
    (due,) = describe_faults({**row, "probe_in_s": -3.0})
    assert "is tried in 0 s" in due


def test_an_empty_account_and_a_refused_key_are_told_with_what_to_do() -> None:
    row = build_row(
        circuit="open",
        reason="provider_quota",
        message="No money",
        opened_at=NOON,
        probe_in_s=3000.0,
        key_refused_at=NOON,
        key_message="Unknown key",
    )
    empty, refused = describe_faults(row)
    assert "is empty since 2026-11-16 12:00 UTC (No money)" in empty
    assert "dialectic resume" in empty
    assert "is refused since 2026-11-16 12:00 UTC (Unknown key)" in refused
    assert "dialectic retry" in refused


def test_an_endpoint_that_asked_for_patience_is_told_with_its_pace() -> None:
    assert describe_pace(build_row(closed_s=7.2, rate_per_minute=41.6)) == (
        "openai: takes no call for 7 s, as it asked; gets 42 requests a minute at most, and more "
        "soon."
    )
