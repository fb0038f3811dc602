"""The calls that this process makes for jobs: what each does, and the text it has received so far.

For people who watch: a command shows them from here, and a worker copies those of watched sessions
to the database. Nothing here is stored, and no commit waits for it.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from uuid import UUID

# Roughly right for most languages and vocabularies; the exact count comes with the answer.
BYTES_PER_TOKEN = 4
# A longer draft is kept up to here; its words are counted to the end.
TEXT_MAX_CHARS = 500_000


class Phase(enum.StrEnum):
    """What a running call does. SQL: dialectic_call_phase."""

    PREPARING = "preparing"
    WAITING_FOR_ENDPOINT = "waiting_for_endpoint"
    WAITING_FOR_MONEY = "waiting_for_money"
    CALLING = "calling"
    WRITING = "writing"
    SAVING = "saving"


# The phases between the request and the end of its answer.
IN_FLIGHT = frozenset({Phase.CALLING, Phase.WRITING})


@dataclass(slots=True, eq=False)
class LiveCall:
    """One call of a job, from the preparation of its prompt until its answer is saved."""

    tenant_id: UUID
    session_id: UUID
    job_id: UUID
    attempt: int
    stage_slug: str
    output_type: str
    model_name: str
    seat: int
    # The number of the turn that it writes, from 0.
    turn: int = 0
    # Whether its text is the job's document, and not a text that the job needs first.
    is_document: bool = True
    # The counted length of the prompt.
    input_tokens: int = 0
    phase: Phase = Phase.PREPARING
    started_s: float = field(default_factory=time.monotonic)
    first_text_s: float | None = None
    text_bytes: int = 0
    words: int = 0
    chars: int = 0
    _pieces: list[str] = field(default_factory=list)
    _is_in_word: bool = False

    def send(self, input_tokens: int) -> None:
        """Begin a request: what an earlier one of this turn received is forgotten."""
        self.phase, self.input_tokens = Phase.CALLING, input_tokens
        self.started_s, self.first_text_s = time.monotonic(), None
        self.text_bytes = self.words = self.chars = 0
        self._pieces, self._is_in_word = [], False

    def add(self, piece: str) -> None:
        """Add a piece of text as it arrives."""
        if not piece:
            return
        if self.first_text_s is None:
            self.phase, self.first_text_s = Phase.WRITING, time.monotonic()
        self.text_bytes += len(piece) if piece.isascii() else len(piece.encode(errors="replace"))
        self.words += len(piece.split()) - (self._is_in_word and not piece[0].isspace())
        self._is_in_word = not piece[-1].isspace()
        if self.is_document and self.chars < TEXT_MAX_CHARS:
            kept = piece[: TEXT_MAX_CHARS - self.chars]
            self._pieces.append(kept)
            self.chars += len(kept)

    def read_text(self, at: int = 0) -> str:
        """Read the text so far, from a character on."""
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0][at:] if self._pieces else ""

    @property
    def output_tokens(self) -> int:
        """About how many tokens have arrived."""
        return -(-self.text_bytes // BYTES_PER_TOKEN)

    @property
    def elapsed_s(self) -> float:
        """How long ago the request was sent, or else the preparation began."""
        return time.monotonic() - self.started_s


@dataclass(slots=True, eq=False)
class LiveCalls:
    """All calls of this process, oldest first."""

    _calls: dict[int, LiveCall] = field(default_factory=dict)

    @contextmanager
    def track(self, call: LiveCall) -> Iterator[LiveCall]:
        """List a call from now on until it ends."""
        self._calls[id(call)] = call
        try:
            yield call
        finally:
            del self._calls[id(call)]

    def list_of(self, session_id: UUID) -> list[LiveCall]:
        """List the calls of a session whose requests are in flight now."""
        return [
            call
            for call in self._calls.values()
            if call.session_id == session_id and call.phase in IN_FLIGHT
        ]

    def list_documents(self) -> list[LiveCall]:
        """List the calls that write documents, in any phase."""
        return [call for call in self._calls.values() if call.is_document]

    def find_document(self, job_id: UUID, attempt: int) -> LiveCall | None:
        """Find the call that writes the document of a job's attempt."""
        for call in self._calls.values():
            if call.is_document and (call.job_id, call.attempt) == (job_id, attempt):
                return call
        return None
