"""What an answer or an error means for a job: decided without a clock, a network or a database."""

from __future__ import annotations

import random
from collections.abc import Iterator
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialectic import errors
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Reply, Usage, UsageSource
from dialectic.errors import (
    DialecticError,
    Fate,
    FundsError,
    LeaseLost,
    PartialResponse,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderThrottled,
    ProviderTransient,
)
from dialectic.pipeline.interpret import (
    BACKOFF_FIRST_S,
    BACKOFF_MAX_S,
    RETRIED_BY_TIME,
    RETRY_AFTER_MAX_S,
    THROTTLED_MAX_S,
    WINDOW_FULL,
    Continue,
    Fail,
    Finish,
    Limits,
    Pause,
    Retry,
    close,
    decide_fate,
    interpret,
)
from tests.cases import each_case
from tests.problems import refusing


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


def build_reply(
    finish: FinishReason,
    text: str = "Words.",
    raw: str | None = "raw word",
    output_tokens: int = 1,
) -> Reply:
    usage = Usage(1, output_tokens, UsageSource.REPORTED)
    return Reply(text, finish, raw, usage, "request-1")


def list_ours(kind: type[DialecticError] = DialecticError) -> Iterator[type[DialecticError]]:
    """List the errors of the tree, which tests may have added to."""
    if kind.__module__ == errors.__name__:
        yield kind
    for below in kind.__subclasses__():
        yield from list_ours(below)


# Whatever is not named here is mended by no retry and by nobody: it fails its job.
EXPECTED: dict[type[DialecticError], Fate] = {
    errors.KeyMissing: Fate.PAUSE,
    errors.DatabaseUnreachable: Fate.DROP,
    errors.DatabaseBusy: Fate.RETRY,
    errors.DatabaseFull: Fate.PAUSE,
    errors.EndpointBusy: Fate.RETRY,
    errors.CircuitOpen: Fate.RETRY,
    errors.TextBusy: Fate.RETRY,
    errors.SchemaChanged: Fate.DROP,
    errors.PoolerUnsupported: Fate.DROP,
    errors.StorageUnavailable: Fate.PAUSE,
    FundsError: Fate.PAUSE,
    errors.SpendNeedsApproval: Fate.PAUSE,
    ProviderError: Fate.RETRY,
    ProviderTransient: Fate.RETRY,
    errors.ProviderUnreachable: Fate.RETRY,
    ProviderThrottled: Fate.RETRY,
    ProviderMalformed: Fate.RETRY,
    errors.StreamTruncated: Fate.RETRY,
    errors.ProviderQuota: Fate.PAUSE,
    LeaseLost: Fate.DROP,
    errors.TooManyRequests: Fate.RETRY,
}
# What was never tried is not tried again: an endpoint that takes no call yet is another matter.
RETRIED = [
    kind
    for kind, fate in EXPECTED.items()
    if fate is Fate.RETRY and not issubclass(kind, errors.EndpointBusy)
]
NAMING_A_WAIT = [kind for kind in RETRIED if issubclass(kind, ProviderError)]


def test_every_error_of_the_tree_has_the_fate_that_is_promised() -> None:
    found = {kind: kind.fate for kind in list_ours() if kind.fate is not Fate.FAIL}
    assert found == EXPECTED


@each_case("kind", [kind for kind in list_ours() if kind not in EXPECTED])
def test_an_error_that_no_retry_mends_fails_the_job_at_once(kind: type[DialecticError]) -> None:
    assert decide_fate(build_job(), kind(), jitter=random.Random(1)) == Fail(retries_used_up=False)


@each_case("kind", [kind for kind, fate in EXPECTED.items() if fate is Fate.PAUSE])
def test_an_error_that_a_person_can_mend_pauses_the_job(kind: type[DialecticError]) -> None:
    job = build_job(retry_count=3)
    assert decide_fate(job, kind(), jitter=random.Random(1)) == Pause()


@pytest.mark.parametrize("kind", [kind for kind, fate in EXPECTED.items() if fate is Fate.DROP])
def test_an_error_that_leaves_nothing_to_write_never_reaches_the_decision(
    kind: type[DialecticError],
) -> None:
    with pytest.raises(AssertionError, match=kind.__name__):
        decide_fate(build_job(), kind(), jitter=random.Random(1))


@each_case("kind", [kind for kind in RETRIED if not issubclass(kind, RETRIED_BY_TIME)])
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
def test_the_wait_is_anything_from_a_second_to_a_ceiling_that_doubles_up_to_a_limit(
    retry_count: int, seed: int
) -> None:
    job = build_job(retry_count=retry_count, max_retries=20)
    fate = decide_fate(job, ProviderTransient(), jitter=random.Random(seed))
    assert isinstance(fate, Retry)
    ceiling_s = min(BACKOFF_FIRST_S * 2 ** (retry_count + 1), BACKOFF_MAX_S)
    assert BACKOFF_FIRST_S <= fate.delay_s <= ceiling_s <= BACKOFF_MAX_S


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
    assert BACKOFF_FIRST_S <= fate.delay_s <= 2 * BACKOFF_FIRST_S


