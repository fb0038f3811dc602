"""Events as frames of a stream: rendered once for all followers, and who may see them. Pure.

An event's stored JSON is passed on as it is: a worker of a newer version may have written it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from dialectic.contract.events import Event, StateReset, parse_event
from dialectic.core.sse import EventParser
from dialectic.core.stream_position import format_id
from dialectic.db.tables.notifications import StoredEvent
from dialectic.events.changes import ChangePage


@dataclass(frozen=True, slots=True)
class EventFrame:
    """One event as it is sent."""

    seq: int
    # The only user who may see it; None: every user of the tenant.
    user_id: UUID | None
    session_id: UUID | None
    wire: bytes
    # Of a change: the first transaction that its snapshot cannot contain. A follower whose horizon
    # is not before it has the change already.
    end: int | None = None

    def is_for(self, user_id: UUID, session_id: UUID | None) -> bool:
        """Tell whether a user who follows one session, or all (None), gets this event."""
        return self.user_id in (None, user_id) and session_id in (None, self.session_id)

    def parse(self) -> Event | StateReset:
        """Parse the event as a client does."""
        (frame,) = EventParser().feed(self.wire)
        return parse_event(frame)


def build_frame(tenant_id: UUID, event: StoredEvent, horizon: int | None = None) -> EventFrame:
    """Build the frame of a stored event; all changes before the horizon were told before it.

    Internal events of a session go to every user of the tenant. A notification goes only to its
    addressee, if it has one; it includes its title, message, link and remedy.
    """
    body = {
        "id": event.seq,
        "type": event.type,
        "created_at": event.created_at.isoformat(),
        "session_id": str(event.session_id) if event.session_id else None,
        "is_internal_event": event.is_internal_event,
        "data": event.data,
    }
    if not event.is_internal_event:
        body["notification_id"] = event.id
        body |= {"title": event.title, "message": event.message, "link_path": event.link_path}
        body["remedy"] = event.remedy
    is_shared = event.is_internal_event and event.session_id is not None
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    wire = _render(format_id(tenant_id, event.seq, horizon), event.type, text)
    return EventFrame(event.seq, None if is_shared else event.user_id, event.session_id, wire)


def build_state_frame(
    tenant_id: UUID, seq: int, state: StateReset, horizon: int | None = None
) -> EventFrame:
    """Build the frame that replaces the missing events of one follower."""
    wire = _render(format_id(tenant_id, seq, horizon), state.type, state.model_dump_json())
    return EventFrame(seq, None, None, wire)


def build_change_frames(
    tenant_id: UUID, seq: int, before: int, page: ChangePage
) -> list[EventFrame]:
    """Build the frames of changes; `seq` and `before` are the position before them.

    The oldest change comes first. A client that is cut off among them continues with the first
    transaction that it was not told of.
    """
    changes = sorted(page.changes, key=lambda change: change.since)
    following = [max(before, change.since) for change in changes[1:]]
    if not changes:
        return []
    frames = []
    for change, since in zip(changes, [*following, page.moment.horizon], strict=True):
        body = {
            "id": seq,
            "type": change.type,
            "created_at": page.moment.read_at.isoformat(),
            "session_id": str(change.session_id) if change.session_id else None,
            "is_internal_event": True,
            "data": change.data,
        }
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
        place = format_id(tenant_id, seq, min(since, page.moment.horizon))
        wire = _render(place, change.type, text)
        place_of = (change.user_id, change.session_id)
        frames.append(EventFrame(seq, *place_of, wire, page.moment.end))
    return frames


def _render(event_id: str, kind: str, text: str) -> bytes:
    """Build one frame. Compact JSON has no line breaks; a type must have none."""
    return f"id: {event_id}\nevent: {' '.join(kind.split())}\ndata: {text}\n\n".encode()


def render_position(tenant_id: UUID, seq: int, horizon: int | None = None) -> bytes:
    """Build a heartbeat: no event, but clients resume from its id."""
    return f": alive\nid: {format_id(tenant_id, seq, horizon)}\n\n".encode()
