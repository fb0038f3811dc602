"""The event loop of each worker is blocked for seconds, again and again, at random moments.

A blocked loop is what a busy machine, a swapping one or a large answer looks like from inside:
timers fire late, answers of the server wait unread. A worker may lose a lease that way, which
another one takes over; it must not end, and nothing may be lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from chaos.checks import DEFAULT_LEASE_S, check_everything
from chaos.crew import open_crew
from chaos.lab import open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.worker import LEFT_BEHIND_S, STARVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many workers are starved, for how long in all, and for how long at a time at most."""

    workers: int
    lasts_s: float
    starved_s: float = 4.0
    patience_s: float = 90.0
    left_behind_s: float = LEFT_BEHIND_S


SMALL = Size(workers=2, lasts_s=4.0, starved_s=1.5, left_behind_s=1.0)
SABOTAGED = Size(workers=3, lasts_s=20.0, patience_s=20.0)
SELECTION = Size(workers=4, lasts_s=45.0)
FULL = replace(SELECTION, lasts_s=1200.0)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with (
        open_lab(report, sabotage=sabotage) as lab,
        open_crew(lab, left_behind_s=size.left_behind_s) as crew,
    ):
        members = [
            crew.hire(lease_s=DEFAULT_LEASE_S, starved_s=size.starved_s)
            for _ in range(size.workers)
        ]
        ended: list[str] = []
        async with lab.feeding(2 * size.workers):
            await crew.wait_until_ready(*members)
            give_up_at_s = asyncio.get_running_loop().time() + size.lasts_s
            while asyncio.get_running_loop().time() < give_up_at_s:
                await asyncio.sleep(1.0)
                for dead in crew.bury_the_dead():
                    ended.append(f"{dead.name} ended with {dead.exit_code}")
                    crew.hire(lease_s=DEFAULT_LEASE_S, starved_s=size.starved_s)
        report.say("the dust settles")
        if not await lab.wait_until_idle(patience_s=size.patience_s):
            report.note("not idle within", f"{size.patience_s:g} s")
        ended += [f"{dead.name} ended with {dead.exit_code}" for dead in crew.bury_the_dead()]
        await crew.stop()
        await check_everything(lab, crew, report)
        report.expect_none("workers that ended by themselves", ended)
        times = sum(member.log.read_text(errors="replace").count(STARVED) for member in crew.ended)
        report.note("times that a loop was starved", times)
        report.expect_coverage("starved loops", times, size.workers)
