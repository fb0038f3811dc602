"""The server's address, and calls as HTTP requests. Pure; both clients send its requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypedDict, TypeVar
from urllib.parse import urlsplit

import httpx2
from pydantic import BaseModel, ValidationError

from dialectic.client.call import PREFIX, Call
from dialectic.client.replies import build_error
from dialectic.contract.chats import ChatDelta, ChatReply
from dialectic.core.access import Secret, is_loopback
from dialectic.core.sse import Event, EventParser
from dialectic.errors import (
    ConfigurationError,
    DatabaseBusy,
    DatabaseUnreachable,
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
# Read timeout of a stream: the server sends comments more often than this.
SILENCE_MAX_S = 45.0
# Temporary failures of a stream: it may be opened later.
PASSING = (ServerUnreachable, DatabaseBusy, DatabaseUnreachable, TooManyRequests)


class RequestArguments(TypedDict):
    """The arguments of the HTTP library's request methods."""

    method: str
    url: str
    params: dict[str, str | list[str]]
    headers: dict[str, str]
    content: bytes | Iterator[bytes] | AsyncIterator[bytes] | None
    timeout: httpx2.Timeout


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
    def headers(self) -> dict[str, str]:
        """The headers of every request."""
        headers = {"Accept": "application/json, */*;q=0.5"}
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token.reveal()}"
        return headers

    def build_request(self, call: Call[Any], *, streams: bool = False) -> RequestArguments:
        """Build the request of a call; of a streamed response only silence times out."""
        headers, content = dict(call.headers), None
        if call.file is not None:
            headers["Content-Type"] = "application/octet-stream"
        elif call.body is not None:
            headers["Content-Type"] = "application/json"
            content = call.body.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if call.key:
            headers["Idempotency-Key"] = call.key
        timeout_s = call.timeout_s or (SILENCE_MAX_S if streams else self.timeout_s)
        return RequestArguments(
            method=call.method,
            url=f"{self.url}{PREFIX}{call.path}",
            params=dict(call.query),
            headers=headers,
            content=content,
            timeout=httpx2.Timeout(timeout_s, connect=CONNECT_S),
        )

    def read(self, call: Call[T], reply: httpx2.Response | ServerUnreachable) -> T:
        """Parse a response, or raise the error that it describes."""
        if isinstance(reply, ServerUnreachable):
            raise reply
        if not reply.is_success:
            raise build_error(reply.status_code, reply.content)
        try:
            return call.read(reply.content)
        except ValidationError:
            raise self.describe_nonsense() from None

    @contextmanager
    def translating_errors(self) -> Iterator[None]:
        """Raise what goes wrong while a response is streamed as our own errors."""
        try:
            yield
        except httpx2.TransportError as error:
            raise self.describe_loss(error) from None
        except (ValueError, LookupError):
            raise self.describe_nonsense() from None

    def describe_loss(self, error: httpx2.TransportError) -> ServerUnreachable:
        """Build the error for an unreachable server; the library's message could name a secret."""
        reason = type(error).__name__
        return ServerUnreachable(
            f"The server at {self.url} does not answer ({reason}). Check that it is running and "
            "that the address is right. Saved data is not affected.",
            reason="no_answer",
            subject=self.url,
        )

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
