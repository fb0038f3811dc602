"""What comes in, before anything reads it: who sends it, how much of it, how deep it is nested.

A body is counted and timed as it arrives, whatever its headers promise; JSON is held back until all
of it is there and is sound. Knows nothing of what bodies mean.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dialectic.api.caller import Authenticate
from dialectic.api.problem import build_problem, build_refusal
from dialectic.errors import DialecticError

PREFIX = "/api/"
JSON_DEPTH_MAX = 64
# For fields of forms, headers of parts, and what escapes add to a text in JSON.
OVERHEAD_BYTES = 1 << 20
# What a client has for its body: so long for nothing, and this much more for what has come.
BODY_GRACE_S = 30.0
BODY_BYTES_PER_S = 2_000
WINDOW_BYTES = 1 << 16
# Of this size on a body is judged beside everything else that goes on.
LARGE_BYTES = 1 << 18
_IN, _OUT = b"\x01", b"\xff"
_STEPS = bytes.maketrans(b"[{]}", 2 * _IN + 2 * _OUT)
_NO_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


@dataclass(frozen=True, slots=True)
class Limits:
    """How large a body may be, in bytes; files are sent to a few paths, known by their end."""

    json_bytes_max: int
    uploads: Mapping[str, int]

    def find_upload(self, path: str, media_type: str) -> int | None:
        """Find the limit of a file that is sent there; None if what is sent is none."""
        if is_json(media_type):
            return None
        ends = (limit for end, limit in self.uploads.items() if path.endswith(end))
        return next(ends, None)


class Guard:
    """Lets through to the application what may be read, with who sent it."""

    def __init__(
        self, app: ASGIApp, authenticate: Authenticate, limits: Limits, public: frozenset[str]
    ) -> None:
        self._app, self._authenticate = app, authenticate
        self._limits, self._public = limits, public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or not path.startswith(PREFIX) or path in self._public:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            scope["state"]["visitor"] = await self._authenticate(request)
            guarded = await self._guard(request, receive)
        except DialecticError as error:
            await build_problem(request, error)(scope, receive, send)
        except HTTPException as error:
            await build_refusal(request, error)(scope, receive, send)
        else:
            await self._app(scope, guarded, send)

    async def _guard(self, request: Request, receive: Receive) -> Receive:
        if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise HTTPException(415, "The body must not be compressed: send it as it is.")
        media_type = read_media_type(request)
        upload_bytes_max = self._limits.find_upload(request.scope["path"], media_type)
        bytes_max = upload_bytes_max or self._limits.json_bytes_max
        promised = request.headers.get("content-length", "")
        if promised.isdecimal() and int(promised) > bytes_max:
            raise too_large(bytes_max)
        counted = _count(receive, bytes_max)
        if upload_bytes_max is not None:
            return counted
        body = await _read(counted)
        if len(body) < LARGE_BYTES:
            _check(body, media_type)
        else:
            await asyncio.to_thread(_check, body, media_type)
        request.scope["state"]["body_sha256"] = hashlib.sha256(body).digest()
        return _replay(body, receive)


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


def _count(receive: Receive, bytes_max: int) -> Receive:
    clock = asyncio.get_running_loop().time
    begun_s, seen, is_whole = clock(), 0, False

    async def counted() -> Message:
        nonlocal seen, is_whole
        give_up_at_s = None if is_whole else begun_s + BODY_GRACE_S + seen / BODY_BYTES_PER_S
        try:
            async with asyncio.timeout_at(give_up_at_s):
                message = await receive()
        except TimeoutError:
            raise HTTPException(408, "The body came too slowly. Send it again.") from None
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
        if message["type"] == "http.disconnect":
            raise HTTPException(400, "The client left before its request was whole.")
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


def is_too_deep(body: bytes, depth_max: int) -> bool:
    """Say whether brackets outside of texts are nested deeper than that; nothing is parsed.

    A body may be made of millions of the shortest texts and lists: none is looked at one by one.
    """
    if body.count(b"[") + body.count(b"{") <= depth_max:
        return False
    depth = 0
    for steps in _list_steps(body):
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > depth_max:
            return True
        depth += steps.count(_IN) - steps.count(_OUT)
    return False


def _list_steps(body: bytes) -> Iterator[bytes]:
    """List, window by window, the steps in and out that stand outside of texts."""
    plain = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    is_inside = 0
    for start in range(0, len(plain), WINDOW_BYTES):
        parts = plain[start : start + WINDOW_BYTES].split(b'"')
        yield b"".join(parts[is_inside::2]).translate(_STEPS, _NO_BRACKETS)
        is_inside = (is_inside + len(parts) - 1) % 2
