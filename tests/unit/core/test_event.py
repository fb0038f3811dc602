"""An event is rendered once, has an id that only its tenant understands, and is for whom it is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.event import (
    Event,
    State,
    build_event,
    format_id,
    is_for,
    parse_id,
    render_position,
)
from tests.cases import each_case

TENANT, OTHER, USER, COLLEAGUE, SESSION = (UUID(int=n) for n in range(1, 6))


def build_row(**columns: Any) -> dict[str, Any]:
    return {
        "seq": 7,
        "id": 70,
        "user_id": USER,
        "session_id": SESSION,
        "type": "dialectic_progress_update",
        "title": "Done",
        "message": None,
        "link_path": "/sessions/1",
        "data": {"message": "1 of 3\nlines “ü”"},
        "is_internal_event": True,
        "created_at": datetime(2026, 11, 16, tzinfo=UTC),
        **columns,
    }


def parse_frame(frame: bytes) -> dict[str, str]:
    assert frame.endswith(b"\n\n")
    lines = frame.decode().removesuffix("\n\n").split("\n")
    return dict(line.split(": ", 1) for line in lines)


def test_an_event_is_one_frame_of_three_lines_whatever_it_says() -> None:
    event = build_event(TENANT, build_row(type="two\r\nlines"))

    frame = parse_frame(event.wire)

    assert list(frame) == ["id", "event", "data"]
    assert frame["event"] == "two lines"
    assert parse_id(TENANT, frame["id"]) == 7
    assert json.loads(frame["data"]) == event.body
    assert event.body == {
        "id": 7,
        "type": "two\r\nlines",
        "created_at": "2026-11-16T00:00:00+00:00",
        "session_id": str(SESSION),
        "is_internal_event": True,
        "data": {"message": "1 of 3\nlines “ü”"},
    }


def test_a_message_says_what_a_list_of_messages_shows() -> None:
    body = build_event(TENANT, build_row(is_internal_event=False)).body

    assert body["notification_id"] == 70
    assert (body["title"], body["message"], body["link_path"]) == ("Done", None, "/sessions/1")


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_an_id_means_something_to_its_tenant_alone(seq: int) -> None:
    assert parse_id(TENANT, format_id(TENANT, seq)) == seq
    assert parse_id(OTHER, format_id(TENANT, seq)) is None


@given(st.text())
def test_no_text_but_an_id_is_taken_for_one(text: str) -> None:
    found = parse_id(TENANT, text)

    assert found is None or format_id(TENANT, found) == text


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
        "a message, to whom it is addressed",
        "and to nobody else",
        "a message to nobody in particular, to all",
        "what belongs to no session, to nobody else",
    ],
)
def test_it_is_told(columns: dict[str, Any], user_id: UUID, *, is_told: bool) -> None:
    event = build_event(TENANT, build_row(**columns))

    assert is_for(event, user_id, None) is is_told


def test_who_follows_one_session_is_not_told_of_others() -> None:
    event = Event(1, None, SESSION, b"")

    assert is_for(event, USER, SESSION)
    assert not is_for(event, USER, UUID(int=99))


def test_a_state_says_that_all_before_it_is_to_be_forgotten() -> None:
    frame = parse_frame(State(9, "too_old", [{"id": "s"}]).render(TENANT))

    assert frame["event"] == "state"
    assert parse_id(TENANT, frame["id"]) == 9
    body = json.loads(frame["data"])
    assert body == {"reset": True, "reason": "too_old", "sessions": [{"id": "s"}]}


def test_a_sign_of_life_moves_a_client_on_without_an_event() -> None:
    comment, position, *rest = render_position(TENANT, 9).decode().split("\n")

    assert comment.startswith(":")
    assert parse_id(TENANT, position.removeprefix("id: ")) == 9
    assert rest == ["", ""]
