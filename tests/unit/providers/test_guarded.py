"""A call for a tenant goes to the public address that was looked at, and nowhere else."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx2
import pytest

from dialectic.domain.endpoint import Endpoint, WireFormat
from dialectic.errors import ProviderRejected
from dialectic.providers.guarded import GuardedTransport
from dialectic.providers.http import Line, Sending

SENDING = Sending(path="/chat", body=b"{}", first_byte_s=5.0, whole_s=5.0)


async def call(base_url: str) -> None:
    endpoint = Endpoint(name="theirs", kind=WireFormat.OPENAI, base_url=base_url, is_guarded=True)
    line = Line(endpoint, None, lambda _key: {})
    try:
        async with line.open(SENDING):
            pass
    finally:
        await line.close()


@pytest.mark.parametrize(
    "base_url",
    [
        *("https://localhost/v1", "https://127.0.0.1:8443", "https://[::1]/", "https://2130706433"),
        *("https://0x7f000001/", "https://127.1/", "https://[::ffff:127.0.0.1]/"),
        *("https://169.254.169.254/latest", "http://8.8.8.8/v1"),
    ],
)
async def test_what_leads_inside_is_refused_before_a_byte_is_sent(base_url: str) -> None:
    with pytest.raises(ProviderRejected, match=r"may (not )?be called"):
        await call(base_url)


def lead_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Let names lead to these addresses, one answer after the other; return what is looked up."""
    left, asked = iter(answers), []

    async def look_up(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, port)) for a in next(left)]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    return asked


async def send(transport: GuardedTransport) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.get("https://api.example.org/v1")


async def test_the_address_that_was_looked_at_is_called_in_the_name_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = lead_to(monkeypatch, ["93.184.216.34"])
    seen: list[httpx2.Request] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200)

    await send(GuardedTransport(httpx2.MockTransport(answer)))
    (request,) = seen
    assert asked == ["api.example.org"]
    assert request.url.host == "93.184.216.34"
    assert request.headers["host"] == "api.example.org"
    assert request.extensions["sni_hostname"] == "api.example.org"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.216.34", "127.0.0.1"], []])
async def test_a_name_that_leads_inside_with_any_of_its_addresses_is_refused(
    monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    lead_to(monkeypatch, addresses)
    with pytest.raises(ProviderRejected):
        await send(GuardedTransport(httpx2.MockTransport(lambda _r: httpx2.Response(200))))


async def test_a_name_that_has_changed_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(monkeypatch, ["93.184.216.34"], ["169.254.169.254"])
    transport = GuardedTransport(httpx2.MockTransport(lambda _r: httpx2.Response(200)))
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        assert (await client.get("https://api.example.org/")).status_code == 200
        with pytest.raises(ProviderRejected):
            await client.get("https://api.example.org/")
