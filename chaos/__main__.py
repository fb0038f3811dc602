"""`python -m chaos`: run experiments, print what they saw, and fail if a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import sys

from chaos.experiments import EXPERIMENTS, conduct
from chaos.prove import prove
from chaos.verdict import Report, render_table


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(EXPERIMENTS))
    parser.add_argument("--full", action="store_true", help="all of it instead of a selection")
    parser.add_argument("--small", action="store_true", help="as little as the tests run")
    parser.add_argument("--seed", type=int, default=1, help="what chance is drawn from")
    parser.add_argument(
        "--prove",
        action="store_true",
        help="break the product in the laboratory, and see that each experiment notices",
    )
    options = parser.parse_args()
    if unknown := set(options.names) - set(EXPERIMENTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(EXPERIMENTS)}")
    return options


async def run(options: argparse.Namespace) -> list[Report]:
    names = options.names or list(EXPERIMENTS)
    if options.prove:
        return await prove(names, seed=options.seed)
    which = "FULL" if options.full else "SMALL" if options.small else "SELECTION"
    return [
        await conduct(name, getattr(EXPERIMENTS[name], which), seed=options.seed) for name in names
    ]


def main() -> None:
    reports = asyncio.run(run(parse_options()))
    print(f"\n{render_table(reports)}")
    sys.exit(not all(report.held for report in reports))


if __name__ == "__main__":
    main()
