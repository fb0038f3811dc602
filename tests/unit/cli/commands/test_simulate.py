"""What `dialectic simulate` prints: addresses, a part of config.toml, faults, a report."""

from __future__ import annotations

import tomllib

from dialectic.cli.commands.simulate import (
    build_config,
    describe_addresses,
    describe_faults,
    describe_report,
)
from dialectic_simulator import TABLE, open_simulator
from tests.conformance.raw_client import OPENAI, connect

SCRIPT = {
    "models": {"org/tiny": {"context_window_tokens": 8192, "max_output_tokens": 1024}, "*": {}},
    "default": {"requests_per_minute": 60},
    "endpoints": {"slow": {"max_concurrency": 2}},
}


async def test_the_part_of_config_toml_declares_every_endpoint_as_it_is() -> None:
    async with open_simulator(SCRIPT) as simulator:
        declared = tomllib.loads(build_config(simulator))["endpoints"]
        openai = simulator.base_url("openai")
    assert {name: entry["kind"] for name, entry in declared.items()} == {
        "sim": "openai",
        "sim-anthropic": "anthropic",
        "sim-google": "google",
        "slow": "openai",
    }
    assert declared["sim"]["base_url"] == openai
    assert declared["sim"]["requests_per_minute"] == 60
    assert declared["slow"]["base_url"] == openai.replace("/v1", "/e/slow/v1")
    assert declared["slow"]["max_concurrency"] == 2
    assert declared["sim-google"]["models"] == {
        "org/tiny": {
            "context_window_tokens": 8192,
            "max_output_tokens": 1024,
            "input_usd_per_million": 1.0,
            "output_usd_per_million": 2.0,
            "tokenizer": "o200k_base",
        }
    }


async def test_addresses_are_told_and_a_warning_only_where_others_can_listen() -> None:
    async with open_simulator(SCRIPT) as simulator:
        told = "\n".join(describe_addresses(simulator))
        assert f"slow         google     {simulator.base_url('google', 'slow')}" in told
        assert "Every client that reaches" not in told
        simulator.host = "192.0.2.7"
        assert "Every client that reaches 192.0.2.7" in "\n".join(describe_addresses(simulator))


async def test_the_report_tells_tokens_and_dollars_by_model() -> None:
    async with (
        open_simulator({"default": {"text": "One two three."}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        await client.ask("Write.", model="m")
        told = list(describe_report(simulator))
    assert told == [
        "m: 1 call, 0 refused, 8 tokens in, 4 out, $0.000016",
        "in all: 1 call, 0 refused, 8 tokens in, 4 out, $0.000016",
    ]


def test_every_fault_has_its_line() -> None:
    lines = list(describe_faults(TABLE))
    assert [line.split()[1] for line in lines] == [fault.name for fault in TABLE]
