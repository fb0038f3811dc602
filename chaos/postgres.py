"""The database goes away under load, in every way it can, and comes back.

Nobody but the workers brings the embedded server back: the laboratory only looks on. Before and
after each fault the throughput is measured; models are slow enough here for the waiting, not the
machine, to be the limit.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from chaos.checks import check_everything
from chaos.crew import open_crew
from chaos.lab import Lab, Stuck, kill_server, open_lab
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from dialectic.db.pool import WORKER_ROLE
from dialectic.postgres import embedded

LEASE_S = 1.2
WORKERS = 3
CONCURRENCY = 3
LATENCY_MS = (350, 450)
THROUGHPUT_MIN_PERCENT = 95.0
# A machine that others use, too, is measured again before it is blamed on the workers.
MEASUREMENTS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Which faults, and how long throughput is measured; zero means that it is not."""

    faults: tuple[str, ...]
    window_s: float
    terminations_s: float = 10.0
    patience_s: float = 60.0
    settle_s: float = 2.0


SMALL = Size(faults=("kill",), window_s=0.0, settle_s=0.5)
SABOTAGED = replace(SMALL, patience_s=20.0)
SELECTION = Size(faults=("kill", "terminate", "crash"), window_s=8.0)
FULL = Size(faults=("kill", "terminate", "crash", "stop", "kill again and again") * 2, window_s=8.0)


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    async with open_lab(report, sabotage=sabotage) as lab, open_crew(lab) as crew:
        for _ in range(WORKERS):
            crew.hire(concurrency=CONCURRENCY, latency_ms=LATENCY_MS, lease_s=LEASE_S)
        await crew.wait_until_ready()
        async with lab.feeding(3 * WORKERS * CONCURRENCY):
            await asyncio.sleep(size.settle_s)
            for number, fault in enumerate(size.faults, start=1):
                await _suffer(lab, size, fault, f"{fault} ({number})")
        report.say("the dust settles")
        await lab.wait_until_idle(patience_s=size.patience_s)
        report.expect("workers that died of it", WORKERS - sum(m.is_alive for m in crew.members), 0)
        await crew.stop()
        await check_everything(lab, crew, report)


async def _suffer(lab: Lab, size: Size, fault: str, label: str) -> None:
    before = await _measure(lab, size.window_s)
    started = time.time()
    await FAULTS[fault](lab, size)
    ended = time.time()

    async def works_again() -> bool:
        return bool(await lab.fetchval(COUNT_DONE, ended + size.settle_s, time.time()))

    try:
        await lab.wait_for(f"work after {label}", works_again, patience_s=size.patience_s)
    except Stuck as stuck:
        # What is stuck is worth more than that something is: the checks at the end name it.
        lab.report.expect_none(f"silence without end after {label}", [stuck])
        return
    silence_s = await lab.fetchval(LONGEST_SILENCE, started)
    lab.report.note(f"longest silence, {label}", f"{silence_s:.1f} s")
    lab.report.say(f"{label}: nothing was done for {silence_s:.1f} s at most")
    if size.window_s:
        percents: list[int] = []
        while (
            max(percents, default=0) < THROUGHPUT_MIN_PERCENT and len(percents) < MEASUREMENTS_MAX
        ):
            after = await _measure(lab, size.window_s)
            percents.append(round(100 * after / before))
        shown = ", then ".join(f"{percent} %" for percent in percents)
        lab.report.note(f"throughput after {label}", f"{shown} of {before:.1f} jobs/s")
        lab.report.expect_at_least(
            f"throughput after {label}", max(percents), THROUGHPUT_MIN_PERCENT, " %"
        )


COUNT_DONE = """
  select count(*) from chaos.moves m
  where m.to_status = 'completed' and m.at between to_timestamp($1) and to_timestamp($2)
"""

LONGEST_SILENCE = """
  select max(extract(epoch from m.at - coalesce(m.before, to_timestamp($1))))::float8 from (
    select m.at, lag(m.at) over (order by m.at) as before
    from chaos.moves m where m.to_status = 'completed'
  ) m
  where m.at > to_timestamp($1)
"""


async def _measure(lab: Lab, window_s: float) -> float:
    """Measure how many jobs are done in a second."""
    started = time.time()
    await asyncio.sleep(window_s)
    ended = time.time()
    done: int = await lab.fetchval(COUNT_DONE, started, ended)
    return done / max(ended - started, 1.0)


# -- faults ---------------------------------------------------------------------------------------


async def _kill(lab: Lab, _size: Size) -> None:
    """The postmaster dies without a word; its children notice and end."""
    await asyncio.to_thread(kill_server, lab.home, signal.SIGKILL)


async def _kill_again_and_again(lab: Lab, size: Size) -> None:
    for _ in range(3):
        killed = await asyncio.to_thread(kill_server, lab.home, signal.SIGKILL)
        await _wait_for_another_server(lab, size, killed)
        await asyncio.sleep(lab.rng.uniform(0.0, 2.0))


async def _wait_for_another_server(lab: Lab, size: Size, killed: int) -> None:
    async def answers() -> bool:
        # For a moment a child of the dead one may answer, too.
        pid = (await asyncio.to_thread(embedded.describe_server, lab.home)).pid
        return pid not in (None, killed) and bool(await lab.fetchval("select true"))

    await lab.wait_for("the server is back", answers, patience_s=size.patience_s)


async def _crash(lab: Lab, _size: Size) -> None:
    """One backend is killed; the server ends all others and recovers by itself."""
    pid: int = await lab.fetchval(
        "select pid from pg_stat_activity where usename = $1 order by random() limit 1", WORKER_ROLE
    )
    os.kill(pid, signal.SIGKILL)


async def _stop(lab: Lab, _size: Size) -> None:
    """The server is stopped in order, although workers use it."""
    await asyncio.to_thread(embedded.stop_server, lab.home)


async def _terminate(lab: Lab, size: Size) -> None:
    """Every connection is cut, twice a second."""
    until = time.monotonic() + size.terminations_s
    cut = 0
    while time.monotonic() < until:
        cut += await lab.fetchval(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity"
            " where backend_type = 'client backend' and pid <> pg_backend_pid()"
        )
        await asyncio.sleep(0.5)
    lab.report.say(f"{cut} connections cut")


FAULTS: dict[str, Callable[[Lab, Size], Awaitable[None]]] = {
    "kill": _kill,
    "terminate": _terminate,
    "crash": _crash,
    "stop": _stop,
    "kill again and again": _kill_again_and_again,
}
