"""The application: routes, errors, guards and documents put together around an engine.

The engine is open for longer than the application. Knows nothing of ports and signals.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.types import ASGIApp

from dialectic import __version__
from dialectic.api import health, problems
from dialectic.api.auth import Authenticator
from dialectic.api.metrics import Metrics
from dialectic.api.middleware.body_limits import OVERHEAD_BYTES, BodyLimitMiddleware, Limits, Upload
from dialectic.api.middleware.logging import LoggingMiddleware
from dialectic.api.openapi import DOCUMENT_PATHS, TAGS, add_documents, describe, problem_responses
from dialectic.api.routes import ROUTERS
from dialectic.app.idempotency import LongRequests
from dialectic.core.transfer.bundle_format import LIMITS
from dialectic.engine import Engine
from dialectic.events.hub import Hub
from dialectic.settings import Settings
from dialectic.uploads import kinds as uploads

PREFIX = "/api/v1"
LOOPBACK = "127.0.0.1"
# How long questions whose clients are gone may still take when the server stops.
DRAIN_S = 30.0
EXPORTS_AT_ONCE = 4
# Each is a process that may take a gigabyte and the whole of a processor, and a thread that others
# need.
DOCUMENTS_READ_AT_ONCE = 2


def build_app(
    engine: Engine, hub: Hub, *, listens_at: str = LOOPBACK, api: FastAPI | None = None
) -> ASGIApp:
    """Build the application around an engine and a hub of events that are open.

    `api` is what `build_api` has built, if that is at hand; it belongs to this application alone.
    """
    app, metrics = api or build_api(), Metrics()
    app.state.engine, app.state.hub = engine, hub
    app.state.glances = health.open_glances(engine, hub, metrics)
    app.state.undertakings = LongRequests(engine.db)
    app.state.exporting = asyncio.Semaphore(EXPORTS_AT_ONCE)
    app.state.reading = asyncio.Semaphore(DOCUMENTS_READ_AT_ONCE)
    entry = Authenticator(engine, listens_at=listens_at)
    guarded = BodyLimitMiddleware(
        app, entry.authenticate, build_limits(engine.settings), DOCUMENT_PATHS
    )
    return LoggingMiddleware(guarded, metrics, engine.telemetry)


def build_limits(settings: Settings) -> Limits:
    """Build what may come in at most."""
    # A form's file lies on disk, and an archive in a form twice.
    archive = Upload(LIMITS.archive_bytes_max + OVERHEAD_BYTES, at_once_max=4, of_tenant_max=2)
    document = Upload(
        uploads.LIMITS.file_bytes_max + OVERHEAD_BYTES, at_once_max=32, of_tenant_max=8
    )
    return Limits(
        # A text may be twice as long in JSON, with all its quotes and line ends.
        json_bytes_max=2 * settings.max_prompt_bytes + OVERHEAD_BYTES,
        uploads={
            "/projects/import": archive,
            "/projects/upload": document,
            "/resources": document,
        },
    )


def build_api() -> FastAPI:
    """Build the routes and their description, without anything to work with."""
    app = FastAPI(
        title="Dialectic",
        version=__version__,
        summary="Several language models argue until a plan holds.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        # Behind a proxy that does TLS it would lead a client, and its token, away from it.
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
    add_documents(app)
    describe(app)
    return app


def name_operation(route: APIRoute) -> str:
    """Name an operation by its function: clients are made of these names."""
    return route.name


@asynccontextmanager
async def _finish_work(app: FastAPI) -> AsyncIterator[None]:
    """Let what goes on without its client come to its end before the engine is closed."""
    yield
    await app.state.undertakings.close(DRAIN_S)
