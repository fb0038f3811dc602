"""How often an error is tried again, and after which waits: the taxonomy, class by class."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic.core.job import Job
from dialectic.errors import (
    CircuitOpen,
    DialecticError,
    EndpointBusy,
    ProviderAuth,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderQuota,
    ProviderRejected,
    ProviderThrottled,
    ProviderTransient,
    ProviderUnreachable,
    StreamTruncated,
)
from dialectic.pipeline.interpret import THROTTLED_MAX_S, Fail, Pause, Postpone, Retry, decide_fate
from tests.cases import each_case
from tests.unit.pipeline.test_interpret import build_job

FAILED, USED_UP = Fail(retries_used_up=False), Fail(retries_used_up=True)


def meet(job: Job, error: DialecticError, fate: Retry) -> Job:
    """The same job at its next attempt."""
    return replace(
        job,
        attempt=job.attempt + 1,
        retry_count=job.retry_count + fate.counts,
        error_codes=(*job.error_codes, error.code),
    )


def play(*errors: DialecticError, max_retries: int = 9) -> list[Retry | Postpone | Pause | Fail]:
    """What becomes of a job that meets these errors one after another, until it ends."""
    job, fates = build_job(max_retries=max_retries), []
    for number, error in enumerate(errors):
        fate = decide_fate(job, error, jitter=random.Random(number))
        fates.append(fate)
        if not isinstance(fate, Retry):
            break
        job = meet(job, error, fate)
    return fates


TLS = ProviderTransient("The certificate is out of date.", retries_max=1)
EMPTY = ProviderMalformed("Nothing came.", retries_max=1)


@each_case(
    ("error", "attempts", "end"),
    [
        (ProviderTransient(), 4, USED_UP),
        (StreamTruncated(), 4, USED_UP),
        (ProviderMalformed(), 3, USED_UP),
        (EMPTY, 2, USED_UP),
        (TLS, 2, USED_UP),
        (ProviderTransient(retries_max=0), 1, USED_UP),
        (ProviderTransient(retries_max=50), 4, USED_UP),
        (ProviderQuota(), 1, Pause()),
        (ProviderAuth(), 1, FAILED),
        (ProviderRejected(), 1, FAILED),
        (ProviderFiltered(), 1, FAILED),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_an_error_that_stays_is_met_so_often_and_then_ends_the_job(
    error: ProviderError, attempts: int, end: Pause | Fail
) -> None:
    fates = play(*[error] * 20, max_retries=3)
    assert (len(fates), fates[-1]) == (attempts, end)
    assert all(isinstance(fate, Retry) and fate.counts for fate in fates[:-1])


def test_only_errors_of_one_kind_in_a_row_are_held_against_each_other() -> None:
    malformed, transient = ProviderMalformed(), ProviderTransient()
    fates = play(malformed, malformed, transient, malformed, malformed, malformed)
    assert [type(fate) for fate in fates] == [Retry] * 5 + [Fail]


def test_an_attempt_whose_worker_died_breaks_no_row() -> None:
    job = replace(
        build_job(retry_count=2, max_retries=9),
        error_codes=("provider_malformed", "worker_lost", "provider_malformed", "worker_lost"),
    )
    assert decide_fate(job, ProviderMalformed(), jitter=random.Random(1)) == USED_UP


def test_what_was_met_before_a_person_ran_the_job_again_is_not_held_against_it() -> None:
    job = replace(build_job(retry_count=0), error_codes=("provider_malformed",) * 3)
    assert isinstance(decide_fate(job, ProviderMalformed(), jitter=random.Random(1)), Retry)


@each_case("retries_max", [0, 1, 2, 5])
@each_case("max_retries", [0, 1, 3])
def test_the_job_allows_no_more_than_its_own_tries_whatever_the_error_allows(
    retries_max: int, max_retries: int
) -> None:
    error = ProviderTransient(retries_max=retries_max)
    fates = play(*[error] * 9, max_retries=max_retries)
    assert len(fates) == min(retries_max, max_retries) + 1


def test_throttled_waits_grow_although_no_try_is_used_up() -> None:
    ceilings_s = [2, 4, 8, 16, 32, 60, 60]
    for seed in range(20):
        job = build_job()
        for ceiling_s in ceilings_s:
            error = ProviderThrottled()
            fate = decide_fate(job, error, jitter=random.Random(seed))
            assert isinstance(fate, Retry)
            assert not fate.counts
            assert 1 <= fate.delay_s <= ceiling_s
            job = meet(job, error, fate)


@given(st.floats(0, 3600), st.integers())
def test_a_job_whose_endpoint_is_busy_comes_back_when_it_is_told_and_never_earlier(
    wait_s: float, seed: int
) -> None:
    job = build_job(retry_count=3, max_retries=3, throttled_s=10 * THROTTLED_MAX_S)
    fate = decide_fate(job, EndpointBusy(wait_s=wait_s), jitter=random.Random(seed))
    assert isinstance(fate, Postpone)
    assert not fate.is_in_trouble
    assert wait_s <= fate.delay_s <= wait_s * 1.05


@pytest.mark.parametrize(("late_s", "ends"), [(-1.0, False), (1.0, True)])
def test_an_endpoint_in_trouble_is_waited_for_an_hour_at_most(late_s: float, ends: bool) -> None:
    job = build_job(retry_count=3, max_retries=3, throttled_s=THROTTLED_MAX_S + late_s)
    fate = decide_fate(job, CircuitOpen(wait_s=15.0), jitter=random.Random(1))
    assert fate == USED_UP if ends else isinstance(fate, Postpone) and fate.is_in_trouble


def test_a_refused_connection_is_tried_again_by_time_with_growing_waits() -> None:
    job, waits, passed_s = build_job(max_retries=3), [], 0.0
    while True:
        error = ProviderUnreachable("Nobody listens.")
        fate = decide_fate(job, error, jitter=random.Random(1), unreachable_max_s=120.0)
        if not isinstance(fate, Retry):
            break
        assert not fate.counts
        waits.append(fate.delay_s)
        passed_s += fate.delay_s
        job = replace(meet(job, error, fate), throttled_s=passed_s)
    assert fate == USED_UP
    assert waits == sorted(waits)
    assert len(waits) > 3
    assert passed_s >= 120.0


def test_an_open_circuit_does_not_prolong_the_wait_for_an_unreachable_endpoint() -> None:
    job = replace(build_job(), error_codes=(ProviderUnreachable.code,), throttled_s=121.0)
    assert decide_fate(job, CircuitOpen(wait_s=5.0), jitter=random.Random(1)) == USED_UP
    other = replace(job, error_codes=(ProviderTransient.code,))
    assert isinstance(
        decide_fate(other, CircuitOpen(wait_s=5.0), jitter=random.Random(1)), Postpone
    )
