"""Follow: decide what an answer, or an error, means for the job. Pure; unknown is never success."""

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
from dialectic.core.job import Job
from dialectic.core.models.messages import FinishReason, Reply, UsageSource
from dialectic.core.text import clean_text
from dialectic.errors import (
    CircuitOpen,
    DialecticError,
    EndpointBusy,
    Fate,
    FundsError,
    PartialResponse,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderThrottled,
)

CUT_OFF = "cut_off"
CONTINUATION_LIMIT = "continuation_limit"
NO_PROGRESS = "no_progress"
REPEATS_ITSELF = "repeats_itself"
WINDOW_FULL = "window_full"
UNCLOSED = "unclosed"

# A further turn that says less, although it was given more tokens than that, is none.
PROGRESS_CHARS_MIN = 20
# An answer without words is asked for once more, not as often as others.
EMPTY_RETRIES_MAX = 1

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 3600.0
# How soon a call looks again whether others have freed the money it needs.
HELD_S = 4.0
THROTTLED_MAX_S = 3600.0
# A wait is never shortened, and made a little longer by chance.
JITTER_UP = 1.05
# Errors that are met again and again do not pass: how often each is tried again, in a row.
RETRIES_MAX = {ProviderMalformed.code: 2}


@dataclass(frozen=True, slots=True)
class Limits:
    """Whether a cut-off answer is continued, and for how many further turns at most."""

    continues: bool
    continuations_max: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The document is what was said; `is_incomplete` when it was cut off and stays so."""

    text: str
    is_incomplete: bool
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Continue:
    """The answer was cut off and is a part of the document; another turn goes on with it."""


def interpret(
    reply: Reply, said: Sequence[str], limits: Limits, *, has_stopped: bool = False
) -> Finish | Continue:
    """Decide what an answer means, after what was said in the turns before it.

    Only an answer with text can become a document, or a part of one. `has_stopped` when one of
    those turns ended by itself and was continued nevertheless.
    """
    match reply.finish_reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            if not reply.text.strip() and not said:
                raise ProviderMalformed(
                    f"The model ended with {reply.raw_finish_reason!r} and wrote nothing: an empty "
                    "answer.",
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
                f"The model refused: {reply.raw_finish_reason!r}.",
                remains=_leave(reply),
                reason="refused",
                subject=reply.raw_finish_reason,
            )
        case FinishReason.TOOL | FinishReason.ERROR:
            raise ProviderMalformed(
                f"The answer ended with {reply.raw_finish_reason!r}, which is no end of a "
                "document.",
                remains=_leave(reply),
                reason="unknown_end",
                subject=reply.raw_finish_reason,
            )
        case unreachable:
            assert_never(unreachable)


def close(said: Sequence[str], flag: str) -> Finish:
    """Make the document of what there is, although its end was not reached."""
    return _finish(join(said), is_incomplete=True, flags=(flag,))


def _finish(joined: Joined, *, is_incomplete: bool, flags: tuple[str, ...] = ()) -> Finish:
    # What stood at the edge of a turn can be judged now that its neighbours are known.
    text, notes = clean_text(joined.text)
    cleaned = (f"cleaned: {note}" for note in notes)
    return Finish(text, is_incomplete, (*flags, *joined.notes, *cleaned))


def _follow_end(
    reply: Reply, said: Sequence[str], limits: Limits, *, has_stopped: bool
) -> Finish | Continue:
    joined = _join(reply, said)
    if is_unclosed(joined.text):
        # It says that it is done and is not: asked once to go on, and then taken at its word.
        if limits.continues and not has_stopped and len(said) < limits.continuations_max:
            return Continue()
        return _finish(joined, is_incomplete=False, flags=(UNCLOSED,))
    before = join(said).text
    if before and not joined.text[len(before) :].strip() and not seems_finished(before):
        return close([*said, reply.text], NO_PROGRESS)
    return _finish(joined, is_incomplete=False)


def _follow_cut(reply: Reply, said: Sequence[str], limits: Limits) -> Finish | Continue:
    turns = [*said, reply.text]
    if not limits.continues:
        return close(turns, CUT_OFF)
    if said:
        if says_the_same(said[-1], reply.text):
            return close(said, REPEATS_ITSELF)
        added = len(_join(reply, said).text[len(join(said).text) :].strip())
        if added < min(PROGRESS_CHARS_MIN, max(1, reply.usage.output_tokens)):
            is_echo = added < len(reply.text.strip())
            return close(turns, REPEATS_ITSELF if is_echo else NO_PROGRESS)
    if len(said) >= limits.continuations_max:
        return close(turns, CONTINUATION_LIMIT)
    return Continue()


def _join(reply: Reply, said: Sequence[str]) -> Joined:
    """Join an answer to what was said before it; a model that starts over may do so once."""
    joined = join([*said, reply.text])
    if joined.restarts > 1:
        raise ProviderMalformed(
            f"The model repeats itself: asked to go on with turn {len(said)} of its answer, it "
            "began all over again for the second time.",
            remains=_leave(reply),
            reason="repeats_itself",
        )
    return joined


def _leave(reply: Reply) -> PartialResponse:
    """What is known of a call whose answer is useless; it was paid for nevertheless."""
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
    """Run the job again after a while; `counts` says whether that uses up one of its tries."""

    delay_s: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Postpone:
    """Come back when the endpoint takes calls: nothing was tried, and nothing went wrong.

    `is_in_trouble` when the endpoint is, rather than just busy: that is not waited for without end.
    """

    delay_s: float
    is_in_trouble: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a person."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the job."""

    retries_used_up: bool


