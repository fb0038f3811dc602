"""One exchange over HTTP: sent once, its answer read piece by piece under four limits.

Knows no vendor. Everything that can go wrong between here and there leaves as `Broken`, with what
it left behind: whether the request was sent, and whether an answer had begun. Nothing is tried
again, no redirect is followed, and whoever leaves early closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import CONNECT_S, Endpoint
from dialectic.core.strict_json import MalformedJson
from dialectic.errors import ProviderAuth, ProviderRejected
from dialectic.providers.errors import QUOTED_CHARS_MAX, describe_key, redact, shorten

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

KEPT_OPEN_MAX = 32
START_S = 5.0
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id", "x-amzn-requestid")
REQUEST_ID_CHARS_MAX = 200

PatienceS = Callable[[], float]
"""How long the silence may last that begins now."""


class TransportFailure(Exception):
    """An exchange broke off: between us and the provider, not by its word."""

    def __init__(self, why: str, *, was_sent: bool, has_begun: bool, is_tls: bool = False) -> None:
        super().__init__(why)
        self.why = why
        # Whether the whole request had left; whether a byte of the answer's body had come.
        self.was_sent = was_sent
        self.has_begun = has_begun
        self.is_tls = is_tls


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """What is sent: a GET if it has no body."""

    path: str
    body: bytes | None
    # Until the first byte, and for all of it.
    first_byte_s: float
    whole_s: float


class HttpConnection:
    """The connections to one endpoint, opened when they are needed."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: Secret | None,
        sign: Callable[[str], dict[str, str]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.key = key
        # The headers that carry the key, and those that go with every request.
        self._sign = sign
        self._headers = dict(headers or {})
        self._client: httpx2.AsyncClient | None = None

    @contextlib.asynccontextmanager
    async def open(self, sending: OutgoingRequest) -> AsyncIterator[IncomingResponse]:
        """Send a request and give what comes back; the connection is let go at the end."""
        exchange = _Exchange(self.endpoint, self.key, sending)
        headers = self._build_headers(sending)
        response = await exchange.send(self._load_client(), headers)
        try:
            yield IncomingResponse(response, exchange)
        finally:
            await response.aclose()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def _load_client(self) -> httpx2.AsyncClient:
        if self._client is None:
            import httpx2

            try:
                self._client = httpx2.AsyncClient(
                    timeout=httpx2.Timeout(None, connect=CONNECT_S),
                    headers={"user-agent": "dialectic"},
                    **self._choose_way(),
                )
            except OSError:
                raise ProviderRejected(
                    f"{self.endpoint.name} cannot be asked without certificates to trust. Put "
                    "SSL_CERT_FILE or SSL_CERT_DIR right, or install the machine's own."
                ) from None
            except (ImportError, ValueError, httpx2.InvalidURL):
                # The address of a proxy may hold a password, so it is not repeated.
                raise ProviderRejected(
                    f"{self.endpoint.name} cannot be asked through the proxy that the environment "
                    "names. Put HTTP_PROXY, HTTPS_PROXY or ALL_PROXY right."
                ) from None
        return self._client

    def _choose_way(self) -> dict[str, Any]:
        """Choose how requests leave: as the environment says, or guarded."""
        import httpx2

        # How many may be open at once is decided before a call comes here.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_OPEN_MAX)
        if self.endpoint.is_guarded:
            from dialectic.providers.ssrf import GuardedTransport

            # No proxy: it would look the name up once more, and by itself.
            plain = httpx2.AsyncHTTPTransport(limits=limits, trust_env=False)
            return {"transport": GuardedTransport(plain), "trust_env": False}
        is_secure = urlsplit(self.endpoint.base_url).scheme == "https"
        # Without TLS the certificates of the machine need not be read, for 70 ms; this trusts
        # nobody.
        verify = is_secure or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return {"limits": limits, "verify": verify}

    def _build_headers(self, sending: OutgoingRequest) -> dict[str, str]:
        headers = {"accept": "text/event-stream, application/json", **self._headers}
        if sending.body is not None:
            headers["content-type"] = "application/json"
        if self.key is None:
            if self.endpoint.api_key_env is not None:
                raise ProviderAuth(
                    f"There is no key for {self.endpoint.name}. "
                    f"{describe_key(self.endpoint, self.key)}"
                )
            return headers
        word = self.key.reveal()
        if not (word.isascii() and word.isprintable()):
            # Refused here, because the error of whoever met it later would show the key.
            raise ProviderAuth(
                f"The key of {self.endpoint.name} holds characters that no key has. "
                f"{describe_key(self.endpoint, self.key)}"
            )
        return headers | self._sign(word)


class IncomingResponse:
    """An answer that has begun to come in."""

    def __init__(self, response: httpx2.Response, exchange: _Exchange) -> None:
        self._response = response
        self._exchange = exchange
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        # What is shown or kept of the headers may repeat the key, as all that comes back may.
        kind = redact(exchange.key, response.headers.get("content-type", "")).partition(";")[0]
        self.content_type = kind.strip().lower()

    @property
    def request_id(self) -> str | None:
        for name in REQUEST_ID_HEADERS:
            if found := self.headers.get(name):
                return redact(self._exchange.key, found)[:REQUEST_ID_CHARS_MAX]
        return None

    async def pieces(self, patience_s: PatienceS, *, bytes_max: int) -> AsyncGenerator[bytes]:
        """Give the body as it comes. More than `bytes_max`, unpacked, makes no sense."""
        taken = 0
        async with contextlib.aclosing(self._response.aiter_bytes()) as body:
            while (piece := await self._exchange.hear(body, patience_s)) is not None:
                taken += len(piece)
                if taken > bytes_max:
                    raise MalformedJson(f"the answer is longer than {bytes_max} bytes")
                yield piece

    async def read(self, patience_s: PatienceS, *, bytes_max: int) -> bytes:
        """Read the whole body."""
        async with contextlib.aclosing(self.pieces(patience_s, bytes_max=bytes_max)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def read_start(self, patience_s: PatienceS, *, bytes_max: int) -> bytes:
        """Read at most so much of a body that is wanted for its words only, and may be broken."""
        found = b""
        self._exchange.end_within(START_S)
        with contextlib.suppress(TransportFailure, MalformedJson):
            async with contextlib.aclosing(self.pieces(patience_s, bytes_max=2**63)) as pieces:
                async for piece in pieces:
                    found += piece
                    if len(found) >= bytes_max:
                        break
        return found[:bytes_max]


class _Exchange:
    """How far one exchange has come, and how long it may still take."""

    def __init__(self, endpoint: Endpoint, key: Secret | None, sending: OutgoingRequest) -> None:
        self._endpoint = endpoint
        self.key = key
        self._sending = sending
        self._now_s = asyncio.get_running_loop().time
        self._ends_at_s = self._now_s() + sending.whole_s
        self._quiet_since_s = self._now_s()
        self._socket: Any = None
        self._is_tunnel = False
        self._was_sent = False
        self._has_begun = False

    async def send(self, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> httpx2.Response:
        """Send the request and wait for the head of the answer."""
        request = self._build_request(client, headers)
        response: httpx2.Response | None = None
        try:
            waited = client.send(request, stream=True)
            response = await self._within(waited, self._sending.first_byte_s)
            return response
        finally:
            # A handshake that is given up would leave its socket open.
            if response is None and self._socket is not None:
                await self._socket.aclose()

    def _build_request(
        self, client: httpx2.AsyncClient, headers: Mapping[str, str]
    ) -> httpx2.Request:
        import httpx2

        try:
            return client.build_request(
                "GET" if self._sending.body is None else "POST",
                self._endpoint.base_url.rstrip("/") + self._sending.path,
                content=self._sending.body,
                headers=headers,
                extensions={"trace": self._note_progress},
            )
        except (httpx2.InvalidURL, ValueError):
            raise ProviderRejected(
                f"The base_url of {self._endpoint.name} is no address. Put it right."
            ) from None

    async def hear(self, body: AsyncGenerator[bytes], patience_s: PatienceS) -> bytes | None:
        """Wait for the next piece; None at the end."""
        limit_s = patience_s() if self._has_begun else self._sending.first_byte_s
        piece = await self._within(anext(body, None), limit_s)
        if piece is not None:
            self._has_begun = True
            self._quiet_since_s = self._now_s()
        return piece

    def end_within(self, whole_s: float) -> None:
        """Give the rest less time than it would have."""
        self._ends_at_s = min(self._ends_at_s, self._now_s() + whole_s)

    async def _note_progress(self, name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            self._socket = info["return_value"]
        elif name == "http11.send_request_body.started":
            # The request that opens a tunnel through a proxy is not the one that costs money.
            self._is_tunnel = info["request"].method == b"CONNECT"
        elif name == "http11.send_request_body.complete" and not self._is_tunnel:
            self._was_sent = True

    async def _within(self, waited: Awaitable[T], limit_s: float) -> T:
        import httpx2

        timer = asyncio.timeout_at(min(self._ends_at_s, self._quiet_since_s + limit_s))
        try:
            async with timer:
                return await waited
        except (httpx2.HTTPError, OSError) as error:
            if timer.expired():
                raise self._break_off(self._describe_delay(limit_s)) from None
            if isinstance(error, httpx2.DecodingError):
                raise MalformedJson("the answer does not unpack") from error
            is_tls = _find_cause(error, ssl.SSLError) is not None
            raise self._break_off(self._describe(error), is_tls=is_tls) from error

    def _break_off(self, why: str, *, is_tls: bool = False) -> TransportFailure:
        return TransportFailure(
            why, was_sent=self._was_sent, has_begun=self._has_begun, is_tls=is_tls
        )

    def _describe_delay(self, limit_s: float) -> str:
        if self._now_s() >= self._ends_at_s:
            return f"it was not done after {self._sending.whole_s:g} s in all"
        if not self._was_sent:
            return f"the request could not be sent within {limit_s:g} s"
        if not self._has_begun:
            return f"no answer had begun after {limit_s:g} s"
        return f"the answer fell silent for {limit_s:g} s"

    def _describe(self, error: Exception) -> str:
        import httpx2

        host = urlsplit(self._endpoint.base_url).hostname
        refused = _find_cause(error, ssl.SSLError)
        said = shorten(self.key, str(refused or error), QUOTED_CHARS_MAX)
        match error:
            case httpx2.LocalProtocolError():
                why = "the request cannot be written as HTTP"  # its words may quote a header
            case httpx2.ConnectTimeout():
                why = f"there was no connection to {host} within {CONNECT_S:g} s"
            case httpx2.ProxyError():
                why = f"the proxy does not let it through: {said}"
            case _ if refused is not None:
                why = f"there is no secure connection to it: {said}"
            case _ if _find_cause(error, socket.gaierror) is not None:
                why = f"the name {host!r} leads to no address"
            case httpx2.ConnectError():
                why = f"there was no connection to {host}: {said}"
            case _:
                why = f"the connection broke: {said or type(error).__name__}"
        return why


def _find_cause(error: BaseException, kind: type[E]) -> E | None:
    """Find what lies below an error, which was wrapped by each layer it came through."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kind):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
