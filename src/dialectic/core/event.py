"""An event as those who follow it see it: its number, its words on the wire, and who may see it.

Pure. Knows neither where events are kept nor who follows them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

# What a client that wants everything that is kept says instead of an id.
FROM_THE_START = "0"

_ID = re.compile(r"([0-9a-f]{8})\.([0-9]{1,18})")


def format_id(tenant_id: UUID, seq: int) -> str:
    """Build the id of an event, which means nothing in the stream of another tenant."""
    return f"{_mark(tenant_id)}.{seq}"


def parse_id(tenant_id: UUID, text: str) -> int | None:
    """Find the number in an id of this tenant; None if it is no such id."""
    found = _ID.fullmatch(text)
    return int(found[2]) if found and found[1] == _mark(tenant_id) else None


def _mark(tenant_id: UUID) -> str:
    return hashlib.sha256(tenant_id.bytes).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, rendered once for all who follow it."""

    seq: int
    # The only one who may see it; None: everyone of the tenant.
    user_id: UUID | None
    session_id: UUID | None
    wire: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The event as programs see it, read from what is sent."""
        line = self.wire.rpartition(b"\ndata: ")[2]
        body: dict[str, Any] = json.loads(line)
        return body


def build_event(tenant_id: UUID, row: Mapping[str, Any]) -> Event:
    """Build an event from its row.

    What drives the views of a session is for everyone who may see the session, and that is the
    tenant. A message is for the person it is addressed to, if it is addressed to one.
    """
    is_shared = row["is_internal_event"] and row["session_id"] is not None
    wire = render(format_id(tenant_id, row["seq"]), row["type"], build_body(row))
    return Event(row["seq"], None if is_shared else row["user_id"], row["session_id"], wire)


def build_body(row: Mapping[str, Any]) -> dict[str, Any]:
    """Build what an event says; a message also says what a list of messages shows of it."""
    body = {
        "id": row["seq"],
        "type": row["type"],
        "created_at": row["created_at"].isoformat(),
        "session_id": str(row["session_id"]) if row["session_id"] else None,
        "is_internal_event": row["is_internal_event"],
        "data": row["data"],
    }
    if not row["is_internal_event"]:
        body["notification_id"] = row["id"]
        body |= {name: row[name] for name in ("title", "message", "link_path")}
    return body


def is_for(event: Event, user_id: UUID, session_id: UUID | None) -> bool:
    """Say whether someone who follows a session, or with None all of them, is given an event."""
    return event.user_id in (None, user_id) and session_id in (None, event.session_id)


@dataclass(frozen=True, slots=True)
class State:
    """How things stand, for a client whose last event is not known or not kept any more."""

    seq: int
    reason: str
    sessions: Sequence[Mapping[str, Any]]

    def render(self, tenant_id: UUID) -> bytes:
        """Build what is sent in the place of all that cannot be sent."""
        body = {"reset": True, "reason": self.reason, "sessions": list(self.sessions)}
        return render(format_id(tenant_id, self.seq), "state", body)


def render(event_id: str, kind: str, body: Mapping[str, Any]) -> bytes:
    """Build one event of a stream. JSON has no line ends of its own; a type must not have any."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event_id}\nevent: {' '.join(kind.split())}\ndata: {text}\n\n".encode()


def render_position(tenant_id: UUID, seq: int) -> bytes:
    """Build a sign of life: no event, but clients resume from here."""
    return f": alive\nid: {format_id(tenant_id, seq)}\n\n".encode()
