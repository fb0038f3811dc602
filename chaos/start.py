"""Many `dialectic run` begin at once on a home that does not exist yet, and one of them is killed.

Whichever it was, be it the one that is making the data folder at that moment, all others must
finish with documents of their own, and the session of the dead one must be brought to its end by
`dialectic resume`.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from chaos.lab import ROOT, build_environment, temporary_home
from chaos.sabotage import NONE, Sabotage, build_command
from chaos.verdict import Report
from dialectic.core.session_state import Phase, SessionState
from dialectic.postgres import embedded

THESES = 3
LAST_TITLE = "quarry"
TITLES = (
    "bakery bridge canal dairy engine ferry garden harbour island jetty kiln library meadow nursery"
    " orchard pantry"
).split()


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many commands at once, how often, and the lease they work under."""

    commands: int
    rounds: int
    lease_s: float
    early_s: float = 4.0
    # Whether one more command, alone on its home, is killed in the middle of its session.
    is_alone_at_last: bool = True
    patience_s: float = 150.0


SMALL = Size(commands=2, rounds=1, lease_s=1.2, is_alone_at_last=False)
SABOTAGED = Size(commands=5, rounds=1, lease_s=1.2, patience_s=25.0)
SELECTION = Size(commands=12, rounds=2, lease_s=2.0)
FULL = Size(commands=12, rounds=4, lease_s=6.0)


@dataclass(slots=True)
class Command:
    """One `dialectic run` about something of its own."""

    title: str
    log: Path
    process: subprocess.Popen[str]
    patience_s: float
    was_killed: bool = False
    stdout: str = ""

    @property
    def stderr(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for_session(self) -> None:
        while "Session" not in self.stderr and self.process.poll() is None:
            time.sleep(0.002)

    async def wait(self) -> None:
        try:
            self.stdout, _ = await asyncio.to_thread(
                self.process.communicate, None, self.patience_s
            )
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.stdout, _ = await asyncio.to_thread(self.process.communicate)

    def find_fault(self) -> str | None:
        """Find what is wrong with what the command left, if it was left alone."""
        if code := self.process.returncode:
            return f"{self.title} ended with {code}: {self.stderr.strip()[-300:]}"
        return find_fault(self.title, self.stdout)


def find_fault(title: str, stdout: str) -> str | None:
    """Find what is wrong with the documents a command says it has written."""
    paths = [Path(line) for line in stdout.splitlines()]
    if len(set(paths)) != THESES:
        return f"{title} named {len(paths)} documents"
    for path in paths:
        if not path.is_file() or f"tools-for-the-{title}" not in str(path):
            return f"{title} named {path.name}, which is not its own or not there"
        if title not in path.read_text(encoding="utf-8"):
            return f"{title} named {path.name}, which is about something else"
    return None


@dataclass(slots=True)
class Place:
    """Where commands are run: a home that does not exist at first, and a folder beside it."""

    folder: Path
    size: Size
    sabotage: Sabotage

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def run(self, title: str) -> Command:
        out = str(self.folder / "out" / title)
        return self.launch(
            title, "run", "--until", "thesis", "--out", out, "--", f"Tools for the {title}"
        )

    def launch(self, title: str, *arguments: str) -> Command:
        log = self.folder / f"{title}.log"
        with log.open("w") as file:
            process = subprocess.Popen(
                build_command(self.sabotage, *arguments),
                cwd=ROOT,
                env=build_environment(self.home, lease_s=self.size.lease_s, max_lost_leases=1000),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        return Command(title, log, process, self.size.patience_s)

    async def list_sessions(self) -> list[dict[str, Any]]:
        status = self.launch("status", "status", "--json")
        await status.wait()
        if status.process.returncode != 0:
            return [{"id": "status", "project_name": "", "status": status.stderr.strip()[-300:]}]
        sessions: list[dict[str, Any]] = json.loads(status.stdout)["sessions"]
        return sessions


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    rng = Random(report.seed)
    faults: list[str] = []
    unfinished: list[str] = []
    for number in range(size.rounds):
        async with temporary_home(report) as folder:
            failed, left = await _start_together(
                report, Place(folder, size, sabotage), rng, kills_early=number % 2 == 1
            )
            faults += failed
            unfinished += left
    report.note("commands", f"{size.rounds} × {size.commands}, one of each killed")
    report.expect_none("commands that failed beside a killed one", faults)
    report.expect_none("sessions that were not brought to their end", unfinished)


async def _start_together(
    report: Report, place: Place, rng: Random, *, kills_early: bool
) -> tuple[list[str], list[str]]:
    started = time.monotonic()
    commands = [place.run(title) for title in rng.sample(TITLES, place.size.commands)]
    victim = rng.choice(commands)
    killing = asyncio.create_task(_kill(victim, rng, early_s=place.size.early_s * kills_early))
    await asyncio.gather(*(command.wait() for command in commands))
    report.say(
        f"{len(commands)} commands took {time.monotonic() - started:.1f} s, one killed "
        + await killing
    )
    faults = [fault for c in commands if c is not victim and (fault := c.find_fault())]
    if embedded.describe_server(place.home).running:
        faults.append("the server runs on although nobody uses it")
    unfinished = await _resume(report, place, victim)
    if not place.size.is_alone_at_last:
        return faults, unfinished
    alone = place.run(LAST_TITLE)
    when = await _kill(alone, rng, late_s=0.06)
    await alone.wait()
    report.say(f"one more command, alone, killed {when}")
    return faults, unfinished + await _resume(report, place, alone)


async def _kill(victim: Command, rng: Random, *, early_s: float = 0.0, late_s: float = 0.2) -> str:
    """Kill a command while it starts, or a moment after it has begun its session; say when."""
    if early_s:
        moment_s = rng.uniform(0.2, early_s)
        await asyncio.sleep(moment_s)
        when = f"{moment_s:.1f} s after it started"
    else:
        await asyncio.to_thread(victim.wait_for_session)
        moment_s = rng.uniform(0.0, late_s)
        await asyncio.sleep(moment_s)
        when = f"{moment_s * 1000:.0f} ms into its session"
    if victim.process.poll() is not None:
        return "too late"
    victim.was_killed = True
    victim.process.kill()
    return when


async def _resume(report: Report, place: Place, victim: Command) -> list[str]:
    """Bring the killed command's session to its end; then no session may be left open."""
    left = [s for s in await place.list_sessions() if victim.title in s["project_name"]]
    if not left:
        report.say("it had not begun a session")
    for session in left:
        resumed = place.launch(f"{victim.title}-resumed", "resume", session["id"])
        resumed.title = victim.title
        await resumed.wait()
        code = resumed.process.returncode
        report.say(f"its session was {session['status']}; `resume` ended with {code}")
        if fault := resumed.find_fault():
            return [fault]
    return [
        f"{session['id']} is {session['status']}"
        for session in await place.list_sessions()
        if session["status"] != SessionState("thesis", Phase.STAGE_COMPLETE).status
    ]
