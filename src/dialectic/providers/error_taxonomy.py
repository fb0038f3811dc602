"""Classify provider errors: tables of HTTP statuses and error codes. Pure; knows no wire format.

A code more specific than its status wins (429 is a rate limit or an empty account). Otherwise the
status decides. If the status says nothing, such as 200 with an error in the body, the general
codes decide. Only codes mean a billing or key error, never a word found in a message.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from dialectic.core.strict_json import find_count, find_text


class Kind(enum.Enum):
    """The classes of provider errors."""

    TRANSIENT = "transient"
    THROTTLED = "throttled"
    QUOTA = "quota"
    AUTH = "auth"
    MODEL = "model"
    CONTEXT = "context"
    REJECTED = "rejected"
    FILTERED = "filtered"
    REDIRECT = "redirect"


BY_STATUS: Mapping[int, Kind] = {
    400: Kind.REJECTED,
    401: Kind.AUTH,
    402: Kind.QUOTA,
    403: Kind.AUTH,
    404: Kind.MODEL,
    408: Kind.TRANSIENT,
    409: Kind.TRANSIENT,
    410: Kind.MODEL,
    413: Kind.CONTEXT,
    422: Kind.REJECTED,
    425: Kind.TRANSIENT,
    429: Kind.THROTTLED,
    499: Kind.TRANSIENT,
    529: Kind.TRANSIENT,
}
# Fallbacks for the other statuses, by their first digit.
BY_HUNDRED: Mapping[int, Kind] = {3: Kind.REDIRECT, 4: Kind.REJECTED, 5: Kind.TRANSIENT}

# Google has no code for a daily quota: it names the quota and sends a useless retry delay.
DAY_QUOTA = "day_quota"
_OF_A_DAY = re.compile(r"per_?day", re.IGNORECASE)

# Codes that override the status they come with.
TELLING: Mapping[str, Kind] = {
    DAY_QUOTA: Kind.QUOTA,
    "insufficient_quota": Kind.QUOTA,
    "enforced_spend_limit_reached": Kind.QUOTA,
    "billing_hard_limit_reached": Kind.QUOTA,
    "billing_not_active": Kind.QUOTA,
    "billing_error": Kind.QUOTA,
    "billing_disabled": Kind.QUOTA,
    "invalid_api_key": Kind.AUTH,
    "api_key_invalid": Kind.AUTH,
    "model_not_found": Kind.MODEL,
    "context_length_exceeded": Kind.CONTEXT,
    "exceed_context_size_error": Kind.CONTEXT,
    "content_filter": Kind.FILTERED,
    "content_policy_violation": Kind.FILTERED,
}
# Codes that decide where the status does not.
GENERAL: Mapping[str, Kind] = {
    "rate_limit_error": Kind.THROTTLED,
    "rate_limit_exceeded": Kind.THROTTLED,
    "resource_exhausted": Kind.THROTTLED,
    "authentication_error": Kind.AUTH,
    "permission_error": Kind.AUTH,
    "permission_denied": Kind.AUTH,
    "unauthenticated": Kind.AUTH,
    "not_found_error": Kind.MODEL,
    "not_found": Kind.MODEL,
    "request_too_large": Kind.CONTEXT,
    "invalid_request_error": Kind.REJECTED,
    "invalid_argument": Kind.REJECTED,
    "failed_precondition": Kind.REJECTED,
    "overloaded_error": Kind.TRANSIENT,
    "api_error": Kind.TRANSIENT,
    "server_error": Kind.TRANSIENT,
    "timeout_error": Kind.TRANSIENT,
    "unavailable": Kind.TRANSIENT,
    "internal": Kind.TRANSIENT,
    "deadline_exceeded": Kind.TRANSIENT,
}
# Vendors without a code for “too long” start the message with these words.
TOO_LONG: tuple[re.Pattern[str], ...] = tuple(
    re.compile(opening, re.IGNORECASE)
    for opening in (
        # Anthropic
        r"prompt is too long(?:: (?P<had>\d+) tokens > (?P<max>\d+) maximum)?",
        r"input length and `max_tokens` exceed context limit",
        # Google
        r"the input token count (?:\((?P<had>\d+)\) )?exceeds the maximum number of tokens allowed"
        r"(?: \(?(?P<max>\d+))?",
        # vLLM, and OpenAI in addition to its code
        r"this model's maximum context length is (?P<max>\d+) tokens"
        r"(?:\. however, (?:your messages resulted in|you requested) (?P<had>\d+) tokens)?",
    )
)
# The provider did no work for these statuses; after any other, the call may cost money.
TURNED_AWAY: frozenset[int] = frozenset(range(300, 500)) - {408, 499} | {503, 529}


@dataclass(frozen=True, slots=True)
class Complaint:
    """An error as the provider reports it. `status` is 200 if only the body reports the error."""

    status: int
    codes: tuple[str, ...] = ()
    message: str = ""
    retry_after_s: float | None = None
    had_tokens: int | None = None
    max_tokens: int | None = None


def classify(complaint: Complaint) -> Kind:
    """Classify a complaint."""
    if (kind := _find_kind(TELLING, complaint.codes)) is not None:
        return kind
    if 400 <= complaint.status < 500 and _find_too_long(complaint.message) is not None:
        return Kind.CONTEXT
    # A gateway whose budget is reserved by running calls sends a retry delay; an empty one none.
    if complaint.status == 402 and complaint.retry_after_s is not None:
        return Kind.THROTTLED
    by_status = BY_STATUS.get(complaint.status) or BY_HUNDRED.get(complaint.status // 100)
    if by_status is not None:
        return by_status
    if _find_too_long(complaint.message) is not None:
        return Kind.CONTEXT
    return _find_kind(GENERAL, complaint.codes) or Kind.TRANSIENT


def _find_kind(table: Mapping[str, Kind], codes: tuple[str, ...]) -> Kind | None:
    return next((table[code] for code in codes if code in table), None)


def _find_too_long(message: str) -> re.Match[str] | None:
    return next((found for opening in TOO_LONG if (found := opening.match(message))), None)


def read_complaint(status: int, body: Any, headers: Mapping[str, str] | None = None) -> Complaint:
    """Parse a provider's error in any known form; a status of 200 says nothing about it."""
    error = read_error(body)
    codes = tuple(code.lower() for code in _list_codes(error))
    message = _read_message(error)
    too_long = _find_too_long(message)
    figures = too_long.groupdict() if too_long else {}
    return Complaint(
        status=_find_status(error) or status if status < 300 else status,
        codes=codes,
        message=message,
        retry_after_s=_first(find_retry_after_s(headers or {}), _find_retry_delay_s(error)),
        had_tokens=_first(find_count(error.get("n_prompt_tokens")), _number(figures.get("had"))),
        max_tokens=_first(find_count(error.get("n_ctx")), _number(figures.get("max"))),
    )


