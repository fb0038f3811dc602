"""Maps the API's problem responses to the classes of `dialectic.errors`. Pure."""

from __future__ import annotations

import json
from typing import Any

from dialectic.client.retry import GATEWAY, PASSING
from dialectic.errors import (
    ApiError,
    ApiRefusal,
    ConfigurationError,
    DialecticError,
    Facts,
    ServerUnreachable,
    read_remedy,
)


def _list_kinds(kind: type[DialecticError]) -> dict[str, type[DialecticError]]:
    kinds = {kind.code: kind}
    for child in kind.__subclasses__():
        kinds |= _list_kinds(child)
    return kinds


def build_error(status: int, body: bytes) -> DialecticError:
    """Build the error of a problem response: the class that the server raised."""
    problem = _read_problem(body)
    if problem is None:
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
    facts: Facts = {"remedy": read_remedy(problem.get("remedy"))}
    if isinstance(problem.get("reason"), str):
        facts["reason"] = problem["reason"]
    kind = _list_kinds(DialecticError).get(problem.get("code", ""))
    if kind is None or kind is DialecticError:
        # 4xx: the caller must change something; all else is a server error.
        unknown = ApiRefusal if 400 <= status < 500 else ApiError
        error: DialecticError = unknown(problem["detail"], problem=problem, **facts)
    else:
        error = kind(problem["detail"], **facts)
    if problem.get("request_id"):
        error.add_note(f"request {problem['request_id']}")
    return error


def _read_problem(body: bytes) -> dict[str, Any] | None:
    """Parse a problem; servers of other versions may send more or fewer fields."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("detail"), str):
        return None
    return found if isinstance(found.get("code", ""), str) else None