def decide_fate(
    job: Job, error: DialecticError, *, jitter: random.Random
) -> Retry | Postpone | Pause | Fail:
    """Decide what becomes of a job that met an error."""
    match error.fate:
        case Fate.PAUSE:
            if isinstance(error, FundsError) and error.is_held_by_others:
                # Calls in flight have set the money aside: what they leave of it may do.
                return Postpone(jitter.uniform(HELD_S / 2, HELD_S), is_in_trouble=False)
            return Pause()
        case Fate.FAIL:
            return Fail(retries_used_up=False)
        case Fate.RETRY:
            if _is_used_up(job, error):
                return Fail(retries_used_up=True)
            if isinstance(error, EndpointBusy):
                delay_s = error.wait_s * jitter.uniform(1.0, JITTER_UP)
                return Postpone(delay_s, is_in_trouble=isinstance(error, CircuitOpen))
            counts = not isinstance(error, ProviderThrottled)
            return Retry(_delay_s(job, error, jitter), counts)
        case Fate.DROP:
            message = f"{type(error).__name__} is dropped where it is met"
            raise AssertionError(message)
        case unreachable:
            assert_never(unreachable)


def _is_used_up(job: Job, error: DialecticError) -> bool:
    """Say whether this error has come too often, or lasted too long, to be met once more."""
    if isinstance(error, ProviderThrottled | CircuitOpen):
        return job.throttled_s > THROTTLED_MAX_S
    if isinstance(error, EndpointBusy):
        return False
    if job.retry_count >= job.max_retries:
        return True
    retries_max = RETRIES_MAX.get(error.code)
    if isinstance(error, ProviderError) and error.retries_max is not None:
        retries_max = error.retries_max
    # What was met before a person ran the job again is not held against it.
    repeats = min(job.count_repeats(error.code), job.retry_count)
    return retries_max is not None and repeats >= retries_max


def _delay_s(job: Job, error: DialecticError, jitter: random.Random) -> float:
    """Jitter up to a ceiling that doubles; a wait that the provider names wins, if it makes sense.

    All who failed together come back at any time between, so that they do not fail together again.
    """
    asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked_s is not None and asked_s >= 0:  # false for NaN, too
        return min(asked_s, RETRY_AFTER_MAX_S) * jitter.uniform(1.0, JITTER_UP)
    tried = job.retry_count
    if isinstance(error, ProviderThrottled):
        tried = job.count_repeats(error.code)
    ceiling_s = compute_delay_s(tried + 1, BACKOFF_FIRST_S, BACKOFF_MAX_S)
    return jitter.uniform(BACKOFF_FIRST_S, ceiling_s)
