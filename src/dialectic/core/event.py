"""Events for SSE clients: their ids, their wire format, and who may see them. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from dialectic.core.strict_json import Json

# The id that a client sends to get all stored events.
FROM_THE_START = "0"

_ID = re.compile(r"([0-9a-f]{8})\.([0-9]{1,18})")


def format_id(tenant_id: UUID, seq: int) -> str:
    """Build the id of an event; it is not valid in another tenant's stream."""
    return f"{_mark(tenant_id)}.{seq}"


def parse_id(tenant_id: UUID, text: str) -> int | None:
    """Read the number from an id of this tenant; None if it is not one."""
    found = _ID.fullmatch(text)
    return int(found[2]) if found and found[1] == _mark(tenant_id) else None


def _mark(tenant_id: UUID) -> str:
    return hashlib.sha256(tenant_id.bytes).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class Event:
    """One event, rendered once for all subscribers."""

    seq: int
    # The only user who may see it; None: every user of the tenant.
    user_id: UUID | None
    session_id: UUID | None
    wire: bytes

    @property
    def body(self) -> Json:
        """The event's JSON, parsed from the wire format."""
        line = self.wire.rpartition(b"\ndata: ")[2]
        body: Json = json.loads(line)
        return body


def build_event(tenant_id: UUID, row: Mapping[str, Any]) -> Event:
    """Build an event from its row.

    Internal events of a session go to every user of the tenant. A notification goes only to its
    addressee, if it has one.
    """
    is_shared = row["is_internal_event"] and row["session_id"] is not None
    wire = render(format_id(tenant_id, row["seq"]), row["type"], build_body(row))
    return Event(row["seq"], None if is_shared else row["user_id"], row["session_id"], wire)


def build_body(row: Mapping[str, Any]) -> Json:
    """Build an event's JSON; a notification includes its title, message and link."""
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
    """Tell whether a user who follows one session, or all (None), gets an event."""
    return event.user_id in (None, user_id) and session_id in (None, event.session_id)


@dataclass(frozen=True, slots=True)
class State:
    """The current state, for a client whose last event is unknown or no longer stored."""

    seq: int
    reason: str
    sessions: Sequence[Mapping[str, Any]]

    def render(self, tenant_id: UUID) -> bytes:
        """Build the `state` event that replaces the missing events."""
        body = {"reset": True, "reason": self.reason, "sessions": list(self.sessions)}
        return render(format_id(tenant_id, self.seq), "state", body)


def render(event_id: str, kind: str, body: Mapping[str, Any]) -> bytes:
    """Build one event of a stream. Compact JSON has no line breaks; a type must have none."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return f"id: {event_id}\nevent: {' '.join(kind.split())}\ndata: {text}\n\n".encode()


def render_position(tenant_id: UUID, seq: int) -> bytes:
    """Build a heartbeat: no event, but clients resume from its id."""
    return f": alive\nid: {format_id(tenant_id, seq)}\n\n".encode()
