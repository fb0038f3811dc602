"""An event is rendered once, and goes to those who may see it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from uuid import UUID

from dialectic.contract.events import (
    Event,
    NotificationEvent,
    SessionSnapshot,
    StateReset,
    UnknownEvent,
)
from dialectic.contract.problems import ProblemRemedy
from dialectic.core.stream_position import parse_id
from dialectic.db.tables.notifications import StoredEvent
from dialectic.errors import RemedyAction
from dialectic.events.frames import EventFrame, build_frame, build_state_frame, render_position
from tests.cases import each_case
from tests.sample_events import NOW, SESSION

TENANT, USER, COLLEAGUE = (UUID(int=n) for n in range(1, 4))
STORED = StoredEvent(
    seq=7,
    id=70,
    user_id=USER,
    session_id=SESSION,
    type="news",
    title="Done",
    message=None,
    link_path="/sessions/1",
    remedy={"action": "retry", "session_id": str(SESSION)},
    data={"message": "1 of 3\nlines “ü”"},
    is_internal_event=True,
    created_at=NOW,
)


def parse_lines(frame: EventFrame) -> dict[str, str]:
    assert frame.wire.endswith(b"\n\n")
    lines = frame.wire.decode().removesuffix("\n\n").split("\n")
    return dict(line.split(": ", 1) for line in lines)


def test_an_event_is_one_frame_of_three_lines_whatever_it_says() -> None:
    frame = build_frame(TENANT, replace(STORED, type="two\r\nlines"))

    lines = parse_lines(frame)

    assert list(lines) == ["id", "event", "data"]
    assert lines["event"] == "two lines"
    assert parse_id(TENANT, lines["id"]) == (7, None)
    assert json.loads(lines["data"]) == {
        "id": 7,
        "type": "two\r\nlines",
        "created_at": "2026-11-16T00:00:00+00:00",
        "session_id": str(SESSION),
        "is_internal_event": True,
        "data": {"message": "1 of 3\nlines “ü”"},
    }


def test_a_client_reads_the_fields_that_were_rendered() -> None:
    frame = build_frame(TENANT, STORED)

    event = frame.parse()

    assert isinstance(event, UnknownEvent)
    body = json.loads(parse_lines(frame)["data"])
    assert event.model_dump(mode="json", exclude_unset=True) == body
    assert list(body) == [name for name in Event.model_fields if name != "resume_id"]


def test_a_message_says_what_a_list_of_messages_shows() -> None:
    event = build_frame(TENANT, replace(STORED, is_internal_event=False)).parse()

    assert isinstance(event, NotificationEvent)
    assert event.notification_id == 70
    assert (event.title, event.message, event.link_path) == ("Done", None, "/sessions/1")
    assert event.remedy == ProblemRemedy(action=RemedyAction.RETRY, session_id=str(SESSION))


@each_case(
    ("columns", "user_id", "is_told"),
    [
        ({}, USER, True),
        ({}, COLLEAGUE, True),
        ({"is_internal_event": False}, USER, True),
        ({"is_internal_event": False}, COLLEAGUE, False),
        ({"is_internal_event": False, "user_id": None}, COLLEAGUE, True),
        ({"session_id": None}, COLLEAGUE, False),
    ],
    ids=[
        "the view of a session, to its owner",
        "and to everyone else of the tenant",
        "a message, to its addressee",
        "and to no other user",
        "a message without an addressee, to all",
        "an event without a session, to no other user",
    ],
)
def test_it_is_told(columns: dict[str, Any], user_id: UUID, *, is_told: bool) -> None:
    assert build_frame(TENANT, replace(STORED, **columns)).is_for(user_id, None) is is_told


def test_who_follows_one_session_is_not_told_of_others() -> None:
    frame = EventFrame(1, None, SESSION, b"")

    assert frame.is_for(USER, SESSION)
    assert not frame.is_for(USER, UUID(int=99))


def test_a_state_says_that_all_before_it_is_to_be_forgotten() -> None:
    session = {
        **dict.fromkeys(SessionSnapshot.model_fields, None),
        **dict.fromkeys(("project_name", "status", "current_stage_slug"), "ü"),
        "id": str(SESSION),
        "project_id": str(TENANT),
        "iteration_count": 1,
    }
    state = StateReset(reason="too_old", sessions=[SessionSnapshot.model_validate(session)])
    frame = build_state_frame(TENANT, 9, state)

    lines = parse_lines(frame)

    assert lines["event"] == "state"
    assert parse_id(TENANT, lines["id"]) == (9, None)
    assert json.loads(lines["data"]) == {
        "reset": True,
        "reason": "too_old",
        "sessions": [session],
    }
    assert frame.parse() == state.model_copy(update={"resume_id": lines["id"]})


def test_a_sign_of_life_moves_a_client_on_without_an_event() -> None:
    comment, position, *rest = render_position(TENANT, 9).decode().split("\n")

    assert comment.startswith(":")
    assert parse_id(TENANT, position.removeprefix("id: ")) == (9, None)
    assert rest == ["", ""]
