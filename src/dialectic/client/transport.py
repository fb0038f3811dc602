"""The server's address, and calls as HTTP requests. Pure; both clients send its requests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
from pydantic import BaseModel, ValidationError

from dialectic.client.call import PREFIX, Call
from dialectic.client.problems import build_error
from dialectic.client.retry import HttpReply
from dialectic.contract.chats import ChatDelta, ChatReply
from dialectic.core.access import Secret
from dialectic.core.local_trust import is_loopback
from dialectic.core.sse import Event, EventParser
from dialectic.errors import (
    ConfigurationError,
    DatabaseBusy,
    DatabaseUnreachable,
    DialecticError,
    Remedy,
    RemedyAction,
    ServerUnreachable,
    TooManyRequests,
    UsageError,
)

T = TypeVar("T")
CONNECT_S = 5.0
TIMEOUT_S = 60.0
PIECE_BYTES = 1 << 18
BINARY = "application/octet-stream"
# Read timeout of a stream: the server sends comments more often than this.
SILENCE_MAX_S = 45.0
# Temporary failures when opening a stream; the caller must handle all others.
PASSING = (ServerUnreachable, DatabaseBusy, DatabaseUnreachable, TooManyRequests)


@dataclass(frozen=True, slots=True)
class Server:
    """A server's address and the token for it."""

    url: str
    token: Secret | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S

    @property
    def is_here(self) -> bool:
        """Whether the server is on this machine; then no proxy is used."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_open(self) -> bool:
        """Whether others could read the traffic, including the token."""
        return not self.is_here and urlsplit(self.url).scheme == "http"

    @property
    def options(self) -> dict[str, Any]:
        """The settings for the HTTP library."""
        headers = {"Accept": "application/json, */*;q=0.5"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        return {
            "headers": headers,
            "timeout": httpx2.Timeout(self.timeout_s, connect=CONNECT_S),
            "trust_env": not self.is_here,
            "follow_redirects": False,
        }

    def describe_loss(self, error: httpx2.TransportError) -> ServerUnreachable:
        """Build the error for an unreachable server; the library's message holds no secret."""
        reason = type(error).__name__
        return ServerUnreachable(
            f"The server at {self.url} does not answer ({reason}). Check that it is running and "
            "that the address is right. Saved data is not affected.",
            reason="no_answer",
            subject=self.url,
        )

    def build_request(self, call: Call[Any]) -> dict[str, Any]:
        """Build the request arguments of a call."""
        written: dict[str, Any] = {
            "method": call.method,
            "url": f"{self.url}{PREFIX}{call.path}",
            "params": dict(call.query),
            "headers": _build_headers(call),
        }
        if call.timeout_s is not None:
            written["timeout"] = httpx2.Timeout(call.timeout_s, connect=CONNECT_S)
        if call.body is not None:
            written["content"] = call.body.model_dump_json(
                by_alias=True, exclude_unset=True
            ).encode()
        return written

    def build_upload(self, call: Call[Any]) -> dict[str, Any]:
        """Build the request arguments of a call that streams a file as its body."""
        written = self.build_request(call)
        written["headers"]["Content-Type"] = BINARY
        return written

    def build_stream(self, call: Call[Any]) -> dict[str, Any]:
        """Build the request arguments of a streaming call: only silence times out."""
        timeout = httpx2.Timeout(call.timeout_s or SILENCE_MAX_S, connect=CONNECT_S)
        return self.build_request(call) | {"timeout": timeout}

    def read(self, call: Call[T], heard: HttpReply | ServerUnreachable) -> T:
        """Parse a response, or raise the error that it describes."""
        if isinstance(heard, ServerUnreachable):
            raise heard
        if not 200 <= heard.status < 300:
            raise build_error(heard.status, heard.body)
        try:
            return call.read(heard.body)
        except ValidationError:
            raise self.describe_nonsense() from None

    def describe_nonsense(self) -> ConfigurationError:
        """Build the error for a response that is not from a Dialectic server."""
        return ConfigurationError(
            f"The server at {self.url} sent an unknown response. Check the address and that the "
            "server has the same version.",
            reason="not_dialectic",
            subject=self.url,
        )

    def describe_end(self) -> ServerUnreachable:
        """Build the error for a stream that keeps ending."""
        return ServerUnreachable(
            f"The server at {self.url} ends every stream at once. Check whether a proxy blocks "
            "event streams. Saved data is not affected.",
            reason="streams_end",
            subject=self.url,
        )


def read_reply(answer: httpx2.Response) -> HttpReply:
    """Convert the HTTP library's response."""
    headers = {key.lower(): value for key, value in answer.headers.items()}
    return HttpReply(answer.status_code, headers, answer.content)


def _build_headers(call: Call[Any]) -> dict[str, str]:
    headers = dict(call.headers)
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    if call.key:
        headers["Idempotency-Key"] = call.key
    return headers


def parse_server(url: str, token: str | Secret | None, timeout_s: float = TIMEOUT_S) -> Server:
    """Parse a server's address; it may have a path prefix."""
    try:
        parts = urlsplit(url.strip())
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # an invalid port or IPv6 address
        raise _refuse_address(url) from None
    if parts.scheme not in ("http", "https") or not is_whole or parts.query or parts.fragment:
        raise _refuse_address(url)
    if parts.username or parts.password:
        raise UsageError(
            "The address must not contain a user or password. Use a token.",
            reason="credentials_in_address",
        )
    plain = parts.geturl().rstrip("/").removesuffix(PREFIX)
    held = Secret(token) if isinstance(token, str) else token
    return Server(plain, held, timeout_s)


def _refuse_address(url: str) -> UsageError:
    shown = "This" if "@" in url else repr(url[:200])  # the part before "@" may be a password
    return UsageError(
        f"{shown} is not a server address. Write it as https://host:port.",
        reason="not_an_address",
    )


def name(call: Call[T]) -> Call[T]:
    """Give a write call its idempotency key before the first attempt."""
    return replace(call, key=str(uuid4())) if call.key == "" else call


def is_passing(error: DialecticError) -> bool:
    """Return whether a refused stream may be opened later."""
    return isinstance(error, PASSING)


def read_streamed(body: bytes) -> ChatReply:
    """Parse the reply from a streamed response that arrived in one piece."""
    for event in EventParser().feed(body):
        if isinstance(said := read_said(event), ChatReply):
            return said
    raise ServerUnreachable(
        "The reply ended before it was complete. The text so far is saved.",
        reason="answer_cut",
        remedy=Remedy(RemedyAction.LIST_CHATS),
    )


class _StreamedProblem(BaseModel):
    """A problem after the first byte: its status is in its body only."""

    status: int = 500


def read_said(event: Event) -> str | ChatReply:
    """Parse one event of a streamed reply: a piece of text, or the whole reply."""
    match event.name:
        case "delta":
            return ChatDelta.model_validate_json(event.text).text
        case "reply":
            return ChatReply.model_validate_json(event.text)
        case _:
            status = _StreamedProblem.model_validate_json(event.text).status
            raise build_error(status, event.text.encode())
