"""Routes for operators: liveness, readiness, Prometheus metrics.

They need no token. Results are cached for a second, so a flood of requests does not reach the
database and storage. Metrics count requests in this process and work in the database; their labels
are routes, methods and statuses, never ids or texts.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse, PlainTextResponse

from dialectic.db.migrate import find_upgrade
from dialectic.db.statistics import PATIENCE_S, CounterName, Statistics, load_statistics, ping
from dialectic.engine import Engine
from dialectic.errors import ConfigurationError, DatabaseBusy, DialecticError
from dialectic.events.hub import Hub

logger = logging.getLogger(__name__)
router = APIRouter(include_in_schema=False)
CHECK_TIMEOUT_S = 3.0
RETRY_AFTER_S = 2
CACHE_S = 1.0
READ_METHODS = ["GET", "HEAD"]
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
COLLISIONS = (CounterName.DEADLOCK, CounterName.SERIALIZATION, CounterName.LOCK_TIMEOUT)
# Fields of `Statistics` that are counters and gauges.
COUNTED = {
    "usages_doubted": "Calls whose reported usage was implausible.",
    "overruns": "Calls that cost more than their reservation.",
    "overrun_credits": "Real credits charged beyond the reservations.",
}
MEASURED = {
    "holds_pending": "Calls with a pending reservation.",
    "files_waiting": "Files not yet written to storage.",
    "files_discarded": "Files of deleted projects still in storage.",
    "events_unnumbered": "Events not yet numbered, so not yet delivered.",
}
T = TypeVar("T")
Exposition: TypeAlias = tuple[bytes, str]


# -- metrics ---------------------------------------------------------------------------------------


class _StoredCounters(Collector):
    """Counters of all processes, as stored in the database."""

    def __init__(self) -> None:
        self.found: Statistics | None = None

    def collect(self) -> Iterable[CounterMetricFamily]:
        found = self.found
        tallies = found.tallies if found else {}
        yield CounterMetricFamily(
            "dialectic_finish_reasons_unknown",
            "Responses with an unknown finish reason.",
            value=tallies.get(CounterName.FINISH_REASON_UNKNOWN, 0),
        )
        for name, words in COUNTED.items():
            yield CounterMetricFamily(f"dialectic_{name}", words, value=getattr(found, name, 0))
        collisions = CounterMetricFamily(
            "dialectic_database_collisions",
            "Transactions retried after a conflict with another one.",
            labels=("kind",),
        )
        for kind in COLLISIONS:
            collisions.add_metric((kind,), tallies.get(kind, 0))
        yield collisions


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "dialectic_http_requests",
            "HTTP requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "dialectic_http_request_seconds",
            "Duration of HTTP requests.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        gauge = functools.partial(Gauge, registry=self.registry)
        self._jobs = gauge(
            "dialectic_jobs", "Jobs that are neither finished nor paused.", ("status",)
        )
        self._measured = {
            name: gauge(f"dialectic_{name}", words) for name, words in MEASURED.items()
        }
        self._pool = gauge(
            "dialectic_pool_connections", "Database connections in the pool.", ("state",)
        )
        self._stored = _StoredCounters()
        self.registry.register(self._stored)

    def count_request(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count a request; unknown methods and paths share one label."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(elapsed_s)

    async def expose(self, engine: Engine) -> Exposition:
        """Read the database counters and render all metrics."""
        fetch = functools.partial(engine.db.fetch, patience_s=PATIENCE_S)
        await engine.counters.flush(fetch)
        found = await load_statistics(engine.db)
        self._stored.found = found
        self._jobs.clear()
        for status, count in found.open_jobs.items():
            self._jobs.labels(status).set(count)
        for name, measured in self._measured.items():
            measured.set(getattr(found, name))
        idle, size = engine.db.count_connections()
        self._pool.labels("idle").set(idle)
        self._pool.labels("busy").set(size - idle)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


# -- routes ----------------------------------------------------------------------------------------


class CachedCheck(Generic[T]):
    """A check whose result is shared by concurrent callers and cached for a moment."""

    def __init__(self, look: Callable[[], Awaitable[T]], *, cache_s: float = CACHE_S) -> None:
        self._look, self._cache_s = look, cache_s
        self._looking = asyncio.Lock()
        self._seen: tuple[float, T] | None = None

    async def take(self) -> T:
        """Return the cached result, or run the check."""
        clock = asyncio.get_running_loop().time
        async with self._looking:
            if self._seen is None or clock() > self._seen[0] + self._cache_s:
                found = await self._look()
                self._seen = (clock(), found)
            return self._seen[1]


@dataclass(frozen=True, slots=True)
class CachedChecks:
    """The cached checks of the operator routes."""

    readiness: CachedCheck[dict[str, str]]
    figures: CachedCheck[Exposition | DialecticError]


def build_checks(engine: Engine, hub: Hub, metrics: Metrics) -> CachedChecks:
    """Build the cached checks for an open engine."""

    async def expose() -> Exposition | DialecticError:
        try:
            return await metrics.expose(engine)
        except (ConfigurationError, DatabaseBusy) as error:
            return error

    async def check() -> dict[str, str]:
        return {**await _check(engine), "events": "closed" if hub.is_closing else "ok"}

    return CachedChecks(CachedCheck(check), CachedCheck(expose))


@router.api_route("/healthz", methods=READ_METHODS)
async def healthz() -> Response:
    """Respond `ok` while the process runs. Checks nothing else."""
    return PlainTextResponse("ok\n")


@router.api_route("/readyz", methods=READ_METHODS)
async def readyz(request: Request) -> Response:
    """Report whether requests can be served: database, schema, storage, event streams."""
    checks = await request.app.state.checks.readiness.take()
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


@router.api_route("/metrics", methods=READ_METHODS)
async def metrics(request: Request) -> Response:
    """Return the metrics in Prometheus text format."""
    found = await request.app.state.checks.figures.take()
    if isinstance(found, DialecticError):
        return PlainTextResponse(f"{found.code}\n", 503, {"Retry-After": str(RETRY_AFTER_S)})
    body, media_type = found
    return Response(body, media_type=media_type)
