"""A notification is read by programs of any version, and never taken for an event of a session."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from dialectic.contract.events import NotificationEvent, parse_event
from dialectic.contract.notifications import (
    ID_MAX,
    Notification,
    NotificationPage,
    NotificationType,
    ReadRequest,
)
from dialectic.contract.problems import ProblemRemedy
from dialectic.errors import RemedyAction
from tests.sample_events import NOW, SESSION, TYPES, build_frame

ROW: dict[str, Any] = {
    "id": 12,
    "type": "session_failed",
    "title": "Hall: Synthesis failed",
    "message": "It failed.",
    "link_path": f"/sessions/{SESSION}",
    "session_id": SESSION,
    "remedy": {"action": "retry", "session_id": str(SESSION)},
    "data": {},
    "read_at": None,
    "resolved_at": None,
    "created_at": NOW,
}


def test_a_notification_has_a_remedy_for_programs() -> None:
    one = Notification.model_validate(ROW)

    assert one.remedy == ProblemRemedy(action=RemedyAction.RETRY, session_id=str(SESSION))


def test_a_remedy_of_a_newer_server_is_left_out() -> None:
    assert Notification.model_validate({**ROW, "remedy": {"action": "pray"}}).remedy is None
    assert Notification.model_validate({**ROW, "remedy": None}).remedy is None


def test_a_page_counts_what_is_unread_on_all_pages() -> None:
    page = NotificationPage.model_validate({"items": [ROW], "next_cursor": "x", "unread_count": 7})

    assert (page.items[0].id, page.unread_count) == (12, 7)


def test_no_type_of_a_notification_is_a_type_of_event() -> None:
    assert not set(NotificationType) & set(TYPES)


@pytest.mark.parametrize("kind", NotificationType)
def test_a_notification_in_a_stream_is_parsed_as_one(kind: NotificationType) -> None:
    shown = {name: ROW[name] for name in ("title", "message", "link_path", "remedy")}
    frame = build_frame(kind, {}, is_internal_event=False, notification_id=12, **shown)

    event = parse_event(frame)

    assert isinstance(event, NotificationEvent)
    assert (event.type, event.title, event.remedy) == (
        kind,
        ROW["title"],
        ProblemRemedy(action=RemedyAction.RETRY, session_id=str(SESSION)),
    )


@pytest.mark.parametrize("wrong", [{"up_to": -1}, {"up_to": ID_MAX + 1}, {"ids": [1]}])
def test_a_request_to_mark_something_else_as_read_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ReadRequest.model_validate(wrong)
