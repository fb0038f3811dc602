"""A good answer is read alike on every wire, however it is sent."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from dialectic.core.access import Secret
from dialectic.core.models.messages import FinishReason, Message, Role, UsageSource
from dialectic.errors import ProviderAuth
from dialectic.providers.catalog import open_provider
from tests.conformance.fault_rows import row, spoken_by
from tests.conformance.provider_client import CARD, KEY, KEY_VARIABLE, REQUEST, Client
from tests.conformance.scripted_socket import Hang, Wire
from tests.conformance.wire_formats import INPUT_TOKENS, OUTPUT_TOKENS, Chat, Content, Messages
from tests.waiting import PATIENCE_S

PIECES = ("Because ", "air scatters ", "blue light.")
TEXT = "".join(PIECES)


async def test_an_answer_is_its_text_its_end_its_usage_and_its_id(client: Client) -> None:
    stream = client.dialect.stream(*PIECES)
    client.wire.play_answer(stream, headers={"x-request-id": "req-7"})

    reply = await client.ask()

    assert reply.text == "".join(client.pieces) == TEXT
    assert client.pieces == list(PIECES)
    assert reply.finish_reason is FinishReason.STOP
    assert reply.raw_finish_reason == client.dialect.words["stop"]
    assert reply.request_id == "req-7"
    usage = reply.usage
    assert (usage.input_tokens, usage.output_tokens) == (INPUT_TOKENS, OUTPUT_TOKENS)
    assert usage.source is UsageSource.REPORTED


async def test_the_record_holds_what_was_said_about_the_answer_but_not_the_answer(
    client: Client,
) -> None:
    client.wire.play_answer(client.dialect.stream(*PIECES))

    reply = await client.ask()

    raw = json.dumps(reply.raw)
    assert reply.raw[client.dialect.id_name] == "answer-1" == reply.request_id
    assert client.dialect.reported(reply.raw) == client.dialect.usage()
    assert "m-1" in raw
    assert client.dialect.words["stop"] in raw
    assert not any(piece.strip() in raw for piece in PIECES)


async def test_a_record_that_repeats_the_key_is_kept_without_it(client: Client) -> None:
    usage = client.dialect.usage() | {"echo": [f"<{KEY}>\x00"], KEY: 1}
    client.wire.play_answer(client.dialect.stream(*PIECES, usage=usage))

    reply = await client.ask()

    kept = client.dialect.reported(reply.raw)
    assert (kept["echo"], kept["***"]) == (["<***>"], 1)


@spoken_by(Chat(), Content())  # the third keeps only what it knows
async def test_an_endless_record_is_shortened(client: Client) -> None:
    first = {**client.dialect.text("Well."), "padding": "x" * 100_000}
    rest = client.dialect.end(client.dialect.words["stop"], client.dialect.usage())
    client.wire.play_answer(client.dialect.encode_all([*client.dialect.begin(), first, *rest]))

    reply = await client.ask()

    assert len(json.dumps(reply.raw)) < 64_000
    assert reply.raw["shortened"] is True
    assert reply.raw[client.dialect.id_name] == "answer-1"


async def test_the_request_is_sent_once_with_the_key_in_a_header_and_nowhere_else(
    client: Client,
) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))

    await client.ask()

    (heard,) = client.wire.heard
    assert (heard.method, heard.path) == ("POST", client.dialect.path)
    assert KEY in heard.headers[client.dialect.key_header]
    others = {
        name: word for name, word in heard.headers.items() if name != client.dialect.key_header
    }
    assert KEY not in f"{others} {heard.path} {heard.body!r}"


async def test_everything_that_was_counted_is_sent(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))

    await client.ask()

    sent = client.wire.heard[0].json()
    texts = list_texts(sent)
    assert texts == ["Be brief.", "Why is the sky blue?", "Because", "Go on."]
    assert find_numbers(sent) == [REQUEST.max_output_tokens]


async def test_a_model_without_a_system_prompt_reads_it_in_the_first_message(
    client: Client,
) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))
    client.card = dataclasses.replace(CARD, supports_system_prompt=False)

    await client.ask()

    sent = client.wire.heard[0].json()
    assert list_texts(sent) == ["Be brief.\n\nWhy is the sky blue?", "Because", "Go on."]


async def test_a_request_without_a_system_prompt_sends_none(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))

    await client.ask(
        dataclasses.replace(REQUEST, system="", messages=(Message(Role.USER, "Why?"),))
    )

    assert list_texts(client.wire.heard[0].json()) == ["Why?"]


async def test_what_the_operator_adds_is_sent_but_changes_nothing_that_was_paid_for(
    client: Client,
) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))
    forbidden = {"messages": [], "contents": [], "model": "no", "max_tokens": 10**6}
    instruction = {"parts": [{"text": "no"}]}
    hidden: dict[str, dict[str, Any]] = {
        Messages.kind: {"system": "no"},
        Content.kind: {"systemInstruction": instruction, "system_instruction": instruction},
    }
    extra = {"seed": 7, **forbidden, **hidden.get(client.dialect.kind, {})}
    client.card = dataclasses.replace(CARD, extra_body=extra, supports_system_prompt=False)

    await client.ask()

    sent = client.wire.heard[0].json()
    assert sent.pop("seed") == 7
    assert list_texts(sent) == ["Be brief.\n\nWhy is the sky blue?", "Because", "Go on."]
    if client.dialect.kind != "google":
        assert sent["model"] == "m-1"
        assert sent["max_tokens"] == REQUEST.max_output_tokens


async def test_an_endpoint_without_a_key_is_asked_without_one(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))
    client.key, client.options = None, {"api_key_env": None}

    await client.ask()

    assert client.dialect.key_header not in client.wire.heard[0].headers


async def test_a_key_that_is_missing_is_told_before_anything_is_sent(client: Client) -> None:
    client.key = None

    error = await client.fail(ProviderAuth)

    assert KEY_VARIABLE in error.message
    assert not error.remains.was_sent
    assert client.wire.heard == []


@pytest.mark.parametrize("key", [f"{KEY}\nx", f"{KEY}é", f"{KEY}\x00"])
async def test_a_key_that_no_header_can_carry_is_not_shown_either(client: Client, key: str) -> None:
    client.key = Secret(key)

    error = await client.fail(ProviderAuth)

    assert KEY_VARIABLE in error.message
    assert client.wire.heard == []


async def test_the_line_feed_at_the_end_of_a_key_is_not_part_of_it(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Yes."))
    client.key = Secret(f" {KEY}\n")

    await client.ask()

    assert client.wire.heard[0].headers[client.dialect.key_header].endswith(KEY)


async def test_a_server_that_does_not_stream_is_still_read(client: Client) -> None:
    client.wire.play_json(client.dialect.whole(TEXT))

    reply = await client.ask()

    assert (reply.text, reply.finish_reason) == (TEXT, FinishReason.STOP)
    assert reply.usage.source is UsageSource.REPORTED
    assert TEXT not in json.dumps(reply.raw)


def deflate_without_header(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-15)
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("gzip", lambda data: gzip.compress(data[:40]) + gzip.compress(data[40:]) + b"\0\0"),
        ("deflate", zlib.compress),
        ("deflate", deflate_without_header),
        ("identity", bytes),
    ],
    ids=["gzip", "gzip in two members", "deflate", "deflate without a header", "identity"],
)
async def test_a_packed_answer_is_unpacked(
    client: Client, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    packed = pack(client.dialect.stream(*PIECES))
    halves = [packed[: len(packed) // 2], packed[len(packed) // 2 :]]
    client.wire.play_answer(*halves, headers={"content-encoding": encoding})

    assert (await client.ask()).text == TEXT
    assert client.wire.heard[0].headers["accept-encoding"] == "identity"


async def test_a_connection_is_used_again_after_an_answer(client: Client, wire: Wire) -> None:
    data = client.dialect.stream("Yes.")
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    wire.play(head, b"%x\r\n%b\r\n" % (len(data), data), b"0\r\n\r\n")
    provider = open_provider(client.endpoint(), client.key)

    for _ in range(3):
        await provider.complete(CARD, REQUEST, client.pieces.append)
    await provider.close()

    assert (len(wire.heard), wire.connections) == (3, 1)


@row(20, "the last word is missing")
async def test_an_answer_that_ended_needs_no_last_word(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream(*PIECES, last_word=False).rstrip(b"\n"))

    assert (await client.ask()).text == TEXT


async def test_a_server_that_stays_after_the_last_word_delays_no_call(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream(*PIECES), Hang())
    client.options = {"idle_s": 0.2}

    async with asyncio.timeout(10):  # the call itself has 20 s
        assert (await client.ask()).text == TEXT
    await asyncio.wait_for(client.wire.gone.wait(), PATIENCE_S)


@row(20, "comments, CRLF, no space after the colon, cut anywhere")
@pytest.mark.parametrize("size", [1, 3, 7])
async def test_the_form_of_the_stream_does_not_matter(client: Client, size: int) -> None:
    stream = client.dialect.stream("Füße ", "🧭 日本")
    other = b"\xef\xbb\xbf: hello\r\n\r\n" + stream.replace(b"data: ", b"data:").replace(
        b"\n", b"\r\n"
    )
    pieces = [other[at : at + size] for at in range(0, len(other), size)]
    client.wire.play_answer(*pieces, b": bye\r\n\r\n")

    assert (await client.ask()).text == "Füße 🧭 日本"


@row(15, "invalid UTF-8 and half a character")
async def test_broken_characters_are_passed_on_to_be_repaired(client: Client) -> None:
    stream = client.dialect.stream("caf\u00e9 MARK")
    broken = stream.replace("\u00e9".encode(), b"\xe9").replace(b"MARK", b"\\ud83d")
    client.wire.play_answer(broken)

    reply = await client.ask()

    assert reply.text == "caf\udce9 \ud83d"


@row(13, "content in parts")
async def test_parts_are_joined(client: Client) -> None:
    parts: Any = {
        Chat.kind: ["Be", {"type": "text", "text": "cause"}, {"type": "thinking", "text": "hm"}],
        Messages.kind: [
            {"type": "text", "text": "Be"},
            {"type": "thinking", "thinking": "hm"},
            {"type": "text", "text": "cause"},
        ],
        Content.kind: [{"text": "Be"}, {"text": "hm", "thought": True}, {"text": "cause"}],
    }[client.dialect.kind]
    client.wire.play_json(client.dialect.whole(parts))

    assert (await client.ask()).text == "Because"


@pytest.mark.parametrize("finish", ["length", "filter"])
async def test_other_ends_are_told_apart_and_keep_the_text(client: Client, finish: str) -> None:
    client.wire.play_answer(client.dialect.stream("Well,", word=client.dialect.words[finish]))

    reply = await client.ask()

    assert reply.finish_reason is FinishReason(finish)
    assert reply.text == "Well,"


@row(13, "a tool call that nobody asked for")
async def test_a_call_of_a_tool_is_never_a_stop(client: Client) -> None:
    stop = client.dialect.words["stop"]
    block = {"type": "tool_use", "id": "t"}
    call: Any = {
        Chat.kind: Chat().chunk({"tool_calls": [{"index": 0, "id": "t"}]}),
        Messages.kind: {"type": "content_block_start", "index": 1, "content_block": block},
        Content.kind: {"candidates": [{"content": {"parts": [{"functionCall": {"a": 1}}]}}]},
    }[client.dialect.kind]
    events = [*client.dialect.begin(), client.dialect.text("Well,"), call]
    events += client.dialect.end(stop, client.dialect.usage())
    client.wire.play_answer(client.dialect.encode_all(events))

    assert (await client.ask()).finish_reason is FinishReason.TOOL


@row(24, "finish reason unknown, a number, in another case")
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (str.upper, FinishReason.STOP),
        (str.title, FinishReason.STOP),
        (lambda _word: "banana", FinishReason.ERROR),
        (lambda _word: 7, FinishReason.ERROR),
        (lambda _word: ["stop"], FinishReason.ERROR),
        (lambda _word: False, FinishReason.ERROR),
    ],
    ids=["upper", "title", "unknown", "number", "list", "false"],
)
async def test_no_end_is_taken_for_a_stop_that_is_none(
    client: Client, change: Any, expected: FinishReason
) -> None:
    word = change(client.dialect.words["stop"])
    client.wire.play_answer(client.dialect.stream("Well.", word=word))

    reply = await client.ask()

    assert reply.finish_reason is expected
    assert isinstance(reply.raw_finish_reason, str)


def list_texts(value: Any) -> list[str]:
    """Every text under `content`, `text` or `system`, in the order of the wires' forms."""
    found: list[str] = []
    if isinstance(value, dict):
        ordered = sorted(value, key=lambda name: "system" not in name)
        for name in ordered:
            is_text = name in ("content", "text", "system") and isinstance(value[name], str)
            found += [value[name]] if is_text else list_texts(value[name])
    elif isinstance(value, list):
        found = [text for item in value for text in list_texts(item)]
    return found


def find_numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for item in value.values() for number in find_numbers(item)]
    return [value] if type(value) is int else []
