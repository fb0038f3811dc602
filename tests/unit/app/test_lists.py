"""What waits for a person, in lists of sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

from dialectic.app.lists import build_needs

ENDED = datetime(2026, 1, 1, tzinfo=UTC)
LATER = datetime(2026, 1, 2, tzinfo=UTC)
SESSION = uuid4()


def build_row(reason: str | None = "insufficient_funds", **changes: Any) -> dict[str, Any]:
    return {
        "session_id": SESSION,
        "project_id": uuid4(),
        "project_name": "Hall",
        "phase": "generating",
        "current_stage_slug": "thesis",
        "until_stage_slug": "paralysis",
        "stage_ended_at": ENDED,
        "stage": "thesis",
        "stage_title": "Thesis",
        "job_id": uuid4(),
        "status": "paused",
        "status_reason": reason,
        "error": {"code": reason, "at": LATER.isoformat()},
        **changes,
    }


def test_calls_of_a_session_that_wait_for_the_same_thing_are_one_need() -> None:
    ids: list[UUID] = [uuid4() for _ in range(3)]
    rows = [build_row(job_id=each) for each in ids]
    approval = build_row("spend_needs_approval")
    elsewhere = build_row(session_id=uuid4())

    funds, other, third = build_needs([*rows, approval, elsewhere])

    assert (funds.code, funds.jobs, funds.since) == ("funds", ids, LATER)
    assert (other.code, other.jobs) == ("approval", [approval["job_id"]])
    assert (third.session_id, third.jobs) == (elsewhere["session_id"], [elsewhere["job_id"]])


def test_a_stage_that_waits_has_waited_since_it_ended_and_the_last_one_needs_nothing() -> None:
    waiting = build_row(phase="stage_complete", job_id=None, status=None, error=None)

    (need,) = build_needs([waiting])

    assert (need.code, need.jobs, need.since) == ("feedback", [], ENDED)
    assert build_needs([{**waiting, "until_stage_slug": "thesis"}]) == []
