"""Whether a request is sent again, and after how long.

A request that may have been carried out is sent again only with the idempotency key it had before.
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
# While the same request is being answered it is asked for longer: a model may take its time, and
# the server itself waits a while with each answer that it is not done.
TRIES_UNDER_WAY_MAX = 100
# The server, or what it needs, is away for a while; or others were quicker.
PASSING = frozenset({429, 503})
# What stands before a server says so of one that is away; the server itself says why.
GATEWAY = frozenset({502, 504})


@dataclass(frozen=True, slots=True)
class HttpReply:
    """An answer, whatever it says."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def decide_wait(tries: int, *, can_repeat: bool, heard: HttpReply | None) -> float | None:
    """Decide how long to wait before the next try, after this many; None: give up.

    Where nothing was heard, the connection was lost or refused.
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
    """Say whether something before the server tells that there is none behind it."""
    return status in GATEWAY and _find_code(body) is None


def _grow(tries: int) -> float:
    return compute_delay_s(tries, WAIT_MIN_S, WAIT_MAX_S, random.uniform)


def _read_wait(headers: Mapping[str, str]) -> float | None:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else None


def _is_under_way(heard: HttpReply) -> bool:
    """Say whether the same request, sent before, is being answered at this moment."""
    return heard.status == 409 and _find_code(heard.body) == "in_progress"


def _find_code(body: bytes) -> str | None:
    """Find the code of a problem; None in what is none."""
    try:
        code = json.loads(body).get("code")
    except (ValueError, AttributeError):
        return None
    return code if isinstance(code, str) else None
