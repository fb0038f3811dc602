"""The calls that this process has in flight, and how much text each has received so far.

For people who watch, in this process only. Nothing here is stored, and no commit waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

# Roughly right for most languages and vocabularies; the exact count comes with the answer.
BYTES_PER_TOKEN = 4


@dataclass(slots=True, eq=False)
class LiveCall:
    """One call of a job, from the moment its request is sent."""

    session_id: UUID
    job_id: UUID
    stage_slug: str
    output_type: str
    model_name: str
    seat: int
    # The counted length of the prompt.
    input_tokens: int
    started_s: float = field(default_factory=time.monotonic)
    text_bytes: int = 0

    def add(self, piece: str) -> None:
        """Count a piece of text as it arrives."""
        self.text_bytes += len(piece) if piece.isascii() else len(piece.encode(errors="replace"))

    @property
    def output_tokens(self) -> int:
        """About how many tokens have arrived."""
        return -(-self.text_bytes // BYTES_PER_TOKEN)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.started_s


@dataclass(slots=True, eq=False)
class LiveCalls:
    """All calls in flight, oldest first."""

    _calls: dict[int, LiveCall] = field(default_factory=dict)

    @contextmanager
    def track(self, call: LiveCall) -> Iterator[LiveCall]:
        """List a call while it is in flight."""
        self._calls[id(call)] = call
        try:
            yield call
        finally:
            del self._calls[id(call)]

    def list_of(self, session_id: UUID) -> list[LiveCall]:
        """List the calls of a session that are in flight now."""
        return [call for call in self._calls.values() if call.session_id == session_id]
