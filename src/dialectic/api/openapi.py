"""The OpenAPI document and the page that shows it.

Describes tags, authentication, the problems each route may return, and bodies that are not JSON.
Clients are generated from it, so it must be exact. The page loads nothing from other hosts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from typing import TypeAlias

from fastapi import FastAPI
from starlette.responses import Response

from dialectic.api.problems import MEDIA_TYPE
from dialectic.contract.events import build_stream_schema
from dialectic.contract.problems import Problem
from dialectic.core.strict_json import Json

# The responses of a route by status, as FastAPI takes them.
Responses: TypeAlias = dict[int | str, Json]
ASSETS = {
    "/docs": ("docs.html", "text/html; charset=utf-8"),
    "/docs/docs.css": ("docs.css", "text/css; charset=utf-8"),
    "/docs/docs.js": ("docs.js", "text/javascript; charset=utf-8"),
}
# Public: the document contains no tenant's data.
DOCUMENT_PATHS = frozenset({"/api/v1/openapi.json"})
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def add_documents(app: FastAPI) -> None:
    """Serve the page and its assets."""
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


TAGS: list[Json] = [
    {"name": "projects", "description": "Projects: a prompt and its resources."},
    {"name": "sessions", "description": "Sessions: models, progress and costs."},
    {"name": "acting", "description": "Start, steer and stop sessions."},
    {"name": "contributions", "description": "Texts written by models, and your edits."},
    {"name": "documents", "description": "Documents extracted from responses, prompts, feedback."},
    {"name": "events", "description": "Live events, and messages to you."},
    {"name": "chat", "description": "Chats with one model."},
    {"name": "account", "description": "Your user, wallet, models and processes."},
    {"name": "access", "description": "Tokens, browser sessions, organisations and members."},
]
# In the order in which they can occur.
PROBLEMS = {
    400: "The request is malformed.",
    401: "Authentication is missing or invalid.",
    403: "The token does not allow this.",
    404: "Not found, or not visible to this account.",
    409: "The current state does not allow this.",
    408: "The body arrived too slowly.",
    413: "The body is too large.",
    415: "The body's media type is not supported.",
    422: "The request does not match the schema.",
    429: "Too many requests. Retry after `Retry-After` seconds.",
    503: "A service the server needs is unavailable. Retry after `Retry-After` seconds.",
}
MORE = {
    402: "The wallet has too few credits.",
    412: "It has changed since you read it.",
    502: "The model's provider failed.",
}
SCHEMAS = "#/components/schemas/"
BEARER = {"type": "http", "scheme": "bearer", "description": "A token: `dlk_…`."}


UNCHANGED: Responses = {304: {"description": "Not changed since you read it."}}


def problem_responses(problems: Mapping[int, str] = PROBLEMS) -> Responses:
    """Describe problems: by default those that every route may return."""
    return {
        status: {"model": Problem, "description": words, "content": {MEDIA_TYPE: {}}}
        for status, words in problems.items()
    }


def more_problems(*statuses: int) -> Responses:
    """Describe additional problems that some routes may return."""
    return problem_responses({status: MORE[status] for status in statuses})


# -- bodies that are not JSON ---------------------------------------------------------------------

# Client generators handle this media type, but not that of zip files.
BYTES = "application/octet-stream"
MULTIPART = "multipart/form-data"
BINARY = {"type": "string", "format": "binary"}
FILE = {**BINARY, "contentMediaType": BYTES}
EVENTS = "text/event-stream"


def describe_response(media_type: str, words: str, schema: Json | None = None) -> Responses:
    """Describe a response that is not JSON: text, unless a schema is given."""
    content = {media_type: {"schema": schema or {"type": "string"}}}
    return {200: {"content": content, "description": words}}


def describe_events(words: str) -> Responses:
    """Describe a stream whose events are in the contract."""
    schema = {"$ref": f"{SCHEMAS}StreamData"}
    stream = {"type": "string", "contentMediaType": EVENTS, "contentSchema": schema}
    return describe_response(EVENTS, words, stream)


def describe_file(words: str) -> Responses:
    """Describe a response that is a file."""
    return describe_response(BYTES, words, BINARY)


def describe_bodies(bodies: Mapping[str, Json]) -> Json:
    """Describe the media types that a route accepts."""
    content = {media_type: {"schema": schema} for media_type, schema in bodies.items()}
    return {"requestBody": {"required": True, "content": content}}


def describe_form(*required: str, **fields: Json) -> Json:
    """Describe a form with a file."""
    return {"type": "object", "required": [*required, "file"], "properties": fields}


# -- the document ---------------------------------------------------------------------------------


def describe(app: FastAPI) -> None:
    """Finish the document: the media type of problems, the security scheme of tokens."""
    build = app.openapi

    def openapi() -> Json:
        if app.openapi_schema is None:
            app.openapi_schema = _finish(build())
        return app.openapi_schema

    # FastAPI documents this way of changing the schema.
    app.__dict__["openapi"] = openapi


def _finish(schema: Json) -> Json:
    components = schema.setdefault("components", {})
    components.setdefault("securitySchemes", {})["bearer"] = BEARER
    schema["security"] = [{"bearer": []}]
    problem = {"schema": {"$ref": f"{SCHEMAS}Problem"}}
    for path in schema["paths"].values():
        for operation in path.values():
            for status, response in operation["responses"].items():
                if int(status) >= 400:
                    response["content"] = {MEDIA_TYPE: problem}
            _describe_optional_body(operation)
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    events = build_stream_schema(f"{SCHEMAS}{{model}}")
    schema["x-events"] = {
        kind: {"$ref": place} for kind, place in sorted(events.pop("x-events").items())
    }
    components["schemas"] = {**events.pop("$defs"), **schemas, "StreamData": events}
    return schema


def _describe_optional_body(operation: Json) -> None:
    """Describe a body that may be absent as an object: clients cannot send a null that is unset."""
    body = operation.get("requestBody", {})
    if body.get("required"):
        return
    for content in body.get("content", {}).values():
        kinds = content["schema"].get("anyOf", [])
        if (objects := [kind for kind in kinds if "$ref" in kind]) and len(objects) < len(kinds):
            (content["schema"],) = objects
            body["required"] = False
