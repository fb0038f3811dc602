"""Requests to a model, its replies, and the token usage that a call is charged for. Pure.

A request is complete: system instruction, alternating turns, output limit. Its tokens are counted
over exactly this value, so nothing may be added after the count. Independent of vendor and prices.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


class Role(enum.StrEnum):
    """Who speaks in a turn."""

    USER = "user"
    ASSISTANT = "assistant"


class FinishReason(enum.StrEnum):
    """Why an answer ended; the vendor's own value is stored too."""

    STOP = "stop"
    LENGTH = "length"
    TOOL = "tool"
    FILTER = "filter"
    ERROR = "error"


class UsageSource(enum.StrEnum):
    """Where the token counts of an answer come from."""

    REPORTED = "reported"
    COUNTED = "counted"


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that is sent in one call."""

    model: str
    system: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    # Distinguishes several answers of one model to the same question.
    variant: int = 1
    # For models that accept one; None leaves it to the provider.
    temperature: float | None = None

    def __post_init__(self) -> None:
        roles = [message.role for message in self.messages]
        assert roles, "a request has at least one message"
        assert roles[0] is Role.USER, "the user speaks first"
        assert roles[-1] is Role.USER, "the user speaks last"
        assert all(a is not b for a, b in pairwise(roles)), "roles alternate"
        assert self.max_output_tokens > 0, "an answer needs room"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call; the input count includes cached tokens."""

    input_tokens: int
    output_tokens: int
    source: UsageSource


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `raw` is the vendor's response as JSON, for the audit."""

    text: str
    finish_reason: FinishReason
    raw_finish_reason: str | None
    usage: Usage
    request_id: str | None
    raw: Mapping[str, object] = field(default_factory=dict)
    # The reported input and output tokens if they are invalid; then `usage` is our own count.
    odd_usage: tuple[Any, Any] | None = None


# -- reported usage --------------------------------------------------------------------------------

# A report above this multiple of our own count is doubted.
ABSURD_FACTOR = 3
REPORTED_CHARS_MAX = 40
# No real call comes near this; a larger number would overflow a column.
TOKENS_MAX = 10**9

NOT_A_NUMBER = "usage_not_a_number"
NEGATIVE = "usage_negative"
ZERO = "usage_zero"
ABSURD = "usage_absurd"
ABOVE_CAP = "usage_above_cap"


@dataclass(frozen=True, slots=True)
class Actual:
    """The tokens that a call is charged for, and whether they are doubted."""

    input_tokens: int
    output_tokens: int
    source: UsageSource
    # The report is doubted: the call costs at most its reservation.
    is_doubted: bool = False
    flags: tuple[str, ...] = ()
    # The doubted report, together with our own count.
    reported: Mapping[str, Mapping[str, int | str]] | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    """Our own count of a call, and its output limit."""

    input_tokens: int
    output_tokens: int
    output_cap_tokens: int
    # A reasoning model uses more output tokens than it shows.
    has_unseen_output: bool = False


def judge_usage(reported: tuple[Any, Any] | None, counted: Counted) -> Actual:
    """Choose the tokens that a call is charged for: as reported, if that is plausible.

    A missing, non-numeric, negative or zero report is replaced by our count. A report far above our
    count, or above the output limit, is kept but doubted.
    """
    if reported is None:
        return Actual(counted.input_tokens, counted.output_tokens, UsageSource.COUNTED)
    read, written = reported
    read_flag = _find_fault(read, counted.input_tokens, is_bounded=True)
    written_flag = _find_fault(
        written, counted.output_tokens, is_bounded=not counted.has_unseen_output
    )
    if written_flag is None and written > counted.output_cap_tokens:
        written_flag = ABOVE_CAP
    flags = tuple(sorted({flag for flag in (read_flag, written_flag) if flag is not None}))
    if not flags:
        return Actual(read, written, UsageSource.REPORTED)
    is_counted = {NOT_A_NUMBER, NEGATIVE, ZERO}
    return Actual(
        counted.input_tokens if read_flag in is_counted else min(read, TOKENS_MAX),
        counted.output_tokens if written_flag in is_counted else min(written, TOKENS_MAX),
        UsageSource.COUNTED if is_counted & set(flags) else UsageSource.REPORTED,
        is_doubted=True,
        flags=flags,
        reported={
            "reported": {"input_tokens": _keep(read), "output_tokens": _keep(written)},
            "counted": {
                "input_tokens": counted.input_tokens,
                "output_tokens": counted.output_tokens,
            },
        },
    )


def _find_fault(tokens: Any, counted_tokens: int, *, is_bounded: bool) -> str | None:
    if isinstance(tokens, bool) or not isinstance(tokens, int):
        return NOT_A_NUMBER
    if tokens < 0:
        return NEGATIVE
    if tokens == 0 and counted_tokens > 0:
        return ZERO
    if is_bounded and tokens > ABSURD_FACTOR * counted_tokens:
        return ABSURD
    return None


def _keep(value: Any) -> int | str:
    """Keep a plain number as it is, anything else as a short repr."""
    is_plain = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15
    return value if is_plain else repr(value)[:REPORTED_CHARS_MAX]
