"""One call from request to reply: statuses, stream events, endings and failures.

Knows no vendor: a reader for each wire format interprets the events. Each call sends one request
and returns one reply or raises one error, with whatever part of the response arrived.

Also sends the free requests: listing models and counting tokens. They cost nothing, so their
errors carry no partial response.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import Message, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.sse import EVENT_BYTES_MAX, Event, EventParser, Numbering
from dialectic.core.strict_json import MalformedJson, parse_json, require_list, require_object
from dialectic.errors import (
    PartialResponse,
    ProviderError,
    ProviderMalformed,
    ProviderRejected,
    ProviderTransient,
    StreamTruncated,
)
from dialectic.providers.error_taxonomy import is_error, read_complaint
from dialectic.providers.errors import (
    RAW_CHARS_MAX,
    build_refusal,
    clean_record,
    redact,
    was_worked_on,
)
from dialectic.providers.http import (
    HttpConnection,
    IncomingResponse,
    OutgoingRequest,
    PatienceS,
    TransportFailure,
)
from dialectic.providers.response import ResponseBuilder

REASONING_FIRST_BYTE_S = 600.0
# Grace periods: after the finish reason only usage can follow; after the last event, nothing.
AFTERWARDS_S = 10.0
LINGER_S = 0.5
ERROR_BODY_BYTES_MAX = 64 << 10
MALFORMED_RETRIES_MAX = 2
TLS_RETRIES_MAX = 1
LAST_WORD = "[DONE]"


@dataclass(frozen=True, slots=True)
class Caps:
    """Size limits: of one event, of a whole body, of a whole stream."""

    event_bytes: int = EVENT_BYTES_MAX
    body_bytes: int = 32 << 20
    stream_bytes: int = 128 << 20


class Reader(Protocol):
    """Interprets one wire format and fills its draft. Raises `MalformedJson`."""

    draft: ResponseBuilder
    # Whether the wire format's final event has arrived.
    is_done: bool

    def take(self, data: dict[str, Any]) -> None:
        """Read one event of a stream."""

    def take_whole(self, body: Any) -> None:
        """Read a response that came in one piece, and end the draft."""


def build_sending(
    endpoint: Endpoint, card: ModelCard, path: str, body: Mapping[str, Any]
) -> OutgoingRequest:
    """Build the request for one answer of a model."""
    first_byte_s = endpoint.first_byte_s
    if card.is_reasoning:
        first_byte_s = max(first_byte_s, REASONING_FIRST_BYTE_S)
    return OutgoingRequest(path, encode_body(card, body), first_byte_s, endpoint.timeout_s)


def encode_body(card: ModelCard, body: Mapping[str, Any]) -> bytes:
    """Encode a body as JSON."""
    try:
        text = json.dumps(body, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ProviderRejected(
            f"The extra_body of {card.name} cannot be written as JSON: {error}. Correct it."
        ) from error
    return text.encode("utf-8", "replace")


def fold_system(card: ModelCard, request: Request) -> tuple[str, tuple[Message, ...]]:
    """Return the system instruction and the turns as the model accepts them: separate or merged."""
    if card.supports_system_prompt or not request.system:
        return request.system, request.messages
    first, *rest = request.messages
    opening = Message(first.role, f"{request.system}\n\n{first.content}")
    return "", (opening, *rest)


async def converse(
    line: HttpConnection, sending: OutgoingRequest, card: ModelCard, reader: Reader, caps: Caps
) -> Reply:
    """Carry out one call."""
    draft, name = reader.draft, line.endpoint.name
    try:
        async with line.open(sending) as incoming:
            draft.request_id = incoming.request_id
            patience_s = _build_patience(line.endpoint, sending, card, reader)
            await check_status(line, card.sent_name, incoming, patience_s)
            await _read(line, card, incoming, reader, caps, patience_s)
    except TransportFailure as broken:
        # A response with a finish reason is complete, even if the connection failed afterwards.
        if not draft.has_ended:
            raise build_break(line.endpoint, broken, draft.build_remains()) from broken
    except MalformedJson as garbled:
        shown = {"garbled": garbled.shown} if garbled.shown else {}
        raise build_garble(line.endpoint, garbled, draft.build_remains(**shown)) from garbled
    if not draft.has_ended:
        remains = draft.build_remains()
        raise StreamTruncated(
            f"The response of {name} broke off after {len(remains.partial_text)} characters: "
            "it ended without a finish reason.",
            remains=remains,
        )
    return draft.build_reply()


async def check_status(
    line: HttpConnection, model: str, incoming: IncomingResponse, patience_s: PatienceS
) -> None:
    """Raise the error for a status other than success."""
    if 200 <= incoming.status < 300:
        return
    start = await incoming.read_start(patience_s, bytes_max=ERROR_BODY_BYTES_MAX)
    text = start.decode("utf-8", "replace")
    body: Any = text if incoming.content_type == "text/plain" else None
    with contextlib.suppress(MalformedJson):
        body = parse_json(text)
    remains = PartialResponse(
        was_sent=was_worked_on(incoming.status),
        request_id=incoming.request_id,
        raw=_build_raw(line, incoming, text),
    )
    complaint = read_complaint(incoming.status, body, incoming.headers)
    raise build_refusal(line.endpoint, line.key, model, complaint, remains)


async def check_content_type(
    line: HttpConnection, incoming: IncomingResponse, patience_s: PatienceS, *expected: str
) -> None:
    """Raise if the response has an unexpected content type, such as a login page."""
    if incoming.content_type in expected:
        return
    start = await incoming.read_start(patience_s, bytes_max=ERROR_BODY_BYTES_MAX)
    remains = PartialResponse(
        was_sent=True,
        request_id=incoming.request_id,
        raw=_build_raw(line, incoming, start.decode("utf-8", "replace")),
    )
    raise ProviderMalformed(
        f"The response of {line.endpoint.name} is not usable: its content type is "
        f"{incoming.content_type or 'missing'!r}, not {' or '.join(expected)}. "
        "Check its base_url and any proxy in between.",
        retries_max=MALFORMED_RETRIES_MAX,
        remains=remains,
    )


def build_break(
    endpoint: Endpoint, broken: TransportFailure, remains: PartialResponse
) -> ProviderError:
    """Build the error for a broken connection."""
    if broken.has_begun:
        return StreamTruncated(
            f"The response of {endpoint.name} broke off after {len(remains.partial_text)} "
            f"characters: {broken.why}.",
            remains=remains,
        )
    return ProviderTransient(
        f"{endpoint.name} did not respond: {broken.why}.",
        retries_max=TLS_RETRIES_MAX if broken.is_tls else None,
        remains=PartialResponse(was_sent=broken.was_sent, request_id=remains.request_id),
    )


def build_garble(
    endpoint: Endpoint, garbled: MalformedJson, remains: PartialResponse
) -> ProviderMalformed:
    """Build the error for a malformed response."""
    return ProviderMalformed(
        f"The response of {endpoint.name} is malformed: {garbled.why}.",
        retries_max=MALFORMED_RETRIES_MAX,
        remains=remains,
    )


def _build_patience(
    endpoint: Endpoint, sending: OutgoingRequest, card: ModelCard, reader: Reader
) -> PatienceS:
    def patience_s() -> float:
        if reader.is_done:
            return LINGER_S
        if reader.draft.has_ended:
            return min(AFTERWARDS_S, endpoint.idle_s)
        # Some servers send a first event at once and only then start to think.
        if card.is_reasoning and not reader.draft.has_text:
            return sending.first_byte_s
        return endpoint.idle_s

    return patience_s


async def _read(
    line: HttpConnection,
    card: ModelCard,
    incoming: IncomingResponse,
    reader: Reader,
    caps: Caps,
    patience_s: PatienceS,
) -> None:
    await check_content_type(line, incoming, patience_s, "text/event-stream", "application/json")
    if incoming.content_type == "application/json":
        # Some servers ignore the request to stream.
        body = parse_body(await incoming.read(patience_s, bytes_max=caps.body_bytes))
        _check_error(line, card, reader.draft, body, has_failed=is_error(body))
        reader.take_whole(body)
        return
    parser, numbering = EventParser(bytes_max=caps.event_bytes), Numbering()
    pieces = incoming.pieces(patience_s, bytes_max=caps.stream_bytes)
    async with contextlib.aclosing(pieces):
        async for piece in pieces:
            if reader.is_done:
                return
            for event in parser.feed(piece):
                if not numbering.is_repeat(event):
                    _take(line, card, reader, event)
    if (last := parser.finish()) is not None:
        _take_last(line, card, reader, last)


def parse_body(body: bytes) -> Any:
    """Parse a response that came in one piece."""
    return parse_json(body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape"))


def _take(line: HttpConnection, card: ModelCard, reader: Reader, event: Event) -> None:
    text = event.data.strip()
    if reader.is_done:
        return
    if text == LAST_WORD:
        reader.is_done = True
    elif text:
        data = require_object(parse_json(text), "event")
        has_failed = event.name == "error" or is_error(data)
        _check_error(line, card, reader.draft, data, has_failed=has_failed)
        reader.take(data)


def _take_last(line: HttpConnection, card: ModelCard, reader: Reader, event: Event) -> None:
    """Read an event that may be truncated: if it does not parse, it was."""
    try:
        parse_json(event.data)
    except MalformedJson:
        if event.data.strip() != LAST_WORD:
            return
    _take(line, card, reader, event)


def _check_error(
    line: HttpConnection, card: ModelCard, draft: ResponseBuilder, body: Any, *, has_failed: bool
) -> None:
    """Raise an error that came with a success status, or in the middle of a response."""
    if has_failed:
        complaint = read_complaint(200, body)
        was_sent = draft.has_text or was_worked_on(complaint.status)
        remains = replace(draft.build_remains(error=body), was_sent=was_sent)
        raise build_refusal(line.endpoint, line.key, card.sent_name, complaint, remains)


def _build_raw(line: HttpConnection, incoming: IncomingResponse, text: str) -> dict[str, Any]:
    raw: dict[str, Any] = clean_record(
        line.key,
        {
            "status": incoming.status,
            "content_type": incoming.content_type,
            "body": redact(line.key, text)[:RAW_CHARS_MAX],
        },
    )
    return raw


LOOKUP_S = 30.0
PAGES_MAX = 100
NOT_HERE = frozenset({404, 405, 501})


async def load_page(
    line: HttpConnection, path: str, name: str, caps: Caps
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Load one page of a list: the entries under a key, and the whole page."""
    sending = OutgoingRequest(path, None, LOOKUP_S, LOOKUP_S)
    with _telling(line):
        answer = await _ask(line, sending, "", caps, frozenset())
        assert answer is not None, "every other status has raised"
        entries = require_list(answer.get(name), name)
        return [entry for entry in entries if isinstance(entry, dict)], answer


