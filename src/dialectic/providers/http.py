"""One HTTP exchange: sent once, with the response read in pieces under four time limits.

Knows no vendor. Every network failure is raised as one error that says whether the request was
sent and whether a response had begun. Nothing is retried, redirects are not followed, and a
caller that leaves early closes the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
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
from dialectic.providers.content_encoding import build_decoder
from dialectic.providers.error_taxonomy import QUOTED_CHARS_MAX, describe_key, redact, shorten

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
E = TypeVar("E", bound=BaseException)

KEPT_OPEN_MAX = 32
START_S = 5.0
REQUEST_ID_HEADERS = ("x-request-id", "request-id", "x-goog-request-id", "x-amzn-requestid")
REQUEST_ID_CHARS_MAX = 200

PatienceS = Callable[[], float]
"""Returns how long the next silence may last."""


class TransportFailure(Exception):
    """The connection failed; the provider itself reported no error."""

    def __init__(
        self,
        why: str,
        *,
        was_sent: bool,
        has_begun: bool,
        is_tls: bool = False,
        is_refused: bool = False,
    ) -> None:
        super().__init__(why)
        self.why = why
        # Whether the whole request was sent; whether a byte of the response body arrived.
        self.was_sent = was_sent
        self.has_begun = has_begun
        self.is_tls = is_tls
        # No connection could be opened.
        self.is_refused = is_refused


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """What to send: a GET if it has no body."""

    path: str
    body: bytes | None
    # Time limits: until the first byte, and for the whole exchange.
    first_byte_s: float
    whole_s: float


@functools.cache  # reading the system's certificates takes 70 ms
def _load_certificates() -> ssl.SSLContext:
    """Load the certificates that calls for tenants trust; the environment has no say."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


