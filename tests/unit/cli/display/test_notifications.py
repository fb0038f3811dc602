"""A notification is shown with what to do about it, as long as there is something to do."""

from __future__ import annotations

from typing import Any

from dialectic.cli.display.notifications import describe_notification
from dialectic.contract.notifications import Notification
from tests.sample_events import NOW, SESSION
from tests.unit.contract.test_notifications import ROW


def describe(**columns: Any) -> list[str]:
    return list(describe_notification(Notification.model_validate({**ROW, **columns})))


def test_an_unread_one_has_a_title_a_message_and_a_command() -> None:
    head, message, advice = describe()

    assert head.startswith("   12  2026-11-1")
    assert head.endswith("  Hall: Synthesis failed")
    assert message.strip() == "It failed."
    assert advice.strip() == f"try: dialectic retry {str(SESSION)[:8]}"


def test_one_that_was_read_still_says_what_helps() -> None:
    head, _, advice = describe(read_at=NOW)

    assert head.endswith("  (read)")
    assert "dialectic retry" in advice


def test_one_that_is_resolved_asks_for_nothing() -> None:
    head, message = describe(read_at=NOW, resolved_at=NOW)

    assert head.endswith("  (resolved)")
    assert message.strip() == "It failed."


def test_one_of_a_newer_server_is_shown_as_far_as_it_is_known() -> None:
    assert describe(title=None, message=None, remedy={"action": "pray"})[0].endswith(
        "session_failed"
    )
