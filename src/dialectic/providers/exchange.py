"""One call from request to reply: statuses, stream events, endings and failures.

Knows no vendor: a subclass for each wire format builds the requests, and its reader interprets the
events. Each call sends one request and returns one reply or raises one error, with whatever part
of the response arrived.

Also sends the free requests: listing models and counting tokens. They cost nothing, so their
errors carry no partial response.
"""

from __future__ import annotations

import abc
import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, TypedDict, TypeVar

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint
from dialectic.core.models.messages import Message, Reply, Request
from dialectic.core.models.model import ModelCard
from dialectic.core.sse import EVENT_BYTES_MAX, Event, EventParser, Numbering
from dialectic.core.strict_json import (
    JsonObject,
    MalformedJson,
    parse_json,
    require_list,
    require_object,
)
from dialectic.errors import (
    PartialResponse,
    ProviderError,
    ProviderMalformed,
    ProviderRejected,
    ProviderTransient,
    ProviderUnreachable,
    StreamTruncated,
)
from dialectic.providers.base import ListedModel, OnText
from dialectic.providers.error_taxonomy import (
    RAW_CHARS_MAX,
    Complaint,
    build_refusal,
    clean_record,
    is_error,
    read_complaint,
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
# Of the free requests.
LOOKUP_S = 30.0
PAGES_MAX = 100
NOT_HERE = frozenset({404, 405, 501})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Caps:
    """Size limits: of one event, of a whole body, of a whole stream."""

    event_bytes: int = EVENT_BYTES_MAX
    body_bytes: int = 32 << 20
    stream_bytes: int = 128 << 20


class Turn(TypedDict):
    """One message as OpenAI and Anthropic write it."""

    role: str
    content: str


class Reader(abc.ABC):
    """Interprets one wire format and fills its draft. Raises `MalformedJson`."""

    def __init__(self, draft: ResponseBuilder) -> None:
        self.draft = draft
        # Whether the wire format's final event has arrived.
        self.is_done = False
        self._called_tool = False

    @abc.abstractmethod
    def take(self, data: JsonObject) -> None:
        """Read one event of a stream."""

    @abc.abstractmethod
    def take_whole(self, body: object) -> None:
        """Read a response that came in one piece, and end the draft."""


def build_sending(
    endpoint: Endpoint, card: ModelCard, path: str, body: JsonObject
) -> OutgoingRequest:
    """Build the request for one answer of a model."""
    first_byte_s = endpoint.first_byte_s
    if card.is_reasoning:
        first_byte_s = max(first_byte_s, REASONING_FIRST_BYTE_S)
    return OutgoingRequest(path, _encode_body(card, body), first_byte_s, endpoint.timeout_s)


def _encode_body(card: ModelCard, body: JsonObject) -> bytes:
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


class HttpProvider(abc.ABC):
    """A `Provider` behind an endpoint. Its first call connects."""

    # What a wire format defines: its reader, constant headers, and where models are listed.
    reader: ClassVar[type[Reader]]
    headers: ClassVar[Mapping[str, str]] = {}
    models_path: ClassVar[str]
    models_key: ClassVar[str]

    def __init__(self, endpoint: Endpoint, key: Secret | None, caps: Caps) -> None:
        self.endpoint = endpoint
        self._caps = caps
        self._line = HttpConnection(endpoint, key, self.sign, self.headers)

    @abc.abstractmethod
    def sign(self, key: str) -> dict[str, str]:
        """Build the headers that carry the key."""

    @abc.abstractmethod
    def build_call(self, card: ModelCard, request: Request) -> tuple[str, JsonObject]:
        """Build the path and the body of a request for an answer."""

    @abc.abstractmethod
    def find_model(self, entry: JsonObject) -> ListedModel | None:
        """Read an entry of the list of models; None if it is not a model that writes."""

    def find_next_page(self, page: JsonObject) -> str | None:  # noqa: ARG002
        """Find the query that loads the next page of models; None after the last page."""
        return None

    async def complete(self, card: ModelCard, request: Request, on_text: OnText) -> Reply:
        sending = build_sending(self.endpoint, card, *self.build_call(card, request))
        draft = ResponseBuilder(card, request, on_text, self._line.key)
        return await self._converse(sending, card, self.reader(draft))

    async def count_tokens(self, card: ModelCard, request: Request) -> int | None:  # noqa: ARG002
        """Ask the provider for its own token count of a request; None if it does not offer one."""
        return None

    async def list_models(self) -> list[ListedModel]:
        """List the provider's models."""
        listed: list[ListedModel] = []
        query: str | None = ""
        for _ in range(PAGES_MAX):
            sending = OutgoingRequest(f"{self.models_path}{query}", None, LOOKUP_S, LOOKUP_S)
            page, query = await self._fetch(sending, "", self._read_page)
            listed += page
            if query is None:
                break
        return listed

    def _read_page(self, page: JsonObject) -> tuple[list[ListedModel], str | None]:
        entries = require_list(page.get(self.models_key), self.models_key)
        models = [self.find_model(entry) for entry in entries if isinstance(entry, dict)]
        return [model for model in models if model is not None], self.find_next_page(page)

    async def close(self) -> None:
        """Close the open connections."""
        await self._line.close()

    async def _count(
        self, card: ModelCard, path: str, body: JsonObject, read: Callable[[JsonObject], int | None]
    ) -> int | None:
        """Ask for a count of tokens; None if the endpoint cannot count."""
        sending = OutgoingRequest(path, _encode_body(card, body), LOOKUP_S, LOOKUP_S)
        try:
            return await self._fetch(sending, card.sent_name, read, absent=NOT_HERE)
        except _Absent:
            return None

    async def _fetch(
        self,
        sending: OutgoingRequest,
        model: str,
        read: Callable[[JsonObject], T],
        *,
        is_paid: bool = False,
        absent: frozenset[int] = frozenset(),
    ) -> T:
        """Send a request whose response is one object, and read it."""
        remains = PartialResponse(was_sent=is_paid)
        idle_s = self.endpoint.idle_s if is_paid else LOOKUP_S
        try:
            async with self._line.open(sending, lambda: idle_s) as incoming:
                if incoming.status in absent:
                    raise _Absent
                if is_paid:
                    remains = replace(remains, request_id=incoming.request_id)
                await self._check_status(model, incoming)
                await self._check_content_type(incoming, "application/json")
                body = _parse_body(await incoming.read(self._caps.body_bytes))
                if is_error(body):
                    raise self._refuse(model, read_complaint(200, body), remains)
                return read(require_object(body, "answer"))
        except TransportFailure as broken:
            raise self._build_break(broken, remains) from broken
        except MalformedJson as garbled:
            raise self._build_garble(garbled, remains) from garbled

    async def _converse(self, sending: OutgoingRequest, card: ModelCard, reader: Reader) -> Reply:
        """Carry out one call."""
        draft = reader.draft
        patience_s = _build_patience(self.endpoint, sending, card, reader)
        try:
            async with self._line.open(sending, patience_s) as incoming:
                draft.request_id = incoming.request_id
                await self._check_status(card.sent_name, incoming)
                await self._read(card.sent_name, incoming, reader)
        except TransportFailure as broken:
            # A response with a finish reason is complete, even if the connection failed afterwards.
            if not draft.has_ended:
                raise self._build_break(broken, draft.build_remains()) from broken
        except MalformedJson as garbled:
            shown = {"garbled": garbled.shown} if garbled.shown else {}
            raise self._build_garble(garbled, draft.build_remains(**shown)) from garbled
        if not draft.has_ended:
            raise self._build_truncated("it ended without a finish reason", draft.build_remains())
        return draft.build_reply()

    async def _read(self, model: str, incoming: IncomingResponse, reader: Reader) -> None:
        await self._check_content_type(incoming, "text/event-stream", "application/json")
        if incoming.content_type == "application/json":
            # Some servers ignore the request to stream.
            body = _parse_body(await incoming.read(self._caps.body_bytes))
            self._check_error(model, reader.draft, body, has_failed=is_error(body))
            reader.take_whole(body)
            return
        parser, numbering = EventParser(bytes_max=self._caps.event_bytes), Numbering()
        pieces = incoming.pieces(self._caps.stream_bytes)
        async with contextlib.aclosing(pieces):
            async for piece in pieces:
                if reader.is_done:
                    return
                for event in parser.feed(piece):
                    if not numbering.is_repeat(event):
                        self._take(model, reader, event)
        if (last := parser.finish()) is not None and _is_whole(last):
            self._take(model, reader, last)

    def _take(self, model: str, reader: Reader, event: Event) -> None:
        text = event.data.strip()
        if reader.is_done:
            return
        if text == LAST_WORD:
            reader.is_done = True
        elif text:
            data = require_object(parse_json(text), "event")
            has_failed = event.name == "error" or is_error(data)
            self._check_error(model, reader.draft, data, has_failed=has_failed)
            reader.take(data)

    async def _check_status(self, model: str, incoming: IncomingResponse) -> None:
        """Raise the error for a status other than success."""
        if 200 <= incoming.status < 300:
            return
        text, raw = await self._read_start(incoming)
        body: object = text if incoming.content_type == "text/plain" else None
        with contextlib.suppress(MalformedJson):
            body = parse_json(text)
        was_sent = was_worked_on(incoming.status)
        remains = PartialResponse(was_sent=was_sent, request_id=incoming.request_id, raw=raw)
        complaint = read_complaint(incoming.status, body, incoming.headers)
        raise self._refuse(model, complaint, remains)

    async def _check_content_type(self, incoming: IncomingResponse, *expected: str) -> None:
        """Raise if the response has an unexpected content type, such as a login page."""
        if incoming.content_type in expected:
            return
        _, raw = await self._read_start(incoming)
        raise ProviderMalformed(
            f"The response of {self.endpoint.name} is not usable: its content type is "
            f"{incoming.content_type or 'missing'!r}, not {' or '.join(expected)}. "
            "Check its base_url and any proxy in between.",
            retries_max=MALFORMED_RETRIES_MAX,
            remains=PartialResponse(was_sent=True, request_id=incoming.request_id, raw=raw),
        )

    async def _read_start(self, incoming: IncomingResponse) -> tuple[str, Mapping[str, object]]:
        """Read the start of an unusable response, as a text and as a record for the audit."""
        start = await incoming.read_start(ERROR_BODY_BYTES_MAX)
        text = start.decode("utf-8", "replace")
        raw = {
            "status": incoming.status,
            "content_type": incoming.content_type,
            "body": redact(self._line.key, text)[:RAW_CHARS_MAX],
        }
        return text, clean_record(self._line.key, raw)

    def _check_error(
        self, model: str, draft: ResponseBuilder, body: object, *, has_failed: bool
    ) -> None:
        """Raise an error that came with a success status, or in the middle of a response."""
        if has_failed:
            complaint = read_complaint(200, body)
            was_sent = draft.has_text or was_worked_on(complaint.status)
            remains = replace(draft.build_remains(error=body), was_sent=was_sent)
            raise self._refuse(model, complaint, remains)

    def _refuse(self, model: str, complaint: Complaint, remains: PartialResponse) -> Exception:
        return build_refusal(self.endpoint, self._line.key, model, complaint, remains)

    def _build_break(self, broken: TransportFailure, remains: PartialResponse) -> ProviderError:
        if broken.has_begun:
            return self._build_truncated(broken.why, remains)
        kind = ProviderUnreachable if broken.is_refused else ProviderTransient
        return kind(
            f"{self.endpoint.name} did not respond: {broken.why}.",
            retries_max=TLS_RETRIES_MAX if broken.is_tls else None,
            remains=PartialResponse(was_sent=broken.was_sent, request_id=remains.request_id),
        )

    def _build_truncated(self, why: str, remains: PartialResponse) -> StreamTruncated:
        return StreamTruncated(
            f"The response of {self.endpoint.name} broke off after {len(remains.partial_text)} "
            f"characters: {why}.",
            remains=remains,
        )

    def _build_garble(self, garbled: MalformedJson, remains: PartialResponse) -> ProviderMalformed:
        return ProviderMalformed(
            f"The response of {self.endpoint.name} is malformed: {garbled.why}.",
            retries_max=MALFORMED_RETRIES_MAX,
            remains=remains,
        )


class _Absent(Exception):
    """The endpoint does not offer this request."""


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


def _parse_body(body: bytes) -> object:
    """Parse a response that came in one piece."""
    parsed: object = parse_json(
        body.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    )
    return parsed


def _is_whole(event: Event) -> bool:
    """Tell whether the last event is complete: if it does not parse, it was truncated."""
    if event.data.strip() == LAST_WORD:
        return True
    try:
        parse_json(event.data)
    except MalformedJson:
        return False
    return True