class HttpConnection:
    """The connections to one endpoint, opened on demand."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: Secret | None,
        sign: Callable[[str], dict[str, str]],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.key = key
        # The headers that carry the key, and those sent with every request.
        self._sign = sign
        self._headers = dict(headers or {})
        self._client: httpx2.AsyncClient | None = None

    @contextlib.asynccontextmanager
    async def open(
        self, sending: OutgoingRequest, patience_s: PatienceS
    ) -> AsyncIterator[IncomingResponse]:
        """Send a request and yield the response; release the connection at the end."""
        exchange = _Exchange(self.endpoint, self.key, sending, patience_s)
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
                self._client = self._build_client()
            except OSError:
                raise ProviderRejected(
                    f"{self.endpoint.name} cannot be reached without trusted certificates. Correct "
                    "SSL_CERT_FILE or SSL_CERT_DIR, or install the system's certificates."
                ) from None
            except (ImportError, ValueError, httpx2.InvalidURL):
                # A proxy URL may hold a password, so the message does not repeat it.
                raise ProviderRejected(
                    f"{self.endpoint.name} cannot be reached: the environment names an invalid "
                    "proxy. Correct HTTP_PROXY, HTTPS_PROXY or ALL_PROXY."
                ) from None
        return self._client

    def _build_client(self) -> httpx2.AsyncClient:
        """Build the client: configured by the environment, or SSRF-protected."""
        import httpx2

        from dialectic.providers.response_head import limit_heads

        # The rate limiter decides how many calls run at once, before they get here.
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=KEPT_OPEN_MAX)
        timeout = httpx2.Timeout(None, connect=CONNECT_S)
        headers = {"user-agent": "dialectic"}
        if self.endpoint.is_guarded:
            from dialectic.providers.ssrf import GuardedTransport

            # No proxy: it would resolve the name a second time, by itself.
            plain = httpx2.AsyncHTTPTransport(
                verify=_load_certificates(), limits=limits, trust_env=False
            )
            limit_heads(plain)
            guarded = GuardedTransport(plain)
            return httpx2.AsyncClient(
                timeout=timeout, headers=headers, transport=guarded, trust_env=False
            )
        is_secure = urlsplit(self.endpoint.base_url).scheme == "https"
        # Without TLS, skip reading the system's certificates, which takes 70 ms: this context
        # trusts none.
        verify = is_secure or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        client = httpx2.AsyncClient(timeout=timeout, headers=headers, limits=limits, verify=verify)
        # The mounts are the environment's proxies.
        limit_heads(client._transport, *client._mounts.values())
        return client

    def _build_headers(self, sending: OutgoingRequest) -> dict[str, str]:
        headers = {
            "accept": "text/event-stream, application/json",
            # Text is short and arrives in pieces; unpacking would only delay it.
            "accept-encoding": "identity",
            **self._headers,
        }
        if sending.body is not None:
            headers["content-type"] = "application/json"
        if self.key is None:
            if self.endpoint.api_key_env is not None:
                raise ProviderAuth(
                    f"{self.endpoint.name} has no API key. {describe_key(self.endpoint, self.key)}"
                )
            return headers
        word = self.key.reveal()
        if not (word.isascii() and word.isprintable()):
            # Rejected here, because the HTTP library's error would show the key.
            raise ProviderAuth(
                f"The key of {self.endpoint.name} contains invalid characters. "
                f"{describe_key(self.endpoint, self.key)}"
            )
        return headers | self._sign(word)


class IncomingResponse:
    """A response that has begun to arrive."""

    def __init__(self, response: httpx2.Response, exchange: _Exchange) -> None:
        self._response = response
        self._exchange = exchange
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        # Response headers may echo the key, so it is removed before they are shown or stored.
        kind = redact(exchange.key, response.headers.get("content-type", "")).partition(";")[0]
        self.content_type = kind.strip().lower()

    @property
    def request_id(self) -> str | None:
        for name in REQUEST_ID_HEADERS:
            if found := self.headers.get(name):
                return redact(self._exchange.key, found)[:REQUEST_ID_CHARS_MAX]
        return None

    async def pieces(self, bytes_max: int) -> AsyncGenerator[bytes]:
        """Yield the body as it arrives, in small slices that leave time for other tasks.

        More than `bytes_max`, decompressed, is malformed.
        """
        taken = 0
        decode = build_decoder(self.headers.get("content-encoding", ""))
        async with contextlib.aclosing(self._response.aiter_raw()) as body:
            while (piece := await self._exchange.hear(body)) is not None:
                for part in decode(piece):
                    taken += len(part)
                    if taken > bytes_max:
                        raise MalformedJson(f"the response is longer than {bytes_max} bytes")
                    yield part
                    await self._exchange.give_way()

    async def read(self, bytes_max: int) -> bytes:
        """Read the whole body."""
        async with contextlib.aclosing(self.pieces(bytes_max)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def read_start(self, bytes_max: int) -> bytes:
        """Read the start of an error body, up to a limit; the body may be broken."""
        found = b""
        self._exchange.end_within(START_S)
        with contextlib.suppress(TransportFailure, MalformedJson):
            async with contextlib.aclosing(self.pieces(2**63)) as pieces:
                async for piece in pieces:
                    found += piece
                    if len(found) >= bytes_max:
                        break
        return found[:bytes_max]


class _Exchange:
    """The progress of one exchange, and its remaining time."""

    def __init__(
        self,
        endpoint: Endpoint,
        key: Secret | None,
        sending: OutgoingRequest,
        patience_s: PatienceS,
    ) -> None:
        self._endpoint = endpoint
        self.key = key
        self._sending = sending
        self._patience_s = patience_s
        self._now_s = asyncio.get_running_loop().time
        self._ends_at_s = self._now_s() + sending.whole_s
        self._quiet_since_s = self._now_s()
        self._socket: Any = None
        self._is_tunnel = False
        self._was_sent = False
        self._has_begun = False

    async def send(self, client: httpx2.AsyncClient, headers: Mapping[str, str]) -> httpx2.Response:
        """Send the request and wait for the response headers."""
        from dialectic.providers.response_head import end_head

        request = self._build_request(client, headers)
        response: httpx2.Response | None = None
        try:
            waited = client.send(request, stream=True)
            response = await self._within(waited, self._sending.first_byte_s)
            end_head(response)
            return response
        finally:
            # Abandoning a handshake would leave its socket open.
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
                f"The base_url of {self._endpoint.name} is not a valid URL. Correct it."
            ) from None

    async def hear(self, body: AsyncGenerator[bytes]) -> bytes | None:
        """Wait for the next piece; None at the end."""
        limit_s = self._patience_s() if self._has_begun else self._sending.first_byte_s
        piece = await self._within(anext(body, None), limit_s)
        if piece is not None:
            self._has_begun = True
            self._quiet_since_s = self._now_s()
        return piece

    async def give_way(self) -> None:
        """Let other tasks run; raise if the whole response has taken too long."""
        await self._within(asyncio.sleep(0), self._sending.whole_s)

    def end_within(self, whole_s: float) -> None:
        """Shorten the time limit for the rest of the response."""
        self._ends_at_s = min(self._ends_at_s, self._now_s() + whole_s)

    async def _note_progress(self, name: str, info: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            self._socket = info["return_value"]
        elif name == "http11.send_request_body.started":
            # The CONNECT request to a proxy is not the request that costs money.
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
            is_tls = _find_cause(error, ssl.SSLError) is not None
            is_refused = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            raise self._break_off(
                self._describe(error), is_tls=is_tls, is_refused=is_refused and not is_tls
            ) from error

    def _break_off(
        self, why: str, *, is_tls: bool = False, is_refused: bool = False
    ) -> TransportFailure:
        return TransportFailure(
            why,
            was_sent=self._was_sent,
            has_begun=self._has_begun,
            is_tls=is_tls,
            is_refused=is_refused,
        )

    def _describe_delay(self, limit_s: float) -> str:
        if self._now_s() >= self._ends_at_s:
            return f"it was not complete after {self._sending.whole_s:g} s"
        if not self._was_sent:
            return f"the request could not be sent within {limit_s:g} s"
        if not self._has_begun:
            return f"no response began within {limit_s:g} s"
        return f"the response stalled for {limit_s:g} s"

    def _describe(self, error: Exception) -> str:
        import httpx2

        parts = urlsplit(self._endpoint.base_url)
        host, place = parts.hostname, parts.netloc.rpartition("@")[2]
        refused = _find_cause(error, ssl.SSLError)
        said = shorten(self.key, str(refused or error), QUOTED_CHARS_MAX)
        match error:
            case httpx2.LocalProtocolError():
                why = "the request cannot be written as HTTP"  # the cause may quote a header
            case httpx2.ConnectTimeout():
                why = f"could not connect to {place} within {CONNECT_S:g} s"
            case httpx2.ProxyError():
                why = f"the proxy rejected the connection: {said}"
            case _ if refused is not None:
                why = f"the TLS connection failed: {said}"
            case _ if _find_cause(error, socket.gaierror) is not None:
                why = f"the name {host!r} does not resolve"
            case httpx2.ConnectError():
                why = f"could not connect to {place}: {said}"
            case _:
                why = f"the connection broke: {said or type(error).__name__}"
        return why


def _find_cause(error: BaseException, kind: type[E]) -> E | None:
    """Find the root cause of an error that several layers wrapped."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kind):
            return cause
        cause = cause.__cause__ or cause.__context__
    return None
