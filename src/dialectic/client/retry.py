"""Decides whether a request is retried, and after what delay.

A request that may have been executed is retried only with its original idempotency key.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass

from dialectic.core.backoff import compute_delay_s

TRIES_MAX = 4
WAIT_MIN_S = 0.2
WAIT_MAX_S = 10.0
# While the server still works on the same key, retry for longer: a model may be slow, and the
# server itself waits before each "in progress" response.
TRIES_UNDER_WAY_MAX = 100
# The server or one of its services is unavailable for a while, or another request was faster.
PASSING = frozenset({429, 503})
# A proxy uses these for an unreachable server; the server itself adds a problem.
GATEWAY = frozenset({502, 504})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An HTTP response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def decide_wait(tries: int, *, can_repeat: bool, heard: HttpReply | None) -> float | None:
    """Return the delay before the next attempt; None: give up.

    Without a response, the connection was lost or refused.
    """
    if not can_repeat:
        return None
    if heard is not None and _is_under_way(heard):
        return _grow(tries) if tries < TRIES_UNDER_WAY_MAX else None
    if tries >= TRIES_MAX:
        return None
    if heard is None or is_away(heard.status, heard.body):
        return _grow(tries)
    if heard.status in PASSING:
        return min(_read_wait(heard.headers) or _grow(tries), WAIT_MAX_S)
    return None


def is_away(status: int, body: bytes) -> bool:
    """Return whether a proxy reports that the server is unreachable."""
    return status in GATEWAY and _find_code(body) is None


def _grow(tries: int) -> float:
    return compute_delay_s(tries, WAIT_MIN_S, WAIT_MAX_S, random.uniform)


def _read_wait(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else None


def _is_under_way(heard: HttpReply) -> bool:
    """Return whether the server is still working on an earlier request with this key."""
    return heard.status == 409 and _find_code(heard.body) == "in_progress"


def _find_code(body: bytes) -> str | None:
    """Return the code of a problem; None if the body is not a problem."""
    try:
        code = json.loads(body).get("code")
    except (ValueError, AttributeError):
        return None
    return code if isinstance(code, str) else None
