"""What waits for a person in a session: decided from its phase and the reasons of its jobs. Pure.

The reasons are those that jobs store and notifications tell; here they are summed up by what a
person must do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from dialectic.core.job_phase import FUNDS_CODES
from dialectic.core.job_status import ENDED, JobStatus
from dialectic.core.session_state import NeedCode, NeedStep, Phase
from dialectic.errors import KeyMissing, Remedy, RemedyAction, SpendNeedsApproval, read_remedy

# A session that waits for one of these does not go on by itself.
BLOCKING = frozenset(
    {NeedCode.FUNDS, NeedCode.BUDGET, NeedCode.APPROVAL, NeedCode.KEY, NeedCode.ENDPOINT}
)
_STEPS = {
    NeedCode.FUNDS: (NeedStep.TOP_UP, NeedStep.RESUME),
    NeedCode.BUDGET: (NeedStep.RAISE_BUDGET,),
    NeedCode.APPROVAL: (NeedStep.APPROVE_SPEND, NeedStep.TOP_UP, NeedStep.REPLACE_SEAT),
    NeedCode.KEY: (NeedStep.CONFIGURE, NeedStep.RESUME, NeedStep.REPLACE_SEAT),
    NeedCode.ENDPOINT: (NeedStep.RESUME, NeedStep.REPLACE_SEAT),
    NeedCode.FAILURE: (NeedStep.RETRY, NeedStep.REPLACE_SEAT),
    NeedCode.FEEDBACK: (NeedStep.START_NEXT,),
    NeedCode.STALE: (NeedStep.REGENERATE_STALE,),
    NeedCode.INCOMPLETE: (NeedStep.REGENERATE,),
}
FAILED = frozenset({JobStatus.FAILED, JobStatus.RETRY_LOOP_FAILED})
# The job failed because of another one, which says why.
FOLLOWS_ANOTHER = frozenset({"prerequisite_failed", "child_failed"})


@dataclass(frozen=True, slots=True)
class JobState:
    """What decides whether a job waits for a person."""

    id: UUID
    stage: str
    seat: int | None
    status: JobStatus
    status_reason: str | None
    # The stored entry of its last error, if it has one.
    error: dict[str, Any] | None

    @property
    def remedy(self) -> Remedy | None:
        return read_remedy((self.error or {}).get("remedy"))


@dataclass(frozen=True, slots=True)
class DocumentState:
    """What decides whether a document waits for a person."""

    id: UUID
    stage: str
    is_stale: bool
    is_incomplete: bool
    is_intermediate: bool


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What decides what a session needs."""

    phase: Phase
    stage: str
    is_complete: bool
    # When the current stage ended, if it did.
    stage_ended_at: datetime | None
    jobs: Sequence[JobState]
    documents: Sequence[DocumentState]


@dataclass(frozen=True, slots=True)
class Need:
    """Something that waits for a person, with the ways out."""

    code: NeedCode
    stage: str | None
    steps: tuple[NeedStep, ...]
    jobs: tuple[JobState, ...] = ()
    documents: tuple[UUID, ...] = ()
    since: datetime | None = None


def decide_needs(facts: SessionFacts) -> list[Need]:
    """Decide what waits for a person, the most urgent first."""
    if facts.phase is Phase.CANCELLED:
        return []
    needs = [*_list_blocked(facts.jobs), *_list_failures(facts)]
    if facts.phase is Phase.STAGE_COMPLETE and not facts.is_complete:
        code = NeedCode.FEEDBACK
        needs.append(Need(code, facts.stage, _STEPS[code], since=facts.stage_ended_at))
    stale = [one for one in facts.documents if one.is_stale]
    needs += _list_documents(NeedCode.STALE, stale)
    cut = [one for one in facts.documents if one.is_incomplete and not one.is_intermediate]
    needs += _list_documents(NeedCode.INCOMPLETE, cut)
    return needs


def decide_block(facts: SessionFacts, needs: Iterable[Need]) -> NeedCode | None:
    """Decide why nothing of a session goes on by itself; None if something does."""
    if facts.phase is not Phase.GENERATING:
        return None
    waiting = {JobStatus.WAITING_FOR_CHILDREN, JobStatus.WAITING_FOR_PREREQUISITE, JobStatus.PAUSED}
    if any(job.status not in ENDED | waiting for job in facts.jobs):
        return None
    return next((need.code for need in needs if need.code in BLOCKING), None)


def _list_blocked(jobs: Sequence[JobState]) -> list[Need]:
    """Sum up the paused jobs that wait for the same thing; those that a user paused are not."""
    found: dict[NeedCode, list[JobState]] = {}
    for job in jobs:
        is_stuck = (job.error or {}).get("code") == job.status_reason
        if job.status is JobStatus.PAUSED and is_stuck:
            found.setdefault(_name_block(job), []).append(job)
    return [_build(code, waiting) for code, waiting in found.items()]


def _name_block(job: JobState) -> NeedCode:
    if job.status_reason == SpendNeedsApproval.code:
        return NeedCode.APPROVAL
    if job.status_reason in FUNDS_CODES:
        is_budget = job.remedy is not None and job.remedy.action is RemedyAction.RAISE_BUDGET
        return NeedCode.BUDGET if is_budget else NeedCode.FUNDS
    return NeedCode.KEY if job.status_reason == KeyMissing.code else NeedCode.ENDPOINT


def _list_failures(facts: SessionFacts) -> list[Need]:
    failed = [
        job
        for job in facts.jobs
        if job.status in FAILED and (job.error or {}).get("code") not in FOLLOWS_ANOTHER
    ]
    if facts.phase is not Phase.FAILED or not failed:
        return []
    need = _build(NeedCode.FAILURE, failed)
    can_drop = any(j.remedy and j.remedy.action is RemedyAction.DROP_SEAT for j in failed)
    return [need if not can_drop else _add_step(need, NeedStep.DROP_SEAT)]


def _add_step(need: Need, step: NeedStep) -> Need:
    return Need(need.code, need.stage, (*need.steps, step), need.jobs, since=need.since)


def _build(code: NeedCode, jobs: Sequence[JobState]) -> Need:
    times = [read_time(job.error) for job in jobs]
    since = min((at for at in times if at is not None), default=None)
    return Need(code, jobs[0].stage, _STEPS[code], tuple(jobs), since=since)


def _list_documents(code: NeedCode, documents: Sequence[DocumentState]) -> list[Need]:
    if not documents:
        return []
    ids = tuple(one.id for one in documents)
    return [Need(code, documents[0].stage, _STEPS[code], documents=ids)]


def read_time(entry: dict[str, Any] | None) -> datetime | None:
    """Read when an error happened."""
    text = (entry or {}).get("at")
    return datetime.fromisoformat(text) if text else None
