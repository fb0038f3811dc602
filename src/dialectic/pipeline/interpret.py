"""Decide what an answer or an error means for the job. Pure; unknown is never success."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from dialectic.core.backoff import compute_delay_s
from dialectic.core.documents.stitching import (
    Joined,
    is_unclosed,
    join,
    says_the_same,
    seems_finished,
)
from dialectic.core.documents.turns import CUT_OFF, REPEATED
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Reply, UsageSource
from dialectic.core.text import clean_text
from dialectic.errors import (
    CircuitOpen,
    DialecticError,
    EndpointBusy,
    Fate,
    PartialResponse,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderThrottled,
    ProviderUnreachable,
)

CONTINUATION_LIMIT = "continuation_limit"
NO_PROGRESS = "no_progress"
REPEATS_ITSELF = "repeats_itself"
WINDOW_FULL = "window_full"
UNCLOSED = "unclosed"

# A later turn with less text than this, although it had room for more, adds nothing.
PROGRESS_CHARS_MIN = 20
# Retry an empty answer only once.
EMPTY_RETRIES_MAX = 1

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 3600.0
THROTTLED_MAX_S = 3600.0
# A server that restarts accepts connections again within this time.
UNREACHABLE_MAX_S = 120.0
# These errors pass with time, however many retries it takes.
RETRIED_BY_TIME = (ProviderThrottled, ProviderUnreachable)
# Jitter only lengthens a wait.
JITTER_UP = 1.05
# A repeated error is unlikely to pass: the most retries in a row for each code.
RETRIES_MAX = {ProviderMalformed.code: 2}


@dataclass(frozen=True, slots=True)
class Limits:
    """Whether a cut-off answer is continued, and the most further turns."""

    continues: bool
    continuations_max: int
    # Whether to ask once more after a turn that adds nothing new.
    may_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Finish:
    """The document is finished; `is_incomplete` if it was cut off and is not continued."""

    text: str
    is_incomplete: bool
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Continue:
    """Another turn continues the document; the flags of this turn say what it asks for."""

    flags: tuple[str, ...] = ()


def interpret(
    reply: Reply, said: Sequence[str], limits: Limits, *, has_stopped: bool = False
) -> Finish | Continue:
    """Decide what an answer means, given the earlier turns.

    Only an answer with text can become a document or a part of one. `has_stopped` if an earlier
    turn ended with a regular stop and was continued because it seemed unfinished.
    """
    match reply.finish_reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            if not reply.text.strip() and not said:
                raise ProviderMalformed(
                    f"The model returned an empty answer (finish reason "
                    f"{reply.raw_finish_reason!r}).",
                    retries_max=EMPTY_RETRIES_MAX,
                    remains=_leave(reply),
                    reason="empty_answer",
                    subject=reply.raw_finish_reason,
                )
            if reply.finish_reason is FinishReason.STOP:
                return _follow_end(reply, said, limits, has_stopped=has_stopped)
            return _follow_cut(reply, said, limits)
        case FinishReason.FILTER:
            raise ProviderFiltered(
                f"The model refused to answer (finish reason {reply.raw_finish_reason!r}).",
                remains=_leave(reply),
                reason="refused",
                subject=reply.raw_finish_reason,
            )
        case FinishReason.TOOL | FinishReason.ERROR:
            raise ProviderMalformed(
                f"The model did not finish its answer (finish reason {reply.raw_finish_reason!r}).",
                remains=_leave(reply),
                reason="unknown_end",
                subject=reply.raw_finish_reason,
            )
        case unreachable:
            assert_never(unreachable)


def close(said: Sequence[str], flag: str) -> Finish:
    """Build an incomplete document from the turns so far."""
    return finish(join(said), is_incomplete=True, flags=(flag,))


def finish(joined: Joined, *, is_incomplete: bool, flags: tuple[str, ...] = ()) -> Finish:
    """Build a document from its joined turns."""
    # Clean again: a character sequence may have been split between two turns.
    text, notes = clean_text(joined.text)
    cleaned = (f"cleaned: {note}" for note in notes)
    return Finish(text, is_incomplete, (*flags, *joined.notes, *cleaned))


def _follow_end(
    reply: Reply, said: Sequence[str], limits: Limits, *, has_stopped: bool
) -> Finish | Continue:
    joined = _join(reply, said)
    if is_unclosed(joined.text):
        # The model stopped, but the text seems unfinished: ask once to continue, then accept it.
        if limits.continues and not has_stopped and len(said) < limits.continuations_max:
            return Continue()
        return finish(joined, is_incomplete=False, flags=(UNCLOSED,))
    before = join(said).text
    if before and not joined.text[len(before) :].strip() and not seems_finished(before):
        return _follow_nothing_new(said, limits, close([*said, reply.text], NO_PROGRESS))
    return finish(joined, is_incomplete=False)


def _follow_cut(reply: Reply, said: Sequence[str], limits: Limits) -> Finish | Continue:
    turns = [*said, reply.text]
    if not limits.continues:
        return close(turns, CUT_OFF)
    if said:
        if says_the_same(said[-1], reply.text):
            return _follow_nothing_new(said, limits, close(said, REPEATS_ITSELF))
        added = len(_join(reply, said).text[len(join(said).text) :].strip())
        if added < min(PROGRESS_CHARS_MIN, max(1, reply.usage.output_tokens)):
            is_echo = added < len(reply.text.strip())
            flag = REPEATS_ITSELF if is_echo else NO_PROGRESS
            return _follow_nothing_new(said, limits, close(turns, flag))
    if len(said) >= limits.continuations_max:
        return close(turns, CONTINUATION_LIMIT)
    return Continue()


def _follow_nothing_new(said: Sequence[str], limits: Limits, closed: Finish) -> Finish | Continue:
    """Ask once more after a turn that adds nothing; then accept the text as it is."""
    may_ask = limits.continues and limits.may_repeat and len(said) < limits.continuations_max
    return Continue((REPEATED,)) if may_ask else closed


def _join(reply: Reply, said: Sequence[str]) -> Joined:
    """Join an answer to the earlier turns; a model may start over once."""
    joined = join([*said, reply.text])
    if joined.restarts > 1:
        raise ProviderMalformed(
            f"The model repeats itself: asked to continue with turn {len(said)}, it started over "
            "for the second time.",
            remains=_leave(reply),
            reason="repeats_itself",
        )
    return joined


def _leave(reply: Reply) -> PartialResponse:
    """Build the record of an unusable answer, which is charged anyway."""
    return PartialResponse(
        was_sent=True,
        partial_text=reply.text,
        reported_usage=(
            (reply.usage.input_tokens, reply.usage.output_tokens)
            if reply.usage.source is UsageSource.REPORTED
            else None
        ),
        request_id=reply.request_id,
        raw=reply.raw,
    )


@dataclass(frozen=True, slots=True)
class Retry:
    """Run the job again after a delay; `counts` tells whether that uses up a retry."""

    delay_s: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Postpone:
    """Run the job again when the endpoint accepts calls; this does not count as a failure.

    `is_in_trouble` if the endpoint is failing and not just busy: that wait has a limit.
    """

    delay_s: float
    is_in_trouble: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a person, or for money that other calls hold."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the job."""

    retries_used_up: bool


