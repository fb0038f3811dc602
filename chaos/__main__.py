"""`python -m chaos`: run experiments, print what they saw, and fail if a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import sys
from types import ModuleType

from chaos import barrier, failpoints, kills, zombie
from chaos.verdict import Report, render_table

EXPERIMENTS: dict[str, ModuleType] = {
    "barrier": barrier,
    "kills": kills,
    "failpoints": failpoints,
    "zombie": zombie,
}


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--full", action="store_true", help="all of it instead of a selection")
    parser.add_argument("--seed", type=int, default=1, help="what chance is drawn from")
    options = parser.parse_args()
    if unknown := set(options.names) - set(EXPERIMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(EXPERIMENTS)}")
    return options


async def run(options: argparse.Namespace) -> list[Report]:
    reports = []
    for name in options.names or EXPERIMENTS:
        experiment = EXPERIMENTS[name]
        size = experiment.FULL if options.full else experiment.SELECTION
        reports.append(await experiment.run(size, options.seed))
    return reports


def main() -> None:
    reports = asyncio.run(run(parse_options()))
    print(f"\n{render_table(reports)}")
    sys.exit(not all(report.held for report in reports))


if __name__ == "__main__":
    main()
