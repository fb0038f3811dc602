"""What the simulator saw is written down; what it allows is enforced; what is held waits."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from dialectic.errors import ConfigurationError
from dialectic_simulator import Simulator, WireName, open_simulator
from dialectic_simulator.world import hash_text
from tests.conformance.raw_client import (
    ANTHROPIC,
    CONTINUE,
    OPENAI,
    PROMPT,
    Client,
    connect,
    open_http,
)
from tests.problems import refusing
from tests.waiting import PATIENCE_S

TEXT = "One two three four five six seven eight nine ten."


async def test_every_call_is_written_down_whole_and_without_its_key() -> None:
    script = {
        "keep_bodies": True,
        "default": {"text": TEXT},
        "models": {"m": {"input_usd_per_million": 3, "output_usd_per_million": 15}},
    }
    secret = "sk-canary-0123456789"
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        address, body = client.build("Write.", "One two", CONTINUE, model="m", max_tokens=4)
        response = await client.http.post(
            address, json=body, headers={"authorization": f"Bearer {secret}"}
        )
        told = (await client.http.get(simulator.url("/log"))).json()
        report = (await client.http.get(simulator.url("/report"))).json()
    (call,) = simulator.log.calls
    usage = response.json()["usage"]
    assert call.ended_s is not None
    assert 0 <= call.at_s <= call.ended_s
    assert dataclasses.replace(call, at_s=0.0, ended_s=0.0, messages_hash="") == type(call)(
        number=1,
        at_s=0.0,
        endpoint="default",
        wire="openai",
        route="chat",
        model="m",
        has_key=True,
        assistant_turns=1,
        max_tokens=4,
        status=200,
        input_tokens=usage["prompt_tokens"],
        output_tokens=4,
        finish_reason="length",
        cost_usd=Decimal(3 * usage["prompt_tokens"] + 15 * 4) / 1_000_000,
        ended_s=0.0,
        body=body,
    )
    assert told["calls"] == [call.as_json()]
    assert report["models"]["m"]["cost_usd"] == str(call.cost_usd)
    assert report["total"]["calls"] == 1
    assert secret not in json.dumps(told)


async def test_equal_talk_has_the_same_hash_on_every_wire_and_other_talk_another() -> None:
    async with open_simulator({"default": {"text": TEXT}}) as simulator:
        for wire in WireName:
            async with connect(simulator, wire) as client:
                await client.ask("Write.", system="Plan.")
        async with connect(simulator, OPENAI) as client:
            await client.ask("Write!", system="Plan.")
    hashes = [call.messages_hash for call in simulator.log.calls]
    assert len(set(hashes[:4])) == 1
    assert hashes[4] != hashes[0]


async def test_refused_and_unreadable_calls_are_written_down_and_cost_nothing() -> None:
    script = {"rules": [{"contains": "busy", "fault": "503_unavailable"}]}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        await client.ask("busy")
        await client.http.post(simulator.base_url("openai") + "/chat/completions", content=b"{")
    calls = simulator.log.calls
    assert [(call.status, call.fault) for call in calls] == [(503, "503_unavailable"), (400, None)]
    assert [call.cost_usd for call in calls] == [0, 0]
    assert simulator.report().total.refused == 2


async def test_a_client_that_hangs_up_is_noted_with_what_it_was_sent() -> None:
    script = {
        "rules": [{"fault": "idle_stream", "fault_after_tokens": 4}],
        "default": {"text": TEXT, "chunk_tokens": 2},
    }
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        async with client.listen() as response:
            await anext(response.aiter_raw())
            assert [call.number for call in simulator.log.open_calls] == [1]
        await simulator.wait_ended(1)
    (call,) = simulator.log.calls
    assert call.client_closed
    assert (call.status, call.output_tokens, call.finish_reason) == (200, 4, None)
    assert call.cost_usd == Decimal(call.input_tokens + 2 * 4) / 1_000_000


@pytest.mark.parametrize("wire", WireName)
async def test_every_answer_is_in_the_log(wire: WireName) -> None:
    async with (
        open_simulator({"default": {"text": TEXT}}) as simulator,
        connect(simulator, wire) as client,
    ):
        for number in range(1, 21):
            await client.ask(stream=number % 2 == 0)
            assert simulator.log.calls[-1].finish_reason == "stop"
            assert (len(simulator.log), simulator.log.open_calls) == (number, [])


async def test_a_client_that_leaves_after_the_last_event_has_not_hung_up_early() -> None:
    async with (
        open_simulator({"default": {"text": TEXT}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        async with client.listen() as response:
            raw = b""
            async for chunk in response.aiter_raw():
                raw += chunk
                if b"[DONE]" in raw:
                    break
        (call,) = simulator.log.calls
    assert (call.client_closed, call.finish_reason) == (False, "stop")


async def test_the_log_is_cleared_on_request_and_numbers_go_on() -> None:
    async with (
        open_simulator({"default": {"text": TEXT}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        await client.ask()
        await client.http.post(simulator.url("/log/clear"))
        assert simulator.log.calls == []
        await client.ask()
    assert [call.number for call in simulator.log.calls] == [2]


async def test_an_answer_is_held_until_it_is_let_go() -> None:
    script: dict[str, Any] = {"default": {"text": TEXT}, "endpoints": {"other": {"text": TEXT}}}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        simulator.hold()
        asking = asyncio.create_task(client.ask())
        await simulator.wait_arrived(1)
        async with connect(simulator, OPENAI, "other") as elsewhere:
            assert (await elsewhere.ask()).text == TEXT
        assert not asking.done()
        simulator.release()
        assert (await asking).text == TEXT


async def test_a_gate_of_a_rule_holds_only_its_calls_also_in_the_midst() -> None:
    rule = {"contains": "slow", "gate": "door", "gate_after_tokens": 4}
    script = {"default": {"text": TEXT, "chunk_tokens": 2}, "rules": [rule]}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        simulator.hold("door")
        assert (await client.ask("quick")).text == TEXT
        async with client.listen("slow") as response:
            chunks = response.aiter_raw()
            first = b""
            while b"four" not in first:
                first += await anext(chunks)
            assert b"five" not in first
            simulator.release("door")
            rest = b"".join([chunk async for chunk in chunks])
    assert b"[DONE]" in rest
    with refusing(ConfigurationError, "default, door", reason="no_script", subject="dor"):
        simulator.hold("dor")


async def test_a_simulator_closes_at_once_whatever_hangs() -> None:
    async def hang(client: Client) -> None:
        with pytest.raises(httpx2.TransportError):
            await client.ask(stream=True)

    async with open_http() as http:
        async with open_simulator({"default": {"fault": "silence"}}) as simulator:
            waiting = [asyncio.create_task(hang(Client(http, simulator, OPENAI))) for _ in range(5)]
            await simulator.wait_arrived(5)
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*waiting)
    assert {call.ended_s is not None for call in simulator.log.calls} == {True}


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


async def count_admitted(simulator: Simulator, client: Client, tries: int) -> int:
    return sum([(await client.ask()).status == 200 for _ in range(tries)])


async def test_requests_above_the_limit_are_refused_until_time_has_passed() -> None:
    clock = Clock()
    script = {"default": {"text": TEXT, "requests_per_minute": 6}}
    async with (
        open_simulator(script, clock=clock) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        assert await count_admitted(simulator, client, 8) == 6
        refused = await client.ask()
        clock.now_s += 10.0
        assert await count_admitted(simulator, client, 3) == 1
        clock.now_s += 3_600.0
        assert await count_admitted(simulator, client, 8) == 6
    assert refused.status == 429
    assert refused.headers["retry-after"] == "10"
    assert refused.headers["x-ratelimit-limit-requests"] == "6"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"


async def test_a_short_window_spreads_the_calls_of_a_minute() -> None:
    clock = Clock()
    script = {"default": {"text": TEXT, "requests_per_minute": 60, "limit_window_s": 2}}
    async with (
        open_simulator(script, clock=clock) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        assert await count_admitted(simulator, client, 5) == 2
        clock.now_s += 1.0
        assert await count_admitted(simulator, client, 5) == 1


async def test_tokens_are_reserved_and_what_is_not_used_is_given_back() -> None:
    clock = Clock()
    script = {
        "models": {"*": {"tokenizer": "chars:1"}},
        "default": {"text": TEXT, "tokens_per_minute": 1_000},
    }
    async with (
        open_simulator(script, clock=clock) as simulator,
        connect(simulator, ANTHROPIC) as client,
    ):
        first = await client.ask("x" * 94, max_tokens=600)
        # 100 in, 49 out: 851 are left, although 700 were reserved.
        second = await client.ask("x" * 94, max_tokens=600)
        third = await client.ask("x" * 94, max_tokens=700)
        huge = await client.ask("x" * 94, max_tokens=2_000)
    assert [one.status for one in (first, second, third, huge)] == [200, 200, 429, 429]
    assert third.json()["error"]["type"] == "rate_limit_error"
    assert third.headers["anthropic-ratelimit-tokens-limit"] == "1000"
    assert third.headers["anthropic-ratelimit-tokens-remaining"] == "702"
    assert third.headers["retry-after"] == "6"
    assert "Request too large" in huge.json()["error"]["message"]


async def test_no_more_calls_than_allowed_are_answered_at_a_time() -> None:
    script = {"default": {"text": TEXT, "max_concurrency": 2}}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        simulator.hold()
        asking = [asyncio.create_task(client.ask()) for _ in range(5)]
        done = 0
        while done < 3:
            finished, _ = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
            done += len(finished)
            asking = [task for task in asking if task not in finished]
            assert {task.result().status for task in finished} == {429}
        simulator.release()
        assert [(await task).status for task in asking] == [200, 200]
        assert (await client.ask()).status == 200


async def test_a_reset_starts_again() -> None:
    script = {
        "default": {"text": TEXT, "requests_per_minute": 3},
        "rules": [{"calls": "1", "fault": "500_server"}],
    }
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        for _ in range(2):
            assert [(await client.ask()).status for _ in range(5)] == [500, 200, 200, 200, 429]
            simulator.reset()
    assert simulator.log.calls == []


async def test_chance_strikes_the_same_calls_in_whatever_order_they_come() -> None:
    script = {
        "seed": 3,
        "default": {"text": TEXT},
        "rules": [{"probability": 0.3, "fault": "500_server"}],
    }
    prompts = [f"{PROMPT} {number}" for number in range(60)]

    async def find_struck(order: list[str], seed: int) -> set[str]:
        async with (
            open_simulator(script | {"seed": seed}) as simulator,
            connect(simulator, OPENAI) as client,
        ):
            heard = await asyncio.gather(*(client.ask(prompt) for prompt in order))
        return {prompt for prompt, one in zip(order, heard, strict=True) if one.status == 500}

    struck = await find_struck(prompts, 3)
    assert 8 <= len(struck) <= 30
    assert await find_struck(prompts[::-1], 3) == struck
    assert await find_struck(prompts, 4) != struck


async def test_a_port_that_is_taken_is_said_to_be() -> None:
    async with open_simulator() as simulator:
        with refusing(ConfigurationError, reason="port_taken", subject=str(simulator.port)):
            async with open_simulator(port=simulator.port):
                pass


async def test_the_points_of_a_cut_answer_and_of_its_continuation_are_those_of_one_document() -> (
    None
):
    script: dict[str, Any] = {
        "world": {"points": 12, "wrong": 0.25},
        "agents": {"agent*": {"knows": 1.0}},
        "rules": [{"turns": 0, "cut_after_tokens": 150}],
    }
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        first = await client.ask(PROMPT, model="agent1")
        rest = await client.ask(PROMPT, first.text, CONTINUE, model="agent1")
        await client.ask(PROMPT, model="bystander")
        told = (await client.http.get(simulator.url("/plants"))).json()
    assert len(told["points"]) == 12
    assert sum(point["is_wrong"] for point in told["points"]) == 3
    document = told["documents"].pop(hash_text(first.text + rest.text))
    assert document["model"] == "agent1"
    assert sorted(document["states"]) == [point["id"] for point in told["points"]]
    assert told["documents"] == {}
