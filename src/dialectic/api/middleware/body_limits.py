"""Authenticates a request and limits its body: size, speed, nesting, parallel uploads.

A body is counted and timed as it arrives, whatever its headers say. JSON reaches the application
only when it is complete and valid. Only a few uploads run at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dialectic.api.auth import Authenticate
from dialectic.api.problems import build_problem, build_refusal
from dialectic.core.strict_json import MalformedJson, has_too_many, is_too_deep, parse_json
from dialectic.errors import DialecticError, InvalidJson, ServerBusy, TooManyUploads

PREFIX = "/api/"
# Browsers and proxies send some thirty.
HEADERS_MAX = 200
JSON_DEPTH_MAX = 64
# The longest valid request has a few thousand. A body could hold millions; parsing them would block
# all other requests, and each could cause its own validation error.
JSON_VALUES_MAX = 10_000
# Room for form fields, part headers, and JSON escapes.
OVERHEAD_BYTES = 1 << 20
# From this size on a body is checked in a thread, so that other requests continue.
LARGE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Upload:
    """Limits for one kind of upload: size, parallel uploads, parallel uploads per tenant."""

    bytes_max: int
    at_once_max: int
    of_tenant_max: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on the size and duration of bodies; upload routes are known by their path suffix."""

    json_bytes_max: int
    uploads: Mapping[str, Upload]
    # Time allowed for a body: this grace period, plus the time its bytes take at this rate.
    body_grace_s: float = 30.0
    body_bytes_per_s: float = 2_000.0

    def find_upload(self, method: str, path: str, media_type: str) -> Upload | None:
        """Return the limits of an upload; None if the request is not an upload."""
        # Reading uploads with GET takes no upload slot.
        if method != "POST" or is_json(media_type):
            return None
        ends = (upload for end, upload in self.uploads.items() if path.endswith(end))
        return next(ends, None)


class UploadSlots:
    """Counts running uploads: each uses disk space, and some use memory."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[Upload, UUID]] = Counter()

    @contextmanager
    def take(self, upload: Upload, tenant_id: UUID) -> Iterator[None]:
        """Hold an upload slot while a file is received and processed; raise if none is free."""
        mine = (upload, tenant_id)
        if self._taken[mine] >= upload.of_tenant_max:
            raise TooManyUploads(
                f"Upload limit reached ({upload.of_tenant_max} at a time). Retry when one has "
                "finished."
            )
        if sum(n for (kind, _), n in self._taken.items() if kind == upload) >= upload.at_once_max:
            raise ServerBusy(
                f"The server is at its upload limit ({upload.at_once_max} at a time). Retry later."
            )
        self._taken[mine] += 1
        try:
            yield
        finally:
            self._taken[mine] -= 1
            self._taken += Counter()  # drops zero counts


class BodyLimitMiddleware:
    """Authenticates requests and passes on only bodies within the limits."""

    def __init__(
        self, app: ASGIApp, authenticate: Authenticate, limits: Limits, public: frozenset[str]
    ) -> None:
        self._app, self._authenticate = app, authenticate
        self._limits, self._public = limits, public
        self._slots = UploadSlots()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(PREFIX) or path in self._public:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        with ExitStack() as slot:
            try:
                if len(scope["headers"]) > HEADERS_MAX:
                    raise HTTPException(
                        400, f"The request has more than {HEADERS_MAX} headers. Send fewer."
                    )
                principal = scope["state"]["principal"] = await self._authenticate(request)
                upload = self._limits.find_upload(request.method, path, read_media_type(request))
                if upload is not None:
                    slot.enter_context(self._slots.take(upload, principal.account.tenant_id))
                limited = await self._limit_body(request, upload, receive)
            except DialecticError as error:
                await build_problem(request, error)(scope, receive, send)
            except HTTPException as error:
                await build_refusal(request, error)(scope, receive, send)
            else:
                await self._app(scope, limited, _freeing_slot(slot, send))

    async def _limit_body(
        self, request: Request, upload: Upload | None, receive: Receive
    ) -> Receive:
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            # Request smuggling: a proxy may trust the other header and split this body.
            raise HTTPException(
                400, "Send Content-Length or Transfer-Encoding, not both.", {"Connection": "close"}
            )
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise HTTPException(415, "The body is compressed. Send it without `Content-Encoding`.")
        bytes_max = upload.bytes_max if upload else self._limits.json_bytes_max
        promised = request.headers.get("content-length", "")
        if promised.isdecimal() and int(promised) > bytes_max:
            raise too_large(bytes_max)
        counted = _count(receive, bytes_max, self._limits)
        if upload is not None:
            return counted
        body, media_type = await _read(counted), read_media_type(request)
        if len(body) < LARGE_BYTES:
            _check(body, media_type)
        else:
            await asyncio.to_thread(_check, body, media_type)
        request.scope["state"]["body_sha256"] = hashlib.sha256(body).digest()
        return _replay(body, receive)


def _freeing_slot(slot: ExitStack, send: Send) -> Send:
    """Free the upload slot when the response is sent, before any follow-up work."""

    async def freeing(message: Message) -> None:
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            slot.close()

    return freeing


def too_large(bytes_max: int) -> HTTPException:
    """Build the error for a body that is too large."""
    return HTTPException(413, f"The body is larger than the limit of {bytes_max:,} bytes.")


def read_media_type(request: Request) -> str:
    """Return the media type of a request, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Return whether a media type is JSON."""
    return media_type == "application/json" or media_type.endswith("+json")


def wrong_media_type(*wanted: str) -> HTTPException:
    """Build the error for an unsupported media type; it names the supported ones."""
    return HTTPException(415, f"The `Content-Type` must be {' or '.join(wanted)}.")


def _count(receive: Receive, bytes_max: int, limits: Limits) -> Receive:
    clock = asyncio.get_running_loop().time
    begun_s, seen, is_whole = clock(), 0, False

    async def counted() -> Message:
        nonlocal seen, is_whole
        allowed_s = limits.body_grace_s + seen / limits.body_bytes_per_s
        give_up_at_s = None if is_whole else begun_s + allowed_s
        try:
            async with asyncio.timeout_at(give_up_at_s):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "The body arrived too slowly. Send it again.") from None
        if message["type"] == "http.disconnect" and not is_whole:
            # The client is gone, but the metrics must not count this as a server error.
            raise HTTPException(400, "The client disconnected before its request was complete.")
        seen += len(message.get("body", b""))
        is_whole = not message.get("more_body", False)
        if seen > bytes_max:
            raise too_large(bytes_max)
        return message

    return counted


async def _read(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the buffered body once, then later messages such as a disconnect."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _check(body: bytes, media_type: str) -> None:
    if not body:
        return
    if not is_json(media_type):
        raise wrong_media_type("application/json")
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"The body is not UTF-8 text (byte {error.start}).") from None
    if is_too_deep(body, JSON_DEPTH_MAX):
        raise HTTPException(400, f"The JSON is nested more than {JSON_DEPTH_MAX} levels deep.")
    if has_too_many(body, JSON_VALUES_MAX):
        raise HTTPException(413, f"The JSON has more than {JSON_VALUES_MAX:,} values.")
    try:
        # The application's parser takes the last of several equal keys, and NaN for a number.
        parse_json(text.removeprefix("\ufeff"))
    except MalformedJson as error:
        raise InvalidJson(f"The body is not valid JSON: {error.why}.") from None
