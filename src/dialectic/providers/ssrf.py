"""SSRF protection: calls made for tenants reach public addresses only. Caches no DNS results.

Every request resolves its host again, is rejected if any address is not public, and is sent to a
checked address: DNS cannot change between the check and the call. The certificate is still
verified against the host name. The wrapped transport sends the request.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

import httpx2

from dialectic.core.models.endpoint import is_public
from dialectic.errors import ProviderRejected


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a host to its addresses."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"the name {host!r} does not resolve") from error
    return [str(entry[4][0]) for entry in found]


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public addresses only."""

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport,
        resolve: Callable[[str, int], Awaitable[list[str]]] = resolve,
    ) -> None:
        self._inner = inner
        self._resolve = resolve

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        if request.url.scheme != "https":
            raise ProviderRejected("Only https:// may be called for a tenant.", reason="not_https")
        addresses = await self._resolve(host, request.url.port or 443)
        if not addresses or not all(is_public(address) for address in addresses):
            raise ProviderRejected(
                f"{host} resolves to an address that is not public.",
                reason="forbidden_address",
                subject=host,
            )
        # The name stays in the Host header and is verified against the certificate.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=addresses[0])
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()
