"""What the API answers instead of what was asked for, as the errors of the tree. Pure."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

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


class Problem(BaseModel, frozen=True):
    """An error, as RFC 9457 has it."""

    title: str
    status: int
    detail: str
    code: str = ""
    request_id: str = ""
    errors: list[dict[str, Any]] = []
    reason: str | None = None
    # As it came: a newer server may know more of them.
    remedy: dict[str, Any] | None = None


def _list_kinds(kind: type[DialecticError]) -> dict[str, type[DialecticError]]:
    kinds = {kind.code: kind}
    for child in kind.__subclasses__():
        kinds |= _list_kinds(child)
    return kinds


def build_error(status: int, body: bytes) -> DialecticError:
    """Build the error that an answer tells of: the same class that the server met."""
    try:
        problem = Problem.model_validate_json(body)
    except ValidationError:
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
    facts: Facts = {"remedy": read_remedy(problem.remedy)}
    if problem.reason is not None:
        facts["reason"] = problem.reason
    kind = _list_kinds(DialecticError).get(problem.code)
    if kind is None or kind is DialecticError:
        # 4xx: it is for the caller to change something; all else is the server's own affair.
        unknown = ApiRefusal if 400 <= status < 500 else ApiError
        error: DialecticError = unknown(problem.detail, problem=problem.model_dump(), **facts)
    else:
        error = kind(problem.detail, **facts)
    if problem.request_id:
        error.add_note(f"request {problem.request_id}")
    return error
