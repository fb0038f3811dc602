"""What an endpoint sends, however hostile, leaves every other task its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from chaos.hostile import provider
from chaos.hostile_provider import ATTACKS
from chaos.loop_turns import watching
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.errors import ProviderError
from dialectic.providers.catalog import open_provider
from tests.conformance.provider_client import CARD, REQUEST

TURN_MAX_S = 0.05


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with provider() as opened:
        yield opened


async def call(port: int, attack: str) -> None:
    url = f"http://127.0.0.1:{port}/{attack}/v1"
    endpoint = Endpoint(name="bad", kind=WireFormat.OPENAI, base_url=url, timeout_s=1.0)
    opened = open_provider(endpoint, None)
    try:
        await opened.complete(CARD, REQUEST, lambda _text: None)
    finally:
        await opened.close()


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_takes_no_long_turn_of_the_event_loop(port: int, attack: str) -> None:
    with pytest.raises(ProviderError):  # the first call also imports the HTTP client
        asyncio.run(call(port, "deep"))

    long_turns_s: list[float] = []
    with watching(long_turns_s.append), pytest.raises(ProviderError):
        asyncio.run(call(port, attack))

    assert max(long_turns_s, default=0.0) <= TURN_MAX_S
