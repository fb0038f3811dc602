"""Children of one parent end at the same moment: the parent must wake once, not never, not twice.

Each child ends on a connection of its own. All of them stand at a lock in the server and are let
go together, so that their transactions overlap. No worker runs and nothing sweeps: what is lost
here stays lost, and is seen. A second part does the same to jobs that begin to wait for another
job at the moment at which that one ends.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.gate import Gate
from chaos.lab import open_lab
from chaos.parents import Parent, check_parents, count_children, make_parents, race_children
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.waiters import race_waiters

PARENTS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many parents, and how many jobs that others wait for."""

    parents: int
    prerequisites: int
    connections: int = 96


SMALL = Size(parents=40, prerequisites=8, connections=32)
SELECTION = Size(parents=300, prerequisites=40)
FULL = Size(parents=10_000, prerequisites=500)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    """Let children, then waiters, meet the end of what they belong to; check what became of it."""
    async with open_lab(report, sabotage=sabotage) as lab, Gate(lab, size.connections) as gate:
        parents: list[Parent] = []
        while len(parents) < size.parents:
            batch = await make_parents(lab, min(PARENTS_PER_BATCH, size.parents - len(parents)))
            await race_children(lab, gate, batch)
            parents += batch
            report.say(f"{len(parents)} parents, {count_children(parents)} children ended together")
        await check_parents(lab, parents)
        await race_waiters(lab, gate, size.prerequisites)
        report.expect("collisions of locks", gate.collisions, 0)
