"""A crew of worker processes: started, killed, frozen, replaced. Each has a number and a log.

Workers are forked from a process that has read the program already: a replacement is at work
within a tenth of a second, so that the machine is busy with dying and recovering, not with imports.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from chaos.lab import POLL_S, Lab, Stuck
from chaos.worker import LEFT_BEHIND_S, READY, Orders, run_forked

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 40.0
# What a worker says when something happens that nobody foresaw.
FAULT = re.compile(r"Traceback \(most recent call last\)|met a bug|never retrieved|CRITICAL")

# A verdict shows no more of a log.
END_CHARS = 160

FORKS = multiprocessing.get_context("forkserver")
# One process for all that is forked, in any experiment.
FORKS.set_forkserver_preload(["chaos.worker", "chaos.fleet_process"])


@dataclass(slots=True, eq=False)
class Member:
    """One worker process."""

    name: str
    process: ForkServerProcess
    log: Path
    was_killed: bool = False
    is_frozen: bool = False

    @property
    def is_alive(self) -> bool:
        return self.process.is_alive()

    @property
    def is_ready(self) -> bool:
        return self.is_alive and READY in self.log.read_text(errors="replace")

    @property
    def is_stopped(self) -> bool:
        """Whether the process stands still, as the system sees it."""
        status = subprocess.run(
            ["ps", "-o", "stat=", "-p", str(self.process.pid)],
            capture_output=True,
            text=True,
            check=False,
        )
        return status.stdout.startswith("T")

    @property
    def exit_code(self) -> int | None:
        return self.process.exitcode

    def read_end(self) -> str:
        """Read the last words of its log: of a trace, the error."""
        return self.log.read_text(errors="replace")[-END_CHARS:]

    def signal(self, number: int) -> None:
        assert self.process.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process.pid, number)


@dataclass(slots=True)
class Crew:
    """The workers of one laboratory."""

    lab: Lab
    left_behind_s: float
    members: list[Member] = field(default_factory=list)
    # When each was killed or frozen for good, by the clock on the wall, which the server shares.
    died_at: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    ended: list[Member] = field(default_factory=list)
    count: int = 0

    def hire(
        self,
        *,
        concurrency: int = 4,
        latency_ms: tuple[int, int] = (50, 400),
        lease_s: float = 1.2,
        failpoints: str = "",
        starved_s: float = 0.0,
    ) -> Member:
        """Start one more worker; it is not ready yet."""
        self.count += 1
        name = f"w{self.count}"
        log = self.lab.logs / f"{name}.log"
        log.touch()
        orders = Orders(
            name=name,
            log=log,
            calls=self.lab.calls_file,
            environment=self.lab.environment(
                lease_s=lease_s, failpoints=failpoints, log_level="INFO"
            ),
            concurrency=concurrency,
            latency_ms=latency_ms,
            seed=self.lab.report.seed,
            left_behind_s=self.left_behind_s,
            sabotage=self.lab.sabotage.name,
            starved_s=starved_s,
        )
        process = FORKS.Process(target=run_forked, args=(orders,), name=name)
        process.start()
        member = Member(name, process, log)
        self.members.append(member)
        return member

    async def wait_until_ready(self, *members: Member) -> None:
        """Wait until these workers, or all that live, receive messages."""
        give_up_at = time.monotonic() + START_PATIENCE_S
        for member in members or tuple(self.members):
            while not member.is_ready and member.is_alive:
                if time.monotonic() > give_up_at:
                    raise Stuck(f"{member.name} is not ready: {member.read_end()}")
                await asyncio.sleep(POLL_S)
            if not member.is_alive and not member.was_killed:
                raise Stuck(f"{member.name} ended by itself: {member.read_end()}")

    def kill(self, member: Member) -> None:
        """End a worker as a power cut would."""
        member.was_killed = True
        member.process.kill()
        self.died_at[member.name] = time.time()
        member.process.join()
        self.bury(member)

    def freeze(self, member: Member) -> None:
        member.is_frozen = True
        member.signal(signal.SIGSTOP)
        self.died_at[member.name] = time.time()

    def thaw(self, member: Member) -> None:
        member.is_frozen = False
        member.signal(signal.SIGCONT)

    async def stop(self, *members: Member) -> list[int]:
        """Ask workers to finish and go; return how each of them ended."""
        leaving = list(members or self.members)
        for member in leaving:
            member.signal(signal.SIGTERM)
        codes = []
        for member in leaving:
            await asyncio.to_thread(member.process.join, STOP_PATIENCE_S)
            if member.exit_code is None:
                self.faults.append(f"{member.name} did not stop")
                self.kill(member)
            else:
                codes.append(member.exit_code)
                self.bury(member)
        return codes

    def bury(self, member: Member) -> None:
        """Take an ended worker off the list and keep what its log says went wrong."""
        self.members.remove(member)
        self.ended.append(member)
        self.faults += find_faults(member)

    def bury_the_dead(self) -> list[Member]:
        """Find those who ended without our doing."""
        dead = [member for member in self.members if not member.is_alive]
        for member in dead:
            self.died_at.setdefault(member.name, time.time())
            self.bury(member)
        return dead

    def close(self) -> None:
        for member in self.members:
            member.signal(signal.SIGKILL)
        for member in self.members:
            member.process.join()


def find_faults(member: Member) -> list[str]:
    """Find lines of a log that no fault from outside explains, each with how it ends."""
    lines = member.log.read_text(errors="replace").splitlines()
    faults = []
    for number, line in enumerate(lines):
        if FAULT.search(line):
            # A traceback is indented up to the line that names the error.
            last = next((text for text in lines[number + 1 :] if not text.startswith(" ")), line)
            faults.append(f"{member.name}: {line.strip()} {last.strip()}")
    return faults


@asynccontextmanager
async def open_crew(lab: Lab, *, left_behind_s: float = LEFT_BEHIND_S) -> AsyncIterator[Crew]:
    """Open an empty crew; whoever is in it at the end is killed."""
    crew = Crew(lab, left_behind_s)
    try:
        yield crew
    finally:
        await asyncio.to_thread(crew.close)
