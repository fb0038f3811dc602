"""Workers are killed at random moments while sessions run; whoever dies is replaced.

Two crews work one after the other. The first has short leases, so that many deaths fit into little
time, and is told to stop, under load, by the signal an operator would use. The second has the
lease a user has, so that the time from a death to the next claim is measured as it is.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import datetime

from chaos.checks import (
    DEFAULT_LEASE_S,
    check_everything,
    measure_recovery,
    report_recovery,
)
from chaos.crew import Crew, Member, open_crew
from chaos.lab import Lab, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.worker import LEFT_BEHIND_S

SHORT_LEASE_S = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many die, how many of them under the default lease, and how many at a time."""

    kills: int
    kills_with_default_lease: int
    at_a_time: int = 10
    # Each of a round dies within this time.
    round_s: float = 1.5
    patience_s: float = 90.0
    left_behind_s: float = LEFT_BEHIND_S


SMALL = Size(kills=3, kills_with_default_lease=0, at_a_time=3, round_s=0.8, left_behind_s=1.0)
SABOTAGED = replace(SMALL, patience_s=20.0)
SELECTION = Size(kills=40, kills_with_default_lease=10)
FULL = Size(kills=200, kills_with_default_lease=20)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with (
        open_lab(report, sabotage=sabotage) as lab,
        open_crew(lab, left_behind_s=size.left_behind_s) as crew,
    ):
        async with lab.feeding(2 * (size.at_a_time + 2)):
            early = size.kills - size.kills_with_default_lease
            await _hire(crew, size, SHORT_LEASE_S)
            await _kill_in_rounds(lab, crew, size, early, SHORT_LEASE_S)
            killed_early = set(crew.died_at)
            leaving = await _relieve(lab, crew, size)
            await _kill_in_rounds(lab, crew, size, size.kills_with_default_lease, DEFAULT_LEASE_S)
        report.say("the dust settles")
        report.note("seconds until all was done", await _settle(lab, size))
        await crew.stop()
        await check_everything(lab, crew, report)
        await _check_recovery(lab, crew, size, killed_early)
        report.expect("jobs lost by workers told to stop", await lab.fetchval(LOST_BY, *leaving), 0)
        report.expect("kills", len(crew.died_at), size.kills)


async def _hire(crew: Crew, size: Size, lease_s: float) -> None:
    await crew.wait_until_ready(*[crew.hire(lease_s=lease_s) for _ in range(size.at_a_time + 2)])


async def _relieve(lab: Lab, crew: Crew, size: Size) -> tuple[list[str], datetime]:
    """Let another crew take over, and tell the first one to stop, under load; say who and when."""
    await crew.wait_until_ready()
    leaving = list(crew.members)
    if size.kills_with_default_lease:
        # What the last victims held is first recovered by those whose lease is as short.
        await asyncio.sleep(2 * SHORT_LEASE_S)
        # One after another, as a deployment does: a dozen that start at once leave those who run no
        # processor to say within their short lease that they live.
        for _ in range(size.at_a_time + 2):
            await crew.wait_until_ready(crew.hire(lease_s=DEFAULT_LEASE_S))
    else:
        await crew.wait_until_ready(crew.hire(lease_s=SHORT_LEASE_S))
    told_at: datetime = await lab.fetchval("select clock_timestamp()")
    codes = await crew.stop(*leaving)
    lab.report.say(f"{len(codes)} workers told to stop under load")
    lab.report.expect("workers told to stop that did not end well", sum(map(bool, codes)), 0)
    return [member.name for member in leaving], told_at


async def _kill_in_rounds(lab: Lab, crew: Crew, size: Size, kills: int, lease_s: float) -> None:
    left = kills
    while left:
        count = min(left, size.at_a_time)
        victims = await _choose(lab, crew, count)
        moments = sorted(lab.rng.uniform(0.0, size.round_s) for _ in victims)
        waited_s = 0.0
        for moment in moments:
            await asyncio.sleep(moment - waited_s)
            waited_s = moment
            # The first one, at least, has something to lose.
            victim = victims[0] if crew.died_at else await _find_busy(lab, victims)
            victims.remove(victim)
            await asyncio.to_thread(crew.kill, victim)
            crew.hire(lease_s=lease_s)
        left -= count
        done = await lab.count_jobs("j.status = 'completed'")
        lab.report.say(f"{len(crew.died_at)} killed, {done} jobs done")


async def _choose(lab: Lab, crew: Crew, count: int) -> list[Member]:
    """Choose who dies, among those that are ready, once most of them have something to lose."""

    async def enough_are_at_work() -> bool:
        ready = [member.name for member in crew.members if member.is_ready]
        return len(ready) >= count and 2 * await lab.fetchval(AT_WORK, ready) > count

    await lab.wait_for(f"{count} workers to kill", enough_are_at_work)
    return lab.rng.sample([member for member in crew.members if member.is_ready], count)


async def _find_busy(lab: Lab, victims: list[Member]) -> Member:
    """Find one that holds jobs at this moment."""
    by_name = {member.name: member for member in victims}
    busy: list[Member] = []

    async def found() -> bool:
        rows = await lab.fetch(BUSIEST, [*by_name])
        busy[:] = [by_name[row["worker"]] for row in rows]
        return bool(busy)

    await lab.wait_for("a worker that holds jobs", found)
    return busy[0]


BUSIEST = """
  select j.worker from dialectic.dialectic_generation_jobs j
  where j.status = 'processing' and j.worker = any ($1)
  group by j.worker order by count(*) desc, j.worker
"""
AT_WORK = """
  select count(distinct j.worker) from dialectic.dialectic_generation_jobs j
  where j.status = 'processing' and j.worker = any ($1)
"""


async def _settle(lab: Lab, size: Size) -> str:
    started = asyncio.get_running_loop().time()
    if not await lab.wait_until_idle(patience_s=size.patience_s):
        return f"not within {size.patience_s:g} s"
    return f"{asyncio.get_running_loop().time() - started:.1f}"


async def _check_recovery(lab: Lab, crew: Crew, size: Size, killed_early: set[str]) -> None:
    recovered = await measure_recovery(lab, crew)
    short = [s for name, times in recovered.items() if name in killed_early for s in times]
    default = [s for name, times in recovered.items() if name not in killed_early for s in times]
    hit = sum(bool(times) for times in recovered.values())
    lab.report.note("kills that hit a running job", f"{hit} of {size.kills}")
    lab.report.expect_coverage("jobs that had to be recovered", len(short), 1)
    report_recovery(lab.report, f"a lease of {SHORT_LEASE_S:g} s", short, SHORT_LEASE_S)
    if size.kills_with_default_lease:
        label = f"a lease of {DEFAULT_LEASE_S:g} s"
        report_recovery(lab.report, label, default, DEFAULT_LEASE_S)


LOST_BY = """
  select count(*) from chaos.moves m
  join chaos.moves later
    on later.job_id = m.job_id and later.is_claim and later.attempt = m.attempt + 1
  where m.is_claim and later.from_status = 'processing' and m.worker = any ($1) and later.at > $2
"""
