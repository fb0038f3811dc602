"""When and in which packets an answer goes out, decided without sending anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dialectic.core.models.messages import Message, Role
from dialectic_simulator import response, stream_damage
from dialectic_simulator.conversation import Ask, FinishForm, Route, Shape, WireName
from dialectic_simulator.faults import TABLE
from dialectic_simulator.framing import Frame, join_frames
from dialectic_simulator.response import Call, build_chat, word_retry_after
from dialectic_simulator.routes import WIRES, find_target, has_key
from dialectic_simulator.script import Facts, Manner
from dialectic_simulator.text import Author
from tests.cases import each_case

TEXT = "0123456789" * 4


def build_call(manner: Manner, *, is_stream: bool = True, seed: int = 0, **changes: Any) -> Call:
    ask = Ask("m", turns=(Message(Role.USER, "Write."),), is_stream=is_stream)
    facts = Facts(tokenizer="chars:1")
    call = Call(WIRES[WireName.OPENAI], ask, facts, manner, Author(seed), input_tokens=10)
    return replace(call, **changes)


def test_tokens_come_at_their_pace_after_the_first_byte() -> None:
    manner = Manner(text=TEXT, first_byte_s=2.0, tokens_per_s=10, chunk_tokens=20)
    stream = build_chat(build_call(manner))
    assert [frame.at_s for frame in stream.frames if frame.tokens] == [4.0, 6.0]
    assert stream.frames[0].at_s == 2.0
    whole = build_chat(build_call(manner, is_stream=False))
    assert [frame.at_s for frame in whole.frames] == [6.0]


def test_a_spread_gives_each_call_its_own_delay_and_a_seed_the_same_ones() -> None:
    manner = Manner(text=TEXT, first_byte_s=2.0, first_byte_spread=0.5)

    def delays(seed: int) -> list[float]:
        calls = [build_call(manner, seed=seed, try_number=n) for n in range(1, 400)]
        return [build_chat(call).frames[0].at_s for call in calls]

    drawn = delays(1)
    assert drawn == delays(1)
    assert drawn != delays(2)
    assert sorted(drawn)[200] == pytest.approx(2.0, rel=0.15)
    assert max(drawn) > 3.5
    assert min(drawn) < 1.2


def test_a_trickle_sends_a_byte_a_second_and_counts_what_it_sent() -> None:
    trickled = build_chat(build_call(Manner(text=TEXT, fault="trickle", chunk_tokens=20)))
    usual = build_chat(build_call(Manner(text=TEXT, chunk_tokens=20)))
    assert {len(frame.data) for frame in trickled.frames} == {1}
    assert [frame.at_s for frame in trickled.frames[:3]] == [0.0, 1.0, 2.0]
    joined = b"".join(frame.data for frame in usual.frames)
    assert b"".join(frame.data for frame in trickled.frames) == joined
    assert sum(frame.tokens for frame in trickled.frames) == 40


def test_every_fault_is_made_in_exactly_one_place() -> None:
    for fault in TABLE:
        ways = [
            fault.trouble is not None,
            fault.shape is not Shape.PLAIN,
            fault.finish_form is not FinishForm.WORD and fault.name not in stream_damage.NAMES,
            fault.vectors_only,
            fault.name in stream_damage.NAMES,
            fault.name in response.NAMES,
        ]
        assert sum(ways) == 1, fault.name
    assert {fault.name for fault in TABLE} >= stream_damage.NAMES | response.NAMES


def test_names_of_faults_are_unique_and_their_numbers_grow() -> None:
    assert len({fault.name for fault in TABLE}) == len(TABLE)
    numbers = [fault.number for fault in TABLE]
    assert numbers == sorted(numbers)
    # A server cannot make 23: names that do not resolve, certificates, proxies.
    assert set(range(1, 31)) - set(numbers) == {23}


def test_neighbours_go_out_together_unless_time_or_a_fault_parts_them() -> None:
    frames = [
        Frame(b"a", 0.0, 1),
        Frame(b"b", 0.0, 2),
        Frame(b"c", 1.0),
        Frame(b"d", 1.0, is_apart=True),
        Frame(b"e", 1.0),
    ]
    joined = join_frames(frames)
    assert [frame.data for frame in joined] == [b"ab", b"c", b"d", b"e"]
    assert joined[0].tokens == 3
    assert [f.data for f in join_frames([Frame(b"xx"), Frame(b"yy")], bytes_max=3)] == [
        b"xx",
        b"yy",
    ]


def test_a_wait_is_told_as_it_is_or_as_a_date() -> None:
    assert word_retry_after("7", 0.0) == "7"
    assert word_retry_after("NaN", 0.0) == "NaN"
    assert word_retry_after("date 60", 0.0) == "Thu, 01 Jan 1970 00:01:00 GMT"


@each_case(
    ("method", "path", "expected"),
    [
        ("POST", "/v1/chat/completions", ("default", "openai", "chat", "", False)),
        ("POST", "/e/slow/v1/messages", ("slow", "anthropic", "chat", "", False)),
        ("POST", "/v1/messages/count_tokens", ("default", "anthropic", "count_tokens", "", False)),
        ("POST", "/v1beta/models/a/b:generateContent", ("default", "google", "chat", "a/b", False)),
        ("POST", "/v1/models/a:streamGenerateContent", ("default", "google", "chat", "a", True)),
        ("POST", "/v1beta/models/a:embedContent", ("default", "google", "embeddings", "a", False)),
        ("GET", "/v1beta/models", ("default", "google", "models", "", False)),
        ("GET", "/v1/models/x", ("default", "openai", "models", "x", False)),
        ("GET", "/api/tags", ("default", "ollama", "models", "", False)),
        ("GET", "/v1/chat/completions", None),
        ("POST", "/v1/models", None),
        ("DELETE", "/v1/models/x", None),
        ("POST", "/v1beta/models/a:explode", None),
        ("GET", "/v1/models/", None),
        ("GET", "/e/", None),
        ("GET", "/", None),
    ],
)
def test_a_path_means_an_endpoint_a_wire_and_a_route(
    method: str, path: str, expected: tuple[Any, ...] | None
) -> None:
    target = find_target(method, path, {})
    if expected is None:
        assert target is None
    else:
        assert target is not None
        found = (target.endpoint, target.wire, target.route, target.model, target.is_stream)
        assert found == expected


@each_case(
    ("headers", "wire"),
    [
        ({"authorization": "Bearer key"}, WireName.OPENAI),
        ({"anthropic-version": "2023-06-01", "x-api-key": "key"}, WireName.ANTHROPIC),
        ({"x-goog-api-key": "key"}, WireName.GOOGLE),
        ({"x-goog-api-client": "google-genai-sdk/3.1.0"}, WireName.GOOGLE),
    ],
)
def test_one_path_of_three_vendors_is_told_apart_by_a_header(
    headers: dict[str, str], wire: WireName
) -> None:
    target = find_target("GET", "/v1/models", headers)
    assert target is not None
    assert (target.wire, target.route) == (wire, Route.MODELS)


@each_case(
    ("headers", "query", "expected"),
    [
        ({"authorization": "Bearer x"}, {}, True),
        ({"authorization": "Bearer "}, {}, False),
        ({"x-api-key": "x"}, {}, True),
        ({"x-goog-api-key": "x"}, {}, True),
        ({}, {"key": "x"}, True),
        ({"x-api-key": ""}, {"alt": "sse"}, False),
    ],
)
def test_a_key_is_noticed_wherever_it_stands(
    headers: dict[str, str], query: dict[str, str], expected: bool
) -> None:
    assert has_key(headers, query) is expected
