"""A call for a tenant goes to the public address that was looked at, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest

from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.errors import ForbiddenAddress, ProviderRejected
from dialectic.providers.ssrf import GuardedTransport
from tests.cases import each_case
from tests.problems import refusing

LEADING_INSIDE = [
    *("https://localhost/v1", "https://127.0.0.1:8443", "https://[::1]/", "https://2130706433"),
    *("https://0x7f000001/", "https://127.1/", "https://[::ffff:127.0.0.1]/"),
    *("https://169.254.169.254/latest", "http://169.254.169.254/", "https://2852039166/"),
    *("https://[::ffff:169.254.169.254]/", "https://169.254.169.254.nip.io/", "http://8.8.8.8/v1"),
]


def build_endpoint(base_url: str) -> Endpoint:
    return Endpoint(name="theirs", kind=WireFormat.OPENAI, base_url=base_url, is_guarded=True)


@each_case("base_url", LEADING_INSIDE)
def test_what_leads_inside_cannot_be_named_by_a_tenant(base_url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        build_endpoint(base_url)
    operators = Endpoint(name="ours", kind=WireFormat.OPENAI, base_url=base_url)
    with pytest.raises(ForbiddenAddress):
        replace(operators, is_guarded=True)


# Whoever is called by its number is looked at all the same, however it came to be called.
@each_case("url", [url for url in LEADING_INSIDE if "nip.io" not in url])
async def test_what_leads_inside_is_refused_before_a_byte_is_sent(url: str) -> None:
    with refusing(ProviderRejected) as caught:
        await send(GuardedTransport(httpx2.AsyncHTTPTransport()), url)
    assert caught.value.reason in ("forbidden_address", "not_https")


class Names:
    """A name server: gives these addresses, one answer after the other, and notes the names."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = iter(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.asked.append(host)
        return next(self._answers)


async def send(
    transport: GuardedTransport, url: str = "https://api.example.org/v1"
) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        return await client.get(url)


async def test_the_address_that_was_looked_at_is_called_in_the_name_of_the_host() -> None:
    names, seen = Names(["93.184.216.34"]), list[httpx2.Request]()

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request)
        return httpx2.Response(200)

    await send(GuardedTransport(httpx2.MockTransport(answer), names.resolve))
    (request,) = seen
    assert names.asked == ["api.example.org"]
    assert request.url.host == "93.184.216.34"
    assert request.headers["host"] == "api.example.org"
    assert request.extensions["sni_hostname"] == "api.example.org"


@pytest.mark.parametrize("addresses", [["10.0.0.1"], ["93.184.216.34", "127.0.0.1"], []])
async def test_a_name_that_leads_inside_with_any_of_its_addresses_is_refused(
    addresses: list[str],
) -> None:
    inner = httpx2.MockTransport(lambda _r: httpx2.Response(200))
    with pytest.raises(ProviderRejected):
        await send(GuardedTransport(inner, Names(addresses).resolve))


async def test_a_name_that_has_changed_is_looked_at_again() -> None:
    names = Names(["93.184.216.34"], ["169.254.169.254"])
    inner = httpx2.MockTransport(lambda _r: httpx2.Response(200))
    transport = GuardedTransport(inner, names.resolve)
    async with httpx2.AsyncClient(transport=transport, trust_env=False) as client:
        assert (await client.get("https://api.example.org/")).status_code == 200
        with pytest.raises(ProviderRejected):
            await client.get("https://api.example.org/")


async def test_a_redirect_inside_is_refused_even_if_a_client_follows_it() -> None:
    seen: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.host)
        return httpx2.Response(307, headers={"location": "https://169.254.169.254/"})

    names = Names(["93.184.216.34"], ["169.254.169.254"])
    transport = GuardedTransport(httpx2.MockTransport(answer), names.resolve)
    async with httpx2.AsyncClient(
        transport=transport, trust_env=False, follow_redirects=True
    ) as client:
        with pytest.raises(ProviderRejected):
            await client.get("https://api.example.org/v1")
    assert seen == ["93.184.216.34"]