async def find_answer(
    line: HttpConnection, path: str, body: bytes, model: str, caps: Caps
) -> dict[str, Any] | None:
    """Send a request that not every endpoint supports; None if this one does not."""
    with _telling(line):
        return await _ask(
            line, OutgoingRequest(path, body, LOOKUP_S, LOOKUP_S), model, caps, NOT_HERE
        )


async def _ask(
    line: HttpConnection, sending: OutgoingRequest, model: str, caps: Caps, absent: frozenset[int]
) -> dict[str, Any] | None:
    async with line.open(sending) as incoming:
        if incoming.status in absent:
            return None
        await check_status(line, model, incoming, _patience_s)
        await check_content_type(line, incoming, _patience_s, "application/json")
        body = parse_body(await incoming.read(_patience_s, bytes_max=caps.body_bytes))
    if is_error(body):
        complaint = read_complaint(200, body)
        raise build_refusal(line.endpoint, line.key, model, complaint, PartialResponse())
    return require_object(body, "answer")


@contextlib.contextmanager
def _telling(line: HttpConnection) -> Iterator[None]:
    try:
        yield
    except TransportFailure as broken:
        raise build_break(line.endpoint, broken, PartialResponse()) from broken
    except MalformedJson as garbled:
        raise build_garble(line.endpoint, garbled, PartialResponse()) from garbled


def _patience_s() -> float:
    return LOOKUP_S
