"""Parses event streams and tracks where to resume a lost one. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dialectic.core.sse import EventParser

RETRY_DEFAULT_S = 1.0
RETRY_MAX_S = 10.0
# A stream that is lost this often in a row raises an error.
LOSSES_MAX = 6


@dataclass(frozen=True, slots=True)
class Event:
    """A server-sent event."""

    # The id to resume after.
    id: str | None
    type: str
    data: dict[str, Any]


def read_events(parser: EventParser, piece: bytes) -> list[Event]:
    """Return the events that these bytes complete; `ValueError` if one is malformed."""
    return [Event(event.id, event.name, _read_data(event.data)) for event in parser.feed(piece)]


def _read_data(text: str) -> dict[str, Any]:
    data = json.loads(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
    if not isinstance(data, dict):
        msg = "the data of an event is not an object"
        raise ValueError(msg)
    return data


class StreamPosition:
    """The position in a stream, across its connections."""

    def __init__(self, after: str | None) -> None:
        self.after = after
        self._parser = EventParser()
        self._retry_s = RETRY_DEFAULT_S
        self._losses = 0

    def begin(self) -> None:
        """Start a new connection."""
        self._parser = EventParser()

    def feed(self, piece: bytes) -> list[Event]:
        """Parse more bytes of this connection."""
        events = read_events(self._parser, piece)
        self._losses = 0
        self.after = self._parser.last_id or self.after
        self._retry_s = self._parser.retry_s or self._retry_s
        return events

    def decide_wait(self) -> float | None:
        """Return the delay before a lost stream is resumed; None: give up."""
        self._losses += 1
        if self._losses > LOSSES_MAX:
            return None
        return min(RETRY_MAX_S, self._retry_s * self._losses)
