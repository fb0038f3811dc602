"""Workers die at each named point of a job's life, and nowhere else.

A few sound workers stay; beside them, armed ones come in waves and die of their first job. What
each point means is checked, not only that all ends well: a worker that dies before it sends has
made no call, one that dies before it commits has saved nothing, one that dies after it has.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from chaos.checks import check_everything, read_calls
from chaos.crew import Crew, Member, open_crew
from chaos.lab import Lab, Stuck, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.worker import LEFT_BEHIND_S
from dialectic.engine import POINTS

LEASE_S = 1.2
SOUND = 2
# Points up to which nothing has been sent, and up to which nothing has been saved.
BEFORE_SEND = ("after_claim", "before_send")
BEFORE_SAVE = (*BEFORE_SEND, "after_reply", "before_commit")
KILLED = -9
WAVE_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many die at each point, and how many of them at a time."""

    kills: int
    at_a_time: int = 6
    patience_s: float = 90.0
    left_behind_s: float = LEFT_BEHIND_S


SMALL = Size(kills=1, at_a_time=6, left_behind_s=1.0)
SABOTAGED = replace(SMALL, patience_s=20.0)
SELECTION = Size(kills=5)
FULL = Size(kills=30)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with (
        open_lab(report, sabotage=sabotage) as lab,
        open_crew(lab, left_behind_s=size.left_behind_s) as crew,
    ):
        died: dict[str, list[Member]] = {point: [] for point in POINTS}
        for _ in range(SOUND):
            crew.hire(lease_s=LEASE_S)
        await crew.wait_until_ready()
        waiting = [point for point in POINTS for _ in range(size.kills)]
        left_behind: Counter[str] = Counter()
        async with lab.feeding(4 * (size.at_a_time + SOUND)):
            for start in range(0, len(waiting), size.at_a_time):
                wave = waiting[start : start + size.at_a_time]
                lost = await _lose(crew, wave)
                for point, member in lost:
                    died[point].append(member)
                left_behind += await _look_at_files(lab, [member.name for _, member in lost])
                report.say(f"{', '.join(f'{p} ×{n}' for p, n in Counter(wave).items())} died")
        report.say("the dust settles")
        await lab.wait_until_idle(patience_s=size.patience_s)
        await crew.stop()
        await check_everything(lab, crew, report)
        await _check_points(lab, died, size)
        report.note("files found waiting after deaths", dict(left_behind))
        report.expect_coverage(
            "files that were committed but not in storage", left_behind["unwritten"], 1
        )
        report.expect_coverage(
            "files that were in storage but not marked", left_behind["unmarked"], 1
        )


async def _lose(crew: Crew, wave: Iterable[str]) -> list[tuple[str, Member]]:
    """Start one armed worker for each point and wait until all of them have died of it."""
    armed = [(point, crew.hire(lease_s=LEASE_S, failpoints=f"{point}=kill@1")) for point in wave]
    give_up_at = asyncio.get_running_loop().time() + WAVE_PATIENCE_S
    while any(member.is_alive for _, member in armed):
        if asyncio.get_running_loop().time() > give_up_at:
            alive = [f"{member.name} at {point}" for point, member in armed if member.is_alive]
            raise Stuck(f"armed workers live on: {', '.join(alive)}")
        await asyncio.sleep(0.02)
    crew.bury_the_dead()
    return armed


WAITING_FILES = """
  select f.tenant_id || '/' || f.path as key, f.sha256
  from dialectic.dialectic_contributions c
  join dialectic.dialectic_files f on f.tenant_id = c.tenant_id
    and f.path in (c.storage_path, c.raw_response_storage_path)
  where f.written_at is null and split_part(c.provider_request_id, '-', 1) = any ($1)
"""


async def _look_at_files(lab: Lab, names: list[str]) -> Counter[str]:
    """See what the dead left: files that only the database has, and files it does not know of."""
    found: Counter[str] = Counter()
    for row in await lab.fetch(WAITING_FILES, names):
        path = lab.home / "storage" / row["key"]
        if not path.is_file():
            found["unwritten"] += 1
        elif hashlib.sha256(path.read_bytes()).hexdigest() == row["sha256"]:
            found["unmarked"] += 1
    return found


async def _check_points(lab: Lab, died: dict[str, list[Member]], size: Size) -> None:
    report = lab.report
    calls = Counter(mark.partition("-")[0] for mark in read_calls(lab.calls_file))
    rows = await lab.fetch(
        "select split_part(c.provider_request_id, '-', 1) as worker, count(*) as count"
        " from dialectic.dialectic_contributions c group by 1"
    )
    saved = {row["worker"]: row["count"] for row in rows}
    for point, members in died.items():
        killed = sum(member.exit_code == KILLED for member in members)
        report.expect(f"died {point}", killed, size.kills)
        if point in BEFORE_SEND:
            report.expect(
                f"calls of those who died {point}", sum(calls[m.name] for m in members), 0
            )
        kept = [saved.get(member.name, 0) for member in members]
        if point in BEFORE_SAVE:
            report.expect(f"answers saved by those who died {point}", sum(kept), 0)
        elif point == "after_commit":
            report.expect(f"answers lost of those who died {point}", kept.count(0), 0)
    report.note("deaths", {point: len(members) for point, members in died.items()})
