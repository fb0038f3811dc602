"""Validate the token usage that a provider reports. Pure; independent of prices and wallets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dialectic.core.models.messages import UsageSource

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
    reported: dict[str, Any] | None = field(default=None)


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


def _keep(value: Any) -> Any:
    """Keep a plain number as it is, anything else as a short repr."""
    is_plain = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15
    return value if is_plain else repr(value)[:REPORTED_CHARS_MAX]
