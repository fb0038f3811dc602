"""The page that shows the description of the API: our own, nothing comes from elsewhere.

The description of the API: tags, how one comes in, and which problems every route may answer.

Clients are made of it, so it says nothing that does not hold.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from starlette.responses import Response

from dialectic.api.problems import MEDIA_TYPE
from dialectic.contract.problems import Problem

ASSETS = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}
# What everyone may read; the description itself tells nothing that is anybody's.
DOCUMENT_PATHS = frozenset({"/api/v1/openapi.json"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_documents(app: FastAPI) -> None:
    """Serve the page and what it needs."""
    for path, (name, media_type) in ASSETS.items():
        app.add_api_route(
            path,
            _serve(name, media_type),
            methods=["GET", "HEAD"],
            include_in_schema=False,
            response_class=Response,
        )


def _serve(name: str, media_type: str) -> Callable[[], Awaitable[Response]]:
    body = files("dialectic.api").joinpath("assets", name).read_bytes()

    async def serve() -> Response:
        headers = {"Content-Security-Policy": POLICY, "Cache-Control": "max-age=3600"}
        return Response(body, headers=headers, media_type=media_type)

    return serve


TAGS: list[dict[str, Any]] = [
    {"name": "projects", "description": "What is argued about, and what is given to it."},
    {"name": "sessions", "description": "Who argues, how far, and what it costs."},
    {"name": "acting", "description": "Starting, steering and stopping sessions."},
    {"name": "contributions", "description": "What models wrote, and your versions of it."},
    {"name": "documents", "description": "Documents cut out of answers, prompts, feedback."},
    {"name": "events", "description": "What happens, live, and messages to you."},
    {"name": "chat", "description": "Questions to one model."},
    {"name": "account", "description": "Who you are, your money, models and processes."},
    {"name": "access", "description": "Tokens, browsers, organisations and their members."},
]
# In the order in which they can happen to a request.
PROBLEMS = {
    400: "The request makes no sense.",
    401: "It is not known who asks.",
    403: "This may not be done with this token.",
    404: "There is no such thing, or it belongs to someone else.",
    409: "The thing is not in a state in which this can be done.",
    408: "The body came too slowly.",
    413: "The body is too large.",
    415: "The body is not of a kind that is taken here.",
    422: "The request has not the form described here.",
    429: "Too many requests; `Retry-After` says when to come back.",
    503: "Something the server needs is away; `Retry-After` says when to come back.",
}
MORE = {
    402: "There is not enough money.",
    412: "The thing has changed since it was read.",
    502: "The model's provider failed.",
}
BEARER = {"type": "http", "scheme": "bearer", "description": "A token: `dlk_…`."}


def build_response(description: str) -> dict[str, Any]:
    """Build the description of a problem."""
    return {"model": Problem, "description": description, "content": {MEDIA_TYPE: {}}}


def problem_responses() -> dict[int | str, dict[str, Any]]:
    """Build what every route may answer instead of what was asked for."""
    return {status: build_response(words) for status, words in PROBLEMS.items()}


def more_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Build what some routes may answer beside that."""
    return {status: build_response(MORE[status]) for status in statuses}


def describe(app: FastAPI) -> None:
    """Finish the description: problems have their own media type, tokens their scheme."""
    build = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _finish(build())
        return app.openapi_schema

    # The way that the framework's own documentation shows for changing a description.
    app.__dict__["openapi"] = openapi


def _finish(schema: dict[str, Any]) -> dict[str, Any]:
    components = schema.setdefault("components", {})
    components.setdefault("securitySchemes", {})["bearer"] = BEARER
    schema["security"] = [{"bearer": []}]
    problem = {"schema": {"$ref": "#/components/schemas/Problem"}}
    for path in schema["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    response["content"] = {MEDIA_TYPE: problem}
    for name in ("HTTPValidationError", "ValidationError"):
        components.get("schemas", {}).pop(name, None)
    return schema
