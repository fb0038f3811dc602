"""What comes in, before anything reads it: who sends it, how much of it, how deep it is nested.

A body is counted and timed as it arrives, whatever its headers promise; JSON is held back until all
of it is there and is sound; files are let in a few at a time. Knows nothing of what bodies mean.
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
from dialectic.core.strict_json import has_too_many, is_too_deep
from dialectic.errors import DialecticError, ServerBusy, TooManyUploads

PREFIX = "/api/"
JSON_DEPTH_MAX = 64
# What the longest request has is a few thousand. A body can hold millions, each of which is made in
# memory while everyone else waits, and may be wrong in a way of its own.
JSON_VALUES_MAX = 10_000
# For fields of forms, headers of parts, and what escapes add to a text in JSON.
OVERHEAD_BYTES = 1 << 20
# Of this size on a body is judged beside everything else that goes on.
LARGE_BYTES = 1 << 18


@dataclass(frozen=True, slots=True)
class Upload:
    """What files of one kind may be: so large, so many at a time, so many of them one tenant's."""

    bytes_max: int
    at_once_max: int
    of_tenant_max: int


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a body may be and how long it may take; files go to paths known by their end."""

    json_bytes_max: int
    uploads: Mapping[str, Upload]
    # What a client has for its body: so long for nothing, and this much more for what has come.
    body_grace_s: float = 30.0
    body_bytes_per_s: float = 2_000.0

    def find_upload(self, method: str, path: str, media_type: str) -> Upload | None:
        """Find the limits of a file that is sent there; None if what is sent is none."""
        # Whoever only looks at what was sent there takes nobody's place.
        if method != "POST" or is_json(media_type):
            return None
        ends = (upload for end, upload in self.uploads.items() if path.endswith(end))
        return next(ends, None)


class Places:
    """Who is sending files at this moment: each takes up disk, and some take memory."""

    def __init__(self) -> None:
        self._taken: Counter[tuple[Upload, UUID]] = Counter()

    @contextmanager
    def take(self, upload: Upload, tenant_id: UUID) -> Iterator[None]:
        """Take a place for as long as a file is sent and taken in, or say that there is none."""
        mine = (upload, tenant_id)
        if self._taken[mine] >= upload.of_tenant_max:
            raise TooManyUploads(
                f"You are sending {upload.of_tenant_max} files of this kind at the same time, and "
                "no more may be. Send this one when one of them is through."
            )
        if sum(n for (kind, _), n in self._taken.items() if kind == upload) >= upload.at_once_max:
            raise ServerBusy(
                f"The server is taking in {upload.at_once_max} files of this kind, as many as it "
                "can. Send this one again a little later."
            )
        self._taken[mine] += 1
        try:
            yield
        finally:
            self._taken[mine] -= 1
            self._taken += Counter()  # keeps those who are here


class BodyLimitMiddleware:
    """Lets through to the application what may be read, with who sent it."""

    def __init__(
        self, app: ASGIApp, authenticate: Authenticate, limits: Limits, public: frozenset[str]
    ) -> None:
        self._app, self._authenticate = app, authenticate
        self._limits, self._public = limits, public
        self._places = Places()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(PREFIX) or path in self._public:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        with ExitStack() as place:
            try:
                visitor = scope["state"]["visitor"] = await self._authenticate(request)
                upload = self._limits.find_upload(request.method, path, read_media_type(request))
                if upload is not None:
                    place.enter_context(self._places.take(upload, visitor.account.tenant_id))
                guarded = await self._guard(request, upload, receive)
            except DialecticError as error:
                await build_problem(request, error)(scope, receive, send)
            except HTTPException as error:
                await build_refusal(request, error)(scope, receive, send)
            else:
                await self._app(scope, guarded, _leaving(place, send))

    async def _guard(self, request: Request, upload: Upload | None, receive: Receive) -> Receive:
        if {"content-length", "transfer-encoding"} <= set(request.headers):
            # A proxy may go by the other one and take a part of this body for a request.
            raise HTTPException(
                400, "Only one of Content-Length and Transfer-Encoding.", {"Connection": "close"}
            )
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise HTTPException(415, "The body must not be compressed: send it as it is.")
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


def _leaving(place: ExitStack, send: Send) -> Send:
    """Give a place free with the answer: nobody waits for what is done behind it."""

    async def leaving(message: Message) -> None:
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            place.close()

    return leaving


def too_large(bytes_max: int) -> HTTPException:
    """Say that a body is too large, and how large it may be."""
    return HTTPException(413, f"The body is larger than the {bytes_max:,} bytes that are allowed.")


def read_media_type(request: Request) -> str:
    """Read what kind of body a request says it has, without what it says beside that."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def is_json(media_type: str) -> bool:
    """Say whether a body of that kind is JSON."""
    return media_type == "application/json" or media_type.endswith("+json")


def wrong_media_type(*wanted: str) -> HTTPException:
    """Say that a body is of a kind that is not taken here, and which one is."""
    return HTTPException(415, f"The body must be {' or '.join(wanted)}: say so in `Content-Type`.")


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
            raise HTTPException(408, "The body came too slowly. Send it again.") from None
        if message["type"] == "http.disconnect" and not is_whole:
            # Nobody reads it, but whoever counts answers must not take it for a fault of ours.
            raise HTTPException(400, "The client left before its request was whole.")
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
    """Give the body that was read, once; after it whatever else comes, as that the client left."""
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
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise HTTPException(400, f"The body is not UTF-8 text (byte {error.start}).") from None
    if is_too_deep(body, JSON_DEPTH_MAX):
        raise HTTPException(400, f"The JSON is nested more than {JSON_DEPTH_MAX} levels deep.")
    if has_too_many(body, JSON_VALUES_MAX):
        raise HTTPException(413, f"The JSON has more than the {JSON_VALUES_MAX:,} values allowed.")
