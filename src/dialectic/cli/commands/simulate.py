"""`dialectic simulate`: free fake providers with four vendors' APIs and scripted failures.

Reads no settings and no environment: the script defines all it does.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from dialectic.cli.options import find_server_option
from dialectic.cli.terminal import count, handling_signals, run_async, say
from dialectic.errors import UsageError
from dialectic_simulator import (
    TABLE,
    Fault,
    Script,
    Simulator,
    WireName,
    build_script,
    load_script,
    open_simulator,
)
from dialectic_simulator.script import Facts, Section

HOST = "127.0.0.1"
PORT = 8077
# The kinds that config.toml supports; an Ollama client is given the address directly.
KINDS = (WireName.OPENAI, WireName.ANTHROPIC, WireName.GOOGLE)


@click.command()
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="The address to listen on; other machines need a network address here.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port; 0 chooses a free one.",
)
@click.option(
    "--script",
    "script_path",
    type=click.Path(path_type=Path),
    help="Which responses to give to which calls, as TOML; see docs/simulator.md.",
)
@click.option(
    "--seed", type=int, help="Override the script's seed, for other documents and random choices."
)
@click.option("--faults", is_flag=True, help="List all faults and exit.")
def simulate(
    host: str, port: int, script_path: Path | None, seed: int | None, *, faults: bool
) -> None:
    """Simulate OpenAI, Anthropic, Google and Ollama until stopped."""
    if find_server_option():
        raise UsageError("The simulator runs only on this machine. Omit --server.")
    if faults:
        for line in describe_faults(TABLE):
            click.echo(line)
        return
    script = load_script(script_path) if script_path else build_script({})
    if seed is not None:
        script = script.model_copy(update={"seed": seed})
    run_async(_simulate(script, host, port))


async def _simulate(script: Script, host: str, port: int) -> None:
    stopping = asyncio.Event()
    async with open_simulator(script, host=host, port=port) as simulator:
        with handling_signals(lambda _number: stopping.set()):
            for line in describe_addresses(simulator):
                say(line)
            click.echo(build_config(simulator), nl=False)
            await stopping.wait()
        for line in describe_report(simulator):
            say(line)


def describe_addresses(simulator: Simulator) -> Iterator[str]:
    """Describe a simulator's addresses, and how to use the configuration below."""
    yield f"The simulator is running with seed {simulator.script.seed}:"
    for endpoint in simulator.script.endpoint_names:
        for wire in WireName:
            yield f"  {endpoint:<12} {wire:<10} {simulator.base_url(wire, endpoint)}"
    yield f"  {'log':<23} {simulator.url('/log')}"
    yield f"  {'report':<23} {simulator.url('/report')}"
    if not _is_loopback(simulator.host):
        yield f"Every client that reaches {simulator.host} can call it and read its log."
    yield "Put this into config.toml to use it for models; ^C stops it."


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class _Entry:
    """An endpoint as config.toml declares it."""

    name: str
    kind: WireName
    base_url: str
    section: Section


def build_config(simulator: Simulator) -> str:
    """Build the part of config.toml that declares the simulator's endpoints and models."""
    entries = [
        _Entry(
            "sim" if kind is WireName.OPENAI else f"sim-{kind}",
            kind,
            simulator.base_url(kind),
            simulator.script.default,
        )
        for kind in KINDS
    ]
    entries += [
        _Entry(name, WireName.OPENAI, simulator.base_url(WireName.OPENAI, name), section)
        for name, section in simulator.script.endpoints.items()
    ]
    models = simulator.list_models()
    return "\n".join(line for entry in entries for line in _declare(entry, models)) + "\n"


def _declare(entry: _Entry, models: dict[str, Facts]) -> Iterator[str]:
    yield f"[endpoints.{entry.name}]"
    yield f'kind = "{entry.kind}"'
    yield f'base_url = "{entry.base_url}"'
    for limit in ("max_concurrency", "requests_per_minute", "tokens_per_minute"):
        if (value := getattr(entry.section, limit)) is not None:
            yield f"{limit} = {value}"
    for name, facts in models.items():
        yield f"[endpoints.{entry.name}.models.{json.dumps(name)}]"
        yield f"context_window_tokens = {facts.context_window_tokens}"
        if facts.max_input_tokens is not None:
            yield f"max_input_tokens = {facts.input_tokens_max}"
        yield f"max_output_tokens = {facts.max_output_tokens}"
        yield f"input_usd_per_million = {float(facts.input_usd_per_million)}"
        yield f"output_usd_per_million = {float(facts.output_usd_per_million)}"
        yield f'tokenizer = "{facts.tokenizer}"'
    yield ""


def describe_report(simulator: Simulator) -> Iterator[str]:
    """Summarise the calls of a simulator by model."""
    report = simulator.report()
    for name, row in [*report.models.items(), ("in all", report.total)]:
        yield (
            f"{name or '(no model)'}: {count(row.calls, 'call')}, {row.refused:,} refused, "
            f"{row.input_tokens:,} tokens in, {row.output_tokens:,} out, ${row.cost_usd}"
        )


def describe_faults(table: tuple[Fault, ...]) -> Iterator[str]:
    """Format the table of faults."""
    width = max(len(fault.name) for fault in table)
    for fault in table:
        wires = "all" if len(fault.wires) == len(WireName) else ",".join(sorted(fault.wires))
        where = wires + (" (streams)" if fault.streams_only else "")
        yield f"{fault.number:>3}  {fault.name:<{width}}  {where:<26}  {fault.what}"