def read_error(body: Any) -> dict[str, Any]:
    """Find the error in a body: under `error`, at the top level, or in the first list entry."""
    if isinstance(body, list):
        body = body[0] if body else None
    if not isinstance(body, dict):
        return {"message": body} if isinstance(body, str) else {}
    inner = body.get("error", body)
    if isinstance(inner, dict):
        return inner
    return {"message": inner} if isinstance(inner, str) else {}


def is_error(body: Any) -> bool:
    """Whether a body with a success status, or one stream event, reports an error."""
    if isinstance(body, list):
        return bool(body) and is_error(body[0])
    if not isinstance(body, dict):
        return False
    return bool(body.get("error")) or "error" in (body.get("object"), body.get("type"))


def _list_codes(error: dict[str, Any]) -> Iterator[str]:
    """List the codes of an error, the most specific first."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else [details]:
        if isinstance(detail, dict):
            # Anthropic calls the field `error_code`, Google `reason`.
            yield from filter(
                None, map(find_text, (detail.get("error_code"), detail.get("reason")))
            )
            if any(map(_OF_A_DAY.search, _list_quotas(detail))):
                yield DAY_QUOTA
    for key in ("code", "type", "status"):
        if (code := find_text(error.get(key))) is not None:
            yield code


def _list_quotas(detail: dict[str, Any]) -> Iterator[str]:
    """List the quotas that Google reports as exhausted."""
    violations = detail.get("violations")
    for violation in violations if isinstance(violations, list) else ():
        if isinstance(violation, dict) and (quota := find_text(violation.get("quotaId"))):
            yield quota


def _read_message(error: dict[str, Any]) -> str:
    for key in ("message", "detail", "error"):
        if (message := find_text(error.get(key))) is not None:
            return message
    return ""


def _find_status(error: dict[str, Any]) -> int | None:
    for key in ("code", "status", "status_code"):
        value = error.get(key)
        number = _number(value) if isinstance(value, str) else find_count(value)
        if number is not None and 400 <= number < 600:
            return number
    return None


def _find_retry_delay_s(error: dict[str, Any]) -> float | None:
    """Find the retry delay in Google's body, such as `34s`."""
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if isinstance(detail, dict) and (delay := find_text(detail.get("retryDelay"))):
            return _seconds(delay.removesuffix("s"))
    return None


def find_retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Find the retry delay in seconds; ignore a delay that is not finite or is negative."""
    if (asked_ms := _seconds(headers.get("retry-after-ms", ""))) is not None:
        return asked_ms / 1000
    asked = headers.get("retry-after", "").strip()
    if (asked_s := _seconds(asked)) is not None:
        return asked_s
    # Relative to the server's own Date header; without that header the date is meaningless.
    until, now = _date(asked), _date(headers.get("date", ""))
    if until is None or now is None or until < now:
        return None
    return (until - now).total_seconds()


def _seconds(text: str) -> float | None:
    # Not `float`: it also accepts nan, inf and 1_000.
    if not re.fullmatch(r"\d+(\.\d+)?", text.strip(), re.ASCII):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,12}", text, re.ASCII) else None


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
