"""Maps errors to problem+json responses.

This is the only place that does so. A detail never repeats input, which may hold a secret. An
unexpected error shows only its request id.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from dialectic.contract.contributions import ContributionVersion
from dialectic.contract.problems import TYPE_PREFIX, FieldError, Problem, ProblemRemedy
from dialectic.core.access import RequestOrigin, build_removal
from dialectic.errors import (
    ConfigurationError,
    Conflict,
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreachable,
    DialecticError,
    EndpointBusy,
    FundsError,
    InProgress,
    InvalidValue,
    PoolerUnsupported,
    PreconditionFailed,
    ProviderError,
    RemedyAction,
    SchemaChanged,
    ServerBusy,
    StorageMismatch,
    StorageUnavailable,
    TooManyStreams,
    TooManyUploads,
)

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
RETRY_AFTER_S = 2.0
ERRORS_SHOWN_MAX = 20
# Codes of errors raised by HTTP itself; all others are in `dialectic.errors`.
CODES = {
    400: "invalid_request",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    408: "request_timeout",
    413: "too_large",
    415: "unsupported_media_type",
}


def build_problem(request: Request, error: DialecticError) -> Response:
    """Build the response for a `DialecticError`."""
    kind = type(error)
    headers = {}
    if (wait_s := find_wait(error)) is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    if kind.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
        origin = RequestOrigin.read(request.headers, request.scope.get("scheme", "http"))
        if (removal := build_removal(request.headers, origin)) is not None:
            headers["Set-Cookie"] = removal
    title = (kind.__doc__ or "").strip().splitlines()[0]
    problem = _describe(kind.status, kind.code, title, error.message)
    if kind.status == HTTPStatus.INTERNAL_SERVER_ERROR:
        problem.detail = UNEXPECTED
    elif isinstance(error, OPERATOR_ERRORS):
        problem.detail = f"{title} Saved data is not affected. Try again later."
        problem.remedy = ProblemRemedy(action=RemedyAction.TRY_AGAIN)
    else:
        problem.reason = error.reason
        if error.remedy is not None:
            problem.remedy = ProblemRemedy.model_validate(error.remedy.as_dict())
    if isinstance(error, PreconditionFailed) and error.current is not None:
        problem.current = ContributionVersion.model_validate(error.current)
    return _respond(request, problem, headers)


UNEXPECTED = (
    "An unexpected error occurred. This is a bug in Dialectic; saved data is not affected. Search "
    "the logs for the request id."
)
OVERTAKEN = (
    "Another request changed or deleted a related record at the same time. Reload and try again."
)
# Their messages name hosts, folders and SQL, which only the operator may see.
OPERATOR_ERRORS = (
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreachable,
    PoolerUnsupported,
    SchemaChanged,
    StorageMismatch,
    StorageUnavailable,
)


def find_wait(error: DialecticError) -> float | None:
    """Return the delay before a retry makes sense; None if waiting does not help."""
    match error:
        case EndpointBusy():
            return error.wait_s or RETRY_AFTER_S
        case FundsError():
            return RETRY_AFTER_S if error.is_held_by_others else None
        case ProviderError():
            wait_s = error.retry_after_s
            return wait_s if wait_s is not None and 0 < wait_s < 86_400 else None
        case DatabaseBusy() | ServerBusy() | ConfigurationError() | InProgress():
            return RETRY_AFTER_S
        case TooManyStreams() | TooManyUploads():
            return RETRY_AFTER_S
        case _:
            wait_s = getattr(error, "retry_after_s", None)
            return wait_s if isinstance(wait_s, int | float) else None


def _describe(status: int, code: str, title: str, detail: str) -> Problem:
    return Problem(
        type=f"{TYPE_PREFIX}{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        instance="",
        request_id="",
    )


def _respond(request: Request, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    problem.instance = request.url.path
    problem.request_id = request.scope.get("state", {}).get("request_id", "")
    return Response(_render(problem), problem.status, headers, MEDIA_TYPE)


def _render(problem: Problem) -> bytes:
    body = problem.model_dump(mode="json")
    if problem.current is None:
        del body["current"]
    if problem.remedy is not None:
        body["remedy"] = problem.remedy.model_dump(mode="json", exclude_none=True)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def render_broken(detail: str) -> bytes:
    """Build the response to malformed HTTP, which has no path and no request id."""
    return _render(_describe(400, CODES[400], "Bad Request", detail))


def build_unexpected(request: Request, _error: Exception | None = None) -> Response:
    """Build the response for an unexpected error, which the middleware has logged."""
    problem = _describe(500, "internal", "Internal Server Error", UNEXPECTED)
    return _respond(request, problem)


def build_refusal(request: Request, error: HTTPException) -> Response:
    """Build the response for an HTTP error: unknown path, wrong method, body too large."""
    status, headers = error.status_code, dict(error.headers or {})
    code = CODES.get(status, "internal" if status >= 500 else "invalid_request")
    title, detail = HTTPStatus(status).phrase, str(error.detail)
    if status == HTTPStatus.NOT_FOUND and detail == title:
        detail = "This path does not exist. See `/docs` for all paths."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_list_methods(request))
        detail = f"This path supports only {headers['Allow']}. See `/docs` for all paths."
    return _respond(request, _describe(status, code, title, detail), headers)


def _list_methods(request: Request) -> list[str]:
    """List the methods of a path: Starlette names only those of its first route."""
    routes = request.app.router.routes
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]


def build_invalid(request: Request, error: RequestValidationError) -> Response:
    """Build the response for a failed validation; it repeats no value."""
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        detail = "The body is not valid JSON."
        return _respond(request, _describe(400, "invalid_json", "Bad Request", detail))
    # pydantic's messages name limits, never the value.
    errors = [
        FieldError(
            path=_build_path(one["loc"]),
            message=str(one["msg"]).removeprefix("Value error, "),
            code=one["type"],
        )
        for one in found[:ERRORS_SHOWN_MAX]
    ]
    detail = "; ".join(f"{one.path}: {one.message}" for one in errors[:3])
    title = "The request does not match the API's schema."
    problem = _describe(422, "validation_failed", title, detail)
    problem.errors = errors
    return _respond(request, problem)


def _build_path(places: tuple[object, ...]) -> str:
    return "/" + "/".join(str(place).replace("~", "~0").replace("/", "~1") for place in places)


def _build_unstorable(request: Request, _error: asyncpg.DataError) -> Response:
    # The message of the error may repeat the value.
    return build_problem(request, InvalidValue("A value of the request cannot be stored."))


def _build_overtaken(
    request: Request, error: asyncpg.IntegrityConstraintViolationError
) -> Response:
    # Services check before they write; a concurrent request changed the row in between.
    logger.warning("a database constraint was violated: %s", error.constraint_name)
    return build_problem(request, Conflict(OVERTAKEN))


def install(app: FastAPI) -> None:
    """Install the handlers that turn every error into a problem response."""
    builders: dict[type[Exception], Callable[[Request, Any], Response]] = {
        DialecticError: build_problem,
        HTTPException: build_refusal,
        RequestValidationError: build_invalid,
        asyncpg.DataError: _build_unstorable,
        asyncpg.IntegrityConstraintViolationError: _build_overtaken,
        Exception: build_unexpected,
    }
    for kind, build in builders.items():
        app.add_exception_handler(kind, _make_handler(build))


def _make_handler(
    build: Callable[[Request, Any], Response],
) -> Callable[[Request, Exception], Awaitable[Response]]:
    # Starlette would run a handler that is not a coroutine in a thread.
    async def handle(request: Request, error: Exception) -> Response:
        return build(request, error)

    return handle
