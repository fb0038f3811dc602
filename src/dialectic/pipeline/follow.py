"""Follow: decide what an answer, or an error, means for the job. Pure; unknown is never success."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import assert_never

from dialectic.domain.job import Job
from dialectic.domain.message import FinishReason, Reply
from dialectic.errors import (
    DialecticError,
    Fate,
    ProviderError,
    ProviderFiltered,
    ProviderMalformed,
    ProviderThrottled,
)

CUT_OFF = "cut_off"

BACKOFF_FIRST_S = 1.0
BACKOFF_MAX_S = 60.0
RETRY_AFTER_MAX_S = 3600.0
THROTTLED_MAX_S = 3600.0


@dataclass(frozen=True, slots=True)
class Finish:
    """The answer is the document; `is_incomplete` when it was cut off and stays so."""

    is_incomplete: bool
    flags: tuple[str, ...] = ()


def follow(reply: Reply) -> Finish:
    """Decide what the answer means. Only an answer with text can become a document."""
    match reply.finish_reason:
        case FinishReason.STOP | FinishReason.LENGTH:
            if not reply.text.strip():
                raise ProviderMalformed(
                    f"The model ended with {reply.raw_finish_reason!r} and wrote nothing."
                )
            cut = reply.finish_reason is FinishReason.LENGTH
            return Finish(is_incomplete=cut, flags=(CUT_OFF,) if cut else ())
        case FinishReason.FILTER:
            raise ProviderFiltered(f"The model refused: {reply.raw_finish_reason!r}.")
        case FinishReason.TOOL | FinishReason.ERROR:
            raise ProviderMalformed(
                f"The answer ended with {reply.raw_finish_reason!r}, which is no end of a document."
            )
        case unreachable:
            assert_never(unreachable)


@dataclass(frozen=True, slots=True)
class Retry:
    """Run the job again after a while; `counts` says whether that uses up one of its tries."""

    delay_s: float
    counts: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for a person."""


@dataclass(frozen=True, slots=True)
class Fail:
    """End the job."""

    retries_used_up: bool


def decide_fate(job: Job, error: DialecticError, *, jitter: random.Random) -> Retry | Pause | Fail:
    """Decide what becomes of a job that met an error."""
    match error.fate:
        case Fate.PAUSE:
            return Pause()
        case Fate.FAIL:
            return Fail(retries_used_up=False)
        case Fate.RETRY:
            counts = not isinstance(error, ProviderThrottled)
            used_up = (
                job.retry_count >= job.max_retries if counts else job.throttled_s > THROTTLED_MAX_S
            )
            if used_up:
                return Fail(retries_used_up=True)
            return Retry(_delay_s(job, error, jitter), counts)
        case Fate.DROP:
            message = f"{type(error).__name__} is dropped where it is met"
            raise AssertionError(message)
        case unreachable:
            assert_never(unreachable)


def _delay_s(job: Job, error: DialecticError, jitter: random.Random) -> float:
    """Jitter over a doubling range; a wait that the provider names wins, if it makes sense."""
    asked_s = error.retry_after_s if isinstance(error, ProviderError) else None
    if asked_s is not None and asked_s >= 0:  # false for a wait that is no number, too
        return min(asked_s, RETRY_AFTER_MAX_S) * jitter.uniform(1.0, 1.05)
    ceiling_s = min(BACKOFF_FIRST_S * 2**job.retry_count, BACKOFF_MAX_S)
    return jitter.uniform(ceiling_s / 2, ceiling_s)
