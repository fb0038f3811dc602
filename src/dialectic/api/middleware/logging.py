"""Gives every request an id, logs, times and counts it, and adds security headers.

The outermost middleware, and the only place that handles unexpected errors. It logs ids, names and
numbers of a request: never a text, a token or a query.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
import traceback
from pathlib import Path
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dialectic.api.health import METHODS, Metrics
from dialectic.api.problems import build_problem, build_unexpected
from dialectic.errors import ServerBusy
from dialectic.telemetry import OFF, Span, Telemetry, about

logger = logging.getLogger(__name__)

PREFIX = "/api/v1"
_VALID_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
# The path parameters that are logged.
LOGGED_IDS = ("project_id", "session_id", "contribution_id", "document_id", "chat_id", "message_id")
STOPPING = (
    "The server is shutting down and could not finish this request. Retry later with the same "
    "Idempotency-Key, so that it runs only once."
)
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


class LoggingMiddleware:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, telemetry: Telemetry = OFF) -> None:
        self._app, self._metrics, self._telemetry = app, metrics, telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if _VALID_ID.fullmatch(given) else uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        parent = {"traceparent": headers.get("traceparent", "")}
        with (
            about(request_id=request_id),
            self._telemetry.span("request", kind="SERVER", parent=parent) as span,
        ):
            await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Span) -> None:
        request_id = scope["state"]["request_id"]
        begun, status = time.perf_counter(), 0

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                headers["X-Request-ID"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        except asyncio.CancelledError:
            # The server is stopping, and the grace period of this request is over.
            if not status:
                await build_problem(Request(scope), ServerBusy(STOPPING))(scope, receive, send_on)
            raise
        except Exception as error:  # noqa: BLE001  the edge of the API; the answer was sent already
            _log_unexpected(error, request_id)
            if not status:
                await build_unexpected(Request(scope))(scope, receive, send_on)
        finally:
            elapsed_s = time.perf_counter() - begun
            route = _name_route(scope)
            self._metrics.count_request(scope["method"], route, status, elapsed_s)
            _log_request(scope, route, status, elapsed_s)
            _describe_span(span, scope, route, status)


def _name_route(scope: Scope) -> str:
    """Return the pattern of the matched route; all unknown paths share one name."""
    pattern = getattr(scope.get("route"), "path", None)
    if pattern is None:
        return "unknown"
    is_whole = pattern.startswith(PREFIX) or not scope["path"].startswith(PREFIX)
    return str(pattern) if is_whole else f"{PREFIX}{pattern}"


def _log_request(scope: Scope, route: str, status: int, elapsed_s: float) -> None:
    if not logger.isEnabledFor(logging.INFO):
        return
    found: dict[str, object] = {
        "event": "request",
        "request_id": scope["state"]["request_id"],
        "method": scope["method"],
        "route": route,
        "status": status,
        "elapsed_ms": round(elapsed_s * 1000, 1),
        **_list_ids(scope),
    }
    logger.info("%s", json.dumps(found))


def _list_ids(scope: Scope) -> dict[str, str]:
    """List the ids in the path of a request."""
    parameters = scope.get("path_params", {})
    found = {name: str(parameters[name]) for name in LOGGED_IDS if name in parameters}
    if (principal := scope["state"].get("principal")) is not None:
        found["tenant_id"] = str(principal.account.tenant_id)
    return found


def _describe_span(span: Span, scope: Scope, route: str, status: int) -> None:
    """Build OpenTelemetry's HTTP attributes, without path and query."""
    method = scope["method"] if scope["method"] in METHODS else "_OTHER"
    span.rename(f"{method} {route}")
    span.note(
        {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
            **{f"dialectic.{name}": value for name, value in _list_ids(scope).items()},
        }
    )
    if status >= 500 or not status:
        span.fail(str(status))


def _log_unexpected(error: Exception, request_id: str) -> None:
    """Log the type and place of an error, not its message, which may hold private data."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    logger.error(
        "%s",
        json.dumps(
            {
                "event": "unexpected",
                "request_id": request_id,
                "error": type(error).__name__,
                "place": f"{Path(where.filename).name}:{where.lineno}",
            }
        ),
    )
    logger.debug("unexpected", exc_info=error)
