"""Every fault by name sends the bytes it promises, on every wire it makes sense on."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from dialectic_simulator import TABLE, Simulator, WireName, open_simulator
from dialectic_simulator.conversation import FinishForm, TroubleKind
from dialectic_simulator.faults import FAULTS, Fault
from dialectic_simulator.stream_damage import HUGE_LINE_BYTES
from tests.conformance.raw_client import (
    ANTHROPIC,
    CONTINUE,
    GOOGLE,
    LENGTH,
    OLLAMA,
    OPENAI,
    STOP,
    Client,
    Heard,
    connect,
    split_events,
    take_apart,
)

TEXT = (
    "Über alles: the naïve plan – with “quotes” – costs 1,200 € and ends on a Monday, 日本語 too.\n"
    * 3
)
PATIENCE_S = 0.05


@dataclass(frozen=True)
class Meeting:
    """A client that meets a fault, in one mode."""

    simulator: Simulator
    client: Client
    fault: Fault
    stream: bool

    @property
    def wire(self) -> WireName:
        return self.client.wire

    async def ask(self, *turns: str) -> Heard:
        return await self.client.ask(*(turns or ("Write.",)), stream=self.stream)

    async def read_on(self) -> tuple[int | None, bytes, type[Exception] | None]:
        """Read until something ends it, or until it is silent; tell status, bytes and the end.

        A server that is not meant to fall silent has all the time a busy machine may need.
        """
        address, body = self.client.build("Write.", stream=self.stream)
        request = self.client.http.build_request(
            "POST", address, json=body, headers=self.client.headers
        )
        raw, status = b"", None
        quiet = {"silence": 0, "idle_stream": 1, "trickle": 1}.get(self.fault.name)
        sending = asyncio.ensure_future(self.client.http.send(request, stream=True))
        if quiet == 0:
            await self.simulator.wait_arrived(1)
        try:
            async with asyncio.timeout(PATIENCE_S if quiet == 0 else None):
                response = await sending
            status = response.status_code
            chunks = response.aiter_raw()
            while True:
                async with asyncio.timeout(PATIENCE_S if quiet == 1 and raw else None):
                    raw += await anext(chunks)
        except (httpx2.TransportError, TimeoutError) as error:
            return status, raw, type(error)
        except StopAsyncIteration:
            return status, raw, None


Check = Callable[[Meeting], Any]
CHECKS: dict[str, Check] = {}


def promises(*names: str) -> Callable[[Check], Check]:
    def note(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(names, check))
        return check

    return note


every_fault = pytest.mark.parametrize("fault", TABLE, ids=lambda fault: fault.name)


def test_every_fault_has_its_promise_checked() -> None:
    assert set(CHECKS) == set(FAULTS)


@every_fault
async def test_a_fault_sends_what_it_promises(fault: Fault) -> None:
    rules = [{"wire": wire, "fault": fault.name} for wire in sorted(fault.wires)]
    if fault.vectors_only:
        rules = [rule | {"route": "embeddings"} for rule in rules]
    script = {"default": {"text": TEXT}, "rules": rules}
    async with open_simulator(script) as simulator:
        for wire in sorted(fault.wires):
            for stream in (False, True):
                if (fault.streams_only and not stream) or (fault.vectors_only and stream):
                    continue
                async with connect(simulator, wire) as client:
                    await CHECKS[fault.name](Meeting(simulator, client, fault, stream))
                await assert_logged(simulator, fault)


async def assert_logged(simulator: Simulator, fault: Fault) -> None:
    await simulator.log.wait_until(lambda log: not log.open_calls)
    assert simulator.log.calls
    assert {call.fault for call in simulator.log.calls} == {fault.name}
    simulator.log.clear()


STATUS: dict[TroubleKind, dict[WireName, str | None]] = {
    TroubleKind.RATE: {OPENAI: "rate_limit_exceeded", ANTHROPIC: "rate_limit_error"},
    TroubleKind.SPEND: {OPENAI: "insufficient_quota", ANTHROPIC: "rate_limit_error"},
    TroubleKind.PAYMENT: {OPENAI: "insufficient_credits", ANTHROPIC: "billing_error"},
    TroubleKind.KEY: {OPENAI: "invalid_api_key", ANTHROPIC: "authentication_error"},
    TroubleKind.FORBIDDEN: {OPENAI: "permission_denied", ANTHROPIC: "permission_error"},
    TroubleKind.CONTEXT: {OPENAI: "context_length_exceeded", ANTHROPIC: "invalid_request_error"},
    TroubleKind.MODEL: {OPENAI: "model_not_found", ANTHROPIC: "not_found_error"},
    TroubleKind.TOO_LARGE: {OPENAI: "request_too_large", ANTHROPIC: "request_too_large"},
    TroubleKind.TIMEOUT: {OPENAI: "request_timeout", ANTHROPIC: "timeout_error"},
    TroubleKind.SERVER: {OPENAI: None, ANTHROPIC: "api_error"},
    TroubleKind.UNAVAILABLE: {OPENAI: "service_unavailable", ANTHROPIC: "api_error"},
    TroubleKind.OVERLOADED: {OPENAI: "overloaded", ANTHROPIC: "overloaded_error"},
}


def assert_complaint(meeting: Meeting, heard: Heard, kind: TroubleKind, status: int) -> None:
    error = heard.json()["error"]
    match meeting.wire:
        case WireName.OPENAI:
            assert error["code"] == STATUS[kind][OPENAI]
        case WireName.ANTHROPIC:
            assert error["type"] == STATUS[kind][ANTHROPIC]
        case WireName.GOOGLE:
            assert error["code"] == status
        case WireName.OLLAMA:
            assert isinstance(error, str)


@promises(*(f.name for f in TABLE if f.trouble and f.trouble is not TroubleKind.GATEWAY))
async def check_complaint(meeting: Meeting) -> None:
    fault = meeting.fault
    assert fault.trouble is not None
    heard = await meeting.ask()
    promised = int(fault.name[:3]) if not fault.is_status_ok else 200
    assert heard.status == promised
    inner = {"200_error_rate": 429, "200_error_server": 500, "200_error_context_length": 400}
    assert_complaint(meeting, heard, fault.trouble, inner.get(fault.name, promised))
    sent = heard.headers.get("retry-after")
    if fault.retry_after is None:
        assert sent is None
    elif fault.retry_after.startswith("date"):
        at_s = email.utils.parsedate_to_datetime(sent or "").timestamp()
        now_s = email.utils.parsedate_to_datetime(heard.headers["date"]).timestamp()
        assert abs(now_s - time.time()) < 60
        assert at_s - now_s == float(fault.retry_after[5:])
    else:
        assert sent == fault.retry_after


async def test_a_spend_limit_says_what_it_is_on_every_wire() -> None:
    rules = [{"wire": wire, "fault": "429_spend_limit"} for wire in (OPENAI, ANTHROPIC, GOOGLE)]
    bodies = {}
    async with open_simulator({"rules": rules}) as simulator:
        for wire in (OPENAI, ANTHROPIC, GOOGLE):
            async with connect(simulator, wire) as client:
                bodies[wire] = (await client.ask()).json()["error"]
    assert bodies[OPENAI]["type"] == "insufficient_quota"
    assert bodies[ANTHROPIC]["details"] == {"error_code": "enforced_spend_limit_reached"}
    assert "PerDay" in bodies[GOOGLE]["details"][0]["violations"][0]["quotaId"]


async def test_google_tells_a_wait_in_its_details_and_a_bad_key_by_its_reason() -> None:
    rules = [
        {"wire": "google", "contains": "wait", "fault": "429_retry_after"},
        {"wire": "google", "contains": "key", "fault": "400_key"},
    ]
    async with open_simulator({"rules": rules}) as simulator, connect(simulator, GOOGLE) as client:
        wait, key = await client.ask("wait"), await client.ask("key")
    assert wait.json()["error"]["details"][0]["retryDelay"] == "7s"
    assert key.json()["error"]["details"][0]["reason"] == "API_KEY_INVALID"


@promises("502_gateway", "200_html")
async def check_page(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.status == (502 if meeting.fault.name == "502_gateway" else 200)
    assert heard.headers["content-type"] == "text/html"
    assert b"<html>" in heard.raw


@promises("empty_choices", "prompt_blocked")
async def check_no_choices(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.status == 200
    assert heard.text == ""
    whole = heard.events[0] if meeting.stream else heard.json()
    match meeting.wire:
        case WireName.OPENAI:
            assert whole["choices"] == []
        case WireName.ANTHROPIC:
            assert whole.get("content", []) == []
            assert not [e for e in heard.events if e["type"].startswith("content")]
        case WireName.GOOGLE:
            assert "candidates" not in whole
            assert ("promptFeedback" in whole) == (meeting.fault.name == "prompt_blocked")
        case WireName.OLLAMA:
            assert "message" not in whole


@promises("filtered")
async def check_filtered(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.finish in ("content_filter", "refusal", "SAFETY")
    assert TEXT.startswith(heard.text)
    assert 0 < len(heard.text) < len(TEXT)


@promises("refusal")
async def check_refusal(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert (heard.text, heard.finish) == ("", "stop")
    assert b'"refusal":"I\'m sorry' in heard.raw


@promises("null_content")
async def check_null(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert b'"content":null' in heard.raw
    assert heard.finish == STOP[meeting.wire]


@promises("empty_content")
async def check_empty(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert (heard.text, heard.finish) == ("", STOP[meeting.wire])


@promises("length_no_text")
async def check_length_no_text(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert (heard.text, heard.finish) == ("", LENGTH[meeting.wire])
    assert heard.usage is not None
    assert heard.usage[1] == 8_000


@promises("parts_list")
async def check_parts(meeting: Meeting) -> None:
    heard = await meeting.ask()
    if meeting.wire is OPENAI:
        read = split_events(heard.raw)[:-1] if meeting.stream else [heard.json()]
        parts = [
            part
            for event in read
            for choice in event["choices"]
            for part in (choice.get("delta") or choice.get("message") or {}).get("content") or []
        ]
        assert "".join(part["text"] for part in parts) == TEXT
        assert len(parts) > 1
    else:
        assert heard.text == TEXT
        marker = {ANTHROPIC: b'"text","text":', GOOGLE: b'},{"text":'}[meeting.wire]
        assert heard.raw.count(marker) > 1


@promises("tool_call")
async def check_tool_call(meeting: Meeting) -> None:
    heard = await meeting.ask()
    named = {OPENAI: "tool_calls", ANTHROPIC: "tool_use", GOOGLE: "STOP", OLLAMA: "stop"}
    assert heard.finish == named[meeting.wire]
    assert b'"look_up"' in heard.raw
    assert heard.text == ""


def list_payloads(meeting: Meeting, raw: bytes) -> list[bytes]:
    """The pieces of JSON as they were sent."""
    if not meeting.stream:
        return [raw]
    lines = raw.replace(b"\r\n", b"\n").split(b"\n")
    if meeting.wire is OLLAMA:
        return [line for line in lines if line]
    return [line[6:] for line in lines if line.startswith(b"data: ") and b"[DONE]" not in line]


def is_json(payload: bytes) -> bool:
    try:
        json.loads(payload)
    except ValueError:
        return False
    return True


@promises("invalid_json", "cut_json")
async def check_bad_json(meeting: Meeting) -> None:
    payloads = list_payloads(meeting, (await meeting.ask()).raw)
    broken = [payload for payload in payloads if not is_json(payload)]
    assert len(broken) == 1
    assert (b"oops" in broken[0]) == (meeting.fault.name == "invalid_json")


@promises("nan_json")
async def check_nan(meeting: Meeting) -> None:
    payloads = list_payloads(meeting, (await meeting.ask()).raw)
    values = [json.loads(payload).get("noise", 0.0) for payload in payloads]
    assert sum(math.isnan(value) for value in values) == 1


@promises("duplicate_keys")
async def check_duplicate_keys(meeting: Meeting) -> None:
    payloads = list_payloads(meeting, (await meeting.ask()).raw)
    doubled = []

    def note(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            doubled.append(pairs)
        return dict(pairs)

    for payload in payloads:
        json.loads(payload, object_pairs_hook=note)
    assert len(doubled) == 1


@promises("huge_line")
async def check_huge_line(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert max(map(len, list_payloads(meeting, heard.raw))) > HUGE_LINE_BYTES


@promises("invalid_utf8", "lone_surrogate", "nul")
async def check_bad_text(meeting: Meeting) -> None:
    raw = (await meeting.ask()).raw
    sent = {"invalid_utf8": b"\xff\xfe", "lone_surrogate": b"\\ud83d", "nul": b"\\u0000"}
    bad = sent[meeting.fault.name]
    assert raw.count(bad) == 1
    # Without it the answer is the document.
    mended = httpx2.Response(200, content=raw.replace(bad, b""))
    assert take_apart(meeting.wire, mended, is_stream=meeting.stream).text == TEXT


@promises("stream_without_finish")
async def check_without_finish(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.finish is None
    assert heard.text
    assert TEXT.startswith(heard.text)
    if meeting.stream:
        assert heard.text != TEXT
        assert b"[DONE]" not in heard.raw
        assert b"message_stop" not in heard.raw


@promises("close_mid_stream", "reset_mid_stream", "idle_stream")
async def check_broken_off(meeting: Meeting) -> None:
    status, raw, ended_by = await meeting.read_on()
    ends: dict[str, type[Exception]] = {
        "close_mid_stream": httpx2.RemoteProtocolError,
        "reset_mid_stream": httpx2.ReadError,
        "idle_stream": TimeoutError,
    }
    assert ended_by is ends[meeting.fault.name]
    if meeting.fault.name == "reset_mid_stream":
        return  # what was on its way may be lost with the connection
    assert status == 200
    assert raw
    assert b"[DONE]" not in raw
    if meeting.stream:
        assert "Über" in raw.decode(errors="ignore")
    else:
        assert not is_json(raw)


@promises("silence")
async def check_silence(meeting: Meeting) -> None:
    assert await meeting.read_on() == (None, b"", TimeoutError)


@promises("reset_before_first_byte")
async def check_reset(meeting: Meeting) -> None:
    assert await meeting.read_on() == (None, b"", httpx2.ReadError)


@promises("trickle")
async def check_trickle(meeting: Meeting) -> None:
    status, raw, ended_by = await meeting.read_on()
    assert (status, len(raw), ended_by) == (200, 1, TimeoutError)


@promises("error_event")
async def check_error_event(meeting: Meeting) -> None:
    heard = await meeting.ask()
    last = json.loads(list_payloads(meeting, heard.raw)[-1])
    assert "error" in last
    assert b"Monday" in heard.raw
    if meeting.wire is ANTHROPIC:
        assert b"event: error\ndata: " in heard.raw


@promises("split_utf8")
async def check_split(meeting: Meeting) -> None:
    address, body = meeting.client.build("Write.", stream=meeting.stream)
    chunks = []
    async with meeting.client.http.stream(
        "POST", address, json=body, headers=meeting.client.headers
    ) as response:
        chunks = [chunk async for chunk in response.aiter_raw()]
    assert sum(not is_utf8(chunk) for chunk in chunks) >= 2
    raw = b"".join(chunks)
    raw.decode()
    assert (await meeting.ask()).text == TEXT


def is_utf8(chunk: bytes) -> bool:
    try:
        chunk.decode()
    except UnicodeDecodeError:
        return False
    return True


@promises("crlf", "comments", "no_space", "done_missing", "duplicated_end")
async def check_other_form(meeting: Meeting) -> None:
    raw = (await meeting.ask()).raw
    lines = raw.split(b"\n")
    match meeting.fault.name:
        case "crlf":
            assert all(line.endswith(b"\r") for line in lines[:-1])
        case "comments":
            assert sum(line.startswith(b": ") for line in lines) > 3
        case "no_space":
            assert b"data: " not in raw
            assert b"data:{" in raw
        case "done_missing":
            assert b"[DONE]" not in raw
            assert b"message_stop" not in raw
            assert meeting.wire is not OPENAI or b'"finish_reason":"stop"' in raw
        case "duplicated_end":
            word = str(STOP[meeting.wire]).encode()
            assert raw.count(b'"' + word + b'"') == 2
        case other:
            pytest.fail(other)
    assert (await meeting.ask()).text == TEXT


@promises("duplicated_events", "reordered_events")
async def check_order(meeting: Meeting) -> None:
    raw = (await meeting.ask()).raw.replace(b"\r\n", b"\n").decode()
    ids = [int(line[4:]) for line in raw.split("\n") if line.startswith("id: ")]
    if meeting.fault.name == "duplicated_events":
        assert ids == [number for number in range(1, len(ids) // 2 + 1) for _ in range(2)]
    else:
        assert ids != sorted(ids) == list(range(1, len(ids) + 1))
        finish = raw.index(f'"{STOP[meeting.wire]}"')
        assert "日本語" in raw[finish:] or "too." in raw[finish:]


@promises(*(fault.name for fault in TABLE if fault.number == 24))
async def check_finish(meeting: Meeting) -> None:
    heard = await meeting.ask()
    usual = STOP[meeting.wire]
    expected = {
        FinishForm.UNKNOWN: "banana",
        FinishForm.NULL: None,
        FinishForm.NUMBER: 7,
        FinishForm.OTHER_CASE: usual.swapcase(),
    }
    assert heard.finish == expected[meeting.fault.finish_form]
    assert heard.text == TEXT


@promises("always_length")
async def check_always_length(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.finish == LENGTH[meeting.wire]
    more = await meeting.ask("Write.", heard.text, CONTINUE)
    assert more.finish == LENGTH[meeting.wire]
    assert more.text


@promises("continuation_restarts")
async def check_restarts(meeting: Meeting) -> None:
    assert (await meeting.ask("Write.", TEXT[:80], CONTINUE)).text == TEXT


@promises("usage_missing", "usage_negative", "usage_zero", "usage_tenfold", "usage_string")
async def check_usage(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.text == TEXT
    (call,) = meeting.client.simulator.log.calls[-1:]
    true = (call.input_tokens, call.output_tokens)
    expected = {
        "usage_missing": None,
        "usage_negative": (-true[0], -true[1]),
        "usage_zero": (0, 0),
        "usage_tenfold": (10 * true[0], 10 * true[1]),
        "usage_string": (str(true[0]), str(true[1])),
    }
    assert heard.usage == expected[meeting.fault.name]


@promises("usage_above_hold")
async def check_usage_above(meeting: Meeting) -> None:
    heard = await meeting.ask()
    assert heard.usage is not None
    assert heard.usage[0] > 1_000
    assert heard.usage[1] > 8_000


@promises("vector_wrong_size", "vector_nan", "vector_zero")
async def check_vector(meeting: Meeting) -> None:
    client = meeting.client
    base = client.simulator.base_url(client.wire)
    if client.wire is OPENAI:
        response = await client.http.post(
            f"{base}/embeddings", json={"model": "e", "input": "a hall"}
        )
        (vector,) = [entry["embedding"] for entry in response.json()["data"]]
    else:
        response = await client.http.post(
            f"{base}/models/e:embedContent", json={"content": {"parts": [{"text": "a hall"}]}}
        )
        vector = response.json()["embedding"]["values"]
    match meeting.fault.name:
        case "vector_wrong_size":
            assert len(vector) == 255
        case "vector_nan":
            assert math.isnan(vector[0])
        case "vector_zero":
            assert set(vector) == {0.0}
        case other:
            pytest.fail(other)


@pytest.fixture
async def three() -> AsyncIterator[Simulator]:
    script = {"rules": [{"tries": "1-3", "fault": "503_unavailable"}]}
    async with open_simulator(script) as simulator:
        yield simulator


async def test_three_tries_of_each_request_fail_and_the_fourth_is_answered(
    three: Simulator,
) -> None:
    async with connect(three, OPENAI) as client:
        statuses = [
            (await client.ask(prompt)).status for _ in range(4) for prompt in ("one", "two")
        ]
    assert statuses == [503] * 6 + [200] * 2


async def test_a_fault_strikes_where_the_script_says() -> None:
    script = {
        "default": {"text": TEXT, "chunk_tokens": 1},
        "rules": [{"fault": "stream_without_finish", "fault_after_tokens": 5}],
    }
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        await client.ask(stream=True)
    assert simulator.log.calls[0].output_tokens == 5


async def test_other_routes_meet_faults_only_if_a_rule_names_them() -> None:
    script = {
        "default": {"fault": "silence"},
        "rules": [{"fault": "500_server"}, {"route": "models", "fault": "cut_json"}],
    }
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        models = await client.http.get(simulator.base_url("openai") + "/models")
        vectors = await client.http.post(
            simulator.base_url("openai") + "/embeddings", json={"model": "e", "input": "a"}
        )
    assert not is_json(models.content)
    assert vectors.status_code == 200
