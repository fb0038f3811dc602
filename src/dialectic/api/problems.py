"""What goes wrong, as the client is told it: problem+json, from the one tree of errors.

The only place that maps errors to answers. A detail never repeats what was sent, since that may
hold a secret, and an unexpected error tells nothing but the id of its request.
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
from dialectic.core.local_trust import RequestOrigin, build_removal
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
# What HTTP itself refuses, by its status; all else has its code in the tree of errors.
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
    """What a problem tells programs besides its code."""

    reason: str | None = None
    remedy: ProblemRemedy | None = None


def build_problem(request: Request, error: DialecticError) -> Response:
    """Build the answer to a request that met an error of the tree."""
    kind = type(error)
    headers = {}
    if (wait_s := find_wait(error)) is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait_s)))
    if kind.status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
        knock = RequestOrigin.read(request.headers, request.scope.get("scheme", "http"))
        if (removal := build_removal(request.headers, knock)) is not None:
            headers["Set-Cookie"] = removal
    title = (kind.__doc__ or "").strip().splitlines()[0]
    told = (kind.status, kind.code, title)
    return _build(request, told, _tell(error, title), headers, help_with=find_help(error))


UNEXPECTED = (
    "Something unexpected happened. This is a fault of the program; nothing that was saved is "
    "lost. The request's id finds it in the logs."
)
OVERTAKEN = (
    "Something that this belongs to was changed or deleted at the same moment. Look at it again."
)
# What these say names hosts, folders and statements, for the operator.
OF_THE_OPERATOR = (
    DatabaseBusy,
    DatabaseFull,
    DatabaseUnreachable,
    SchemaChanged,
    StorageMismatch,
    StorageUnavailable,
)


def _tell(error: DialecticError, title: str) -> str:
    """Tell an error's own words, unless they name what is nobody's business."""
    if type(error).status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return UNEXPECTED
    if isinstance(error, OF_THE_OPERATOR):
        return f"{title} Nothing that was saved is lost. Try again a little later."
    return error.message


def find_help(error: DialecticError) -> Help:
    """Find the reason of an error and what helps, without what is for the operator alone."""
    if type(error).status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return Help()
    if isinstance(error, OF_THE_OPERATOR):
        return Help(remedy=ProblemRemedy(action=RemedyAction.TRY_AGAIN))
    if error.remedy is None:
        return Help(error.reason)
    return Help(error.reason, ProblemRemedy.model_validate(error.remedy.as_dict()))


def find_wait(error: DialecticError) -> float | None:
    """Find after how long it makes sense to ask again; None if that depends on something else."""
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
    told = problem.model_dump(mode="json")
    if problem.remedy is not None:
        told["remedy"] = problem.remedy.model_dump(mode="json", exclude_none=True)
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode()


def render_broken(detail: str) -> bytes:
    """Build the answer to what is no request: nobody knows what it asks for."""
    return _render((400, CODES[400], "Bad Request"), detail, ("", ""), [], Help())


def build_unexpected(request: Request) -> Response:
    """Build the answer to what nobody foresaw."""
    return _build(request, (500, "internal", "Internal Server Error"), UNEXPECTED)


def build_refusal(request: Request, error: HTTPException) -> Response:
    """Build the answer to what HTTP itself refuses: an unknown path, a method, a size."""
    status, headers = error.status_code, dict(error.headers or {})
    code = CODES.get(status, "internal" if status >= 500 else "invalid_request")
    title = HTTPStatus(status).phrase
    detail = str(error.detail)
    if status == HTTPStatus.NOT_FOUND and detail == title:
        detail = "There is nothing at this path. `/docs` shows what there is."
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = ", ".join(_list_methods(request))
        detail = f"Only {headers['Allow']} can be done here. `/docs` shows what there is."
    return _build(request, (status, code, title), detail, headers)


def _list_methods(request: Request) -> list[str]:
    """List what can be done at a path: the framework names the methods of its first route alone."""
    routes = request.app.router.routes
    return [
        method
        for method in METHODS
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]


def build_invalid(request: Request, error: RequestValidationError) -> Response:
    """Build the answer to a request that has not its form; no value is repeated."""
    found = error.errors()
    if any(one["type"] == "json_invalid" for one in found):
        return _build(request, (400, "invalid_json", "Bad Request"), "The body is not valid JSON.")
    errors = [
        FieldError(path=_build_path(one["loc"]), message=_describe(one), code=one["type"])
        for one in found[:ERRORS_SHOWN_MAX]
    ]
    detail = "; ".join(f"{one.path}: {one.message}" for one in errors[:3])
    title = "The request has not the form that the API describes."
    return _build(request, (422, "validation_failed", title), detail, None, errors)


def _build_path(places: tuple[Any, ...]) -> str:
    return "/" + "/".join(str(place).replace("~", "~0").replace("/", "~1") for place in places)


def _describe(error: Any) -> str:
    """Take pydantic's words; they tell limits, and never the value."""
    message = str(error["msg"])
    return message.removeprefix("Value error, ")


def install(app: FastAPI) -> None:
    """Let an application answer every error as a problem."""

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
        del error  # its words may repeat the value
        return build_problem(request, InvalidValue("A value of the request cannot be stored."))

    async def on_broken_rule(request: Request, error: Exception) -> Response:
        assert isinstance(error, asyncpg.IntegrityConstraintViolationError)
        # Services look before they write. What they saw was there then and is not any more.
        logger.warning("a rule of the database was broken: %s", error.constraint_name)
        return build_problem(request, Conflict(OVERTAKEN))

    async def on_unexpected(request: Request, error: Exception) -> Response:
        del error  # told by `trace`, without its words
        return build_unexpected(request)

    app.add_exception_handler(DialecticError, on_known)
    app.add_exception_handler(HTTPException, on_http)
    app.add_exception_handler(RequestValidationError, on_invalid)
    app.add_exception_handler(asyncpg.DataError, on_unstorable)
    app.add_exception_handler(asyncpg.IntegrityConstraintViolationError, on_broken_rule)
    app.add_exception_handler(Exception, on_unexpected)
