"""Figures for Prometheus: requests as they are counted here, work as the database has it.

A registry of its own; labels are names of routes, methods and statuses, never ids or texts.
"""

from __future__ import annotations

from typing import TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dialectic.engine import Engine
from dialectic.store import figures

BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
Exposition: TypeAlias = tuple[bytes, str]


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "dialectic_http_requests",
            "Requests that were answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "dialectic_http_request_seconds",
            "How long they took.",
            ("method", "route"),
            buckets=BUCKETS_S,
            registry=self.registry,
        )
        self._jobs = Gauge(
            "dialectic_jobs",
            "Jobs that are neither ended nor paused.",
            ("status",),
            registry=self.registry,
        )
        self._holds = Gauge(
            "dialectic_holds_pending", "Calls that money is set aside for.", registry=self.registry
        )
        self._files = Gauge(
            "dialectic_files_waiting", "Files that wait for storage.", registry=self.registry
        )
        self._events = Gauge(
            "dialectic_events_unnumbered",
            "Events that nobody has read yet.",
            registry=self.registry,
        )
        self._pool = Gauge(
            "dialectic_pool_connections",
            "Connections to the database.",
            ("state",),
            registry=self.registry,
        )

    def count_request(self, method: str, route: str, status: int, elapsed_s: float) -> None:
        """Count a request; what strangers make up is one name."""
        method = method if method in METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(elapsed_s)

    async def expose(self, engine: Engine) -> Exposition:
        """Ask the database how the work stands and write all figures down."""
        found = await figures.load_figures(engine.db)
        self._jobs.clear()
        for status, count in found.open_jobs.items():
            self._jobs.labels(status).set(count)
        self._holds.set(found.holds_pending)
        self._files.set(found.files_waiting)
        self._events.set(found.events_unnumbered)
        idle, size = engine.db.count_connections()
        self._pool.labels("idle").set(idle)
        self._pool.labels("busy").set(size - idle)
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
