from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.session_state import Phase, SessionState, show_status
from tests.cases import each_case

slugs = st.from_regex(r"\A[a-z0-9][a-z0-9-]{0,63}\Z")
SHOWN = {
    Phase.PENDING: "pending_thesis",
    Phase.GENERATING: "generating_thesis",
    Phase.STAGE_COMPLETE: "thesis_generation_complete",
    Phase.ITERATION_COMPLETE: "iteration_complete",
    Phase.FAILED: "thesis_generation_failed",
    Phase.PAUSED: "paused",
    Phase.CANCELLED: "cancelled",
}


def test_every_phase_is_shown_in_the_words_that_people_know() -> None:
    assert {phase: SessionState("thesis", phase).status for phase in Phase} == SHOWN


@given(slugs, st.sampled_from(Phase))
def test_a_status_says_which_state_it_shows(stage: str, phase: Phase) -> None:
    state = SessionState(stage, phase)
    assert SessionState.parse(state.status, stage) == state


@each_case("status", ["generating_antithesis", "thesis", "", "done", "generating_"])
def test_a_status_of_another_stage_or_of_none_is_refused(status: str) -> None:
    with pytest.raises(ValueError, match="status"):
        SessionState.parse(status, "thesis")


def test_a_session_is_complete_at_the_stage_it_was_to_reach_or_at_the_last_one() -> None:
    complete = {
        phase: [SessionState("thesis", phase).is_complete(u) for u in ("thesis", "synthesis")]
        for phase in Phase
    }
    assert complete == {phase: [False, False] for phase in Phase} | {
        Phase.STAGE_COMPLETE: [True, False],
        Phase.ITERATION_COMPLETE: [True, True],
    }


def test_a_record_shows_the_status_where_the_row_has_the_phase() -> None:
    row = {"id": 1, "phase": "generating", "current_stage_slug": "thesis"}
    assert list(show_status(row).items()) == [
        ("id", 1),
        ("status", "generating_thesis"),
        ("current_stage_slug", "thesis"),
    ]
