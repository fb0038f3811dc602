"""Turn a provider's complaint into an exception: its class and its message. Pure.

A message names the endpoint, the status, the vendor's own words (shortened, without the key), and
what to do next.
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
    if endpoint.api_key_env is None:
        return f"Set api_key_env of {endpoint.name} to the variable that holds its key."
    if key is None:
        return f"Set {endpoint.api_key_env} to its key."
    return f"Check the key in {endpoint.api_key_env} and its permissions."


def redact(key: Secret | None, text: str) -> str:
    """Remove the key from a provider's text."""
    return text if key is None else key.redact(text)


def clean_record(key: Secret | None, value: Any, depth: int = 0) -> Any:
    """Make a provider's JSON value safe to store: no key, nothing that PostgreSQL rejects."""
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
