"""Classify provider errors by status and code, and build their exceptions. Pure; knows no wire.

A code more specific than its status wins (429 is a rate limit or an empty account). Otherwise the
status decides. If the status says nothing, such as 200 with an error in the body, the general
codes decide. Only codes mean a billing or key error, never a word found in a message.

A message names the endpoint, the status, the vendor's own words (shortened, without the key), and
what to do next.
"""

from __future__ import annotations

import enum
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.strict_json import JsonObject, find_count, find_text
from dialectic.errors import (
    ContextWindowError,
    PartialResponse,
    ProviderAuth,
    ProviderError,
    ProviderFiltered,
    ProviderQuota,
    ProviderRejected,
    ProviderThrottled,
    ProviderTransient,
    StreamTruncated,
)

QUOTED_CHARS_MAX = 300
RAW_CHARS_MAX = 4_000
RECORD_DEPTH_MAX = 32

T = TypeVar("T")


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
    401: Kind.AUTH,
    402: Kind.QUOTA,
    403: Kind.AUTH,
    404: Kind.MODEL,
    408: Kind.TRANSIENT,
    409: Kind.TRANSIENT,
    410: Kind.MODEL,
    413: Kind.CONTEXT,
    425: Kind.TRANSIENT,
    429: Kind.THROTTLED,
    499: Kind.TRANSIENT,
}
# Fallbacks for the other statuses, by their first digit.
BY_HUNDRED: Mapping[int, Kind] = {3: Kind.REDIRECT, 4: Kind.REJECTED, 5: Kind.TRANSIENT}

# Google has no code for a daily quota: it names the quota and sends a useless retry delay.
DAY_QUOTA = "day_quota"
_OF_A_DAY = re.compile(r"per_?day", re.IGNORECASE)


def _list_by_code(codes: Mapping[Kind, str]) -> dict[str, Kind]:
    return {code: kind for kind, words in codes.items() for code in words.split()}


# Codes that override the status they come with.
TELLING: Mapping[str, Kind] = _list_by_code(
    {
        Kind.QUOTA: f"{DAY_QUOTA} insufficient_quota enforced_spend_limit_reached "
        "billing_hard_limit_reached billing_not_active billing_error billing_disabled",
        Kind.AUTH: "invalid_api_key api_key_invalid",
        Kind.MODEL: "model_not_found",
        Kind.CONTEXT: "context_length_exceeded exceed_context_size_error",
        Kind.FILTERED: "content_filter content_policy_violation",
    }
)
# Codes that decide where the status does not.
GENERAL: Mapping[str, Kind] = _list_by_code(
    {
        Kind.THROTTLED: "rate_limit_error rate_limit_exceeded resource_exhausted",
        Kind.AUTH: "authentication_error permission_error permission_denied unauthenticated",
        Kind.MODEL: "not_found_error not_found",
        Kind.CONTEXT: "request_too_large",
        Kind.REJECTED: "invalid_request_error invalid_argument failed_precondition",
        Kind.TRANSIENT: "overloaded_error api_error server_error timeout_error unavailable "
        "internal deadline_exceeded",
    }
)
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


def read_complaint(
    status: int, body: object, headers: Mapping[str, str] | None = None
) -> Complaint:
    """Parse a provider's error in any known form; a status of 200 says nothing about it."""
    error = read_error(body)
    message = _find_first(find_text(error.get(key)) for key in ("message", "detail", "error")) or ""
    too_long = _find_too_long(message)
    figures = too_long.groupdict() if too_long else {}
    return Complaint(
        status=_find_status(error) or status if status < 300 else status,
        codes=tuple(code.lower() for code in _list_codes(error)),
        message=message,
        retry_after_s=_find_first((find_retry_after_s(headers or {}), _find_retry_delay_s(error))),
        had_tokens=_find_first(
            (find_count(error.get("n_prompt_tokens")), _number(figures.get("had")))
        ),
        max_tokens=_find_first((find_count(error.get("n_ctx")), _number(figures.get("max")))),
    )


def read_error(body: object) -> JsonObject:
    """Find the error in a body: under `error`, at the top level, or in the first list entry."""
    if isinstance(body, list):
        body = body[0] if body else None
    inner = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(inner, dict):
        return inner
    return {"message": inner} if isinstance(inner, str) else {}


def is_error(body: object) -> bool:
    """Whether a body with a success status, or one stream event, reports an error."""
    if isinstance(body, list):
        return bool(body) and is_error(body[0])
    if not isinstance(body, dict):
        return False
    return bool(body.get("error")) or "error" in (body.get("object"), body.get("type"))


def _list_codes(error: JsonObject) -> Iterator[str]:
    """List the codes of an error, the most specific first."""
    details = error.get("details")
    for detail in _list_objects(details if isinstance(details, list) else [details]):
        # Anthropic calls the field `error_code`, Google `reason`.
        yield from filter(None, map(find_text, (detail.get("error_code"), detail.get("reason"))))
        violations = _list_objects(detail.get("violations"))
        quotas = (find_text(violation.get("quotaId")) or "" for violation in violations)
        if any(map(_OF_A_DAY.search, quotas)):
            yield DAY_QUOTA
    yield from filter(None, (find_text(error.get(key)) for key in ("code", "type", "status")))


