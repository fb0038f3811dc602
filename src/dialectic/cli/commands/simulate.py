"""`dialectic simulate`: providers that cost nothing, speak as four vendors do, and fail on order.

Reads no settings and no environment: what it does stands in its script.
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
# Those that an endpoint in config.toml can name; a client of Ollama's own is told its address.
KINDS = (WireName.OPENAI, WireName.ANTHROPIC, WireName.GOOGLE)


@click.command()
@click.option(
    "--host",
    default=HOST,
    show_default=True,
    help="Where to listen; others reach it only if their network's address is named here.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=PORT,
    show_default=True,
    help="The port; 0 lets the system choose one.",
)
@click.option(
    "--script",
    "script_path",
    type=click.Path(path_type=Path),
    help="What is answered to which calls, as TOML; see docs/simulator.md.",
)
@click.option("--seed", type=int, help="Another seed than the script's: other documents and dice.")
@click.option("--faults", is_flag=True, help="List the faults by name, and do nothing else.")
def simulate(
    host: str, port: int, script_path: Path | None, seed: int | None, *, faults: bool
) -> None:
    """Answer as OpenAI, Anthropic, Google and Ollama would, until told to stop."""
    if find_server_option():
        raise UsageError("The simulator is started on this machine alone. Leave --server away.")
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
    """Tell where a simulator is reached, and what to do with what follows."""
    yield f"The simulator answers, with seed {simulator.script.seed}:"
    for endpoint in simulator.script.endpoint_names:
        for wire in WireName:
            yield f"  {endpoint:<12} {wire:<10} {simulator.base_url(wire, endpoint)}"
    yield f"  {'log':<23} {simulator.url('/log')}"
    yield f"  {'report':<23} {simulator.url('/report')}"
    if not _is_loopback(simulator.host):
        yield f"Whoever reaches {simulator.host} can call it and read its log."
    yield "Put this into config.toml to let it answer for models; ^C stops it."


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
    """Tell what was asked of a simulator, by model."""
    report = simulator.report()
    for name, row in [*report["models"].items(), ("in all", report["total"])]:
        yield (
            f"{name or '(no model)'}: {count(row['calls'], 'call')}, {row['refused']:,} refused, "
            f"{row['input_tokens']:,} tokens in, {row['output_tokens']:,} out, "
            f"${row['cost_usd']}"
        )


def describe_faults(table: tuple[Fault, ...]) -> Iterator[str]:
    """Lay out the table of faults in columns."""
    width = max(len(fault.name) for fault in table)
    for fault in table:
        wires = "all" if len(fault.wires) == len(WireName) else ",".join(sorted(fault.wires))
        where = wires + (" (streams)" if fault.streams_only else "")
        yield f"{fault.number:>3}  {fault.name:<{width}}  {where:<26}  {fault.what}"
