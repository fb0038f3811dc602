"""What an answer or an error means for a job: decided without a clock, a network or a database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic import errors
from dialectic.domain.job import Job
from dialectic.domain.message import FinishReason, Reply, Usage, UsageSource
from dialectic.errors import (
    DialecticError,
    Fate,
    FundsError,
    LeaseLost,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderThrottled,
    ProviderTransient,
)
from dialectic.pipeline.follow import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    RETRY_AFTER_MAX_S,
    THROTTLED_MAX_S,
    Fail,
    Finish,
    Pause,
    Retry,
    decide_fate,
    follow,
)


def build_job(*, retry_count: int = 0, max_retries: int = 3, throttled_s: float = 0.0) -> Job:
    nobody = UUID(int=0)
    return Job(
        tenant_id=nobody,
        id=nobody,
        session_id=nobody,
        stage_slug="thesis",
        iteration_number=1,
        attempt=retry_count + 1,
        retry_count=retry_count,
        max_retries=max_retries,
        current_step=1,
        throttled_s=throttled_s,
        payload_json={},
    )


def build_reply(finish: FinishReason, text: str = "Words.", raw: str | None = "raw word") -> Reply:
    return Reply(text, finish, raw, Usage(1, 1, UsageSource.REPORTED), "request-1")


def all_errors(kind: type[DialecticError] = DialecticError) -> Iterator[type[DialecticError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from all_errors(below)


EXPECTED: dict[type[DialecticError], Fate] = {
    DialecticError: Fate.FAIL,
    errors.UsageError: Fate.FAIL,
    errors.NotFound: Fate.FAIL,
    errors.Conflict: Fate.FAIL,
    errors.IllegalMove: Fate.FAIL,
    errors.InvalidProcess: Fate.FAIL,
    errors.InvalidBundle: Fate.FAIL,
    errors.UnknownModel: Fate.FAIL,
    errors.ConfigurationError: Fate.FAIL,
    errors.DatabaseUnreachable: Fate.DROP,
    errors.DatabaseBusy: Fate.RETRY,
    errors.DatabaseFull: Fate.PAUSE,
    errors.SchemaChanged: Fate.DROP,
    errors.StorageMismatch: Fate.FAIL,
    errors.EmbeddedServerError: Fate.FAIL,
    errors.StorageUnavailable: Fate.PAUSE,
    FundsError: Fate.PAUSE,
    errors.ContextWindowError: Fate.FAIL,
    ProviderError: Fate.RETRY,
    ProviderTransient: Fate.RETRY,
    ProviderThrottled: Fate.RETRY,
    ProviderMalformed: Fate.RETRY,
    errors.StreamTruncated: Fate.RETRY,
    errors.ProviderQuota: Fate.PAUSE,
    errors.ProviderAuth: Fate.FAIL,
    errors.ProviderRejected: Fate.FAIL,
    ProviderFiltered: Fate.FAIL,
    errors.InvalidPayload: Fate.FAIL,
    errors.PlanError: Fate.FAIL,
    LeaseLost: Fate.DROP,
}
RETRIED = [kind for kind, fate in EXPECTED.items() if fate is Fate.RETRY]
NAMING_A_WAIT = [kind for kind in RETRIED if issubclass(kind, ProviderError)]


def test_every_error_of_the_tree_has_the_fate_that_is_promised() -> None:
    ours = {kind for kind in all_errors() if kind.__module__.startswith("dialectic.")}
    assert {kind: kind.fate for kind in ours} == EXPECTED


@pytest.mark.parametrize("kind", [kind for kind, fate in EXPECTED.items() if fate is Fate.FAIL])
def test_an_error_that_no_retry_mends_fails_the_job_at_once(kind: type[DialecticError]) -> None:
    assert decide_fate(build_job(), kind(), jitter=random.Random(1)) == Fail(retries_used_up=False)


@pytest.mark.parametrize("kind", [kind for kind, fate in EXPECTED.items() if fate is Fate.PAUSE])
def test_an_error_that_a_person_can_mend_pauses_the_job(kind: type[DialecticError]) -> None:
    job = build_job(retry_count=3)
    assert decide_fate(job, kind(), jitter=random.Random(1)) == Pause()


@pytest.mark.parametrize("kind", [kind for kind, fate in EXPECTED.items() if fate is Fate.DROP])
def test_an_error_that_leaves_nothing_to_write_never_reaches_the_decision(
    kind: type[DialecticError],
) -> None:
    with pytest.raises(AssertionError, match=kind.__name__):
        decide_fate(build_job(), kind(), jitter=random.Random(1))


@pytest.mark.parametrize("kind", [kind for kind in RETRIED if kind is not ProviderThrottled])
def test_an_error_that_may_pass_is_tried_again_until_the_tries_are_used_up(
    kind: type[DialecticError],
) -> None:
    fates = [
        decide_fate(build_job(retry_count=n, max_retries=3), kind(), jitter=random.Random(n))
        for n in range(5)
    ]
    assert [isinstance(fate, Retry) and fate.counts for fate in fates] == [True] * 3 + [False] * 2
    assert fates[3:] == [Fail(retries_used_up=True)] * 2


def test_without_any_retry_the_first_passing_error_ends_the_job() -> None:
    job = build_job(max_retries=0)
    fate = decide_fate(job, ProviderTransient(), jitter=random.Random(1))
    assert fate == Fail(retries_used_up=True)


@pytest.mark.parametrize("retry_count", [0, 3, 50])
def test_a_wait_that_the_provider_asks_for_uses_up_no_try(retry_count: int) -> None:
    fate = decide_fate(
        build_job(retry_count=retry_count), ProviderThrottled(), jitter=random.Random(1)
    )
    assert isinstance(fate, Retry)
    assert not fate.counts


@given(st.integers(0, 19), st.integers())
def test_the_wait_doubles_up_to_a_limit_and_varies_within_its_upper_half(
    retry_count: int, seed: int
) -> None:
    job = build_job(retry_count=retry_count, max_retries=20)
    fate = decide_fate(job, ProviderTransient(), jitter=random.Random(seed))
    assert isinstance(fate, Retry)
    ceiling_s = min(BACKOFF_FIRST_S * 2**retry_count, BACKOFF_MAX_S)
    assert ceiling_s / 2 <= fate.delay_s <= ceiling_s <= BACKOFF_MAX_S


def test_jobs_that_failed_together_do_not_come_back_together() -> None:
    jitter = random.Random(7)
    fates = [decide_fate(build_job(), ProviderTransient(), jitter=jitter) for _ in range(100)]
    delays = sorted(fate.delay_s for fate in fates if isinstance(fate, Retry))
    assert len(set(delays)) == 100
    assert delays[-1] - delays[0] > BACKOFF_FIRST_S / 4


@given(
    st.sampled_from(NAMING_A_WAIT),
    st.floats(0, RETRY_AFTER_MAX_S),
    st.integers(0, 2),
    st.integers(),
)
def test_the_wait_that_the_provider_names_wins_and_is_never_shortened(
    kind: type[ProviderError], retry_after_s: float, retry_count: int, seed: int
) -> None:
    error = kind("Later, please.", retry_after_s=retry_after_s)
    fate = decide_fate(build_job(retry_count=retry_count), error, jitter=random.Random(seed))
    assert isinstance(fate, Retry)
    assert retry_after_s <= fate.delay_s <= retry_after_s * 1.05


@pytest.mark.parametrize("retry_after_s", [-1.0, float("-inf"), float("nan")])
def test_a_wait_that_makes_no_sense_is_ignored(retry_after_s: float) -> None:
    error = ProviderThrottled("Later.", retry_after_s=retry_after_s)
    fate = decide_fate(build_job(), error, jitter=random.Random(1))
    assert isinstance(fate, Retry)
    assert BACKOFF_FIRST_S / 2 <= fate.delay_s <= BACKOFF_FIRST_S


@pytest.mark.parametrize("retry_after_s", [10 * 365 * 86_400.0, float("inf")])
def test_a_wait_of_years_is_cut_to_the_longest_one(retry_after_s: float) -> None:
    error = ProviderThrottled("Later.", retry_after_s=retry_after_s)
    fate = decide_fate(build_job(), error, jitter=random.Random(1))
    assert isinstance(fate, Retry)
    assert RETRY_AFTER_MAX_S <= fate.delay_s <= RETRY_AFTER_MAX_S * 1.05


def test_an_answer_that_ended_by_itself_is_the_document() -> None:
    assert follow(build_reply(FinishReason.STOP)) == Finish(is_incomplete=False)


def test_an_answer_that_was_cut_off_is_a_document_marked_incomplete() -> None:
    assert follow(build_reply(FinishReason.LENGTH)) == Finish(
        is_incomplete=True, flags=("cut_off",)
    )


@pytest.mark.parametrize("finish", [FinishReason.STOP, FinishReason.LENGTH])
@pytest.mark.parametrize("text", ["", " ", "\n\t\r\n", "\u00a0\u2003"])
def test_an_answer_without_words_is_an_error_whatever_its_end(
    finish: FinishReason, text: str
) -> None:
    with pytest.raises(ProviderMalformed, match="'raw word' and wrote nothing"):
        follow(build_reply(finish, text))


@pytest.mark.parametrize("text", ["", "I would rather not."])
def test_a_refusal_is_never_a_document(text: str) -> None:
    with pytest.raises(ProviderFiltered, match="'content_filter'"):
        follow(build_reply(FinishReason.FILTER, text, raw="content_filter"))


@pytest.mark.parametrize("finish", [FinishReason.TOOL, FinishReason.ERROR])
@pytest.mark.parametrize("raw", ["tool_calls", "no such word", None])
def test_an_end_that_is_none_is_an_error_that_names_the_vendors_word(
    finish: FinishReason, raw: str | None
) -> None:
    with pytest.raises(ProviderMalformed, match=repr(raw)):
        follow(build_reply(finish, raw=raw))


@pytest.mark.parametrize(("late_s", "fate"), [(-1.0, Retry), (1.0, Fail)])
def test_a_job_is_throttled_for_an_hour_at_most(
    late_s: float, fate: type[Retry] | type[Fail]
) -> None:
    job = build_job(throttled_s=THROTTLED_MAX_S + late_s)
    assert isinstance(decide_fate(job, ProviderThrottled(), jitter=random.Random(1)), fate)
