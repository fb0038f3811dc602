"""A session without a worker is noticed once, and one with a worker never."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.cli.display.follow import IDLE_S, StallDetector
from dialectic.cli.display.session_end import ALIVE, DUE
from dialectic.contract.contributions import JobRecord
from dialectic.contract.sessions import SessionDetail
from dialectic.core.job import JobStatus


def look(*statuses: JobStatus) -> SessionDetail:
    jobs = [JobRecord.model_construct(status=status) for status in statuses]
    return SessionDetail.model_construct(jobs=jobs)


@pytest.mark.parametrize("due", sorted(DUE))
def test_it_is_told_once_when_it_has_waited_for_so_long(due: JobStatus) -> None:
    idleness = StallDetector()
    seen = look(due, JobStatus.COMPLETED, JobStatus.WAITING_FOR_CHILDREN)
    told = [idleness.notice(seen, now_s) for now_s in (5.0, 4.9 + IDLE_S, 5.0 + IDLE_S, 99.0)]
    assert told == [False, False, True, False]


@pytest.mark.parametrize("alive", sorted(ALIVE))
def test_work_in_between_starts_the_wait_again(alive: JobStatus) -> None:
    idleness = StallDetector()
    assert not idleness.notice(look(JobStatus.PENDING), 0.0)
    assert not idleness.notice(look(JobStatus.PENDING, alive), IDLE_S)
    assert not idleness.notice(look(JobStatus.PENDING), IDLE_S + 1)
    assert idleness.notice(look(JobStatus.PENDING), 2 * IDLE_S + 1)


@given(st.lists(st.sampled_from(sorted(set(JobStatus) - DUE))))
def test_without_runnable_jobs_no_worker_is_missed(statuses: list[JobStatus]) -> None:
    idleness = StallDetector()
    assert not any(idleness.notice(look(*statuses), now_s) for now_s in (0.0, 2 * IDLE_S))
