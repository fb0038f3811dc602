"""For operators and their tools: whether it lives, whether it is ready, its figures."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Coroutine
from typing import Any

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from dialectic.engine import Engine
from dialectic.errors import ConfigurationError, DatabaseBusy, DialecticError
from dialectic.store import figures
from dialectic.store.migrate import find_upgrade

logger = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)
CHECK_TIMEOUT_S = 3.0
RETRY_AFTER_S = 2


@router.get("/healthz")
async def healthz() -> Response:
    """Say that the process lives. Asks nobody."""
    return PlainTextResponse("ok\n")


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Say whether requests can be served: database, schema, storage."""
    engine: Engine = request.app.state.engine
    checks = {
        "database": await _try(figures.ping(engine.db)),
        "schema": await _try(_check_schema(engine)),
        "storage": await _try(_check_storage(engine)),
    }
    if all(said == "ok" for said in checks.values()):
        return JSONResponse({"status": "ready", "checks": checks})
    return JSONResponse(
        {"status": "unready", "checks": checks}, 503, {"Retry-After": str(RETRY_AFTER_S)}
    )


async def _check_schema(engine: Engine) -> bool:
    fetch = functools.partial(engine.db.fetch, patience_s=figures.PATIENCE_S)
    return await find_upgrade(fetch) is None


async def _check_storage(engine: Engine) -> bool:
    return await engine.files.identify(None) is not None


async def _try(check: Coroutine[Any, Any, Any]) -> str:
    """Say `ok`, or the code of what is wrong: more is nobody's business who has no token."""
    try:
        said = await asyncio.wait_for(check, CHECK_TIMEOUT_S)
    except TimeoutError:
        return "timeout"
    except DialecticError as error:
        logger.warning("not ready: %s", error.message)
        return error.code
    return "ok" if said is not False else "not_current"


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Give the figures as Prometheus reads them."""
    try:
        body, media_type = await request.app.state.metrics.expose(request.app.state.engine)
    except (ConfigurationError, DatabaseBusy) as error:
        return PlainTextResponse(f"{error.code}\n", 503, {"Retry-After": str(RETRY_AFTER_S)})
    return Response(body, media_type=media_type)
