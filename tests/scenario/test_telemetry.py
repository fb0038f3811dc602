"""Traces and logs tell ids, names and figures of all that is done, and no text of anybody."""

from __future__ import annotations

import gzip
import json
import logging
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from dialectic.api.app import build_app
from dialectic.cli.terminal import JsonLines
from dialectic.core.access import Secret
from dialectic.db.pool import Address
from dialectic.errors import ConfigurationError, DialecticError
from dialectic.postgres import embedded
from dialectic.settings import Settings
from dialectic.telemetry import Telemetry, about, open_telemetry, open_tracing
from tests.database.job_table import database_of_a_module
from tests.problems import refusing
from tests.scenario.api_in_process import PROMPT, House, open_client, open_house

TRACE_ID, PARENT_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CANARY = "ocelot-in-the-cellar"
KEY = Secret("sk-canary-7Q")


@pytest.fixture(scope="module")
def shared(server: embedded.Server, template: str) -> Iterator[Address]:
    with database_of_a_module(server, template) as made:
        yield made


@pytest.fixture
async def house(shared: Address, tmp_path: Path) -> AsyncIterator[House]:
    async with open_house(shared, tmp_path / "home") as opened:
        yield opened


def watch(house: House, telemetry: Telemetry) -> House:
    """The same house, with its requests and its work traced."""
    engine = replace(house.engine, telemetry=telemetry)
    return replace(
        house,
        engine=engine,
        worker_engine=replace(house.worker_engine, telemetry=telemetry),
        app=build_app(engine, house.hub),
    )


async def carry_out(house: House) -> tuple[str, str]:
    """Let a session be begun over HTTP, by a program that is traced itself, and carried out."""
    headers = {
        "Authorization": f"Bearer {house.anna.token}",
        "traceparent": f"00-{TRACE_ID}-{PARENT_ID}-01",
        "X-Request-ID": "request-of-a-test",
    }
    async with open_client(house.app, headers) as client:
        prompt = f"{PROMPT} {CANARY}"
        project = (await client.post("/projects", json={"prompt": prompt, "name": CANARY})).json()
        wish = {"models": ["offline/skeptic"], "until": "thesis"}
        made = await client.post(f"/projects/{project['id']}/sessions", json=wish)
        session_id: str = made.json()["id"]
        await client.post(f"/sessions/{session_id}/generate", params={"q": CANARY})
        await client.get(f"/projects/{project['id']}/search", params={"q": CANARY})
        await client.get(f"/nowhere/{CANARY}")
    await house.work(house.anna, session_id)
    return project["id"], session_id


# -- traces ----------------------------------------------------------------------------------------


async def test_requests_attempts_and_calls_leave_spans_without_a_word_of_their_texts(
    house: House,
) -> None:
    exporter = InMemorySpanExporter()
    with open_tracing(exporter) as telemetry:
        _, session_id = await carry_out(watch(house, telemetry))
    spans = exporter.get_finished_spans()
    by_name = {span.name: span for span in spans}

    request = by_name["POST /api/v1/sessions/{session_id}/generate"]
    assert request.context is not None
    assert request.parent is not None
    assert format(request.context.trace_id, "032x") == TRACE_ID
    assert format(request.parent.span_id, "016x") == PARENT_ID
    assert attributes(request) == {
        "http.request.method": "POST",
        "http.route": "/api/v1/sessions/{session_id}/generate",
        "http.response.status_code": 202,
        "dialectic.request_id": "request-of-a-test",
        "dialectic.session_id": session_id,
        "dialectic.tenant_id": str(house.anna.account.tenant_id),
    }
    assert "GET unknown" in by_name

    call, attempt = by_name["chat offline/skeptic"], by_name["job"]
    assert attempt.context is not None
    assert call.parent is not None
    assert call.parent.span_id == attempt.context.span_id
    told = attributes(call)
    assert told["gen_ai.operation.name"] == "chat"
    assert told["gen_ai.provider.name"] == "offline"
    assert told["gen_ai.request.model"] == "skeptic"
    assert told["gen_ai.response.finish_reasons"] == ("stop",)
    assert told["gen_ai.request.max_tokens"] >= told["gen_ai.usage.output_tokens"] > 0
    assert told["gen_ai.usage.input_tokens"] > 0
    for span in (call, attempt):
        found = attributes(span)
        assert found["dialectic.session_id"] == session_id
        assert {"dialectic.job_id", "dialectic.worker", "dialectic.attempt"} <= found.keys()
    secrets = (CANARY, "village hall", house.anna.token)
    assert not [s.to_json() for s in spans if any(word in s.to_json() for word in secrets)]


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def test_a_span_names_the_kind_of_its_error_and_not_its_words() -> None:
    exporter = InMemorySpanExporter()
    with open_tracing(exporter) as telemetry:
        for error in (DialecticError(CANARY), ValueError(CANARY)):
            with pytest.raises(type(error)), telemetry.span("work"):
                raise error
    ours, foreign = exporter.get_finished_spans()
    assert attributes(ours)["error.type"] == DialecticError.code
    assert attributes(foreign)["error.type"] == "ValueError"
    assert not ours.status.is_ok
    assert CANARY not in ours.to_json() + foreign.to_json()


