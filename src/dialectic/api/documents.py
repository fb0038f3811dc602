"""The page that shows the description of the API: our own, nothing comes from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import FastAPI
from starlette.responses import Response

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
