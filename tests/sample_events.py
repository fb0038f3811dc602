"""Events for tests: of known types, of an unknown one, and a check of stored ones."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from dialectic.contract.events import (
    EVENT_TYPES,
    ContributionReceived,
    Event,
    JobErrorEvent,
    ReceivedContribution,
    SessionEvent,
    parse_event,
)
from dialectic.core import sse

SESSION = UUID(int=5)
NOW = datetime(2026, 11, 16, tzinfo=UTC)
TYPES = {kind.type: kind for kind in EVENT_TYPES}


class News(SessionEvent):
    """An event of no released type, as a newer server may send it."""

    type = "news"

    word: str
    ballast: str = ""


class _Word(BaseModel, from_attributes=True):
    word: str


def get_word(data: object) -> str:
    """Get the word of news, stored or parsed."""
    return _Word.model_validate(data).word


def check_stored(kind: str, data: object) -> None:
    """Require that a stored event is of a known type and has its fields and no others."""
    parsed = TYPES[kind].model_validate(data, by_name=False, by_alias=True, extra="forbid")
    if isinstance(parsed, JobErrorEvent):  # its remedy is of a known action
        assert parsed.model_dump(mode="json", exclude_unset=True) == data


def build_frame(kind: str, data: object, **fields: Any) -> sse.Event:
    """Build one event as a parser of the stream gives it."""
    body = {
        "id": 7,
        "type": kind,
        "created_at": NOW.isoformat(),
        "session_id": str(SESSION),
        "is_internal_event": True,
        "data": data,
        **fields,
    }
    return sse.Event(json.dumps(body), kind, "a.7")


def build_event(data: SessionEvent) -> Event:
    """Build an event as a client parses it."""
    event = parse_event(build_frame(data.type, data.model_dump(mode="json", exclude_unset=True)))
    assert isinstance(event, Event)
    return event


def build_received(**columns: Any) -> ContributionReceived:
    """Build the event of a contribution, with some columns of its row."""
    numbers = ("iteration_number", "size_bytes", "edit_version")
    flags = ("is_intermediate", "is_incomplete", "is_stale", "is_latest_edit")
    row = {
        **dict.fromkeys(ReceivedContribution.model_fields, None),
        **dict.fromkeys(("id", "session_id"), SESSION),
        **dict.fromkeys(("model_name", "stage", "contribution_type", "storage_path"), "x"),
        **dict.fromkeys(numbers, 1),
        **dict.fromkeys(flags, False),
        "mime_type": "text/markdown",
        "excerpt": "",
        "flags": [],
        "source_contribution_ids": [],
        "read_version_ids": [],
        "created_at": NOW,
        **columns,
    }
    contribution = ReceivedContribution.model_validate(row)
    return ContributionReceived(
        session_id=SESSION, job_id=None, is_continuing=False, contribution=contribution
    )