@dataclass(slots=True)
class Collector:
    """What came over HTTP."""

    url: str
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    headers: list[str | None] = field(default_factory=list)


@contextmanager
def open_collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/traces":
                collector.requests.append(ExportTraceServiceRequest.FromString(body))
                collector.headers.append(self.headers.get("x-collector-key"))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_traces_reach_a_collector_before_the_process_ends(tmp_path: Path) -> None:
    with open_collector() as collector:
        settings = Settings.load(
            {
                "DIALECTIC_HOME": str(tmp_path),
                "DIALECTIC_OTLP_URL": f"{collector.url}/",
                "DIALECTIC_OTLP_HEADERS": "x-collector-key=sesame",
            }
        )
        with open_telemetry(settings) as telemetry, about(job_id="j1"):  # noqa: SIM117
            with telemetry.span("job"):
                pass
    (request,) = collector.requests
    (told,) = request.resource_spans
    names = {pair.key: pair.value.string_value for pair in told.resource.attributes}
    (span,) = told.scope_spans[0].spans
    assert (span.name, names["service.name"]) == ("job", "dialectic")
    assert {pair.key: pair.value.string_value for pair in span.attributes} == {
        "dialectic.job_id": "j1"
    }
    assert collector.headers == ["sesame"]
    assert "sesame" not in repr(settings)
    assert [secret.reveal() for secret in settings.secrets] == ["x-collector-key=sesame"]


def test_without_a_collector_nothing_is_made(tmp_path: Path) -> None:
    with open_telemetry(Settings(home=tmp_path)) as telemetry:
        assert telemetry.tracer is None
        with telemetry.span("job") as span:
            span.note({"n": 1})
            span.fail("nothing")
        assert span.record is None


def test_a_collector_without_the_extra_is_refused_with_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    settings = Settings(home=tmp_path, otlp_url="http://127.0.0.1:9")
    with (
        refusing(ConfigurationError, "dialectic-engine[telemetry]", reason="not_installed"),
        open_telemetry(settings),
    ):
        pass


@pytest.mark.parametrize("headers", ["sesame", "=sesame", "a=b,sesame"])
def test_headers_that_are_none_are_refused_without_being_repeated(
    tmp_path: Path, headers: str
) -> None:
    settings = Settings(home=tmp_path, otlp_url="http://127.0.0.1:9", otlp_headers=Secret(headers))
    with pytest.raises(ConfigurationError) as refused, open_telemetry(settings):
        pass
    assert "sesame" not in refused.value.message


# -- logs ------------------------------------------------------------------------------------------


@contextmanager
def reading_logs(keys: Sequence[Secret]) -> Iterator[StringIO]:
    """Read all that is logged, as a server writes it."""
    stream = StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(list(keys)))
    # The client of these tests lives in this process, too, and tells the addresses it asks.
    handler.addFilter(lambda record: not record.name.startswith("httpx2"))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield stream
    finally:
        root.setLevel(before)
        root.removeHandler(handler)


async def test_logs_have_ids_as_fields_and_hold_neither_texts_nor_secrets(house: House) -> None:
    with reading_logs([KEY]) as stream:
        project_id, session_id = await carry_out(house)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    requests = [line for line in lines if line.get("event") == "request"]
    (begun,) = [line for line in requests if line["route"].endswith("/generate")]
    assert begun["request_id"] == "request-of-a-test"
    assert begun["session_id"] == session_id
    assert begun["tenant_id"] == str(house.anna.account.tenant_id)
    assert any(line.get("project_id") == project_id for line in requests)
    for secret in (CANARY, "village hall", house.anna.token):
        assert secret not in stream.getvalue()


def test_a_line_carries_what_is_being_done_and_only_the_kind_of_an_error() -> None:
    with reading_logs([KEY]) as stream:
        logger = logging.getLogger("dialectic.test")
        with about(worker="w1", job_id="j1"), about(attempt=2):
            try:
                raise ValueError(CANARY)
            except ValueError:
                logger.exception("job j1 met a bug, said %s", KEY.reveal())
        logger.warning("idle")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert {key: first[key] for key in ("worker", "job_id", "attempt", "error", "message")} == {
        "worker": "w1",
        "job_id": "j1",
        "attempt": 2,
        "error": "ValueError",
        "message": "job j1 met a bug, said ***",
    }
    assert first["places"][0].startswith("test_telemetry.py:")
    assert CANARY not in stream.getvalue()
    assert "job_id" not in second