def _list_objects(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _find_status(error: JsonObject) -> int | None:
    for key in ("code", "status", "status_code"):
        value = error.get(key)
        number = _number(value) if isinstance(value, str) else find_count(value)
        if number is not None and 400 <= number < 600:
            return number
    return None


def _find_retry_delay_s(error: JsonObject) -> float | None:
    """Find the retry delay in Google's body, such as `34s`."""
    for detail in _list_objects(error.get("details")):
        if delay := find_text(detail.get("retryDelay")):
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
    number = float(text.strip())
    return number if math.isfinite(number) else None


def _date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return read if read.tzinfo else read.replace(tzinfo=UTC)


def _number(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"\d{1,12}", text, re.ASCII) else None


def _find_first(values: Iterable[T | None]) -> T | None:
    return next((value for value in values if value is not None), None)


# -- exceptions -----------------------------------------------------------------------------------

_LEAVES: Mapping[Kind, tuple[type[ProviderError], str, str]] = {
    Kind.TRANSIENT: (ProviderTransient, "is temporarily unavailable", ""),
    Kind.THROTTLED: (ProviderThrottled, "rejects the request rate", ""),
    Kind.QUOTA: (
        ProviderQuota,
        "has no credit or quota left for this account",
        "Add credit to the account or raise its limit, then resume.",
    ),
    Kind.AUTH: (ProviderAuth, "rejects the API key", "{check_key}"),
    Kind.MODEL: (
        ProviderRejected,
        "does not offer the model {model!r}",
        "Choose a model that it lists, or check its base_url.",
    ),
    Kind.REJECTED: (ProviderRejected, "rejects the request", ""),
    Kind.FILTERED: (ProviderFiltered, "refuses to answer this request", ""),
    Kind.REDIRECT: (
        ProviderRejected,
        "redirects; redirects are not followed, to protect the API key",
        "Set its base_url to the final address.",
    ),
}


def build_refusal(
    endpoint: Endpoint,
    key: Secret | None,
    model: str,
    complaint: Complaint,
    remains: PartialResponse,
) -> ProviderError | ContextWindowError:
    """Build the exception for a complaint."""
    kind = classify(complaint)
    said = _quote(complaint, key)
    if kind is Kind.CONTEXT:
        if not remains.partial_text:
            return ContextWindowError(
                _describe_overflow(endpoint, model, complaint, said),
                had_tokens=complaint.had_tokens,
                max_tokens=complaint.max_tokens,
            )
        # The window filled up during the response; keep the text that already arrived.
        return StreamTruncated(
            f"{endpoint.name} filled the window of {model!r} and stopped{said}", remains=remains
        )
    leaf, fault, advice = _LEAVES[kind]
    words = {"model": model, "check_key": describe_key(endpoint, key)}
    sentence = f"{endpoint.name} {fault.format(**words)}{said}"
    return leaf(
        f"{sentence} {advice.format(**words)}".rstrip(),
        retry_after_s=complaint.retry_after_s,
        remains=remains,
    )


def was_worked_on(status: int) -> bool:
    """Whether a request answered with this status may still cost money."""
    return status not in TURNED_AWAY


def describe_key(endpoint: Endpoint, key: Secret | None) -> str:
    """Say what to do about a missing or wrong key."""
    if endpoint.tenant_id is not None:
        return f"Add the endpoint {endpoint.name} again with its key."
    if endpoint.api_key_env is None:
        return f"Set api_key_env of {endpoint.name} to the variable that holds its key."
    if key is None:
        return f"Set {endpoint.api_key_env} to its key."
    return f"Check the key in {endpoint.api_key_env} and its permissions."


def redact(key: Secret | None, text: str) -> str:
    """Remove the key from a provider's text."""
    return text if key is None else key.redact(text)


def clean_record(key: Secret | None, record: JsonObject) -> JsonObject:
    """Make a provider's JSON object safe to store: no key, nothing that PostgreSQL rejects."""
    return {_clean_text(key, name): _clean(key, item, 1) for name, item in record.items()}


def _clean(key: Secret | None, value: object, depth: int) -> object:
    if depth > RECORD_DEPTH_MAX:
        return "…"
    match value:
        case str():
            return _clean_text(key, value)
        case list():
            return [_clean(key, item, depth + 1) for item in value]
        case dict():
            return {
                _clean_text(key, name): _clean(key, item, depth + 1) for name, item in value.items()
            }
        case _:
            return value


def _clean_text(key: Secret | None, text: str) -> str:
    return redact(key, text).replace("\x00", "").encode("utf-8", "replace").decode()


def shorten(key: Secret | None, text: str, chars_max: int) -> str:
    """Make a provider's text safe for a message: one short line, no key, no control characters."""
    # Remove the key first: cutting the text could otherwise leave half of the key in it.
    shown = redact(key, text).encode("utf-8", "replace").decode()
    line = "".join(c if c.isprintable() else " " for c in " ".join(shown.split()))
    return line if len(line) <= chars_max else f"{line[:chars_max]}…"


def _quote(complaint: Complaint, key: Secret | None) -> str:
    status = f" (HTTP {complaint.status})" if complaint.status >= 300 else ""
    message = shorten(key, complaint.message, QUOTED_CHARS_MAX)
    if not message and complaint.codes:
        message = shorten(key, ", ".join(complaint.codes), QUOTED_CHARS_MAX)
    return f"{status}: “{message}”." if message else f"{status}."


def _describe_overflow(endpoint: Endpoint, model: str, complaint: Complaint, said: str) -> str:
    had, allowed = complaint.had_tokens, complaint.max_tokens
    figures = f", {had} tokens of" if had is not None else ", of"
    sizes = f"{figures} at most {allowed}," if allowed is not None else ""
    return f"The request{sizes} is too long for {model!r} at {endpoint.name}{said}"
