"""The ASGI application: routes, error handlers and middleware around an open engine.

The engine outlives the application. Ports and signals belong to `server`.
`python -m dialectic.api.app` prints the OpenAPI document, for client generators.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from dialectic import __version__
from dialectic.api import health, problems, shared_page
from dialectic.api.auth import Authenticator
from dialectic.api.health import Metrics
from dialectic.api.middleware.body_limits import OVERHEAD_BYTES, BodyLimitMiddleware, Limits, Upload
from dialectic.api.middleware.compression import CompressionMiddleware
from dialectic.api.middleware.logging import LoggingMiddleware
from dialectic.api.openapi import DOCUMENT_PATHS, TAGS, add_documents, describe, problem_responses
from dialectic.api.routes import ROUTERS
from dialectic.app.idempotency import LongRequests
from dialectic.app.live_answers import LiveAnswers
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.engine import Engine
from dialectic.events.hub import Hub
from dialectic.settings import Settings
from dialectic.uploads import read as uploads
from dialectic.web.pages import add_pages

PREFIX = "/api/v1"
LOOPBACK = "127.0.0.1"
# At shutdown, how long chat calls whose clients have disconnected may continue.
DRAIN_S = 30.0
EXPORTS_AT_ONCE = 4
# Each document upload is a process that may use a gigabyte of memory and a whole CPU, and it holds
# a thread of the shared pool.
DOCUMENTS_READ_AT_ONCE = 2
# A streamed chat reply sends a comment after this silence.
PING_S = 15.0
# The form of a shared report passes no other limit: its sender is unknown.
FORM_MAX_S = 20.0


def build_app(
    engine: Engine,
    hub: Hub,
    *,
    listens_at: str = LOOPBACK,
    api: FastAPI | None = None,
    drafts: Path | None = None,
    ping_s: float = PING_S,
    form_max_s: float = FORM_MAX_S,
) -> ASGIApp:
    """Build the application around an open engine and an open event hub.

    `api` is a result of `build_api`, if the caller has one; do not share it between applications.
    Archives are written into `drafts` on their way, by default the system's temporary folder. The
    form of a shared report may take `form_max_s` to arrive.
    """
    app, metrics = api or build_api(), Metrics()
    app.state.engine, app.state.hub = engine, hub
    app.state.drafts, app.state.ping_s, app.state.form_max_s = drafts, ping_s, form_max_s
    app.state.checks = health.build_checks(engine, hub, metrics)
    app.state.long_requests = LongRequests(engine.db)
    app.state.live_answers = LiveAnswers()
    app.state.exporting = asyncio.Semaphore(EXPORTS_AT_ONCE)
    app.state.reading = asyncio.Semaphore(DOCUMENTS_READ_AT_ONCE)
    entry = Authenticator(engine, listens_at=listens_at)
    guarded = BodyLimitMiddleware(
        app, entry.authenticate, build_limits(engine.settings), DOCUMENT_PATHS
    )
    return LoggingMiddleware(CompressionMiddleware(guarded), metrics, engine.telemetry)


def build_limits(settings: Settings) -> Limits:
    """Build the limits on request bodies."""
    # A form's file is written to disk, and an archive in a form is written twice.
    archive = Upload(LIMITS.archive_bytes_max + OVERHEAD_BYTES, at_once_max=4, of_tenant_max=2)
    document = Upload(
        uploads.LIMITS.file_bytes_max + OVERHEAD_BYTES, at_once_max=32, of_tenant_max=8
    )
    return Limits(
        # JSON escapes of quotes and line breaks may double the length of a text.
        json_bytes_max=2 * settings.max_prompt_bytes + OVERHEAD_BYTES,
        uploads={
            "/projects/import": archive,
            "/projects/upload": document,
            "/resources": document,
            "/uploads": document,
        },
    )


def build_api() -> FastAPI:
    """Build the routes and the OpenAPI document, without an engine."""
    app = FastAPI(
        title="Dialectic",
        version=__version__,
        summary="Several language models argue until a plan holds.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        # Behind a TLS proxy a redirect would send the client and its token to plain HTTP.
        redirect_slashes=False,
        openapi_tags=TAGS,
        generate_unique_id_function=name_operation,
        separate_input_output_schemas=False,
        lifespan=_finish_work,
    )
    problems.install(app)
    versioned = APIRouter(prefix=PREFIX, responses=problem_responses())
    for router in ROUTERS:
        versioned.include_router(router)
    app.include_router(versioned)
    app.include_router(health.router)
    app.include_router(shared_page.router)
    add_documents(app)
    add_pages(app)
    describe(app)
    return app


def name_operation(route: APIRoute) -> str:
    """Name an operation after its function: client generators use these names."""
    return route.name


@asynccontextmanager
async def _finish_work(app: FastAPI) -> AsyncIterator[None]:
    """Wait for calls without a connected client before the engine closes."""
    yield
    await app.state.long_requests.close(DRAIN_S)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(build_api().openapi(), indent=2) + "\n")
