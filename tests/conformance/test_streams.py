"""Whatever breaks between here and there, the error says how far the call had come."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest

from dialectic.core.models.messages import FinishReason, UsageSource
from dialectic.errors import (
    ProviderError,
    ProviderRejected,
    ProviderThrottled,
    ProviderTransient,
    ProviderUnreachable,
    StreamTruncated,
)
from dialectic.providers.catalog import open_provider
from dialectic.providers.response_head import HEAD_BYTES_MAX, PIECE_BYTES
from tests.conformance.fault_rows import row, spoken_by
from tests.conformance.provider_client import CARD, REQUEST, Client
from tests.conformance.scripted_socket import Close, Drip, Flood, Hang, Reset, Wire
from tests.conformance.wire_formats import Chat, Content, Messages
from tests.ports import find_free_port
from tests.problems import refusing
from tests.waiting import PATIENCE_S


@row(16, "the stream ends without a finish reason")
async def test_a_stream_that_just_stops_is_not_an_answer(client: Client) -> None:
    client.wire.play_answer(client.dialect.beginning("Once ", "upon"), headers={"request-id": "r"})

    error = await client.fail(StreamTruncated)

    assert error.remains.partial_text == "Once upon"
    assert error.remains.was_sent
    assert error.remains.request_id == "r"
    assert error.remains.reported_usage is None
    assert error.remains.raw[client.dialect.id_name] == "answer-1"


@row(16, "the last word without a finish reason")
@pytest.mark.parametrize("reason", [None, ""])
async def test_a_last_word_is_not_a_finish_reason(client: Client, reason: str | None) -> None:
    dialect = client.dialect
    end = dialect.encode_all(dialect.end(reason, None))
    client.wire.play_answer(dialect.beginning("Once"), end, dialect.last_word())

    assert (await client.fail(StreamTruncated)).remains.partial_text == "Once"


@row(16, "cut inside an event")
async def test_half_an_event_at_the_end_is_a_stream_cut_off(client: Client) -> None:
    client.wire.play_answer(client.dialect.beginning("Once ", "upon")[:-20])

    assert (await client.fail(StreamTruncated)).remains.partial_text == "Once "


@row(16, "reset after some text")
async def test_a_connection_that_breaks_after_some_text_leaves_it(client: Client) -> None:
    was_heard = asyncio.Event()

    class Listening(list[str]):
        def append(self, piece: str) -> None:
            super().append(piece)
            was_heard.set()

    client.pieces = Listening()
    client.wire.play_answer(client.dialect.beginning("Once"), was_heard, Reset())

    error = await client.fail(StreamTruncated)

    assert error.remains.partial_text == "Once"
    assert "connection broke" in error.message


@row(16, "the body is shorter than announced")
async def test_a_body_that_is_shorter_than_announced_was_cut_off(client: Client) -> None:
    client.wire.play_answer(client.dialect.beginning("Once"), headers={"content-length": "99999"})

    assert (await client.fail(StreamTruncated)).remains.partial_text == "Once"


async def test_what_has_ended_is_whole_although_the_connection_breaks(client: Client) -> None:
    dialect = client.dialect
    whole = dialect.stream("Once.", last_word=False)
    if dialect.kind == Messages.kind:
        whole = whole.partition(b"event: message_stop")[0]
    client.wire.play_answer(whole, headers={"content-length": "99999"})

    reply = await client.ask()

    assert (reply.text, reply.finish_reason) == ("Once.", FinishReason.STOP)


@spoken_by(Chat())  # the others report it with the end
async def test_a_usage_that_never_comes_is_waited_for_a_while_only(client: Client) -> None:
    events = [*Chat().begin(), Chat().text("Once."), *Chat().end("stop", None)]
    client.wire.play_answer(client.dialect.encode_all(events), Hang())
    client.options = {"idle_s": 0.2}

    reply = await client.ask()

    assert (reply.text, reply.usage.source) == ("Once.", UsageSource.COUNTED)


@row(17, "the stream falls silent")
async def test_silence_in_the_middle_ends_the_call(client: Client) -> None:
    client.wire.play_answer(client.dialect.beginning("Once"), Hang())
    client.options = {"idle_s": 0.2, "first_byte_s": 60.0}

    error = await client.fail(StreamTruncated)

    assert error.remains.partial_text == "Once"
    assert "0.2 s" in error.message
    await asyncio.wait_for(client.wire.gone.wait(), PATIENCE_S)


@row(18, "a byte now and then, without end")
async def test_the_whole_call_has_a_limit_too(client: Client) -> None:
    client.wire.play_answer(client.dialect.beginning("Once"), Drip(b":"))
    client.options = {"timeout_s": 0.5, "idle_s": 60.0}

    error = await client.fail(StreamTruncated)

    assert error.remains.partial_text == "Once"
    assert "0.5 s" in error.message
    await asyncio.wait_for(client.wire.gone.wait(), PATIENCE_S)


INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n"


@row(18, "interim responses without end")
@pytest.mark.parametrize("is_proxied", [False, True], ids=["directly", "through a proxy"])
async def test_interim_responses_without_end_end_the_call_and_leave_others_their_turns(
    client: Client, monkeypatch: pytest.MonkeyPatch, is_proxied: bool
) -> None:
    client.wire.play(Flood(INTERIM * 2_000))
    client.options = {"first_byte_s": 600.0, "timeout_s": 600.0}
    if is_proxied:
        monkeypatch.setenv("HTTP_PROXY", client.wire.url)
        client.options["base_url"] = "http://far.invalid/v1"
    turns = 0

    async def take_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(take_turns())
    async with asyncio.timeout(PATIENCE_S):
        error = await client.fail(ProviderTransient)
        await client.wire.gone.wait()
    beside.cancel()

    assert error.remains.was_sent
    assert turns >= HEAD_BYTES_MAX // PIECE_BYTES


async def test_some_interim_responses_and_a_long_body_are_within_the_limit_each_time(
    client: Client,
) -> None:
    text = "word " * (HEAD_BYTES_MAX // 2)
    interim = INTERIM * (HEAD_BYTES_MAX // 2 // len(INTERIM))
    body = client.dialect.stream(text)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
    client.wire.play(interim, head % len(body), body)
    provider = open_provider(client.endpoint(), client.key)
    try:
        replies = [await provider.complete(CARD, REQUEST, client.pieces.append) for _ in range(3)]
    finally:
        await provider.close()

    assert [reply.text for reply in replies] == [text] * 3
    assert client.wire.connections == 1


@pytest.mark.parametrize("has_head", [False, True], ids=["nothing", "only a head"])
async def test_a_provider_that_never_begins_did_not_answer(client: Client, has_head: bool) -> None:
    if has_head:
        client.wire.play_answer(Hang())
    else:
        client.wire.play(Hang())
    client.options = {"first_byte_s": 0.2, "idle_s": 60.0}

    error = await client.fail(ProviderTransient)

    assert "0.2 s" in error.message
    assert error.remains.was_sent
    await asyncio.wait_for(client.wire.gone.wait(), PATIENCE_S)


async def test_a_model_that_thinks_may_greet_and_be_silent(client: Client) -> None:
    client.card = dataclasses.replace(CARD, is_reasoning=True)
    client.options = {"first_byte_s": 0.05, "idle_s": 0.05, "timeout_s": 0.4}
    client.wire.play_answer(client.dialect.encode_all(client.dialect.begin()), Hang())

    error = await client.fail(StreamTruncated)

    # Neither the first byte's limit nor the silence ended it, but the limit of the whole.
    assert "0.4 s" in error.message


@row(19, "an error after some text")
async def test_an_error_in_the_middle_is_told_by_its_class_and_leaves_the_text(
    client: Client,
) -> None:
    codes = {Messages.kind: "rate_limit_error", Content.kind: "RESOURCE_EXHAUSTED"}
    code = codes.get(client.dialect.kind, "rate_limit_exceeded")
    body = client.dialect.error(status=429, code=code, message="Not so fast.")
    error_event = client.dialect.encode({"type": "error", **body})
    client.wire.play_answer(client.dialect.beginning("Once"), error_event)

    error = await client.fail(ProviderThrottled)

    assert error.remains.partial_text == "Once"
    assert error.remains.was_sent
    assert error.remains.raw["error"]["error"]["message"] == "Not so fast."


@row(19, "too long after some text")
async def test_a_window_that_fills_up_on_the_way_loses_no_text(client: Client) -> None:
    body = {"type": "error", "error": {"code": "context_length_exceeded", "message": "Full."}}
    client.wire.play_answer(client.dialect.beginning("Once"), client.dialect.encode(body))

    assert (await client.fail(StreamTruncated)).remains.partial_text == "Once"


@row(22, "reset before the first byte")
async def test_a_reset_before_the_first_byte_may_pass(client: Client) -> None:
    client.wire.play(Reset())

    error = await client.fail(ProviderTransient)

    assert error.retries_max is None
    assert error.remains.was_sent


@row(22, "closed before the first byte")
async def test_a_connection_that_is_closed_without_a_word_may_pass(client: Client) -> None:
    client.wire.play(Close())

    error = await client.fail(ProviderTransient)

    assert error.remains.was_sent
    assert "without sending a response" in error.message


async def test_a_server_that_speaks_something_else_did_not_answer(client: Client) -> None:
    client.wire.play(b"220 mail.example ESMTP\r\n\r\n", Hang())

    assert "connection broke" in (await client.fail(ProviderTransient)).message


@row(23, "nobody listens")
async def test_no_listener_at_the_other_end_means_nothing_was_sent(client: Client) -> None:
    client.options = {"base_url": f"http://127.0.0.1:{find_free_port()}/v1"}

    error = await client.fail(ProviderUnreachable)

    assert not error.remains.was_sent


@row(23, "DNS failure")
async def test_a_name_without_an_address_is_told(client: Client) -> None:
    client.options = {"base_url": "http://nobody.invalid/v1"}

    error = await client.fail(ProviderUnreachable)

    assert "nobody.invalid" in error.message
    assert not error.remains.was_sent


@row(23, "TLS error")
async def test_a_secure_connection_that_fails_is_tried_once_more_only(client: Client) -> None:
    client.wire.greeting = b"this is no TLS"
    client.options = {"base_url": f"https://127.0.0.1:{client.wire.port}/v1"}

    error = await client.fail(ProviderTransient)

    assert error.retries_max == 1
    assert "SSL" in error.message
    assert not error.remains.was_sent


@row(23, "the proxy is down")
async def test_a_proxy_that_is_down_means_nothing_was_sent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:sesame@127.0.0.1:{find_free_port()}")
    client.options = {"base_url": "http://models.example/v1"}

    error = await client.fail(ProviderUnreachable)

    assert not error.remains.was_sent
    assert "sesame" not in error.message


async def test_a_proxy_is_used(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.wire.play_answer(client.dialect.stream("Through."))
    monkeypatch.setenv("http_proxy", client.wire.url)
    client.options = {"base_url": f"http://models.example/{client.dialect.version}"}

    assert (await client.ask()).text == "Through."
    assert client.wire.heard[0].headers["host"] == "models.example"


async def test_a_tunnel_that_is_refused_means_nothing_was_sent(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.wire.play_answer(status=407)
    monkeypatch.setenv("https_proxy", client.wire.url)
    client.options = {"base_url": "https://models.example/v1"}

    error = await client.fail(ProviderTransient)

    assert "407" in error.message
    assert not error.remains.was_sent


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "gopher://127.0.0.1:1", "http://[::1"])
async def test_a_proxy_that_cannot_be_used_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch, proxy: str
) -> None:
    monkeypatch.setenv("all_proxy", proxy)

    assert "ALL_PROXY" in (await client.fail(ProviderRejected)).message


async def test_certificates_that_cannot_be_read_are_told(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "nowhere.pem")
    client.options = {"base_url": "https://models.example/v1"}

    assert "SSL_CERT_FILE" in (await client.fail(ProviderRejected)).message


@pytest.mark.parametrize("host", ["ho st", "-\u2603-..", "a\x7fb", "xn--\u00e9"])
async def test_an_invalid_name_is_reported(client: Client, host: str) -> None:
    client.options = {"base_url": f"http://{host}/v1"}

    with refusing(ProviderError, "play"):
        await client.ask()


async def test_a_call_that_is_given_up_closes_its_connection(client: Client, wire: Wire) -> None:
    wire.play_answer(client.dialect.beginning("Once"), Hang())
    call = asyncio.create_task(client.ask())
    await asyncio.wait_for(wire.hanging.wait(), PATIENCE_S)

    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    await asyncio.wait_for(wire.gone.wait(), PATIENCE_S)


async def test_a_handshake_that_is_given_up_closes_its_connection(
    client: Client, wire: Wire
) -> None:
    client.options = {"base_url": f"https://127.0.0.1:{wire.port}/v1", "first_byte_s": 0.2}
    provider = open_provider(client.endpoint(), client.key)

    with pytest.raises(ProviderTransient) as caught:
        await provider.complete(CARD, REQUEST, client.pieces.append)

    # Before anything is let go that would close it by chance.
    await asyncio.wait_for(wire.left.wait(), PATIENCE_S)
    assert not caught.value.remains.was_sent
    await provider.close()


async def test_a_listener_that_fails_is_not_taken_for_the_network(client: Client) -> None:
    client.wire.play_answer(client.dialect.stream("Once."))

    class Full(list[str]):
        def append(self, _piece: str) -> None:
            raise BrokenPipeError

    client.pieces = Full()

    with pytest.raises(BrokenPipeError):
        await client.ask()


@spoken_by(Chat())
async def test_calls_at_once_do_not_wait_for_each_other(client: Client, wire: Wire) -> None:
    count = 120
    wire.play_answer(client.dialect.stream("Once."))
    provider = open_provider(client.endpoint(), client.key)
    calls = [provider.complete(CARD, REQUEST, lambda _piece: None) for _ in range(count)]

    replies = await asyncio.gather(*calls)
    await provider.close()

    assert [reply.text for reply in replies] == ["Once."] * count
