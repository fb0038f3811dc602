"""Calls for tenants go to public addresses alone. Knows no vendor and keeps no name in mind.

Every request looks its host up anew, refuses it if any address it leads to is not public, and is
sent to an address that was looked at: a name cannot lead elsewhere between the look and the call.
The certificate is still that of the name. How it is sent is the affair of the transport within.
"""

from __future__ import annotations

import asyncio
import socket

import httpx2

from dialectic.core.models.endpoint import is_public
from dialectic.errors import ProviderRejected


class GuardedTransport(httpx2.AsyncBaseTransport):
    """Sends requests to public addresses and to no others."""

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host = request.url.host
        if request.url.scheme != "https":
            raise ProviderRejected("Only https:// may be called for a tenant.", reason="not_https")
        address = await resolve_public_address(host, request.url.port or 443)
        # The name stays in the Host header, and is what the certificate must be for.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=address)
        return await self._inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def resolve_public_address(host: str, port: int) -> str:
    """Look a host up; every address it leads to must be public."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx2.ConnectError(f"the name {host!r} leads to no address") from error
    addresses = [str(entry[4][0]) for entry in found]
    if not addresses or not all(is_public(address) for address in addresses):
        raise ProviderRejected(
            f"{host} leads to an address that may not be called.",
            reason="forbidden_address",
            subject=host,
        )
    return addresses[0]
