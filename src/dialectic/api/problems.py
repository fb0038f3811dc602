"""Maps errors to problem+json responses.

This is the only place that does so. A detail never repeats input, which may hold a secret. An
unexpected error shows only its request id.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import asyncpg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

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


@dataclass(frozen=True, slots=True)
class Help:
    """The machine-readable reason and remedy of a problem."""

    reason: str | None = None
    remedy: ProblemRemedy | None = None


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
    summary = (kind.status, kind.code, title)
    return _build(request, summary, _tell(error, title), headers, help_with=build_help(error))


UNEXPECTED = (
    "An unexpected error occurred. This is a bug in Dialectic; saved data is not affected. Search "
    "the logs for the request id."
)
OVERTAKEN = (
    "Another request changed or deleted a related record at the same time. Reload and try again."
)
# Their messages name hosts, folders and SQL, which only the operator may see.
OF_THE_OPERATOR = (
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreachable,
    SchemaChanged,
    StorageMismatch,
    StorageUnavailable,
)


def _tell(error: DialecticError, title: str) -> str:
    """Return an error's message, unless it holds internal details."""
    if type(error).status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return UNEXPECTED
    if isinstance(error, OF_THE_OPERATOR):
        return f"{title} Saved data is not affected. Try again later."
    return error.message


def build_help(error: DialecticError) -> Help:
    """Return the reason and remedy of an error, without details for the operator."""
    if type(error).status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return Help()
    if isinstance(error, OF_THE_OPERATOR):
        return Help(remedy=ProblemRemedy(action=RemedyAction.TRY_AGAIN))
    if error.remedy is None:
        return Help(error.reason)
    return Help(error.reason, ProblemRemedy.model_validate(error.remedy.as_dict()))


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


def _build(
    request: Request,
    kind: tuple[int, str, str],
    detail: str,
    headers: dict[str, str] | None = None,
    errors: list[FieldError] | None = None,
    help_with: Help | None = None,
) -> Response:
    request_id = request.scope.get("state", {}).get("request_id", "")
    asked = (request.url.path, request_id)
    body = _render(kind, detail, asked, errors or [], help_with or Help())
    return Response(body, kind[0], headers=headers, media_type=MEDIA_TYPE)


def _render(
    kind: tuple[int, str, str],
    detail: str,
    asked: tuple[str, str],
    errors: list[FieldError],
    help_with: Help,
) -> bytes:
    (status, code, title), (path, request_id) = kind, asked
    problem = Problem(
        type=f"{TYPE_PREFIX}{code}",
        title=title,
        status=status,
        detail=detail,
        code=code,
        instance=path,
        request_id=request_id,
        reason=help_with.reason,
        remedy=help_with.remedy,
        errors=errors,
    )
    body = problem.model_dump(mode="json")
    if problem.remedy is not None:
        body["remedy"] = problem.remedy.model_dump(mode="json", exclude_none=True)
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def render_broken(detail: str) -> bytes:
    """Build the response to malformed HTTP, which has no path and no request id."""
    return _render((400, CODES[400], "Bad Request"), detail, ("", ""), [], Help())


def build_unexpected(request: Request) -> Response:
    """Build the response for an unexpected error."""
    return _build(request, (500, "internal", "Internal Server Error"), UNEXPECTED)


def build_refusal(request: Request, error: HTTPException) -> Response:
    """Build the response for an HTTP error: unknown path, wrong method, body too large."""
    status, headers = error.status_code, dict(error.headers or {})
    code = CODES.get(status, "internal" if status >= 500 else "invalid_request")
    title = HTTPStatus(status).phrase
    detail = str(error.detail)
    if status == HTTPStatus.NOT_FOUND and detail == title:
        detail = "This path does not exist. See `/docs` for all paths."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_list_methods(request))
        detail = f"This path supports only {headers['Allow']}. See `/docs` for all paths."
    return _build(request, (status, code, title), detail, headers)


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
        return _build(request, (400, "invalid_json", "Bad Request"), "The body is not valid JSON.")
    errors = [
        FieldError(path=_build_path(one["loc"]), message=_describe(one), code=one["type"])
        for one in found[:ERRORS_SHOWN_MAX]
    ]
    detail = "; ".join(f"{one.path}: {one.message}" for one in errors[:3])
    title = "The request does not match the API's schema."
    return _build(request, (422, "validation_failed", title), detail, None, errors)


def _build_path(places: tuple[Any, ...]) -> str:
    return "/" + "/".join(str(place).replace("~", "~0").replace("/", "~1") for place in places)


def _describe(error: Any) -> str:
    """Return pydantic's message: it names limits, never the value."""
    message = str(error["msg"])
    return message.removeprefix("Value error, ")


def install(app: FastAPI) -> None:
    """Install the handlers that turn every error into a problem response."""

    async def on_known(request: Request, error: Exception) -> Response:
        assert isinstance(error, DialecticError)
        return build_problem(request, error)

    async def on_http(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return build_refusal(request, error)

    async def on_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return build_invalid(request, error)

    async def on_unstorable(request: Request, error: Exception) -> Response:
        del error  # its message may repeat the value
        return build_problem(request, InvalidValue("A value of the request cannot be stored."))

    async def on_broken_rule(request: Request, error: Exception) -> Response:
        assert isinstance(error, asyncpg.IntegrityConstraintViolationError)
        # Services check before they write; a concurrent request changed the row in between.
        logger.warning("a database constraint was violated: %s", error.constraint_name)
        return build_problem(request, Conflict(OVERTAKEN))

    async def on_unexpected(request: Request, error: Exception) -> Response:
        del error  # `trace` logs it, without its message
        return build_unexpected(request)

    app.add_exception_handler(DialecticError, on_known)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(asyncpg.DataError, on_unstorable)
    app.add_exception_handler(asyncpg.IntegrityConstraintViolationError, on_broken_rule)
    app.add_exception_handler(Exception, on_unexpected)
