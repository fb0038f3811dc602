"""A worker freezes beyond its lease, others finish its jobs, and it comes back.

What it still writes must be refused, and afterwards it must be as good a worker as before. It is
frozen at chosen points, where the next thing it does on waking is the stale write, and at random.
Then messages are lost: those that a zombie acknowledges too late, and in the end all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.checks import check_everything
from chaos.crew import Crew, Member, open_crew
from chaos.lab import Lab, Stuck, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.worker import LEFT_BEHIND_S
from dialectic.atomic_write import build_draft_name

LEASE_S = 1.2
HELD_MIN = 3
AT_RANDOM = "at random"
SLOW_MS = (600, 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Where workers freeze, and how often messages are lost under a live worker."""

    freezes: tuple[str, ...]
    late_acknowledgements: int
    # At which job: with the second, the first one may just be saving what it has.
    nth: int = 2
    frozen_writers: int = 1
    patience_s: float = 60.0
    left_behind_s: float = LEFT_BEHIND_S


EVERYWHERE = ("after_claim", "before_send", "after_reply", "before_commit", "after_commit")
SMALL = Size(
    freezes=("after_reply",),
    nth=1,
    late_acknowledgements=0,
    frozen_writers=0,
    left_behind_s=1.0,
)
SABOTAGED = Size(freezes=("after_reply",), late_acknowledgements=2, patience_s=20.0)
SELECTION = Size(freezes=(*EVERYWHERE, AT_RANDOM), late_acknowledgements=2)
FULL = Size(freezes=(*EVERYWHERE, AT_RANDOM) * 2, late_acknowledgements=5)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with (
        open_lab(report, sabotage=sabotage) as lab,
        open_crew(lab, left_behind_s=size.left_behind_s) as crew,
    ):
        outcome = Outcome()
        for place in size.freezes:
            await _freeze_and_wake(lab, crew, size, place, outcome)
        for _ in range(size.late_acknowledgements):
            await _acknowledge_late(lab, crew, size)
        for _ in range(size.frozen_writers):
            await _freeze_a_writer(lab, crew, size)
        await _lose_all_messages(lab, crew, size)
        await crew.stop()
        await check_everything(lab, crew, report)
        report.expect_coverage(
            "jobs taken over from the frozen", outcome.taken_over, len(size.freezes)
        )
        report.expect("contributions that changed when a zombie woke", outcome.changed, 0)
        report.expect("zombies that died or work no more", outcome.useless, 0)


@dataclass(slots=True)
class Outcome:
    """What freezing led to, over all rounds."""

    taken_over: int = 0
    changed: int = 0
    useless: int = 0


async def _freeze_and_wake(lab: Lab, crew: Crew, size: Size, place: str, outcome: Outcome) -> None:
    arming = "" if place == AT_RANDOM else f"{place}=stop@{size.nth}"
    zombie = crew.hire(concurrency=6, latency_ms=SLOW_MS, lease_s=LEASE_S, failpoints=arming)
    await crew.wait_until_ready(zombie)
    await lab.order()
    held = await _wait_until_frozen(lab, crew, zombie, place, size)
    others = [crew.hire(lease_s=LEASE_S) for _ in range(2)]
    await crew.wait_until_ready(*others)
    stuck = await _wait_until_ended(lab, size)
    taken = await lab.fetchval(COUNT_TAKEN, zombie.name)
    before = await _snapshot(lab)
    crew.thaw(zombie)
    outcome.taken_over += taken
    lab.report.say(f"frozen {place} with {held} jobs, {taken} taken over, thawed")
    lab.report.expect(f"jobs stuck while a worker is frozen {place}", stuck, 0)
    await crew.stop(*others)
    # From here on it is the only worker: what is done, it does.
    await lab.order()
    is_useful = await lab.wait_until_idle(patience_s=size.patience_s) and zombie.is_alive
    after = await _snapshot(lab)
    outcome.changed += sum(after.get(key) != value for key, value in before.items())
    outcome.useless += not is_useful
    if zombie.is_alive:
        await crew.stop(zombie)
    crew.bury_the_dead()


async def _wait_until_ended(lab: Lab, size: Size) -> int:
    """Wait until all jobs have ended, whatever their files do; return how many have not."""

    async def all_ended() -> bool:
        return await lab.count_open() == 0

    try:
        await lab.wait_for("all jobs end", all_ended, patience_s=size.patience_s)
    except Stuck:
        return await lab.count_open()
    return 0


COUNT_TAKEN = """
  select count(*) from chaos.moves m
  join chaos.moves later
    on later.job_id = m.job_id and later.is_claim and later.attempt = m.attempt + 1
  where m.is_claim and later.from_status = 'processing' and m.worker = $1
"""
HELD_BY = "j.worker = '{}' and j.status = 'processing'"


async def _wait_until_frozen(lab: Lab, crew: Crew, zombie: Member, place: str, size: Size) -> int:
    """Wait until the worker holds several jobs and stands still; return how many it holds."""
    if place == AT_RANDOM:

        async def holds_several() -> bool:
            return await lab.count_jobs(HELD_BY.format(zombie.name)) >= HELD_MIN

        await lab.wait_for("several jobs held", holds_several, patience_s=size.patience_s)
        await asyncio.sleep(lab.rng.uniform(0.0, SLOW_MS[0] / 1000))
        crew.freeze(zombie)
    else:

        async def stands_still() -> bool:
            return zombie.is_stopped

        await lab.wait_for(f"frozen {place}", stands_still, patience_s=size.patience_s)
        crew.freeze(zombie)
    return await lab.count_jobs(HELD_BY.format(zombie.name))


