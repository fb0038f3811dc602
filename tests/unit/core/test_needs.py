"""What waits for a person is decided from the phase of a session and the reasons of its jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from dialectic.core.job_status import JobStatus
from dialectic.core.needs import (
    DocumentState,
    JobState,
    SessionFacts,
    decide_block,
    decide_needs,
)
from dialectic.core.session_state import NeedCode, NeedStep, Phase

NOW = datetime(2026, 11, 18, 9, tzinfo=UTC)


def build_job(nth: int, status: JobStatus, reason: str | None = None, **entry: Any) -> JobState:
    error = {"code": reason, "at": NOW.isoformat(), **entry} if entry or reason else None
    return JobState(UUID(int=nth), "thesis", nth, status, reason, error)


def build_facts(*jobs: JobState, phase: Phase = Phase.GENERATING, **wishes: Any) -> SessionFacts:
    chosen: dict[str, Any] = {"stage": "thesis", "is_complete": False, "stage_ended_at": NOW}
    return SessionFacts(phase=phase, jobs=jobs, **({"documents": ()} | chosen | wishes))


def test_calls_that_wait_for_the_same_thing_are_one_need_that_blocks_the_session() -> None:
    budget = {"remedy": {"action": "raise_budget"}}
    stuck = [build_job(n, JobStatus.PAUSED, "insufficient_funds", **budget) for n in (1, 2)]
    waiting = build_job(3, JobStatus.WAITING_FOR_PREREQUISITE)
    facts = build_facts(*stuck, waiting)
    (need,) = decide_needs(facts)
    assert (need.code, need.jobs, need.since) == (NeedCode.BUDGET, tuple(stuck), NOW)
    assert decide_block(facts, [need]) is NeedCode.BUDGET
    running = build_facts(*stuck, build_job(4, JobStatus.PROCESSING))
    assert decide_block(running, decide_needs(running)) is None


def test_each_reason_has_its_need() -> None:
    reasons = {
        "insufficient_funds": NeedCode.FUNDS,
        "spend_needs_approval": NeedCode.APPROVAL,
        "key_missing": NeedCode.KEY,
        "provider_quota": NeedCode.ENDPOINT,
    }
    for reason, code in reasons.items():
        (need,) = decide_needs(build_facts(build_job(1, JobStatus.PAUSED, reason)))
        assert need.code is code
        assert need.steps


def test_a_job_that_a_user_paused_needs_nothing() -> None:
    earlier = {"code": "insufficient_funds", "at": NOW.isoformat()}
    job = JobState(UUID(int=1), "thesis", 1, JobStatus.PAUSED, "session paused", earlier)
    assert decide_needs(build_facts(job)) == []


def test_a_failed_session_needs_a_person_for_the_jobs_that_failed_by_themselves() -> None:
    own = build_job(1, JobStatus.FAILED, "provider_filtered", remedy={"action": "drop_seat"})
    others = [
        build_job(2, JobStatus.FAILED, "prerequisite_failed"),
        build_job(3, JobStatus.FAILED, "child_failed"),
    ]
    (need,) = decide_needs(build_facts(own, *others, phase=Phase.FAILED))
    assert (need.code, need.jobs) == (NeedCode.FAILURE, (own,))
    assert need.steps == (NeedStep.RETRY, NeedStep.REPLACE_SEAT, NeedStep.DROP_SEAT)
    # A stage that goes on without it needs nothing.
    assert decide_needs(build_facts(own)) == []


def test_a_complete_stage_waits_for_feedback_unless_it_is_the_last() -> None:
    (need,) = decide_needs(build_facts(phase=Phase.STAGE_COMPLETE))
    assert (need.code, need.since) == (NeedCode.FEEDBACK, NOW)
    assert decide_needs(build_facts(phase=Phase.STAGE_COMPLETE, is_complete=True)) == []


def test_stale_and_cut_off_documents_are_needs_and_drafts_may_be_cut_off() -> None:
    documents = [
        DocumentState(UUID(int=1), "thesis", True, False, True),
        DocumentState(UUID(int=2), "thesis", False, True, True),
        DocumentState(UUID(int=3), "thesis", False, True, False),
    ]
    needs = decide_needs(build_facts(phase=Phase.ITERATION_COMPLETE, documents=documents))
    assert [(need.code, need.documents) for need in needs] == [
        (NeedCode.STALE, (UUID(int=1),)),
        (NeedCode.INCOMPLETE, (UUID(int=3),)),
    ]
    assert decide_needs(build_facts(phase=Phase.CANCELLED, documents=documents)) == []
