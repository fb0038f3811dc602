"""No body is waited for for ever, nor made of more than any request has; files come in a few at a
time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID, uuid4

import pytest
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope, Send

from dialectic.api.auth import Principal
from dialectic.api.middleware.body_limits import (
    HEADERS_MAX,
    JSON_VALUES_MAX,
    BodyLimitMiddleware,
    Limits,
    Upload,
    UploadSlots,
)
from dialectic.core.access import Caller
from dialectic.db.tables.records import Account
from dialectic.errors import DialecticError, ServerBusy, TooManyUploads
from tests.cases import each_case

# -- slow bodies ----------------------------------------------------------------------------------


class Sender:
    """A client that sends pieces of a body, and then nothing for a while."""

    def __init__(self, *pieces: Message) -> None:
        self._pieces = list(pieces)

    async def receive(self) -> Message:
        await asyncio.sleep(0)
        if self._pieces:
            return self._pieces.pop(0)
        for _ in range(5):
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}


async def send_to(
    path: str,
    media_type: str,
    sender: Sender,
    headers: Mapping[str, str] = MappingProxyType({}),
    /,
    **limits: float,
) -> list[Message]:
    """Send a body through a guard to an application that reads what it is let."""
    told: list[Message] = []

    async def send(message: Message) -> None:
        told.append(message)

    async def read(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (message := await receive())["type"] != "http.disconnect":
            told.append(message)
        told.append(message)

    async def know(_request: Any) -> Principal:
        return VISITOR

    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "query_string": b"",
        "headers": [
            (name.encode(), value.encode())
            for name, value in {"content-type": media_type, **headers}.items()
        ],
        "state": {},
    }
    uploads = {"/import": Upload(1000, at_once_max=1, of_tenant_max=1)}
    chosen = Limits(json_bytes_max=10_000_000, uploads=uploads, **limits)
    await BodyLimitMiddleware(read, know, chosen, frozenset())(scope, sender.receive, send)
    return told


VISITOR = Principal(cast("Caller", None), Account(uuid4(), uuid4(), uuid4()))
PIECE: Message = {"type": "http.request", "body": b"[", "more_body": True}
LAST: Message = {"type": "http.request", "body": b"]", "more_body": False}


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    sender = Sender(PIECE)
    start, body = await send_to("/api/v1/projects", "application/json", sender, body_grace_s=-1.0)
    assert start["status"] == 408
    assert json.loads(body["body"])["code"] == "request_timeout"


async def test_a_request_with_more_headers_than_any_client_sends_is_refused() -> None:
    many = {f"x-{number}": "" for number in range(HEADERS_MAX + 1)}
    start, body = await send_to("/api/v1/projects", "application/json", Sender(LAST), many)
    assert start["status"] == 400
    assert json.loads(body["body"])["code"] == "invalid_request"


@each_case("text", ['{"a": 1, "a": 2}', '{"a": {"b": 1, "b": 1}}', "[NaN]", "[1e999]", "{"])
async def test_json_that_readers_understand_differently_is_refused(text: str) -> None:
    whole: Message = {"type": "http.request", "body": text.encode(), "more_body": False}
    start, body = await send_to("/api/v1/projects", "application/json", Sender(whole))
    assert start["status"] == 400
    assert json.loads(body["body"])["code"] == "invalid_json"


async def test_a_body_that_breaks_off_is_not_passed_on() -> None:
    start, body = await send_to("/api/v1/projects", "application/json", Sender(PIECE))
    assert (start["type"], start["status"]) == ("http.response.start", 400)
    assert json.loads(body["body"])["code"] == "invalid_request"


async def test_a_file_that_breaks_off_is_not_a_bug() -> None:
    with pytest.raises(HTTPException) as refused:
        await send_to("/api/v1/import", "application/zip", Sender(PIECE))
    assert refused.value.status_code == 400


async def test_one_that_is_whole_is_waited_behind_as_long_as_it_takes() -> None:
    # From the first byte on nothing may take any time.
    at_once, sender = {"body_bytes_per_s": -1e-9}, Sender(LAST)
    piece, end = await send_to("/api/v1/import", "application/zip", sender, **at_once)
    assert (piece, end["type"]) == (LAST, "http.disconnect")
    late = Sender(PIECE, LAST)
    start, _ = await send_to("/api/v1/projects", "application/json", late, **at_once)
    assert start["status"] == 408


async def test_others_are_served_while_a_large_body_is_judged() -> None:
    body = b"[" + b'"",' * 1_000_000 + b"[]," * 70 + b"0]"
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    judging = asyncio.create_task(send_to("/api/v1/a", "application/json", Sender(whole)))
    turns = 0
    while not judging.done():
        turns += 1
        await asyncio.sleep(0)
    start, told = await judging
    assert (start["status"], json.loads(told["body"])["code"]) == (413, "too_large")
    assert turns > 50


@pytest.mark.parametrize(("more", "is_let_in"), [(0, True), (1, False)])
async def test_as_many_values_as_any_request_needs_are_let_in(
    more: int, *, is_let_in: bool
) -> None:
    body = json.dumps([0] * (JSON_VALUES_MAX + more)).encode()
    whole: Message = {"type": "http.request", "body": body, "more_body": False}
    first, *_ = await send_to("/api/v1/a", "application/json", Sender(whole))
    assert (first["type"] == "http.request") is is_let_in


async def test_a_body_that_gives_its_length_in_two_ways_is_refused_and_hung_up_on() -> None:
    two = {"content-length": "1", "transfer-encoding": "chunked"}
    start, _ = await send_to("/api/v1/a", "application/json", Sender(LAST), two)
    assert start["status"] == 400
    assert (b"connection", b"close") in start["headers"]


# -- files at the same time -----------------------------------------------------------------------

ARCHIVE, DOCUMENT = Upload(1000, at_once_max=3, of_tenant_max=2), Upload(100, 1, 1)
OURS, THEIRS = uuid4(), uuid4()


def find_refusal(place: AbstractContextManager[None]) -> type[DialecticError] | None:
    """The error of a request for a place; None if it is given, and given back."""
    try:
        with place:
            return None
    except DialecticError as error:
        return type(error)


@each_case(
    ("sending", "upload", "tenant_id", "refusal"),
    [
        ([], ARCHIVE, OURS, None),
        ([OURS], ARCHIVE, OURS, None),
        ([OURS, OURS], ARCHIVE, OURS, TooManyUploads),
        ([OURS, OURS], ARCHIVE, THEIRS, None),
        ([OURS, OURS, THEIRS], ARCHIVE, THEIRS, ServerBusy),
        ([OURS, OURS, THEIRS], DOCUMENT, OURS, None),
    ],
)
def test_a_tenant_sends_some_files_at_a_time_and_all_together_some_more(
    sending: list[UUID], upload: Upload, tenant_id: UUID, refusal: type[DialecticError] | None
) -> None:
    places = UploadSlots()
    with ExitStack() as under_way:
        for other in sending:
            under_way.enter_context(places.take(ARCHIVE, other))
        assert find_refusal(places.take(upload, tenant_id)) is refusal
    assert [find_refusal(places.take(kind, OURS)) for kind in (ARCHIVE, DOCUMENT)] == [None, None]


async def test_a_file_too_many_is_refused_before_it_is_read_and_the_next_one_let_in() -> None:
    arrived, may_go, answered = asyncio.Event(), asyncio.Event(), asyncio.Event()
    told: list[Message] = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        arrived.set()
        await may_go.wait()
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        answered.set()
        await asyncio.Event().wait()  # for something that nobody who sends files waits for

    async def know(_request: Any) -> Principal:
        return VISITOR

    async def send(message: Message) -> None:
        told.append(message)

    limits = Limits(json_bytes_max=1, uploads={"/import": Upload(1000, 5, of_tenant_max=1)})
    guard = BodyLimitMiddleware(app, know, limits, frozenset())

    async def upload() -> None:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/api/v1/import",
            "query_string": b"",
            "headers": [(b"content-type", b"application/zip")],
            "state": {},
        }

        async def receive() -> Message:
            raise AssertionError("nothing is read of it")

        await guard(scope, receive, send)

    first = asyncio.create_task(upload())
    await arrived.wait()
    await upload()
    start, body = told
    headers = dict(start["headers"])
    assert (start["status"], json.loads(body["body"])["code"]) == (429, "too_many_uploads")
    assert headers[b"retry-after"] == b"2"
    may_go.set()
    await answered.wait()
    answered.clear()
    second = asyncio.create_task(upload())
    await answered.wait()
    assert [message["status"] for message in told[2::2]] == [201, 201]
    for task in (first, second):
        task.cancel()


async def test_reading_files_takes_no_upload_place() -> None:
    limits = Limits(json_bytes_max=1, uploads={"/resources": Upload(1000, 1, of_tenant_max=1)})
    found = [limits.find_upload(method, "/api/v1/resources", "") for method in ("POST", "GET")]
    assert found == [limits.uploads["/resources"], None]
