"""What the API answers instead of what was asked for, as the errors of the tree. Pure."""

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
    """Build the error that an answer tells of: the same class that the server met."""
    problem = _read_problem(body)
    if problem is None:
        if status in GATEWAY | PASSING:
            return ServerUnreachable(
                f"Something before the server answers in its place (HTTP {status}). Is the server "
                "running? Nothing that it has saved is lost.",
                reason="gateway",
                subject=str(status),
            )
        return ConfigurationError(
            f"The server does not answer as Dialectic does (HTTP {status}). Is the address right?",
            reason="not_dialectic",
            subject=str(status),
        )
    facts: Facts = {"remedy": read_remedy(problem.get("remedy"))}
    if isinstance(problem.get("reason"), str):
        facts["reason"] = problem["reason"]
    kind = _list_kinds(DialecticError).get(problem.get("code", ""))
    if kind is None or kind is DialecticError:
        # 4xx: it is for the caller to change something; all else is the server's own affair.
        unknown = ApiRefusal if 400 <= status < 500 else ApiError
        error: DialecticError = unknown(problem["detail"], problem=problem, **facts)
    else:
        error = kind(problem["detail"], **facts)
    if problem.get("request_id"):
        error.add_note(f"request {problem['request_id']}")
    return error


def _read_problem(body: bytes) -> dict[str, Any] | None:
    """Read a problem; a newer server may say more in it, and an older one less."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("detail"), str):
        return None
    return found if isinstance(found.get("code", ""), str) else None