@pytest.mark.parametrize("retry_after_s", [10 * 365 * 86_400.0, float("inf")])
def test_a_wait_of_years_is_cut_to_the_longest_one(retry_after_s: float) -> None:
    error = ProviderThrottled("Later.", retry_after_s=retry_after_s)
    fate = decide_fate(build_job(), error, jitter=random.Random(1))
    assert isinstance(fate, Retry)
    assert RETRY_AFTER_MAX_S <= fate.delay_s <= RETRY_AFTER_MAX_S * 1.05


# -- what an answer means -------------------------------------------------------------------------

ON, OFF = Limits(continues=True, continuations_max=2), Limits(continues=False, continuations_max=2)
HEAD = "# A plan for the village hall\n\nThe caretaker opens the doors and the treasurer wri"
MORE = "tes the bills. On Mondays nobody is there, and the keys hang at the baker's shop ne"
LAST = "xt door.\n"


def cut_off(text: str, **usage: int) -> Reply:
    return build_reply(FinishReason.LENGTH, text, raw="max_tokens", **usage)


def test_an_answer_that_ended_by_itself_is_the_document() -> None:
    assert interpret(build_reply(FinishReason.STOP), [], ON) == Finish(
        "Words.", is_incomplete=False
    )


def test_an_answer_that_was_cut_off_is_continued() -> None:
    assert interpret(cut_off(HEAD), [], ON) == Continue()
    assert interpret(cut_off(MORE), [HEAD], ON) == Continue()


def test_the_last_turn_makes_the_document_of_all_of_them() -> None:
    outcome = interpret(build_reply(FinishReason.STOP, LAST), [HEAD, MORE], ON)
    assert outcome == Finish(HEAD + MORE + LAST, is_incomplete=False)


@pytest.mark.parametrize("said", [[], [HEAD]])
def test_without_continuation_a_truncated_answer_is_a_document_marked_incomplete(
    said: list[str],
) -> None:
    outcome = interpret(cut_off(MORE), said, OFF)
    assert outcome == Finish("".join([*said, MORE]), is_incomplete=True, flags=("cut_off",))


@each_case("continuations_max", range(4))
def test_after_the_last_allowed_turn_the_document_is_what_exists(continuations_max: int) -> None:
    limits = Limits(continues=True, continuations_max=continuations_max)
    turns = [
        f"{number}. Turn {number} speaks of the year {1900 + number}.\n" for number in range(9)
    ]
    said: list[str] = []
    while isinstance(outcome := interpret(cut_off(turns[len(said)]), said, limits), Continue):
        said.append(turns[len(said)])
    assert len(said) == continuations_max
    assert outcome == Finish(
        "".join(turns[: len(said) + 1]), is_incomplete=True, flags=("continuation_limit",)
    )


@pytest.mark.parametrize("text", ["", " \n\n", "\u00a0"])
def test_a_further_turn_without_words_ends_the_document_where_it_is(text: str) -> None:
    outcome = interpret(cut_off(text), [HEAD], ON)
    assert outcome == Finish(HEAD + text, is_incomplete=True, flags=("no_progress",))


def test_a_further_turn_of_a_few_letters_for_many_tokens_is_not_progress() -> None:
    outcome = interpret(cut_off("tes", output_tokens=8_000), [HEAD], ON)
    assert outcome == Finish(f"{HEAD}tes", is_incomplete=True, flags=("no_progress",))
    assert interpret(cut_off("tes", output_tokens=1), [HEAD], ON) == Continue(), (
        "there was no room for more"
    )


def test_nothing_more_to_say_is_the_end_of_a_text_that_can_end_there() -> None:
    whole = HEAD + MORE + LAST
    assert interpret(build_reply(FinishReason.STOP, ""), [whole], ON) == Finish(whole, False)
    assert interpret(build_reply(FinishReason.STOP, ""), [HEAD], ON) == Finish(
        HEAD, is_incomplete=True, flags=("no_progress",)
    )


OPEN = "# A plan\n\n```python\nprint('the hall')\n"


def test_an_answer_that_says_it_is_whole_and_leaves_a_fence_open_is_continued_once() -> None:
    stop = build_reply(FinishReason.STOP, OPEN)
    assert interpret(stop, [], ON) == Continue()
    closed = build_reply(FinishReason.STOP, "```\n")
    assert interpret(closed, [OPEN], ON, has_stopped=True) == Finish(f"{OPEN}```\n", False)


@pytest.mark.parametrize("text", ["", "print('the door')\n"])
def test_what_stays_open_after_that_is_taken_as_it_is_and_flagged(text: str) -> None:
    outcome = interpret(build_reply(FinishReason.STOP, text), [OPEN], ON, has_stopped=True)
    assert outcome == Finish(OPEN + text, is_incomplete=False, flags=("unclosed",))