async def _snapshot(lab: Lab) -> dict[Any, Any]:
    rows = await lab.fetch(
        "select c.id, c.job_id, c.content, c.provider_request_id, c.created_at, c.is_latest_edit,"
        " f.sha256 from dialectic.dialectic_contributions c join dialectic.dialectic_files f"
        " on f.tenant_id = c.tenant_id and f.path = c.storage_path"
    )
    return {row["id"]: tuple(row) for row in rows}


async def _acknowledge_late(lab: Lab, crew: Crew, size: Size) -> None:
    """A zombie acknowledges the message another one works on, and that one dies, too."""
    zombie = crew.hire(concurrency=6, latency_ms=SLOW_MS, lease_s=LEASE_S)
    await crew.wait_until_ready(zombie)
    await lab.order()
    frozen_with = await _wait_until_frozen(lab, crew, zombie, AT_RANDOM, size)
    second = crew.hire(concurrency=6, latency_ms=(6000, 8000), lease_s=LEASE_S)
    await crew.wait_until_ready(second)

    async def was_taken_over() -> bool:
        return await lab.count_jobs(HELD_BY.format(second.name)) >= frozen_with

    await lab.wait_for("taken over", was_taken_over, patience_s=size.patience_s)
    crew.thaw(zombie)
    await asyncio.sleep(LEASE_S)
    held = await lab.count_jobs(HELD_BY.format(second.name))
    # Which message the zombie acknowledges depends on who saw it first: here it is each of them.
    deleted = await lab.execute(DELETE_MESSAGES_OF, second.name)
    await crew.stop(zombie)
    await asyncio.to_thread(crew.kill, second)
    lab.report.say(
        f"{held} jobs held, {deleted.split()[-1]} messages acknowledged too late; their worker dies"
    )
    third = crew.hire(lease_s=LEASE_S)
    is_done = await lab.wait_until_idle(patience_s=size.patience_s)
    lab.report.expect("jobs stuck after a late acknowledgement", is_done and 0, 0)
    await crew.stop(third)


DELETE_MESSAGES_OF = """
  delete from queue.pgqueuer q using dialectic.dialectic_generation_jobs j
  where split_part(convert_from(q.payload, 'UTF8'), ' ', 2) = j.id::text
    and j.worker = $1 and j.status = 'processing'
"""


async def _freeze_a_writer(lab: Lab, crew: Crew, size: Size) -> None:
    """Someone stands still in the middle of writing a file; elsewhere a worker dies.

    That file cannot be written by anyone else meanwhile, but all other work must go on.
    """
    mortal = crew.hire(lease_s=LEASE_S, failpoints="after_commit=kill@1")
    await lab.order()

    async def has_died() -> bool:
        return not mortal.is_alive

    await lab.wait_for("a worker dies with files to write", has_died, patience_s=size.patience_s)
    crew.bury_the_dead()
    key = await lab.fetchval(WAITING_FILE, mortal.name)
    with frozen_writer(lab.home / "storage" / key):
        sound, second = (
            crew.hire(lease_s=LEASE_S),
            crew.hire(latency_ms=(6000, 8000), lease_s=LEASE_S),
        )
        await crew.wait_until_ready(sound, second)
        # Long enough for the file to count as left behind, so that all try to write it.
        await asyncio.sleep(size.left_behind_s + LEASE_S)
        await lab.order()

        async def holds_one() -> bool:
            return await lab.count_jobs(HELD_BY.format(second.name)) >= 1

        await lab.wait_for("a job is held", holds_one, patience_s=size.patience_s)
        await asyncio.to_thread(crew.kill, second)

        started = time.monotonic()
        stuck = await _wait_until_ended(lab, size)
        waited_s = time.monotonic() - started
        lab.report.say(f"a writer stands still; a dead one's jobs ended {waited_s:.1f} s later")
        lab.report.expect("jobs stuck while a writer is frozen", stuck, 0)
    await lab.wait_until_idle(patience_s=size.patience_s)
    await crew.stop(sound)


WAITING_FILE = """
  select c.tenant_id || '/' || c.storage_path
  from dialectic.dialectic_contributions c
  join dialectic.dialectic_files f on f.tenant_id = c.tenant_id and f.path = c.storage_path
  where f.written_at is null and split_part(c.provider_request_id, '-', 1) = $1
"""


@contextlib.contextmanager
def frozen_writer(path: Path) -> Iterator[None]:
    """Hold a file's draft as a process does that is stopped while it writes the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with (path.parent / build_draft_name(path.name)).open("wb") as draft:
        fcntl.flock(draft, fcntl.LOCK_EX)
        yield


async def _lose_all_messages(lab: Lab, crew: Crew, size: Size) -> None:
    """Empty the queue while jobs are due and while jobs run."""
    for _ in range(2):
        await lab.order()
    lost = int((await lab.execute("delete from queue.pgqueuer")).split()[-1])
    worker = crew.hire(lease_s=LEASE_S)
    await crew.wait_until_ready(worker)
    await lab.execute("delete from queue.pgqueuer")
    is_done = await lab.wait_until_idle(patience_s=size.patience_s)
    lab.report.say(f"{lost} messages lost")
    lab.report.expect("jobs stuck after all messages were lost", is_done and 0, 0)
