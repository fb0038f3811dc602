"""Streams of events: bytes in, events out, and the place from which a lost one is resumed. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

EVENT_BYTES_MAX = 16 << 20
RETRY_DEFAULT_S = 1.0
RETRY_MAX_S = 10.0
# So often in a row a stream may not be had before that is an error.
LOSSES_MAX = 6


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened, or that was said."""

    # Where to resume from, when this one has been dealt with.
    id: str | None
    type: str
    data: dict[str, Any]


class Parser:
    """Takes one stream apart. What is not whole when it ends is no event."""

    def __init__(self) -> None:
        self._rest = b""
        self._type, self._data = "", list[str]()
        self._id: str | None = None
        # Of the last event that was whole; a sign of life has one too.
        self.last_id: str | None = None
        self.retry_s: float | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """Take in more bytes; give out the events that are whole with them."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        if len(self._rest) > EVENT_BYTES_MAX:
            msg = "an event without an end"
            raise ValueError(msg)
        events = []
        for line in lines:
            if line.strip(b"\r"):
                self._take(line.rstrip(b"\r").decode("utf-8", errors="replace"))
                continue
            self.last_id = self._id
            if self._data:
                kind = self._type or "message"
                events.append(Event(self.last_id, kind, _read_data("\n".join(self._data))))
            self._type, self._data = "", []
        return events

    def _take(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "event":
                self._type = value
            case "data":
                self._data.append(value)
            case "id":
                self._id = value
            case "retry" if value.isascii() and value.isdecimal():
                self.retry_s = int(value) / 1000
            case _:
                pass  # a sign of life, or something that nobody here knows


def _read_data(text: str) -> dict[str, Any]:
    data = json.loads(text)
    if not isinstance(data, dict):
        msg = "an event whose data is no object"
        raise ValueError(msg)
    return data


class StreamPosition:
    """How far a stream was followed, over all the connections that it took."""

    def __init__(self, after: str | None) -> None:
        self.after = after
        self._parser = Parser()
        self._retry_s = RETRY_DEFAULT_S
        self._losses = 0

    def begin(self) -> None:
        """Begin to read another connection."""
        self._parser = Parser()

    def feed(self, piece: bytes) -> list[Event]:
        """Take in more bytes of this connection."""
        events = self._parser.feed(piece)
        self._losses = 0
        self.after = self._parser.last_id or self.after
        self._retry_s = self._parser.retry_s or self._retry_s
        return events

    def decide_wait(self) -> float | None:
        """Decide after how long a stream that was lost is taken up again; None: never."""
        self._losses += 1
        if self._losses > LOSSES_MAX:
            return None
        return min(RETRY_MAX_S, self._retry_s * self._losses)
