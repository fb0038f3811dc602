"""The simulator speaks as the vendors do: shapes, limits, complaints, counts, vectors, models."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from dialectic.providers.offline.provider import CARDS
from dialectic_simulator import Simulator, WireName, open_simulator
from dialectic_simulator.text import count_tokens
from tests.conformance.raw_client import (
    ANTHROPIC,
    CONTINUE,
    GOOGLE,
    LENGTH,
    OLLAMA,
    OPENAI,
    PROMPT,
    STOP,
    connect,
    open_http,
)
from tests.unit.providers import standard_calls

every_wire = pytest.mark.parametrize("wire", WireName)
every_mode = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with open_simulator() as opened:
        yield opened


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with open_http() as client:
        yield client


@every_mode
@every_wire
async def test_a_document_comes_whole_with_its_end_and_its_usage(
    simulator: Simulator, wire: WireName, stream: bool
) -> None:
    async with connect(simulator, wire) as client:
        heard = await client.ask(system="You plan.", stream=stream)
    assert heard.status == 200
    assert heard.text.startswith("# On the request “A booking service")
    assert heard.finish == STOP[wire]
    said = sum(count_tokens(text, "o200k_base") + 3 for text in ("You plan.", PROMPT)) + 3
    assert heard.usage == (said, count_tokens(heard.text, "o200k_base"))


@every_mode
@every_wire
async def test_an_answer_is_cut_at_its_limit_and_says_so(
    simulator: Simulator, wire: WireName, stream: bool
) -> None:
    async with connect(simulator, wire) as client:
        whole = await client.ask()
        heard = await client.ask(stream=stream, max_tokens=25)
    assert heard.finish == LENGTH[wire]
    assert whole.text.startswith(heard.text)
    assert heard.usage is not None
    assert heard.usage[1] == 25


@every_wire
async def test_a_stream_and_a_whole_answer_say_the_same(
    simulator: Simulator, wire: WireName
) -> None:
    async with connect(simulator, wire) as client:
        whole, streamed = await client.ask(), await client.ask(stream=True)
    assert whole.text == streamed.text
    assert whole.usage == streamed.usage


@pytest.fixture(params=standard_calls.TEMPLATES)
def call(request: pytest.FixtureRequest) -> standard_calls.Call:
    """A prompt of the standard process, and what an offline model answers to it."""
    return standard_calls.calls_of(request.param, 2)[-1]


async def test_every_prompt_of_the_standard_process_gets_the_offline_models_document(
    simulator: Simulator, call: standard_calls.Call
) -> None:
    request = standard_calls.build_request(call.template, call.prompt)
    model = CARDS[call.model].name
    for wire in WireName:
        async with connect(simulator, wire) as client:
            heard = await client.ask(call.prompt, model=model, system=request.system, stream=True)
        assert heard.text == call.text


async def test_models_write_different_documents_and_equal_requests_the_same(
    simulator: Simulator,
) -> None:
    async with connect(simulator, OPENAI) as client:
        first, again = await client.ask(), await client.ask()
        other = await client.ask(model="skeptic")
        seeded = await client.ask(seed=7)
        named = await client.ask(metadata={"variant": "2", "user_id": "job:1"})
        traced = await client.ask(metadata={"user_id": "job:1"})
    assert first.text == again.text == traced.text
    assert len({first.text, other.text, seeded.text, named.text}) == 4


async def test_a_seed_makes_other_documents_and_the_same_seed_the_same_bytes() -> None:
    raw: dict[int, set[bytes]] = {1: set(), 2: set()}
    for seed in (1, 2, 1):
        async with open_simulator({"seed": seed}) as simulator, connect(simulator, OPENAI) as one:
            raw[seed].add((await one.ask(stream=True)).raw)
    assert len(raw[1]) == 1
    assert raw[1].isdisjoint(raw[2])


async def test_openai_streams_as_documented(simulator: Simulator) -> None:
    async with connect(simulator, OPENAI) as client:
        heard = await client.ask(stream=True, max_tokens=20)
        bare = await client.ask(stream=True, max_tokens=20, stream_options=None)
    *chunks, done = heard.events
    assert done == "[DONE]"
    assert heard.headers["content-type"].startswith("text/event-stream")
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert chunks[-2]["choices"][0]["finish_reason"] == "length"
    assert chunks[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert all("usage" not in chunk for chunk in bare.events[:-1])
    assert bare.text == heard.text


async def test_anthropic_streams_as_documented(simulator: Simulator) -> None:
    async with connect(simulator, ANTHROPIC) as client:
        heard = await client.ask(stream=True, max_tokens=20)
    kinds = [event["type"] for event in heard.events]
    assert kinds[:3] == ["message_start", "ping", "content_block_start"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    named = [line for line in heard.raw.decode().split("\n") if line.startswith("event: ")]
    assert [line.removeprefix("event: ") for line in named] == kinds


async def test_google_streams_as_documented(simulator: Simulator) -> None:
    async with connect(simulator, GOOGLE) as client:
        heard = await client.ask(stream=True, max_tokens=20)
    assert b"\r\n\r\n" in heard.raw
    *parts, last = heard.events
    assert all("finishReason" not in event["candidates"][0] for event in parts)
    assert last["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert last["usageMetadata"]["totalTokenCount"] == sum(heard.usage or ())


async def test_ollama_streams_lines_of_json_by_itself(simulator: Simulator) -> None:
    async with connect(simulator, OLLAMA) as client:
        address, body = client.build()
        del body["stream"]
        response = await client.http.post(address, json=body)
    assert response.headers["content-type"] == "application/x-ndjson"
    *lines, last = [json.loads(line) for line in response.content.splitlines()]
    assert lines
    assert [line["done"] for line in lines] == [False] * len(lines)
    assert last["done"] is True


CONTEXT_WORDS = {
    OPENAI: ("error.code", "context_length_exceeded"),
    ANTHROPIC: ("error.message", "prompt is too long: 16 tokens > 12 maximum"),
    GOOGLE: (
        "error.message",
        "The input token count (16) exceeds the maximum number of tokens allowed (12).",
    ),
    OLLAMA: ("error", "the input length exceeds the context length"),
}


def look_up(value: Any, path: str) -> Any:
    for key in path.split("."):
        value = value[key]
    return value


@every_mode
@every_wire
async def test_input_above_the_window_is_refused_in_the_vendors_words(
    wire: WireName, stream: bool
) -> None:
    facts = {"tokenizer": "chars:1", "max_input_tokens": 12}
    async with (
        open_simulator({"models": {"tiny": facts}}) as simulator,
        connect(simulator, wire) as client,
    ):
        heard = await client.ask("0123456789", model="tiny", stream=stream)
        fitting = await client.ask("012345", model="tiny", stream=stream)
    assert heard.status == 400
    path, words = CONTEXT_WORDS[wire]
    assert look_up(heard.json(), path) == words
    assert fitting.status == 200


@pytest.mark.parametrize(("wire", "is_refused"), [(OPENAI, 1), (ANTHROPIC, 1), (GOOGLE, 0)])
async def test_a_cap_that_does_not_fit_is_refused_where_the_vendor_refuses_it(
    wire: WireName, is_refused: bool
) -> None:
    facts = {"context_window_tokens": 100, "max_output_tokens": 90}
    async with (
        open_simulator({"models": {"tiny": facts}}) as simulator,
        connect(simulator, wire) as client,
    ):
        too_many = await client.ask("Hello", model="tiny", max_tokens=91)
        too_long = await client.ask("Hello " * 20, model="tiny", max_tokens=90)
    assert [too_many.status, too_long.status] == ([400, 400] if is_refused else [200, 200])
    if not is_refused:
        assert too_long.usage is not None
        assert sum(too_long.usage) == 100


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/chat/completions", b"{", "could not parse the JSON"),
        ("/chat/completions", b"[]", "must be a JSON object"),
        ("/chat/completions", b"[" * 100_000, "could not parse the JSON"),
        ("/chat/completions", b"{}", "you must provide a model"),
        ("/chat/completions", b'{"model":"m","messages":[]}', "at least one message"),
        ("/chat/completions", b'{"model":"m","messages":[{"role":"tool"}]}', "messages.0.role"),
        (
            "/chat/completions",
            b'{"model":"m","messages":[{"role":"user","content":7}]}',
            "messages.0.content",
        ),
        (
            "/chat/completions",
            b'{"model":"m","n":2,"messages":[{"role":"user","content":"a"}]}',
            "one choice only",
        ),
        ("/embeddings", b'{"model":"m","input":[]}', "input"),
        ("/embeddings", b'{"model":"m","input":["a",""]}', "input"),
    ],
)
async def test_a_request_that_makes_no_sense_is_refused_with_its_reason(
    simulator: Simulator, http: httpx2.AsyncClient, path: str, body: bytes, words: str
) -> None:
    response = await http.post(simulator.base_url("openai") + path, content=body)
    assert response.status_code == 400
    assert words in response.json()["error"]["message"]
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_anthropic_wants_its_version_and_a_cap(
    simulator: Simulator, http: httpx2.AsyncClient
) -> None:
    address = simulator.base_url("anthropic") + "/messages"
    body = {"model": "m", "messages": [{"role": "user", "content": "a"}]}
    version = {"anthropic-version": "2023-06-01"}
    bare = await http.post(address, json=body | {"max_tokens": 5})
    capless = await http.post(address, json=body, headers=version)
    assert "anthropic-version" in bare.json()["error"]["message"]
    assert capless.json()["error"]["message"] == "max_tokens: Field required"


async def test_parts_of_messages_are_joined_on_every_wire_that_has_them(
    simulator: Simulator, http: httpx2.AsyncClient
) -> None:
    parts = [{"type": "text", "text": PROMPT[:20]}, {"type": "text", "text": PROMPT[20:]}]
    async with connect(simulator, OPENAI) as client:
        plain = await client.ask()
        address, body = client.build()
        body["messages"][0]["content"] = parts
        parted = await client.http.post(address, json=body)
    assert parted.json()["choices"][0]["message"]["content"] == plain.text


async def test_a_key_is_asked_for_where_the_script_says_so() -> None:
    async with open_simulator({"default": {"needs_key": True}}) as simulator:
        for wire, header in (
            (OPENAI, {"authorization": "Bearer k"}),
            (ANTHROPIC, {"x-api-key": "k", "anthropic-version": "1"}),
            (GOOGLE, {"x-goog-api-key": "k"}),
        ):
            async with connect(simulator, wire) as client:
                assert (await client.ask()).status == 401
                address, body = client.build()
                assert (await client.http.post(address, json=body, headers=header)).is_success
    assert [call.has_key for call in simulator.log.calls] == [False, True] * 3


async def test_tokens_are_counted_for_those_who_ask(
    simulator: Simulator, http: httpx2.AsyncClient
) -> None:
    expected = count_tokens(PROMPT, "o200k_base") + 6
    version = {"anthropic-version": "2023-06-01"}
    anthropic = await http.post(
        simulator.base_url("anthropic") + "/messages/count_tokens",
        json={"model": "m", "messages": [{"role": "user", "content": PROMPT}]},
        headers=version,
    )
    contents = {"contents": [{"role": "user", "parts": [{"text": PROMPT}]}]}
    for body in (contents, {"generateContentRequest": contents}):
        google = await http.post(simulator.base_url("google") + "/models/m:countTokens", json=body)
        assert google.json()["totalTokens"] == expected
    assert anthropic.json() == {"input_tokens": expected}


async def test_models_are_listed_in_each_vendors_form(http: httpx2.AsyncClient) -> None:
    models = {"sim-a": {"max_output_tokens": 7}, "sim-*": {}}
    version = {"anthropic-version": "2023-06-01"}
    async with open_simulator({"models": models}) as simulator:
        openai = (await http.get(simulator.base_url("openai") + "/models")).json()
        claude = await http.get(simulator.base_url("anthropic") + "/models", headers=version)
        google = (await http.get(simulator.base_url("google") + "/models")).json()
        ollama = (await http.get(simulator.base_url("ollama") + "/tags")).json()
        one = (await http.get(simulator.base_url("google") + "/models/sim-a")).json()
        none = await http.get(simulator.base_url("openai") + "/models/sim-b")
    assert [model["id"] for model in openai["data"]] == ["sim-a"]
    assert claude.json()["data"][0]["max_tokens"] == 7
    assert [model["name"] for model in google["models"]] == ["models/sim-a"]
    assert one["outputTokenLimit"] == 7
    assert [model["name"] for model in ollama["models"]] == ["sim-a"]
    assert (none.status_code, none.json()["error"]["code"]) == (404, "model_not_found")


async def test_vectors_of_like_texts_lie_near_each_other(
    simulator: Simulator, http: httpx2.AsyncClient
) -> None:
    texts = ["the village hall is booked", "booked: the village hall", "quantum field theory"]
    address = simulator.base_url("openai") + "/embeddings"
    plain = (await http.post(address, json={"model": "e", "input": texts})).json()
    asked = {"model": "e", "input": texts[0], "encoding_format": "base64", "dimensions": 64}
    packed = (await http.post(address, json=asked)).json()
    a, b, c = (entry["embedding"] for entry in plain["data"])
    assert len(a) == 256
    assert sum(x * y for x, y in zip(a, b, strict=True)) > 0.9
    assert sum(x * y for x, y in zip(a, c, strict=True)) < 0.3
    assert len(struct.unpack("<64f", base64.b64decode(packed["data"][0]["embedding"]))) == 64
    assert plain["usage"]["prompt_tokens"] == sum(count_tokens(t, "o200k_base") for t in texts)


async def test_google_gives_one_vector_or_a_batch(
    simulator: Simulator, http: httpx2.AsyncClient
) -> None:
    one = {"content": {"parts": [{"text": "a hall"}]}, "outputDimensionality": 32}
    base = simulator.base_url("google") + "/models/e"
    single = (await http.post(base + ":embedContent", json=one)).json()
    batch = (await http.post(base + ":batchEmbedContents", json={"requests": [one, one]})).json()
    assert len(single["embedding"]["values"]) == 32
    assert [entry["values"] for entry in batch["embeddings"]] == [single["embedding"]["values"]] * 2


async def test_an_endpoint_has_its_own_section_and_unknown_ones_are_named(
    http: httpx2.AsyncClient,
) -> None:
    script = {"default": {"text": "Here."}, "endpoints": {"there": {"text": "There."}}}
    async with open_simulator(script) as simulator:
        for endpoint, words in ((None, "Here."), ("there", "There.")):
            async with connect(simulator, OPENAI, endpoint) as client:
                assert (await client.ask()).text == words
        nowhere = await http.post(simulator.url("/e/nowhere/v1/chat/completions"), json={})
        unknown = await http.get(simulator.url("/v2/models"))
    assert nowhere.status_code == 404
    assert "Known: default, there." in nowhere.json()["error"]["message"]
    assert unknown.status_code == 404
    assert [call.endpoint for call in simulator.log.calls] == ["default", "there"]


async def test_a_new_question_after_an_answer_gets_an_answer_of_its_own(
    simulator: Simulator,
) -> None:
    async with connect(simulator, OPENAI) as client:
        first = await client.ask()
        second = await client.ask(PROMPT, first.text, "What does a lending library for tools cost?")
        gone_on = await client.ask(PROMPT, first.text[:500], CONTINUE)
    assert "tools" in second.text.splitlines()[0]
    assert first.text[:500] + gone_on.text == first.text
