"""Errors out of what a provider complained of: the leaf, and the words. Pure.

A message names the endpoint, the status, what the vendor says of it, shortened and without the
key, and what can be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
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
from dialectic.providers.error_taxonomy import TURNED_AWAY, Complaint, Kind, classify

QUOTED_CHARS_MAX = 300
RAW_CHARS_MAX = 4_000
RECORD_DEPTH_MAX = 32

_LEAVES: Mapping[Kind, tuple[type[ProviderError], str, str]] = {
    Kind.TRANSIENT: (ProviderTransient, "could not answer just now", ""),
    Kind.THROTTLED: (ProviderThrottled, "asks to slow down", ""),
    Kind.QUOTA: (
        ProviderQuota,
        "has no money or quota left for this account",
        "Top up the account or raise its limit, then resume.",
    ),
    Kind.AUTH: (ProviderAuth, "does not accept the key", "{check_key}"),
    Kind.MODEL: (
        ProviderRejected,
        "does not know the model {model!r}",
        "Choose one that it lists, or check its base_url.",
    ),
    Kind.REJECTED: (ProviderRejected, "does not accept the request", ""),
    Kind.FILTERED: (ProviderFiltered, "refuses to answer this request", ""),
    Kind.REDIRECT: (
        ProviderRejected,
        "sends us elsewhere, where we do not follow with a key",
        "Set its base_url to where it really is.",
    ),
}


def build_refusal(
    endpoint: Endpoint,
    key: Secret | None,
    model: str,
    complaint: Complaint,
    remains: PartialResponse,
) -> ProviderError | ContextWindowError:
    """Build the error that a complaint means."""
    kind = classify(complaint)
    said = _quote(complaint, key)
    if kind is Kind.CONTEXT:
        if not remains.partial_text:
            return ContextWindowError(
                _describe_overflow(endpoint, model, complaint, said),
                had_tokens=complaint.had_tokens,
                max_tokens=complaint.max_tokens,
            )
        # The window was full while it wrote; what it wrote must not be lost with the error.
        return StreamTruncated(
            f"{endpoint.name} filled the window of {model!r} and broke off{said}", remains=remains
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
    """Whether a request that was answered with this status may cost money all the same."""
    return status not in TURNED_AWAY


def describe_key(endpoint: Endpoint, key: Secret | None) -> str:
    """Say what to do about a key that is missing or wrong."""
    if endpoint.api_key_env is None:
        return f"Name the variable that holds its key as api_key_env of {endpoint.name}."
    if key is None:
        return f"Put its key into {endpoint.api_key_env}."
    return f"Check the key in {endpoint.api_key_env}, and what it may be used for."


def redact(key: Secret | None, text: str) -> str:
    """Blank the key out of foreign text."""
    return text if key is None else key.redact(text)


def clean_record(key: Secret | None, value: Any, depth: int = 0) -> Any:
    """Make a foreign JSON value fit to keep: no key in it, nothing that a database refuses."""
    if depth > RECORD_DEPTH_MAX:
        return "…"
    match value:
        case str():
            return redact(key, value).replace("\x00", "").encode("utf-8", "replace").decode()
        case list():
            return [clean_record(key, item, depth + 1) for item in value]
        case dict():
            return {
                clean_record(key, name): clean_record(key, item, depth + 1)
                for name, item in value.items()
            }
        case _:
            return value


def shorten(key: Secret | None, text: str, chars_max: int) -> str:
    """Make foreign text fit for a message: one line, no key, no control characters, not long."""
    # The key goes first: a cut through its middle would leave half of it standing.
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
