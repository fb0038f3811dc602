"""What an HTTP response means: whether the request is retried, and which error it is. Pure.

A request that may have been executed is retried only with its original idempotency key.
"""

from __future__ import annotations

import json
import random

import httpx2

from dialectic.core.backoff import compute_delay_s
from dialectic.core.strict_json import Json
from dialectic.errors import (
    ApiError,
    ApiRefusal,
    ConfigurationError,
    DialecticError,
    Facts,
    PreconditionFailed,
    ServerUnreachable,
    read_remedy,
)

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


def decide_wait(
    tries: int, reply: httpx2.Response | ServerUnreachable, *, can_repeat: bool
) -> float | None:
    """Return the delay before the next attempt; None: give up."""
    wait_s = compute_delay_s(tries, WAIT_MIN_S, WAIT_MAX_S, random.uniform)
    tries_max = TRIES_MAX
    if isinstance(reply, httpx2.Response):
        if reply.status_code == 409 and _find_code(reply) == "in_progress":
            tries_max = TRIES_UNDER_WAY_MAX
        elif reply.status_code in PASSING:
            wait_s = min(_read_wait(reply) or wait_s, WAIT_MAX_S)
        elif reply.status_code not in GATEWAY or _find_code(reply) is not None:
            return None
    return wait_s if can_repeat and tries < tries_max else None


def _read_wait(reply: httpx2.Response) -> float | None:
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else None


def _find_code(reply: httpx2.Response) -> str | None:
    """Return the code of a problem; None if the response is not a problem."""
    code = _read_object(reply.content).get("code")
    return code if isinstance(code, str) else None


def build_error(status: int, body: bytes) -> DialecticError:
    """Build the error of a problem response: the class that the server raised."""
    problem = _read_object(body)
    detail, code = problem.get("detail"), problem.get("code", "")
    if not isinstance(detail, str) or not isinstance(code, str):
        return _build_foreign(status)
    facts: Facts = {"remedy": read_remedy(problem.get("remedy"))}
    if isinstance(problem.get("reason"), str):
        facts["reason"] = problem["reason"]
    kind = _list_kinds(DialecticError).get(code, DialecticError)
    if kind is DialecticError:
        # 4xx: the caller must change something; all else is a server error.
        unknown = ApiRefusal if 400 <= status < 500 else ApiError
        error: DialecticError = unknown(detail, problem=problem, **facts)
    else:
        error = kind(detail, **facts)
    if isinstance(error, PreconditionFailed) and isinstance(problem.get("current"), dict):
        error.current = problem["current"]
    if problem.get("request_id"):
        error.add_note(f"request {problem['request_id']}")
    return error


def _build_foreign(status: int) -> DialecticError:
    """Build the error for a response that is not from a Dialectic server."""
    if status in GATEWAY | PASSING:
        return ServerUnreachable(
            f"A proxy answered instead of the server (HTTP {status}). Check that the server is "
            "running. Saved data is not affected.",
            reason="gateway",
            subject=str(status),
        )
    return ConfigurationError(
        f"The server is not a Dialectic server (HTTP {status}). Check its address.",
        reason="not_dialectic",
        subject=str(status),
    )


def _list_kinds(kind: type[DialecticError]) -> dict[str, type[DialecticError]]:
    kinds = {kind.code: kind}
    for child in kind.__subclasses__():
        kinds |= _list_kinds(child)
    return kinds


def _read_object(body: bytes) -> Json:
    """Parse a problem, whatever fields it has: servers have other versions; {} if it is none."""
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
