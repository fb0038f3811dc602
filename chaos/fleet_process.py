"""One command of the product as a process of its own, forked from one that has read the program.

So a fleet is up within a second, and the machine is busy with dying and recovering, not imports.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import dialectic.api.app
import dialectic.api.server
import dialectic.cli.commands.operate  # noqa: F401  read before the fork, as all of them
from chaos import sabotage, witness


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process is to do."""

    words: tuple[str, ...]
    environment: dict[str, str]
    log: Path
    # Where it writes down its calls, what chance is drawn from, and what is broken in it.
    calls: Path
    seed: int
    broken: str


def run_forked(orders: Orders) -> None:
    """Become a command: the whole life of the process."""
    from dialectic.cli.main import main as run_product

    os.setsid()
    os.environ.clear()
    os.environ.update(orders.environment)
    with orders.log.open("ab") as log:
        for number in (1, 2):
            os.dup2(log.fileno(), number)
    witness.observe(orders.calls, orders.seed)
    sabotage.load(orders.broken).patch()
    sys.argv = ["dialectic", *orders.words]
    run_product()
