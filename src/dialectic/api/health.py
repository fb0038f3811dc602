"""Routes for operators: liveness, readiness, Prometheus metrics.

They need no token. Results are cached for a second, so a flood of requests does not reach the
database and storage.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse, PlainTextResponse

from dialectic.api.metrics import Exposition, Metrics
from dialectic.db.migrate import find_upgrade
from dialectic.db.statistics import PATIENCE_S, ping
from dialectic.engine import Engine
from dialectic.errors import ConfigurationError, DatabaseBusy, DialecticError
from dialectic.events.hub import Hub

logger = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)
CHECK_TIMEOUT_S = 3.0
RETRY_AFTER_S = 2
KEPT_S = 1.0
METHODS = ["GET", "HEAD"]
T = TypeVar("T")


class Glance(Generic[T]):
    """A check whose result is shared by concurrent callers and cached for a moment."""

    def __init__(self, look: Callable[[], Awaitable[T]], *, kept_s: float = KEPT_S) -> None:
        self._look, self._kept_s = look, kept_s
        self._looking = asyncio.Lock()
        self._seen: tuple[float, T] | None = None

    async def take(self) -> T:
        """Return the cached result, or run the check."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if self._seen is None or clock() > self._seen[0] + self._kept_s:
                found = await self._look()
                self._seen = (clock(), found)
            return self._seen[1]


@dataclass(frozen=True, slots=True)
class Glances:
    """The cached checks of the operator routes."""

    readiness: Glance[dict[str, str]]
    figures: Glance[Exposition | DialecticError]


def open_glances(engine: Engine, hub: Hub, metrics: Metrics) -> Glances:
    """Build the cached checks for an open engine."""

    async def expose() -> Exposition | DialecticError:
        try:
            return await metrics.expose(engine)
        except (ConfigurationError, DatabaseBusy) as error:
            return error

    async def check() -> dict[str, str]:
        return {**await _check(engine), "events": "closed" if hub.is_closing else "ok"}

    return Glances(Glance(check), Glance(expose))


@router.api_route("/healthz", methods=METHODS)
async def healthz() -> Response:
    """Respond `ok` while the process runs. Checks nothing else."""
    return PlainTextResponse("ok\n")


@router.api_route("/readyz", methods=METHODS)
async def readyz(request: Request) -> Response:
    """Report whether requests can be served: database, schema, storage, event streams."""
    checks = await request.app.state.glances.readiness.take()
    if all(said == "ok" for said in checks.values()):
        return JSONResponse({"status": "ready", "checks": checks})
    return JSONResponse(
        {"status": "unready", "checks": checks}, 503, {"Retry-After": str(RETRY_AFTER_S)}
    )


async def _check(engine: Engine) -> dict[str, str]:
    return {
        "database": await _try(ping(engine.db)),
        "schema": await _try(_check_schema(engine)),
        "storage": await _try(_check_storage(engine)),
    }


async def _check_schema(engine: Engine) -> bool:
    fetch = functools.partial(engine.db.fetch, patience_s=PATIENCE_S)
    return await find_upgrade(fetch) is None


async def _check_storage(engine: Engine) -> bool:
    return await engine.files.identify(None) is not None


async def _try(check: Coroutine[Any, Any, Any]) -> str:
    """Return `ok` or an error code. Callers have no token, so they get no details."""
    try:
        said = await asyncio.wait_for(check, CHECK_TIMEOUT_S)
    except TimeoutError:
        return "timeout"
    except DialecticError as error:
        logger.warning("not ready: %s", error.message)
        return error.code
    return "ok" if said is not False else "not_current"


@router.api_route("/metrics", methods=METHODS)
async def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus text format."""
    found = await request.app.state.glances.figures.take()
    if isinstance(found, DialecticError):
        return PlainTextResponse(f"{found.code}\n", 503, {"Retry-After": str(RETRY_AFTER_S)})
    body, media_type = found
    return Response(body, media_type=media_type)
