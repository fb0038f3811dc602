"""Where the server is, and how a call is written for it. Pure; both clients send what it builds."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit
from uuid import uuid4

import httpx2
from pydantic import ValidationError

from dialectic.client.call import PREFIX, Call
from dialectic.client.events import Event, read_events
from dialectic.client.problems import build_error
from dialectic.client.retry import HttpReply
from dialectic.contract.chats import ChatReply
from dialectic.core.access import Secret
from dialectic.core.local_trust import is_loopback
from dialectic.core.sse import EventParser
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
# Nothing of a stream was heard for so long: signs of life come more often.
SILENCE_MAX_S = 45.0
# What passes by itself when a stream is asked for; all else is for the caller to change.
PASSING = (ServerUnreachable, DatabaseBusy, DatabaseUnreachable, TooManyRequests)


@dataclass(frozen=True, slots=True)
class Server:
    """A server, and the token it is asked with."""

    url: str
    token: Secret | None = field(default=None, repr=False)
    timeout_s: float = TIMEOUT_S

    @property
    def is_here(self) -> bool:
        """Whether it is this very machine: then no proxy is asked, and nothing leaves."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_open(self) -> bool:
        """Whether others could read what is sent, the token too."""
        return not self.is_here and urlsplit(self.url).scheme == "http"

    @property
    def options(self) -> dict[str, Any]:
        """How the library that speaks HTTP is told about it."""
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
        """Say that the server does not answer; what the library says may name nothing secret."""
        reason = type(error).__name__
        return ServerUnreachable(
            f"The server at {self.url} does not answer ({reason}). Is it running, and is the "
            "address right? Nothing that it has saved is lost.",
            reason="no_answer",
            subject=self.url,
        )

    def build_request(self, call: Call[Any]) -> dict[str, Any]:
        """Write a call as the arguments of a request."""
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
        """Write a call whose body is a file, which is sent as it is read."""
        written = self.build_request(call)
        written["headers"]["Content-Type"] = BINARY
        return written

    def build_stream(self, call: Call[Any]) -> dict[str, Any]:
        """Write a call whose answer lasts: silence, not length, is what ends it."""
        timeout = httpx2.Timeout(call.timeout_s or SILENCE_MAX_S, connect=CONNECT_S)
        return self.build_request(call) | {"timeout": timeout}

    def read(self, call: Call[T], heard: HttpReply | ServerUnreachable) -> T:
        """Read an answer as what was asked for, or raise what it tells of."""
        if isinstance(heard, ServerUnreachable):
            raise heard
        if not 200 <= heard.status < 300:
            raise build_error(heard.status, heard.body)
        try:
            return call.read(heard.body)
        except ValidationError:
            raise self.describe_nonsense() from None

    def describe_nonsense(self) -> ConfigurationError:
        """Say that something answers, but not what a server of ours would."""
        return ConfigurationError(
            f"The server at {self.url} does not answer as Dialectic does. Is the address right, "
            "and the server of the same version?",
            reason="not_dialectic",
            subject=self.url,
        )

    def describe_end(self) -> ServerUnreachable:
        """Say that what should last ends again and again."""
        return ServerUnreachable(
            f"The server at {self.url} ends every stream at once. Is there something before it "
            "that does not let streams through? Nothing that it has saved is lost.",
            reason="streams_end",
            subject=self.url,
        )


def read_reply(answer: httpx2.Response) -> HttpReply:
    """Take an answer out of the library that brought it."""
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
    """Read where a server is; a path may stand before the API's own."""
    try:
        parts = urlsplit(url.strip())
        is_whole = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # a port that is none, half an IPv6 address
        raise _refuse_address(url) from None
    if parts.scheme not in ("http", "https") or not is_whole or parts.query or parts.fragment:
        raise _refuse_address(url)
    if parts.username or parts.password:
        raise UsageError(
            "An address has no user and no password in it. Give a token.",
            reason="credentials_in_address",
        )
    plain = parts.geturl().rstrip("/").removesuffix(PREFIX)
    held = Secret(token) if isinstance(token, str) else token
    return Server(plain, held, timeout_s)


def _refuse_address(url: str) -> UsageError:
    shown = "This" if "@" in url else repr(url[:200])  # what stands before it may be a password
    return UsageError(
        f"{shown} is no address of a server. Write it as https://host:port.",
        reason="not_an_address",
    )


def name(call: Call[T]) -> Call[T]:
    """Give a call that changes something its name, before it is sent for the first time."""
    return replace(call, key=str(uuid4())) if call.key == "" else call


def is_passing(error: DialecticError) -> bool:
    """Say whether a stream that was refused with this may be opened a little later."""
    return isinstance(error, PASSING)


def read_streamed(body: bytes) -> ChatReply:
    """Read the whole reply out of an answer that streamed, when it is heard in one piece."""
    for event in read_events(EventParser(), body):
        if isinstance(said := read_said(event), ChatReply):
            return said
    raise ServerUnreachable(
        "The answer ended before it was whole. What was said until then is saved.",
        reason="answer_cut",
        remedy=Remedy(RemedyAction.LIST_CHATS),
    )


def read_said(event: Event) -> str | ChatReply:
    """Read one event of an answer that streams: a piece of it, or at last the whole."""
    match event.type:
        case "delta":
            return str(event.data["text"])
        case "reply":
            return ChatReply.model_validate(event.data)
        case _:
            raise build_error(int(event.data.get("status", 500)), json.dumps(event.data).encode())
