"""A session's state: its stage, its phase, and the one status string that shows both. Pure.

The table dialectic_session_moves defines the legal changes of phase; this module only names the
phases. People, clients and bundles see the status; nothing else is decided by it.
"""

from __future__ import annotations

import enum
from collections.abc import Collection
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
# No job of the session runs or waits in these phases.
BETWEEN_STAGES = frozenset({Phase.PENDING, Phase.STAGE_COMPLETE, Phase.ITERATION_COMPLETE})

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


class SessionAction(enum.StrEnum):
    """What a user can do with a session."""

    START = "start"
    SUBMIT = "submit"
    ITERATE = "iterate"
    RETRY = "retry"
    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    CHANGE_BUDGET = "change_budget"
    CHANGE_MODELS = "change_models"
    REPLACE_SEAT = "replace_seat"


class NeedCode(enum.StrEnum):
    """What a session needs from a person."""

    FEEDBACK = "feedback"
    FUNDS = "funds"
    BUDGET = "budget"
    APPROVAL = "approval"
    KEY = "key"
    ENDPOINT = "endpoint"
    FAILURE = "failure"
    STALE = "stale"
    INCOMPLETE = "incomplete"


class NeedStep(enum.StrEnum):
    """What a person can do about a need."""

    START_NEXT = "start_next"
    RAISE_BUDGET = "raise_budget"
    TOP_UP = "top_up"
    APPROVE_SPEND = "approve_spend"
    CONFIGURE = "configure"
    RESUME = "resume"
    RETRY = "retry"
    REPLACE_SEAT = "replace_seat"
    DROP_SEAT = "drop_seat"
    REGENERATE_STALE = "regenerate_stale"
    REGENERATE = "regenerate"


# The move of phase that an action makes.
_MOVES = {
    SessionAction.START: (Phase.PENDING, Phase.GENERATING),
    SessionAction.SUBMIT: (Phase.STAGE_COMPLETE, Phase.PENDING),
    SessionAction.RETRY: (Phase.FAILED, Phase.GENERATING),
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


def list_allowed(
    state: SessionState,
    until: str,
    moves: Collection[Phase],
    *,
    has_open_jobs: bool,
    has_paused_jobs: bool,
) -> list[SessionAction]:
    """List what a user can do with a session.

    `moves` are the phases that `dialectic_session_moves` allows after its phase, or after the one
    before it was paused.
    """
    phase = state.phase
    if phase is Phase.CANCELLED:
        return []
    is_over = (state.is_complete(until) or phase is Phase.FAILED) and not has_open_jobs
    allowed = set[SessionAction]()
    if phase is not Phase.PAUSED:
        allowed |= {
            each for each, (source, to) in _MOVES.items() if phase is source and to in moves
        }
        if phase in (Phase.STAGE_COMPLETE, Phase.ITERATION_COMPLETE) and Phase.PENDING in moves:
            allowed.add(SessionAction.ITERATE)
        if not is_over:
            allowed.add(SessionAction.PAUSE)
        if phase in BETWEEN_STAGES:
            allowed.add(SessionAction.CHANGE_MODELS)
    if phase is Phase.PAUSED or has_paused_jobs:
        allowed.add(SessionAction.RESUME)
    if Phase.CANCELLED in moves and not is_over:
        allowed.add(SessionAction.CANCEL)
    allowed |= {SessionAction.CHANGE_BUDGET, SessionAction.REPLACE_SEAT}
    return [each for each in SessionAction if each in allowed]