def decide_fate(
    job: Job,
    error: DialecticError,
    *,
    jitter: random.Random,
    unreachable_max_s: float = UNREACHABLE_MAX_S,
) -> Retry | Postpone | Pause | Fail:
    """Decide what happens to a job after an error."""
    match error.fate:
        case Fate.PAUSE:
            return Pause()
        case Fate.FAIL:
            return Fail(retries_used_up=False)
        case Fate.RETRY:
            if _is_used_up(job, error, unreachable_max_s):
                return Fail(retries_used_up=True)
            if isinstance(error, EndpointBusy):
                delay_s = error.wait_s * jitter.uniform(1.0, JITTER_UP)
                return Postpone(delay_s, is_in_trouble=isinstance(error, CircuitOpen))
            counts = not isinstance(error, RETRIED_BY_TIME)
            return Retry(_delay_s(job, error, jitter), counts)
        case Fate.DROP:
            message = f"{type(error).__name__} must be dropped by the caller"
            raise AssertionError(message)
        case unreachable:
            assert_never(unreachable)


def is_final(job: Job, error: DialecticError, *, unreachable_max_s: float) -> bool:
    """Tell whether a job would end with this error."""
    fate = decide_fate(
        job,
        error,
        jitter=random.Random(0),  # noqa: S311  unused
        unreachable_max_s=unreachable_max_s,
    )
    return isinstance(fate, Fail)


def _is_used_up(job: Job, error: DialecticError, unreachable_max_s: float) -> bool:
    """Tell whether this error has occurred too often, or lasted too long, for another retry."""
    is_unreachable = isinstance(error, ProviderUnreachable) or (
        isinstance(error, CircuitOpen) and job.error_codes[-1:] == (ProviderUnreachable.code,)
    )
    if is_unreachable:
        return job.throttled_s >= unreachable_max_s
    if isinstance(error, ProviderThrottled | CircuitOpen):
        return job.throttled_s > THROTTLED_MAX_S
    if isinstance(error, EndpointBusy):
        return False
    if job.retry_count >= job.max_retries:
        return True
    retries_max = RETRIES_MAX.get(error.code)
    if isinstance(error, ProviderError) and error.retries_max is not None:
        retries_max = error.retries_max
    # Do not count errors from before a person retried the job.
    repeats = min(job.count_repeats(error.code), job.retry_count)
    return retries_max is not None and repeats >= retries_max


def _delay_s(job: Job, error: DialecticError, jitter: random.Random) -> float:
    """Compute an exponential back-off with full jitter; a valid `Retry-After` takes precedence.

    Jitter spreads the retries of jobs that failed together.
    """
    asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked_s is not None and asked_s >= 0:  # false for NaN, too
        return min(asked_s, RETRY_AFTER_MAX_S) * jitter.uniform(1.0, JITTER_UP)
    tried = job.retry_count
    if isinstance(error, RETRIED_BY_TIME):
        tried = job.count_repeats(error.code)
    ceiling_s = compute_delay_s(tried + 1, BACKOFF_FIRST_S, BACKOFF_MAX_S)
    if isinstance(error, ProviderUnreachable):
        return ceiling_s * jitter.uniform(1.0, JITTER_UP)
    return jitter.uniform(BACKOFF_FIRST_S, ceiling_s)
