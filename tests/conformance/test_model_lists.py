"""Which models there are, and how long a request is."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dialectic.errors import ProviderAuth, ProviderMalformed, ProviderTransient
from dialectic.providers.base import ListedModel
from dialectic.providers.catalog import open_provider
from dialectic.providers.exchange import HttpProvider
from tests.conformance.provider_client import CARD, KEY, REQUEST, Client
from tests.conformance.scripted_socket import Close, Wire
from tests.conformance.wire_formats import Chat, Content, Messages


@pytest.fixture
async def provider(client: Client) -> AsyncIterator[HttpProvider]:
    opened = open_provider(client.endpoint(), client.key)
    yield opened
    await opened.close()


def listing(kind: str) -> list[Any]:
    """The pages that tell of the same two models."""
    if kind == Chat.kind:
        first = {"id": "m-1", "context_length": 8000, "max_completion_tokens": 500}
        return [{"object": "list", "data": [first, {"id": "m-2"}, {"id": 7}, "odd"]}]
    if kind == Messages.kind:
        first = {"id": "m-1", "max_input_tokens": 8000, "max_tokens": 500}
        return [
            {"data": [first], "has_more": True, "last_id": "m-1/x"},
            {"data": [{"id": "m-2"}], "has_more": False, "last_id": "m-2"},
        ]
    first = {"name": "models/m-1", "inputTokenLimit": 8000, "outputTokenLimit": 500}
    writes = {"supportedGenerationMethods": ["generateContent"]}
    other = {"name": "models/e-1", "supportedGenerationMethods": ["embedContent"]}
    return [
        {"models": [first | writes, other], "nextPageToken": "m-1/x"},
        {"models": [{"name": "models/m-2"}]},
    ]


async def test_all_pages_of_the_list_are_read(
    client: Client, wire: Wire, provider: HttpProvider
) -> None:
    pages = listing(client.dialect.kind)
    for page in pages:
        wire.play_json(page)

    assert await provider.list_models() == [ListedModel("m-1", 8000, 500), ListedModel("m-2")]

    assert len(wire.heard) == len(pages)
    assert all(heard.method == "GET" and KEY not in heard.path for heard in wire.heard)
    assert wire.heard[0].path.startswith(f"/{client.dialect.version}/models")
    assert all("m-1%2Fx" in heard.path for heard in wire.heard[1:])


async def test_a_list_without_end_ends(client: Client, wire: Wire, provider: HttpProvider) -> None:
    wire.play_json(listing(client.dialect.kind)[0])

    await provider.list_models()

    assert len(wire.heard) <= 100


async def test_a_request_is_counted_where_it_can_be(
    client: Client, wire: Wire, provider: HttpProvider
) -> None:
    wire.play_json({"input_tokens": 42, "totalTokens": 42})

    counted = await provider.count_tokens(CARD, REQUEST)

    if client.dialect.kind == Chat.kind:
        assert (counted, wire.heard) == (None, [])
        return
    assert counted == 42
    paths = {
        Messages.kind: "/v1/messages/count_tokens",
        Content.kind: "/v1beta/models/m-1:countTokens",
    }
    assert wire.heard[0].path == paths[client.dialect.kind]
    assert all(text in wire.heard[0].body.decode() for text in ("Be brief.", "Go on."))


@pytest.mark.parametrize("status", [404, 405, 501])
async def test_a_server_that_cannot_count_says_nothing(
    wire: Wire, provider: HttpProvider, status: int
) -> None:
    wire.play_json({"error": {"message": "What?"}}, status=status)

    assert await provider.count_tokens(CARD, REQUEST) is None


async def test_errors_are_the_same_as_for_an_answer(wire: Wire, client: Client) -> None:
    provider = open_provider(client.endpoint(), client.key)
    cases: list[tuple[Any, Any]] = [
        (ProviderAuth, lambda: wire.play_json({"error": {"message": KEY}}, status=401)),
        (ProviderMalformed, lambda: wire.play_answer(b"<html>", content_type="text/html")),
        (ProviderMalformed, lambda: wire.play_json(b"[1, 2")),
        (ProviderMalformed, lambda: wire.play_json({"data": 7, "models": 7})),
        (ProviderAuth, lambda: wire.play_json({"error": {"code": 401, "message": KEY}})),
        (ProviderTransient, lambda: wire.play(Close())),
    ]
    for kind, play in cases:
        wire.scripts.clear()
        play()
        with pytest.raises(kind) as caught:
            await provider.list_models()
        assert KEY not in str(caught.value)
        assert not caught.value.remains.partial_text
        await provider.close()  # the server has forgotten how to go on


async def test_a_provider_that_was_closed_opens_again(
    client: Client, wire: Wire, provider: HttpProvider
) -> None:
    wire.play_json(listing(client.dialect.kind)[-1])

    await provider.list_models()
    await provider.close()
    await provider.close()

    assert await provider.list_models()


async def test_the_name_on_the_wire_may_be_another(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))
    client.card = dataclasses.replace(CARD, wire_name="org/m:1?x")

    await client.ask()

    heard = client.wire.heard[0]
    if client.dialect.kind == Content.kind:
        assert heard.path.startswith("/v1beta/models/org%2Fm%3A1%3Fx:streamGenerateContent")
    else:
        assert heard.json()["model"] == "org/m:1?x"
