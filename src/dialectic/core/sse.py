"""A parser for server-sent events: bytes in, events out. Pure; independent of vendor and JSON.

The providers' streams and our own API are read with it. Time is linear in the bytes; memory is
bounded by one event, and so is the number of lines without data between two events.
Lines may end in CR, LF or both. A piece may end anywhere, even inside a character, so bytes are
decoded one whole line at a time.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dialectic.core.strict_json import MalformedJson

EVENT_BYTES_MAX = 8 << 20
# Comments and empty lines in sequence: a keep-alive each second for a day.
SKIPPED_LINES_MAX = 100_000

_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; `id` is None unless this event sent it."""

    data: str
    name: str = "message"
    id: str | None = None

    @property
    def text(self) -> str:
        """The data, with invalid bytes replaced."""
        return self.data.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class EventParser:
    """Splits a stream into events. Raises `MalformedJson` for one longer than `bytes_max`."""

    def __init__(self, *, bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._line = bytearray()
        self._after_cr = False
        self._is_first_line = True
        self._name = ""
        self._id: str | None = None
        self._data: list[str] = []
        self._data_size = 0
        self._skipped = 0
        # Where to resume: the last complete id, with or without an event.
        self.last_id: str | None = None
        # How long the server asks clients to wait before they reconnect.
        self.retry_s: float | None = None

    def feed(self, piece: bytes) -> list[Event]:
        """Parse more bytes; return the events that they complete."""
        if self._after_cr and piece.startswith(b"\n"):
            # The LF of a CR LF that was split; the CR has ended the line already.
            piece = piece[1:]
            self._after_cr = False
        events: list[Event] = []
        for line in piece.splitlines(keepends=True):
            if line.endswith((b"\n", b"\r")):
                self._take_line(self._completed(line), events)
            else:
                self._keep(line)
        if piece:
            self._after_cr = piece.endswith(b"\r")
        return events

    def finish(self) -> Event | None:
        """Return the last event if its final blank line is missing.

        Some servers never send that line. After a cut connection the event may be incomplete; only
        the reader of its data can tell.
        """
        events: list[Event] = []
        self._take_line(self._completed(b""), events)
        self._take_line("", events)
        return events[0] if events else None

    def _keep(self, part: bytes) -> None:
        self._line += part
        if self._data_size + len(self._line) > self._bytes_max:
            raise MalformedJson(f"one event is longer than {self._bytes_max} bytes")

    def _completed(self, end: bytes) -> str:
        self._keep(end.rstrip(b"\r\n"))
        raw = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            self._is_first_line = False
            raw = raw.removeprefix(_BOM)
        # Invalid bytes become lone surrogates, which `clean_text` repairs and reports.
        return raw.decode("utf-8", "surrogateescape")

    def _take_line(self, line: str, events: list[Event]) -> None:
        if not line:
            if self._data:
                events.append(Event("\n".join(self._data), self._name or "message", self._id))
                self._skipped = 0
            self.last_id = self._id or self.last_id
            self._name, self._id, self._data, self._data_size = "", None, [], 0
            self._skip()
            return
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "data":
                self._data.append(value)
                self._data_size += len(line)
            case "event":
                self._name = value
            case "id" if "\x00" not in value:
                self._id = value
            case "retry" if _NUMBER.fullmatch(value):
                self.retry_s = int(value) / 1000
            case _:  # a comment, or an unknown field
                self._skip()

    def _skip(self) -> None:
        self._skipped += 1
        if self._skipped > SKIPPED_LINES_MAX:
            raise MalformedJson(f"{SKIPPED_LINES_MAX} lines came without an event")


class Numbering:
    """Detects repeated events of servers that number them. Holds one number and one event.

    Few servers do. If one number comes with different data, ids are not event numbers: ignored.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._last_data = ""
        self._has_gap = False
        self._means_something_else = False

    def is_repeat(self, event: Event) -> bool:
        """Tell whether an event is a repeat. Raises `MalformedJson` for one out of order."""
        if self._means_something_else or event.id is None or not _NUMBER.fullmatch(event.id):
            return False
        number, last = int(event.id), self._last
        if last is None or number > last:
            self._has_gap = self._has_gap or (last is not None and number > last + 1)
            self._last, self._last_data = number, event.data
            return False
        if number == last and event.data != self._last_data:
            self._means_something_else = True
            return False
        if number < last and self._has_gap:
            raise MalformedJson(f"event {number} came after event {last}", event.data)
        return True
