"""Prometheus metrics: requests counted in this process, work counted in the database.

Uses its own registry. Labels are routes, methods and statuses, never ids or texts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from dialectic.db.statistics import PATIENCE_S, CounterName, Statistics, load_statistics
from dialectic.engine import Engine

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
COLLISIONS = (CounterName.DEADLOCK, CounterName.SERIALIZATION, CounterName.LOCK_TIMEOUT)
Exposition: TypeAlias = tuple[bytes, str]


class _Kept(Collector):
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
        yield CounterMetricFamily(
            "dialectic_usages_doubted",
            "Calls whose reported usage was implausible.",
            value=found.usages_doubted if found else 0,
        )
        yield CounterMetricFamily(
            "dialectic_overruns",
            "Calls that cost more than their reservation.",
            value=found.overruns if found else 0,
        )
        yield CounterMetricFamily(
            "dialectic_overrun_credits",
            "Real credits charged beyond the reservations.",
            value=found.overrun_credits if found else 0,
        )
        collisions = CounterMetricFamily(
            "dialectic_database_collisions",
            "Transactions retried after a conflict with another one.",
            labels=("kind",),
        )
        for kind in COLLISIONS:
            collisions.add_metric((kind,), tallies.get(kind, 0))
        yield collisions


class Metrics:
    """The metrics of one process."""

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
        self._jobs = Gauge(
            "dialectic_jobs",
            "Jobs that are neither finished nor paused.",
            ("status",),
            registry=self.registry,
        )
        self._holds = Gauge(
            "dialectic_holds_pending", "Calls with a pending reservation.", registry=self.registry
        )
        self._files = Gauge(
            "dialectic_files_waiting", "Files not yet written to storage.", registry=self.registry
        )
        self._discarded = Gauge(
            "dialectic_files_discarded",
            "Files of deleted projects still in storage.",
            registry=self.registry,
        )
        self._events = Gauge(
            "dialectic_events_unnumbered",
            "Events not yet numbered, so not yet delivered.",
            registry=self.registry,
        )
        self._pool = Gauge(
            "dialectic_pool_connections",
            "Database connections in the pool.",
            ("state",),
            registry=self.registry,
        )
        self._kept = _Kept()
        self.registry.register(self._kept)

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
        self._kept.found = found
        self._jobs.clear()
        for status, count in found.open_jobs.items():
            self._jobs.labels(status).set(count)
        self._holds.set(found.holds_pending)
        self._files.set(found.files_waiting)
        self._discarded.set(found.files_discarded)
        self._events.set(found.events_unnumbered)
        idle, size = engine.db.count_connections()
        self._pool.labels("idle").set(idle)
        self._pool.labels("busy").set(size - idle)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
