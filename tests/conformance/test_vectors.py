"""Vectors over HTTP: in order, in batches, checked, asked for once more, and never mixed up."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Any, Protocol

import numpy as np
import pytest

from dialectic.core.access import Secret
from dialectic.core.models.endpoint import Endpoint, WireFormat
from dialectic.core.models.model import ModelCard
from dialectic.errors import (
    ProviderAuth,
    ProviderError,
    ProviderMalformed,
    ProviderQuota,
    ProviderThrottled,
    ProviderTransient,
    StreamTruncated,
)
from dialectic.providers.exchange import Caps
from dialectic.providers.openai import OpenAIProvider
from dialectic.retrieval.embedders import BATCH, Batch, RemoteEmbedder
from dialectic_simulator import Simulator, open_simulator
from tests.conformance.provider_client import KEY, assert_shows_no_key
from tests.conformance.scripted_socket import Close, Wire
from tests.problems import refusing

TEXTS = ["a village hall", "a boat at sea", "tax law"]


def build_card(dimensions: int = 2, **facts: Any) -> ModelCard:
    return ModelCard(
        name="play/e-1",
        context_window_tokens=1_000,
        max_input_tokens=1_000,
        max_output_tokens=0,
        input_credits_per_token=Decimal(1),
        output_credits_per_token=Decimal(0),
        tokenizer="chars:4",
        embedding_dimensions=dimensions,
        **facts,
    )


class Build(Protocol):
    """Builds an embedder of an endpoint, which is closed after the test."""

    def __call__(
        self, url: str, card: ModelCard | None = None, batch: Batch = BATCH, **caps: int
    ) -> RemoteEmbedder: ...


@pytest.fixture
async def build_embedder() -> AsyncIterator[Build]:
    opened: list[OpenAIProvider] = []

    def build(
        url: str, card: ModelCard | None = None, batch: Batch = BATCH, **caps: int
    ) -> RemoteEmbedder:
        endpoint = Endpoint(
            name="play",
            kind=WireFormat.OPENAI,
            base_url=url,
            api_key_env="CANARY_API_KEY",
            first_byte_s=5.0,
            idle_s=5.0,
            timeout_s=20.0,
        )
        opened.append(OpenAIProvider(endpoint, Secret(KEY), Caps(**caps)))
        return RemoteEmbedder(card or build_card(), opened[-1], batch)

    yield build
    for provider in opened:
        await provider.close()


@pytest.fixture
def embedder(wire: Wire, build_embedder: Build) -> RemoteEmbedder:
    return build_embedder(f"{wire.url}/v1")


def answer(rows: Sequence[Any], tokens: int | None = 9, **changes: Any) -> dict[str, Any]:
    data = [{"index": index, "embedding": row} for index, row in enumerate(rows)]
    usage = {} if tokens is None else {"usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
    return {"object": "list", "data": data, "model": "e-1", **usage, **changes}


def pack(row: Sequence[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode()


SOUND = answer([[3, 4], [0, 1], [1, 0]])


async def test_vectors_come_in_the_order_of_the_texts_whatever_order_they_are_sent_in(
    wire: Wire, embedder: RemoteEmbedder
) -> None:
    wire.play_json(SOUND | {"data": SOUND["data"][::-1]})
    got = await embedder.embed(TEXTS)
    np.testing.assert_allclose(
        got.rows, np.asarray([[0.6, 0.8], [0.0, 1.0], [1.0, 0.0]]), rtol=1e-6
    )
    assert got.tokens == 9
    (heard,) = wire.heard
    assert heard.path == "/v1/embeddings"
    assert heard.json() == {"encoding_format": "base64", "model": "e-1", "input": TEXTS}
    assert heard.headers["authorization"] == f"Bearer {KEY}"


async def test_packed_vectors_are_unpacked_and_unreported_tokens_are_counted(
    wire: Wire, embedder: RemoteEmbedder
) -> None:
    wire.play_json(answer([pack([3, 4]), pack([0, 1]), [1, 0]], tokens=None))
    got = await embedder.embed(TEXTS)
    np.testing.assert_allclose(got.rows[0], [0.6, 0.8], rtol=1e-6)
    assert got.tokens == sum(map(embedder.count, TEXTS))


async def test_the_operators_own_fields_go_along_but_change_nothing_that_is_paid_for(
    wire: Wire, build_embedder: Build
) -> None:
    extra = {"dimensions": 2, "model": "other", "input": [], "encoding_format": "float"}
    embedder = build_embedder(f"{wire.url}/v1", build_card(extra_body=extra, wire_name="real"))
    wire.play_json(SOUND)
    await embedder.embed(TEXTS)
    assert wire.heard[0].json() == {
        "dimensions": 2,
        "encoding_format": "float",
        "model": "real",
        "input": TEXTS,
    }


BAD = {
    "too few": answer([[3, 4], [0, 1]]),
    "too many": answer([[3, 4]] * 4),
    "one index twice": SOUND | {"data": [SOUND["data"][0]] * 3},
    "wrong size": answer([[3, 4, 5]] * 3),
    "two sizes": answer([[3, 4], [3, 4], [3]]),
    "no number": answer([pack([float("nan"), 1]), [0, 1], [0, 1]]),
    "zero": answer([[0, 0], [0, 1], [0, 1]]),
    "words": answer([["a", "b"], [0, 1], [0, 1]]),
    "no base64": answer(["?", [0, 1], [0, 1]]),
    "nothing": {"object": "list"},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_vectors_that_make_no_sense_are_asked_for_once_more(
    wire: Wire, embedder: RemoteEmbedder, bad: dict[str, Any]
) -> None:
    wire.play_json(bad)
    wire.play_json(SOUND)
    got = await embedder.embed(TEXTS)
    np.testing.assert_allclose(got.rows[0], [0.6, 0.8], rtol=1e-6)
    assert len(wire.heard) == 2
    # Both calls count: by their own word where they made enough sense to have one.
    counted = sum(map(embedder.count, TEXTS))
    assert got.tokens in (9 + 9, 9 + counted)


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_vectors_that_make_no_sense_twice_are_refused_with_what_they_cost(
    wire: Wire, embedder: RemoteEmbedder, bad: dict[str, Any]
) -> None:
    wire.play_json(bad)
    with pytest.raises(ProviderMalformed) as caught:
        await embedder.embed(TEXTS)
    assert len(wire.heard) == 2
    assert caught.value.remains.was_sent
    assert caught.value.remains.reported_usage is not None
    assert_shows_no_key(caught.value)


@pytest.mark.parametrize(
    ("status", "body", "leaf"),
    [
        (401, {"error": {"code": "invalid_api_key", "message": f"wrong {KEY}"}}, ProviderAuth),
        (429, {"error": {"code": "rate_limit_exceeded"}}, ProviderThrottled),
        (429, {"error": {"code": "insufficient_quota"}}, ProviderQuota),
        (503, {}, ProviderTransient),
    ],
)
async def test_a_refusal_means_what_it_means_for_answers(
    wire: Wire, embedder: RemoteEmbedder, status: int, body: Any, leaf: type[ProviderError]
) -> None:
    wire.play_json(body, status=status)
    with pytest.raises(ProviderError) as caught:
        await embedder.embed(TEXTS)
    assert type(caught.value) is leaf
    assert len(wire.heard) == 1
    assert_shows_no_key(caught.value)


async def test_an_answer_that_breaks_off_may_have_cost_money(
    wire: Wire, embedder: RemoteEmbedder
) -> None:
    wire.play_answer(b'{"data": [', Close(), content_type="application/json")
    with pytest.raises((StreamTruncated, ProviderMalformed)) as caught:
        await embedder.embed(TEXTS)
    assert caught.value.remains.was_sent


async def test_an_endless_answer_is_not_read_to_its_end(wire: Wire, build_embedder: Build) -> None:
    embedder = build_embedder(f"{wire.url}/v1", body_bytes=1_000)
    wire.play_json(json.dumps(SOUND).encode() + b" " * 5_000)
    with refusing(ProviderMalformed, "1000"):
        await embedder.embed(TEXTS)


async def test_many_texts_are_sent_in_batches_by_number_and_by_length(
    wire: Wire, build_embedder: Build
) -> None:
    embedder = build_embedder(f"{wire.url}/v1", batch=Batch(texts_max=2, tokens_max=10))
    texts = ["a", "b", "c" * 36, "d" * 8, "e" * 80]
    for batch in (["a", "b"], ["c"], ["d"], ["e"]):
        wire.play_json(answer([[1, 0]] * len(batch), tokens=1))
    got = await embedder.embed(texts)
    assert [heard.json()["input"] for heard in wire.heard] == [
        ["a", "b"],
        [texts[2]],
        [texts[3]],
        [texts[4]],
    ]
    assert (got.rows.shape, got.tokens) == ((5, 2), 4)


async def test_what_earlier_batches_cost_is_told_with_the_error(
    wire: Wire, build_embedder: Build
) -> None:
    embedder = build_embedder(f"{wire.url}/v1", batch=Batch(texts_max=1))
    wire.play_json(answer([[1, 0]], tokens=7))
    wire.play_json({}, status=429)
    with pytest.raises(ProviderThrottled) as caught:
        await embedder.embed(TEXTS)
    assert caught.value.remains.reported_usage == (7, 0)


# -- at the simulator ------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["vector_wrong_size", "vector_nan", "vector_zero"])
@pytest.mark.parametrize("calls", ["1", "1-"], ids=["once", "for good"])
async def test_the_simulators_bad_vectors_are_refused(
    fault: str, calls: str, build_embedder: Build
) -> None:
    rule = {"wire": "openai", "route": "embeddings", "fault": fault, "calls": calls}
    script = {"models": {"*": {"tokenizer": "chars:4"}}, "rules": [rule]}
    async with open_simulator(script) as simulator:
        embedder = build_embedder(simulator.base_url("openai"), build_card(256))
        if calls == "1":
            got = await embedder.embed(TEXTS)
            assert got.rows.shape == (3, 256)
        else:
            with pytest.raises(ProviderMalformed):
                await embedder.embed(TEXTS)
        assert count_calls(simulator) == 2


async def test_the_simulators_vectors_lie_near_for_like_texts(build_embedder: Build) -> None:
    async with open_simulator({"models": {"*": {"tokenizer": "chars:4"}}}) as simulator:
        embedder = build_embedder(simulator.base_url("openai"), build_card(256))
        texts = ["a village hall", "the village hall", "tax law"]
        got = await embedder.embed(texts)
        assert got.rows[0] @ got.rows[1] > got.rows[0] @ got.rows[2]
        assert got.tokens == sum(map(embedder.count, texts))


def count_calls(simulator: Simulator) -> int:
    return len(simulator.log.calls)
