"""`python -m bench [NAMES…]`: runs measures in interleaved rounds and prints what came out.

An aim that is missed is reported, never a failure: the machine decides too much of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import asyncpg

from bench import (
    assembly,
    capacity,
    compression,
    critical_path,
    events,
    facts,
    fan_in,
    growth,
    matching,
    memory,
    money,
    outcome,
    overhead,
    pace,
    points,
    quality,
    recovery,
    setup,
    start,
    throughput,
    whole,
)
from bench.child import ChildFailed
from bench.measure import Contender, Failure, Figures, Measure, Round, Samples
from bench.report import as_json, describe_run, format_measure, format_run
from bench.server import Server, open_server

MEASURES: dict[str, Measure] = {
    measure.name: measure
    for measure in (
        start.MEASURE,
        whole.MEASURE,
        critical_path.MEASURE,
        overhead.MEASURE,
        throughput.MEASURE,
        capacity.MEASURE,
        fan_in.MEASURE,
        growth.MEASURE,
        memory.MEASURE,
        assembly.MEASURE,
        compression.MEASURE,
        facts.MEASURE,
        matching.MEASURE,
        points.MEASURE,
        outcome.MEASURE,
        quality.MEASURE,
        money.MEASURE,
        recovery.MEASURE,
        pace.MEASURE,
        events.MEASURE,
        setup.MEASURE,
    )
}
# Run only when asked for: it installs everything anew.
ASKED_FOR = {setup.MEASURE.name}
ROUNDS = 5
ROUNDS_MAX = 1000
# What a contender may die of without taking the others with it.
MISHAPS = (ChildFailed, TimeoutError, OSError, subprocess.SubprocessError, asyncpg.PostgresError)


def main(arguments: Sequence[str]) -> int:
    options = _parse(arguments)
    names = options.names or [name for name in MEASURES if name not in ASKED_FOR]
    found: list[dict[str, Any]] = []
    with open_server(options.folder) as server:
        run = describe_run(server.fetch("show server_version")[0][0])
        print(format_run(run), flush=True)
        for name in names:
            measure = MEASURES[name]
            figures = run_rounds(
                measure, server, min(options.rounds, measure.rounds_max or ROUNDS_MAX)
            )
            print(format_measure(figures), flush=True)
            found.append(as_json(figures))
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({**run, "measures": found}, indent=1) + "\n")
    return 0


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(MEASURES)}")
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help="interleaved rounds (%(default)s)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every sample to a file")
    parser.add_argument(
        "--folder", type=Path, help="where the database is put; it says which disk is measured"
    )
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.names if name not in MEASURES]:
        parser.error(f"unknown: {', '.join(unknown)}; known are: {', '.join(MEASURES)}")
    if options.rounds < 1:
        parser.error("--rounds must be 1 or more")
    return options


def run_rounds(measure: Measure, server: Server, rounds: int) -> Figures:
    """Run every contender once in each round, and begin each round with another one."""
    done: list[Round] = []
    for number in range(rounds):
        shift = number % len(measure.contenders)
        order = [*measure.contenders[shift:], *measure.contenders[:shift]]
        lanes = len(order) if measure.together else 1
        with ThreadPoolExecutor(lanes) as pool:
            outcomes = pool.map(lambda contender: _run_one(contender, server), order)
            found = dict(zip((contender.name for contender in order), outcomes, strict=True))
        done.append(found)
        _tell(f"{measure.name}: round {number + 1} of {rounds}, load {os.getloadavg()[0]:.1f}")
    return Figures(measure, done)


def _run_one(contender: Contender, server: Server) -> Samples | Failure:
    started = time.monotonic()
    try:
        outcome: Samples | Failure = contender.run(server)
    except MISHAPS as mishap:
        outcome = Failure(f"{type(mishap).__name__}: {mishap}")
    state = "failed" if isinstance(outcome, Failure) else "done"
    _tell(f"  {contender.name}: {state}, {time.monotonic() - started:.1f} s")
    return outcome


def _tell(text: str) -> None:
    """Tell how far it is, on standard error: standard output holds the report alone."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
