"""Parses event streams and tracks where to resume a lost one. Pure."""

from __future__ import annotations

from dialectic.contract.events import AnyStreamItem, parse_item
from dialectic.core.sse import EventParser

RETRY_DEFAULT_S = 1.0
RETRY_MAX_S = 10.0
# A stream that is lost this often in a row raises an error.
LOSSES_MAX = 6


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

    def feed(self, piece: bytes) -> list[AnyStreamItem]:
        """Parse more bytes of this connection; `ValueError` if an event is malformed."""
        events = [parse_item(frame) for frame in self._parser.feed(piece)]
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
