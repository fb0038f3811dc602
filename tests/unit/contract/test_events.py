"""A client parses every event once, keeps what it does not know, and refuses half an event."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dialectic.contract.events import (
    CHANGES,
    Event,
    EventError,
    JobFailed,
    NotificationEvent,
    SessionPaused,
    StageAdvanced,
    StageEnded,
    StateReset,
    UnknownEvent,
    build_stream_schema,
    parse_event,
)
from dialectic.contract.problems import ProblemRemedy
from dialectic.core import sse
from dialectic.core.stream_position import format_id, parse_id
from dialectic.errors import RemedyAction
from tests.cases import each_case
from tests.sample_events import (
    SESSION,
    TYPES,
    build_event,
    build_frame,
    build_received,
    check_stored,
)

TENANT, OTHER, JOB = (UUID(int=n) for n in range(1, 4))
PLACE: dict[str, Any] = {"session_id": SESSION, "stage_slug": "thesis", "iteration_number": 1}
ENDED = StageEnded(**PLACE, status="complete", completed=2, failed=0, cancelled=0)


@given(st.integers(min_value=0, max_value=10**18 - 1))
def test_an_id_means_something_to_its_tenant_alone(seq: int) -> None:
    assert parse_id(TENANT, format_id(TENANT, seq)) == (seq, None)
    assert parse_id(TENANT, format_id(TENANT, 7, seq)) == (7, seq)
    assert parse_id(OTHER, format_id(TENANT, seq)) is None


@given(st.text())
def test_no_text_but_an_id_is_taken_for_one(text: str) -> None:
    found = parse_id(TENANT, text)

    assert found is None or format_id(TENANT, *found) == text


def test_an_event_is_of_the_class_of_its_type() -> None:
    event = build_event(ENDED)

    assert event.data == ENDED
    assert (event.id, event.type, event.session_id) == (7, ENDED.type, SESSION)
    assert event.resume_id == "a.7"


def test_fields_have_the_names_on_the_wire_that_clients_have_always_known() -> None:
    advanced = StageAdvanced(**PLACE, current_step=1, total_steps=3, message="Merging: 1 of 3")

    assert advanced.model_dump(mode="json", exclude_unset=True) == {
        "sessionId": str(SESSION),
        "stageSlug": "thesis",
        "iterationNumber": 1,
        "current_step": 1,
        "total_steps": 3,
        "message": "Merging: 1 of 3",
    }


def test_what_is_parsed_is_written_again_as_it_came() -> None:
    frame = build_frame(ENDED.type, {**ENDED.model_dump(mode="json"), "new": [1]}, newer={"a": 1})

    event = parse_event(frame)

    assert event.model_dump(mode="json", exclude_unset=True) == json.loads(frame.data)


def test_an_event_does_not_change() -> None:
    event = build_event(build_received())

    for part in (event, event.data):
        with pytest.raises(ValidationError):
            part.session_id = TENANT  # type: ignore[attr-defined]


# -- from a newer server --------------------------------------------------------------------------


def test_an_event_of_an_unknown_type_keeps_all_its_fields() -> None:
    frame = build_frame("news", {"word": "hello", "job_id": str(JOB)}, colour="red")

    event = parse_event(frame)

    assert type(event) is UnknownEvent
    assert (event.type, event.id, event.resume_id) == ("news", 7, "a.7")
    assert event.data.model_extra == {"word": "hello", "job_id": str(JOB)}
    assert event.model_extra == {"colour": "red"}


def test_a_message_is_told_apart_from_an_unknown_event() -> None:
    mail = {"notification_id": 3, "title": "Hi", "message": None, "link_path": None}

    event = parse_event(build_frame("mail", {}, is_internal_event=False, **mail))

    assert isinstance(event, NotificationEvent)
    assert (event.notification_id, event.title) == (3, "Hi")


def test_a_remedy_of_an_unknown_action_is_left_out() -> None:
    remedy = ProblemRemedy(action=RemedyAction.RESUME, session_id=str(SESSION))
    known = JobFailed(**PLACE, job_id=JOB, error=EventError(code="c", message="m", remedy=remedy))
    assert build_event(known).data == known
    data: dict[str, Any] = known.model_dump(mode="json")
    data["error"]["remedy"] = {"action": "pray"}

    event = parse_event(build_frame(known.type, data))

    assert isinstance(event, Event)
    assert isinstance(event.data, JobFailed)
    assert event.data.error == EventError(code="c", message="m", remedy=None)


# -- malformed ------------------------------------------------------------------------------------

WHOLE = ENDED.model_dump(mode="json")


@each_case("name", WHOLE)
def test_an_event_of_a_known_type_that_lacks_a_field_is_refused(name: str) -> None:
    data = {key: value for key, value in WHOLE.items() if key != name}

    with pytest.raises(ValidationError, match=name):
        parse_event(build_frame(ENDED.type, data))


@each_case(
    "text",
    ["", "{", "[1]", "{}", '"x"', '{"type": 1}', '{"type": "news"}', '{"type": "news", "id": "x"}'],
)
def test_data_that_is_not_an_event_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        parse_event(sse.Event(text, "news", "a.1"))


def test_a_state_without_its_sessions_is_refused() -> None:
    with pytest.raises(ValidationError):
        parse_event(sse.Event('{"reset": true, "reason": "unknown"}', StateReset.type))


def test_broken_characters_are_replaced() -> None:
    raw = build_frame("news", {"word": "a?b"}).data.encode().replace(b"?", b"\xff")
    (frame,) = sse.EventParser().feed(b"data: %s\n\n" % raw)

    event = parse_event(frame)

    assert isinstance(event, UnknownEvent)
    assert event.data.model_extra == {"word": "a\ufffdb"}


def test_an_event_of_a_megabyte_is_parsed_whole() -> None:
    flags = [f"flag {number:06}" for number in range(100_000)]

    event = build_event(build_received(flags=flags))

    assert event.data.contribution.flags == flags  # type: ignore[attr-defined]


def test_a_stored_event_with_another_field_name_or_type_is_refused() -> None:
    data = SessionPaused(session_id=SESSION).model_dump(mode="json")
    check_stored(SessionPaused.type, data)
    for wrong in ({**data, "new": 1}, {"session_id": str(SESSION)}):
        with pytest.raises(ValidationError):
            check_stored(SessionPaused.type, wrong)
    with pytest.raises(KeyError):
        check_stored("news", data)


# -- described ------------------------------------------------------------------------------------


def test_the_schema_names_every_type_once() -> None:
    schema = build_stream_schema("#/{model}")

    known = schema["$defs"]["KnownEvent"]
    assert known["discriminator"]["propertyName"] == "type"
    assert set(known["discriminator"]["mapping"]) == set(TYPES)
    assert len(known["oneOf"]) == len(TYPES)
    changes = schema["$defs"]["ChangeEvent"]
    assert set(changes["discriminator"]["mapping"]) == CHANGES
    assert schema["x-events"].keys() == {*TYPES, *CHANGES}
    assert schema["oneOf"] == [
        {"$ref": "#/KnownEvent"},
        {"$ref": "#/ChangeEvent"},
        {"$ref": "#/NotificationEvent"},
        {"$ref": "#/StateReset"},
        {"$ref": "#/Draft"},
    ]
    assert "resume_id" not in json.dumps(schema)
