"""An answer that makes no sense is refused, in bounded memory, and never becomes a document."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gzip
import json
import random
import tracemalloc
from typing import Any

import pytest

from dialectic.core.models.endpoint import WireFormat
from dialectic.core.models.messages import FinishReason
from dialectic.errors import (
    ContextWindowError,
    ProviderError,
    ProviderMalformed,
    ProviderRejected,
    StreamTruncated,
)
from dialectic.pipeline.interpret import Finish, Limits, interpret
from dialectic.providers.exchange import Caps
from tests.conformance.fault_rows import row, spoken_by
from tests.conformance.provider_client import CARD, Client
from tests.conformance.scripted_socket import Drip
from tests.conformance.wire_formats import Chat, Content, Data, Messages
from tests.problems import refusing


@row(11, "200 without a choice, a candidate, any content")
@pytest.mark.parametrize("is_empty", [False, True], ids=["absent", "empty"])
async def test_an_answer_without_an_answer_is_an_error(client: Client, is_empty: bool) -> None:
    body = client.dialect.whole("")
    for name in ("choices", "candidates", "content"):
        if body.pop(name, None) is not None and is_empty:
            body[name] = []
    client.wire.play_json(body)
    if is_empty and client.dialect.kind is WireFormat.ANTHROPIC:
        # So it says that it has nothing to say, which is another row.
        assert (await client.ask()).text == ""
        return

    error = await client.fail(ProviderMalformed)

    assert error.remains.was_sent


@spoken_by(Content())
@row(11, "a prompt that was blocked")
async def test_a_blocked_prompt_is_a_filter(client: Client) -> None:
    usage = {"promptTokenCount": 11}
    feedback = {"promptFeedback": {"blockReason": "OTHER"}, "usageMetadata": usage}
    client.wire.play_answer(client.dialect.encode(feedback))
    client.wire.play_json(feedback)

    for _ in range(2):
        reply = await client.ask()
        assert (reply.finish_reason, reply.raw_finish_reason) == (FinishReason.FILTER, "OTHER")
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (11, 0)


@row(11, "a stream without a choice")
async def test_a_stream_that_only_ends_is_an_error(client: Client) -> None:
    client.wire.play_answer(b"data: [DONE]\n\n")

    await client.fail(StreamTruncated)


@row(12, "an empty answer that says it is whole")
@pytest.mark.parametrize("text", ["", " \n", None])
async def test_an_empty_answer_is_reported_as_it_came_and_is_not_a_document(
    client: Client, text: Any
) -> None:
    client.wire.play_json(client.dialect.whole(text))

    reply = await client.ask()

    assert (reply.text.strip(), reply.finish_reason) == ("", FinishReason.STOP)
    limits = Limits(continues=True, continuations_max=5)
    with refusing(ProviderMalformed, reason="empty_answer") as refused:
        interpret(reply, [], limits)
    assert refused.value.retries_max == 1
    assert refused.value.remains.reported_usage == (11, 7)
    # Whoever was asked to go on and has nothing to add is done.
    assert interpret(reply, ["All is said."], limits) == Finish(f"All is said.{reply.text}", False)


@spoken_by(Chat())  # the others have a word for it
async def test_a_refusal_is_a_filter_although_it_says_stop(client: Client) -> None:
    pieces = [Chat().chunk({"refusal": "I "}), Chat().chunk({"refusal": "will not."})]
    events = [*Chat().begin(), *pieces, *Chat().end("stop", None)]
    client.wire.play_answer(client.dialect.encode_all(events))

    reply = await client.ask()

    assert (reply.finish_reason, reply.raw_finish_reason) == (FinishReason.FILTER, "refusal")
    assert reply.raw["refusal"] == "I will not."
    assert reply.raw["finish_reason"] == "stop"


@row(14, "JSON that is cut, wrong, doubled, endless or too deep")
@pytest.mark.parametrize(
    "data",
    [
        b"{not json}",
        b'{"a": ',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1e999}',
        b'{"a": 1, "a": 2}',
        b'{"a": ' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b"7",
        b'"text"',
    ],
    ids=["wrong", "cut", "nan", "infinity", "huge", "twice", "digits", "open", "deep", "7", "text"],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_what_does_not_parse_is_kept_in_part_and_refused(
    client: Client, data: bytes, is_stream: bool
) -> None:
    if is_stream:
        start = client.dialect.beginning("Well,")
        client.wire.play_answer(start, b"data: " + data + b"\n\n", client.dialect.stream("x"))
    else:
        client.wire.play_json(data)

    error = await client.fail(ProviderMalformed)

    assert error.retries_max == 2
    assert error.remains.was_sent
    assert error.remains.partial_text == ("Well," if is_stream else "")
    assert len(json.dumps(error.remains.raw)) < 5_000


async def test_a_record_as_deep_as_it_may_be_is_kept_in_part(client: Client) -> None:
    events = [*client.dialect.begin(), client.dialect.text("Well.")]
    last = client.dialect.end(client.dialect.words["stop"], client.dialect.usage())
    nested: Any = []
    for _ in range(300):
        nested = [nested]
    client.wire.play_answer(
        client.dialect.encode_all([*events, *({**event, "usage_of": nested} for event in last)])
    )

    assert len(json.dumps((await client.ask()).raw)) < 5_000


@row(14, "a line of 10 MB")
async def test_a_line_without_end_is_refused_before_it_fills_the_memory(client: Client) -> None:
    start = client.dialect.beginning("Well,")
    client.wire.play_answer(start, b"data: ", Drip(b"x" * 100_000, every_s=0.0))
    tracemalloc.start()

    error = await client.fail(ProviderMalformed)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.remains.partial_text == "Well,"
    assert peak < 40 << 20


@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "stream"])
async def test_an_answer_without_end_is_refused(client: Client, is_stream: bool) -> None:
    client.caps = Caps(body_bytes=50_000, stream_bytes=50_000)
    drip = Drip(b": still here\n\n" * 100, every_s=0.0)
    client.wire.play_answer(
        drip, content_type="text/event-stream" if is_stream else "application/json"
    )

    assert "50000 bytes" in (await client.fail(ProviderMalformed)).message


async def test_what_does_not_unpack_is_refused(client: Client) -> None:
    client.wire.play_answer(b"this is not gzip", headers={"content-encoding": "gzip"})

    await client.fail(ProviderMalformed)


@pytest.mark.parametrize("lines", [b": keep\n", b"\n"], ids=["comments", "empty lines"])
async def test_a_small_packed_stream_that_unpacks_without_end_delays_no_other_task(
    client: Client, lines: bytes
) -> None:
    packed = gzip.compress(lines * ((64 << 20) // len(lines)), compresslevel=1)
    client.wire.play_answer(packed, headers={"content-encoding": "gzip"})
    loop = asyncio.get_running_loop()
    longest_s, is_over = 0.0, asyncio.Event()

    async def watch() -> None:
        nonlocal longest_s
        while not is_over.is_set():
            before_s = loop.time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - before_s)

    watching = asyncio.create_task(watch())
    await client.fail(ProviderMalformed)
    is_over.set()
    await watching
    assert len(packed) < 1 << 20
    assert longest_s < 1.0


async def test_an_encoding_that_is_not_supported_is_refused(client: Client) -> None:
    client.wire.play_answer(b"...", headers={"content-encoding": "br"})

    await client.fail(ProviderMalformed)


def broken_events(dialect_kind: str) -> list[Data]:
    """Events that parse and have no sense."""
    if dialect_kind == Chat.kind:
        choice = {"index": 0, "delta": {"content": 7}}
        return [
            {"choices": 7},
            {"choices": [7]},
            {"choices": [{"delta": 7}]},
            {"choices": [choice]},
            {"choices": [{"delta": {"content": [{"type": "text", "text": 7}]}}]},
            {"choices": [{"delta": {"refusal": {}}}]},
        ]
    if dialect_kind == Messages.kind:
        return [
            {"type": "message_start", "message": 7},
            {"type": "content_block_start", "index": "x", "content_block": {"type": "text"}},
            {"type": "content_block_delta", "index": 0, "delta": 7},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 7}},
            {"type": "message_delta", "delta": 7},
            {"type": "message_delta", "usage": []},
        ]
    return [
        {"candidates": 7},
        {"candidates": [7]},
        {"candidates": [{"content": 7}]},
        {"candidates": [{"content": {"parts": 7}}]},
        {"candidates": [{"content": {"parts": [{"text": 7}]}}]},
        {"promptFeedback": 7},
    ]


@pytest.mark.parametrize("number", range(6))
async def test_an_event_of_the_wrong_form_is_refused(client: Client, number: int) -> None:
    event = broken_events(client.dialect.kind)[number]
    client.wire.play_answer(
        client.dialect.beginning("Well,"), client.dialect.encode({"type": "x", **event})
    )

    error = await client.fail(ProviderMalformed)

    assert error.remains.partial_text == "Well,"


@row(21, "events that come twice, by their numbers")
async def test_numbered_events_that_come_twice_are_dropped(client: Client) -> None:
    events = client.dialect.stream("one, ", "two, ", "three.").split(b"\n\n")[:-1]
    numbered = [b"id: %d\n%b\n\n" % (at, event) for at, event in enumerate(events)]
    client.wire.play_answer(b"".join([numbered[0], *numbered[:-2], *numbered[1:]]))

    assert (await client.ask()).text == "one, two, three."


@row(21, "events in the wrong order, by their numbers")
async def test_numbered_events_in_the_wrong_order_are_refused(client: Client) -> None:
    events = client.dialect.stream("one, ", "two, ", "three.").split(b"\n\n")[:-1]
    numbered = [b"id: %d\n%b\n\n" % (at, event) for at, event in enumerate(events)]
    numbered[-2], numbered[-3] = numbered[-3], numbered[-2]
    client.wire.play_answer(b"".join(numbered))

    await client.fail(ProviderMalformed)


@row(21, "an id that every event has is no number")
@pytest.mark.parametrize("event_id", [b"7", b"answer-1"])
async def test_events_that_share_an_id_are_all_taken(client: Client, event_id: bytes) -> None:
    events = client.dialect.stream("one, ", "two, ", "two, ", "three.").split(b"\n\n")[:-1]
    client.wire.play_answer(b"".join(b"id: %b\n%b\n\n" % (event_id, event) for event in events))

    assert (await client.ask()).text == "one, two, two, three."


@row(21, "pieces of two answers")
async def test_pieces_of_another_answer_are_refused(client: Client) -> None:
    dialect = client.dialect
    foreign = dialect.encode(dialect.text("two", answer_id="answer-2"))
    client.wire.play_answer(dialect.beginning("one, "), foreign, dialect.stream("three."))

    await client.fail(ProviderMalformed)


@row(21, "text after the end")
async def test_text_after_the_end_is_refused(client: Client) -> None:
    dialect = client.dialect
    end = [
        event
        for event in dialect.end(dialect.words["stop"], None)
        if event.get("type") != "message_stop"
    ]
    late = dialect.text("late")
    client.wire.play_answer(dialect.beginning("one, "), dialect.encode_all([*end, late]))

    error = await client.fail(ProviderMalformed)

    assert error.remains.partial_text == "one, "


@row(21, "beginnings and ends that come twice")
async def test_a_beginning_or_an_end_that_comes_twice_changes_nothing(client: Client) -> None:
    dialect = client.dialect
    end = dialect.end(dialect.words["stop"], dialect.usage())
    client.wire.play_answer(
        dialect.encode_all([*dialect.begin() * 2, dialect.text("once"), *end[:-1], *end])
    )

    assert (await client.ask()).text == "once"


@spoken_by(Messages())
@row(21, "a block that was never opened")
async def test_a_block_out_of_order_is_refused(client: Client) -> None:
    begin, text = client.dialect.begin(), client.dialect.text("one")
    for events in (
        [begin[0], text],
        [begin[0], {**begin[1], "index": 1}],
        [*begin, text, {"type": "content_block_stop", "index": 0}, text],
    ):
        client.wire.scripts.clear()
        client.wire.play_answer(client.dialect.encode_all(events))
        await client.fail(ProviderMalformed)


@spoken_by(Chat(), Content())  # a message has no choices
async def test_choices_that_were_not_requested_are_left_out(client: Client) -> None:
    dialect = client.dialect
    other = json.loads(json.dumps(dialect.text("OTHER")).replace('"index": 0', '"index": 1'))
    end = dialect.end(dialect.words["stop"], None)
    client.wire.play_answer(
        dialect.encode_all([*dialect.begin(), other, dialect.text("mine"), *end])
    )

    assert (await client.ask()).text == "mine"


async def test_events_from_the_future_are_passed_over(client: Client) -> None:
    dialect = client.dialect
    new = b'event: novelty\ndata: {"type": "novelty", "self": 1, "name": {"a": [1]}}\n\n'
    end = dialect.encode_all(dialect.end(dialect.words["stop"], dialect.usage()))
    client.wire.play_answer(dialect.beginning("one"), new, end)

    assert (await client.ask()).text == "one"


async def test_no_mutilation_of_a_stream_gets_past_the_errors(client: Client) -> None:
    chance = random.Random(7)
    good = client.dialect.stream("Once ", "upon ", "a time.")
    client.options = {"idle_s": 0.5}
    for _ in range(100):
        client.wire.scripts.clear()
        client.wire.play_answer(mutilate(good, chance))
        with contextlib.suppress(ProviderError, ContextWindowError):
            reply = await client.ask()
            assert isinstance(reply.text, str)


def mutilate(data: bytes, chance: random.Random) -> bytes:
    """Cut, repeat, swap or replace parts of a stream."""
    words = [b"null", b"7", b'"x"', b"[]", b"{}", b"-1", b"\n\n", b"\xff", b"error", b"\\ud800"]
    for _ in range(chance.randint(1, 4)):
        a, b = sorted(chance.randrange(len(data)) for _ in range(2))
        b = min(b, a + chance.choice([1, 8, 80]))
        part = chance.choice([b"", data[a:b] * 2, chance.choice(words), data[a:b][::-1]])
        data = data[:a] + part + data[b:]
    return data


async def test_a_body_that_cannot_be_written_is_told_before_it_is_sent(client: Client) -> None:
    client.card = dataclasses.replace(CARD, extra_body={"seed": float("nan")})

    error = await client.fail(ProviderRejected)

    assert "extra_body" in error.message
    assert client.wire.heard == []
