"""Observability: ids for log lines, and spans for a collector.

Owns the ids of the current work (`about`), which every log line and every span carry, and the
export of spans to an OpenTelemetry collector. Spans carry ids, names and figures; never pass a
user's text, a key or an error message in here. Without a collector no span is created and
OpenTelemetry is not imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from dialectic import __version__
from dialectic.core.access import Secret
from dialectic.errors import ConfigurationError, DialecticError
from dialectic.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as Recorded
    from opentelemetry.trace import Tracer

Value: TypeAlias = str | int | float | bool | Sequence[str]

SERVICE = "dialectic"
TRACES_PATH = "/v1/traces"
EXPORT_TIMEOUT_S = 5.0
# How long an ending process waits for a slow collector.
FLUSH_TIMEOUT_MS = 3_000

_ids: ContextVar[Mapping[str, str | int]] = ContextVar("_ids", default={})  # noqa: B039  never changed


@contextlib.contextmanager
def about(**ids: str | int) -> Iterator[None]:
    """Set the ids of the current work, for this task and those it starts."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def list_ids() -> Mapping[str, str | int]:
    """List the ids of this task's work."""
    return _ids.get()


_hidden: ContextVar[tuple[Secret, ...]] = ContextVar("_hidden", default=())


@contextlib.contextmanager
def hiding(secret: Secret | None) -> Iterator[None]:
    """Keep a tenant's key out of the logs of this task and those it starts."""
    token = _hidden.set(_hidden.get() if secret is None else (*_hidden.get(), secret))
    try:
        yield
    finally:
        _hidden.reset(token)


def list_hidden() -> tuple[Secret, ...]:
    """List the tenants' keys that this task uses."""
    return _hidden.get()


# -- spans ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Span:
    """A timed piece of work; without a record, notes are dropped."""

    record: Recorded | None = None

    def note(self, attributes: Mapping[str, Value]) -> None:
        """Add ids, names and figures that are only known now."""
        if self.record is not None:
            for name, value in attributes.items():
                self.record.set_attribute(name, value)

    def rename(self, name: str) -> None:
        """Set the name, if it is only known now."""
        if self.record is not None:
            self.record.update_name(name)

    def fail(self, kind: str) -> None:
        """Record a failure and its kind."""
        if self.record is not None:
            from opentelemetry.trace import StatusCode

            self.record.set_attribute("error.type", kind)
            self.record.set_status(StatusCode.ERROR)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Creates spans, if there is a tracer."""

    tracer: Tracer | None = None

    @contextlib.contextmanager
    def span(
        self,
        name: str,
        attributes: Mapping[str, Value] | None = None,
        *,
        kind: str = "INTERNAL",
        parent: Mapping[str, str] | None = None,
    ) -> Iterator[Span]:
        """Time a block; `parent` are headers that may name a remote parent span."""
        if self.tracer is None:
            yield Span()
            return
        from opentelemetry.trace import SpanKind
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        ids = {f"dialectic.{key}": value for key, value in list_ids().items()}
        with self.tracer.start_as_current_span(
            name,
            context=TraceContextTextMapPropagator().extract(parent) if parent else None,
            kind=SpanKind[kind],
            attributes={**ids, **(attributes or {})},
            # An error message may repeat user text: record only its kind.
            record_exception=False,
            set_status_on_exception=False,
        ) as record:
            span = Span(record)
            try:
                yield span
            except BaseException as error:
                span.fail(name_error(error))
                raise


OFF = Telemetry()


def name_error(error: BaseException) -> str:
    """Name an error by its code, or by its class if it has none."""
    return error.code if isinstance(error, DialecticError) else type(error).__name__


@contextlib.contextmanager
def open_telemetry(settings: Settings) -> Iterator[Telemetry]:
    """Open the configured exporter; unsent spans are sent at exit."""
    if not settings.otlp_url:
        yield OFF
        return
    with _naming_the_extra():
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    exporter = OTLPSpanExporter(
        endpoint=settings.otlp_url.rstrip("/") + TRACES_PATH,
        headers=_parse_headers(settings),
        timeout=EXPORT_TIMEOUT_S,
    )
    with open_tracing(exporter) as telemetry:
        yield telemetry


@contextlib.contextmanager
def open_tracing(exporter: SpanExporter) -> Iterator[Telemetry]:
    """Create spans and hand them to an exporter, in its own thread."""
    with _naming_the_extra():
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    resource = Resource.create({"service.name": SERVICE, "service.version": __version__})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    try:
        yield Telemetry(provider.get_tracer("dialectic", __version__))
    finally:
        provider.force_flush(FLUSH_TIMEOUT_MS)
        provider.shutdown()


@contextlib.contextmanager
def _naming_the_extra() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"DIALECTIC_OTLP_URL is set, but OpenTelemetry is not installed ({error.name}). "
            "Install it with `pip install 'dialectic-engine[telemetry]'`, or unset the variable.",
            reason="not_installed",
            subject="DIALECTIC_OTLP_URL",
        ) from None


def _parse_headers(settings: Settings) -> dict[str, str]:
    """Parse `name=value,name=value`, the format that collectors' vendors use."""
    given = settings.otlp_headers.reveal() if settings.otlp_headers else ""
    pairs = [part.partition("=") for part in given.split(",") if part.strip()]
    if any(not name.strip() or not equals for name, equals, _ in pairs):
        raise ConfigurationError(
            "DIALECTIC_OTLP_HEADERS is not a list of headers. Write name=value,name=value.",
            reason="bad_value",
            subject="DIALECTIC_OTLP_HEADERS",
        )
    return {name.strip(): value.strip() for name, _, value in pairs}