@pytest.mark.parametrize("limits", [OFF, Limits(continues=True, continuations_max=0)])
def test_without_continuation_it_is_flagged_at_once(limits: Limits) -> None:
    outcome = interpret(build_reply(FinishReason.STOP, '{"plan": ['), [], limits)
    assert outcome == Finish('{"plan": [', is_incomplete=False, flags=("unclosed",))


def test_a_turn_that_says_what_the_one_before_it_said_ends_the_document_before_it() -> None:
    lines = "".join(f"{number}. Ask {number * 7} for the key of the hall\n" for number in range(12))
    outcome = interpret(cut_off(lines.replace("11. Ask", "11. Beg")), [HEAD, lines], ON)
    assert outcome == Finish(HEAD + lines, is_incomplete=True, flags=("repeats_itself",))


def test_a_turn_that_says_the_beginning_once_more_and_no_more_ends_the_document() -> None:
    long = HEAD + MORE
    outcome = interpret(cut_off(long[:150]), [long], ON)
    assert outcome == Finish(long, is_incomplete=True, flags=("repeats_itself", "restart_trimmed"))


def test_a_turn_that_begins_all_over_again_is_forgiven_once() -> None:
    whole = HEAD + MORE + LAST
    outcome = interpret(build_reply(FinishReason.STOP, whole), [HEAD + MORE], ON)
    assert outcome == Finish(whole, is_incomplete=False, flags=("restart_trimmed",))
    said = [HEAD + MORE[:60], whole]
    with refusing(ProviderMalformed, reason="repeats_itself") as caught:
        interpret(build_reply(FinishReason.STOP, whole + "More.\n"), said, ON)
    assert caught.value.remains.was_sent


@each_case("finish", [FinishReason.STOP, FinishReason.LENGTH])
@each_case("text", ["", " ", "\n\t\r\n", "\u00a0\u2003"])
def test_an_answer_without_words_is_an_error_whatever_its_end(
    finish: FinishReason, text: str
) -> None:
    with refusing(ProviderMalformed, reason="empty_answer", subject="raw word") as caught:
        interpret(build_reply(finish, text), [], ON)
    assert caught.value.retries_max == 1


@each_case("said", [[], [HEAD]])
@each_case("text", ["", "I would rather not."])
def test_a_refusal_is_never_a_document_nor_a_part_of_one(text: str, said: list[str]) -> None:
    with refusing(ProviderFiltered, reason="refused", subject="content_filter"):
        interpret(build_reply(FinishReason.FILTER, text, raw="content_filter"), said, ON)


@each_case("said", [[], [HEAD]])
@each_case("finish", [FinishReason.TOOL, FinishReason.ERROR])
@each_case("raw", ["tool_calls", "no such word", None])
def test_an_end_that_is_none_is_an_error_that_names_the_vendors_word(
    finish: FinishReason, raw: str | None, said: list[str]
) -> None:
    with refusing(ProviderMalformed, repr(raw), reason="unknown_end", subject=raw) as caught:
        interpret(build_reply(finish, raw=raw), said, ON)
    assert caught.value.remains == PartialResponse(
        was_sent=True, partial_text="Words.", reported_usage=(1, 1), request_id="request-1", raw={}
    )


def test_what_fills_the_window_is_the_document_as_it_is() -> None:
    assert close([HEAD, MORE], WINDOW_FULL) == Finish(
        HEAD + MORE, is_incomplete=True, flags=("window_full",)
    )


@given(st.integers(1, 5), st.integers(0, 6), st.booleans())
def test_however_an_answer_is_cut_the_turns_together_are_the_text(
    size: int, continuations_max: int, continues: bool
) -> None:
    whole = HEAD + MORE + LAST
    limits = Limits(continues=continues, continuations_max=continuations_max)
    parts = [whole[at : at + 40 * size] for at in range(0, len(whole), 40 * size)]
    said: list[str] = []
    for part in parts:
        is_last = part is parts[-1]
        reply = build_reply(FinishReason.STOP if is_last else FinishReason.LENGTH, part)
        outcome = interpret(reply, said, limits)
        said.append(part)
        if isinstance(outcome, Finish):
            assert outcome.text == "".join(said)
            assert outcome.is_incomplete is (len(said) < len(parts))
            return
    pytest.fail("the last turn ends the document")


@pytest.mark.parametrize(("late_s", "fate"), [(-1.0, Retry), (1.0, Fail)])
def test_a_job_is_throttled_for_an_hour_at_most(
    late_s: float, fate: type[Retry] | type[Fail]
) -> None:
    job = build_job(throttled_s=THROTTLED_MAX_S + late_s)
    assert isinstance(decide_fate(job, ProviderThrottled(), jitter=random.Random(1)), fate)
