"""A session's state: its stage, its phase, and the one status string that shows both. Pure.

The table dialectic_session_moves defines the legal changes of phase; this module only names the
phases. People, clients and bundles see the status; nothing else is decided by it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from dialectic.core.strict_json import Json


class Phase(enum.StrEnum):
    """Where a session is within its stage; the comments of the SQL type explain each."""

    PENDING = "pending"
    GENERATING = "generating"
    STAGE_COMPLETE = "stage_complete"
    ITERATION_COMPLETE = "iteration_complete"
    FAILED = "failed"
    PAUSED = "paused"
    CANCELLED = "cancelled"


# A session in one of these phases starts no job.
HALTED = frozenset({Phase.PAUSED, Phase.CANCELLED})

_STATUSES = {
    Phase.PENDING: "pending_{}",
    Phase.GENERATING: "generating_{}",
    Phase.STAGE_COMPLETE: "{}_generation_complete",
    Phase.ITERATION_COMPLETE: "iteration_complete",
    Phase.FAILED: "{}_generation_failed",
    Phase.PAUSED: "paused",
    Phase.CANCELLED: "cancelled",
}


_WORDS = {
    Phase.PENDING: "about to start {}",
    Phase.GENERATING: "working on {}",
    Phase.STAGE_COMPLETE: "waiting for you after {}",
    Phase.ITERATION_COMPLETE: "done",
    Phase.FAILED: "failed in {}",
    Phase.PAUSED: "paused in {}",
    Phase.CANCELLED: "cancelled in {}",
}


@dataclass(frozen=True, slots=True)
class SessionState:
    """The stage of a session and its phase."""

    stage: str
    phase: Phase

    @classmethod
    def from_row(cls, row: Any) -> SessionState:
        """Take the state from a row of dialectic_sessions."""
        return cls(row["current_stage_slug"], Phase(row["phase"]))

    @classmethod
    def parse(cls, status: str, stage: str) -> SessionState:
        """Parse the status of a session at this stage."""
        for phase in Phase:
            if (state := cls(stage, phase)).status == status:
                return state
        msg = f"{status!r} is not a status of a session at stage {stage!r}"
        raise ValueError(msg)

    @property
    def status(self) -> str:
        """The string that shows the state, such as `generating_thesis`."""
        return _STATUSES[self.phase].format(self.stage)

    def describe(self, until: str) -> str:
        """Describe the state in words, for a session that ends after the stage `until`."""
        if self.phase is Phase.STAGE_COMPLETE and self.stage == until:
            return f"done up to {self.stage}"
        return _WORDS[self.phase].format(self.stage)

    def is_complete(self, until: str) -> bool:
        """Tell whether the work is done up to the stage `until`."""
        is_last = self.phase is Phase.STAGE_COMPLETE and self.stage == until
        return is_last or self.phase is Phase.ITERATION_COMPLETE


def show_status(row: Any) -> Json:
    """Build a record from a row of dialectic_sessions, with the status in place of the phase."""
    status = SessionState.from_row(row).status
    return dict(
        ("status", status) if name == "phase" else (name, value) for name, value in row.items()
    )
