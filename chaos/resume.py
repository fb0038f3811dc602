"""A whole dialectic is killed at each failpoint and at chosen moments; `dialectic resume` ends it.

One session is made once, and its home is copied for each trial, so that all of them do the same
work under the same ids. What is left at the end must be what an undisturbed run leaves, path by
path and byte by byte, and no call may be made again whose answer was saved.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import asyncpg

from chaos import checks
from chaos.lab import (
    KEEP_FOLDER,
    LOST_LEASES_MAX,
    ROOT,
    Stuck,
    build_environment,
    prepare_home,
    temporary_home,
)
from chaos.sabotage import NONE, Sabotage
from chaos.verdict import Report
from chaos.witness import ANSWERED, CALLED, build_command
from dialectic.engine import DATABASE, POINTS, SUPERUSER
from dialectic.pipeline.outline import build_outline
from dialectic.postgres import embedded
from dialectic.processes.loader import load_process

LEASE_S = 1.2
PROMPT = "A small library lends tools to its neighbours."
MODELS = ("offline/architect", "offline/skeptic", "offline/pragmatist")
KILLED = -9
TIMED = "project_settings.json"  # rows of the database, with their times
# How long after a call has begun a process may be killed: in it, or while its answer is saved.
DELAY_MAX_S = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How many models argue, where and how often they are interrupted, how many trials at once."""

    models: int
    failpoints: tuple[str, ...]
    moments: int
    # Each so-manieth trial is interrupted a second time, while it resumes.
    second_kill_every: int = 4
    at_a_time: int = 2
    patience_s: float = 120.0


SMALL = Size(models=2, failpoints=("after_commit",), moments=1, second_kill_every=2, at_a_time=3)
SABOTAGED = Size(models=2, failpoints=("after_commit", "after_files"), moments=0, patience_s=30.0)
SELECTION = Size(models=3, failpoints=POINTS, moments=6)
FULL = Size(models=3, failpoints=POINTS, moments=50)


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a process dies: at a point of a job's life, or a while after one of its calls."""

    point: str
    nth: int
    delay_s: float = 0.0

    def __str__(self) -> str:
        if self.point:
            return f"{self.point} of job {self.nth}"
        return f"{self.delay_s * 1000:.0f} ms after call {self.nth}"


def draw_trials(rng: Random, size: Size, calls: int) -> list[list[Kill]]:
    """Draw when each trial is interrupted; the moments are spread over the whole run."""
    trials = [[Kill(point, rng.randint(1, calls))] for point in size.failpoints]
    for number in range(size.moments):
        low, high = (calls + 1) * number // size.moments, (calls + 1) * (number + 1) // size.moments
        trials.append([draw_moment(rng, low, max(low, high - 1))])
    for kills in trials[:: size.second_kill_every]:
        kills.append(draw_moment(rng, 0, max(1, (calls - kills[0].nth) // 2)))
    return trials


def draw_moment(rng: Random, low: int, high: int) -> Kill:
    return Kill("", rng.randint(low, high), rng.uniform(0.0, DELAY_MAX_S))


# -- one run --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Trial:
    """One copy of the home, in which one process after the other works, and their calls."""

    name: str
    home: Path
    session_id: str
    seed: int
    size: Size
    sabotage: Sabotage
    # For each death: how many calls had been made, and which answers were saved.
    deaths: list[tuple[int, set[str]]] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)

    @property
    def calls_file(self) -> Path:
        return self.home / "calls.log"

    @property
    def log(self) -> Path:
        return self.home / "command.log"

    def read_calls(self) -> list[list[str]]:
        if not self.calls_file.exists():
            return []
        return [line.split() for line in self.calls_file.read_text().splitlines()]

    def list_called(self) -> list[str]:
        return [line[1] for line in self.read_calls() if line[0] == CALLED]

    def resume(self, failpoints: str = "") -> subprocess.Popen[bytes]:
        """Start `dialectic resume` in this home."""
        with self.log.open("ab") as log:
            return subprocess.Popen(
                build_command(self.sabotage, self.calls_file, self.seed, "resume", self.session_id),
                cwd=ROOT,
                env=build_environment(
                    self.home,
                    lease_s=LEASE_S,
                    max_lost_leases=LOST_LEASES_MAX,
                    failpoints=failpoints,
                ),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def run_until(self, kill: Kill) -> int:
        """Run until it is killed as said, or has ended before; return how it ended."""
        process = self.resume(f"{kill.point}=kill@{kill.nth}" if kill.point else "")
        if not kill.point:
            before = len(self.list_called())
            give_up_at = time.monotonic() + self.size.patience_s
            while process.poll() is None and len(self.list_called()) - before < kill.nth:
                if time.monotonic() > give_up_at:
                    break
                time.sleep(0.002)
            time.sleep(kill.delay_s)
            process.kill()
        return self.wait(process)

    def run_to_end(self) -> int:
        return self.wait(self.resume())

    def wait(self, process: subprocess.Popen[bytes]) -> int:
        try:
            return process.wait(self.size.patience_s)
        except subprocess.TimeoutExpired:
            self.stuck.append(f"`resume` came to no end within {self.size.patience_s:g} s")
            process.kill()
            return process.wait()

    @asynccontextmanager
    async def looking(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """Look into the home's database while nobody works in it."""
        membership = embedded.join_server(self.home)
        server = await asyncio.to_thread(membership.__enter__)
        try:
            connection = await asyncpg.connect(server.url(user=SUPERUSER, database=DATABASE))
            try:
                yield connection
            finally:
                await connection.close()
        finally:
            await asyncio.to_thread(membership.__exit__, None, None, None)


@dataclass(frozen=True, slots=True)
class Ending:
    """What a run has left: files by path, contributions by id, faults, and calls made twice."""

    files: dict[str, str]
    contributions: dict[str, tuple[Any, ...]]
    faults: list[str]
    repeated: list[str]
    unexplained: list[str]
    calls: int


@asynccontextmanager
async def copied(source: Path, trial: Trial) -> AsyncIterator[None]:
    """Copy a home that nobody uses, owners included; leave neither it nor a server behind."""
    copy = ["cp", "-a", str(source), str(trial.home)]
    await asyncio.to_thread(subprocess.run, copy, check=True)
    try:
        yield
    finally:
        await asyncio.to_thread(embedded.stop_server, trial.home)
        if KEEP_FOLDER not in os.environ:
            await asyncio.to_thread(shutil.rmtree, trial.home, ignore_errors=True)


SAVED = "select c.provider_request_id from dialectic.dialectic_contributions c"
# All of a contribution that does not tell the time.
CONTRIBUTIONS = """
  select c.id::text, c.job_id, c.model_id, c.stage, c.contribution_type, c.source_group,
    c.target_contribution_id, c.flags, c.content, c.storage_path, c.raw_response_storage_path,
    c.provider_request_id, c.is_incomplete, c.is_latest_edit
  from dialectic.dialectic_contributions c
"""
LOST = """
  select c.provider_request_id, j.lost_count from dialectic.dialectic_contributions c
  join dialectic.dialectic_generation_jobs j on j.tenant_id = c.tenant_id and j.id = c.job_id
"""
# What must be true of any database in which all work has ended.
SOUND = (
    checks.UNFINISHED,
    checks.STAGES_OPEN,
    checks.NOT_ONE_CONTRIBUTION,
    checks.NOT_THE_SAME_DOCUMENT,
    checks.HALF_A_TURN,
    checks.NOT_TOLD_ONCE,
    checks.LOST_WITHOUT_RECORD,
)


async def conduct(source: Path, trial: Trial, kills: Sequence[Kill], report: Report) -> Ending:
    """Interrupt a run as often as said, bring it to its end, and look at what is left."""
    started = time.monotonic()
    async with copied(source, trial):
        told = []
        for kill in kills:
            code = await asyncio.to_thread(trial.run_until, kill)
            told.append(f"{kill}{'' if code == KILLED else ' (too late)'}")
            if code == KILLED:
                async with trial.looking() as connection:
                    saved = {row[0] for row in await connection.fetch(SAVED)}
                trial.deaths.append((len(trial.list_called()), saved))
        code = await asyncio.to_thread(trial.run_to_end)
        last_words = trial.log.read_text()[-300:]
        ending = await examine(trial)
    if code != 0 and not trial.stuck:
        ending.faults.append(f"`resume` ended with {code}: {last_words}")
    report.say(
        f"{trial.name}: {', then '.join(told) or 'undisturbed'}; "
        f"{time.monotonic() - started:.1f} s, {ending.calls} calls"
    )
    return ending


async def examine(trial: Trial) -> Ending:
    async with trial.looking() as connection:
        faults = [*trial.stuck]
        faults += [row[0] for query in SOUND for row in await connection.fetch(query)]
        files = await connection.fetch(checks.FILES)
        contributions = await connection.fetch(CONTRIBUTIONS)
        lost = {row[0]: row[1] for row in await connection.fetch(LOST)}
    storage = trial.home / "storage"
    wrong, _ = await asyncio.to_thread(checks.compare_files, storage, files)
    faults += wrong
    calls = trial.read_calls()
    answers = {line[1]: line[2] for line in calls if line[0] == ANSWERED}
    called = trial.list_called()
    repeated = [
        answers[key]
        for made, saved in trial.deaths
        for key in called[made:]
        if answers.get(key) in saved
    ]
    unexplained = [
        f"{answers.get(key, 'a call without an answer')} was called {count} times"
        for key, count in Counter(called).items()
        if count > 1 + lost.get(answers.get(key), -1)
    ]
    return Ending(
        files=await asyncio.to_thread(hash_files, storage),
        contributions={row["id"]: tuple(row) for row in contributions},
        faults=faults,
        repeated=repeated,
        unexplained=unexplained,
        calls=len(called),
    )


def hash_files(storage: Path) -> dict[str, str]:
    """Hash every file in storage. One tells of times, and counts by its path alone."""
    return {
        str(path.relative_to(storage)): ""
        if path.name == TIMED
        else sha256(path.read_bytes()).hexdigest()
        for path in sorted(storage.rglob("*"))
        if path.is_file()
    }


# -- all of them ----------------------------------------------------------------------------------


async def run(report: Report, size: Size, sabotage: Sabotage = NONE) -> None:
    rng = Random(report.seed)
    models = MODELS[: size.models]
    calls = build_outline(load_process("standard"), models=len(models)).calls
    trials = draw_trials(rng, size, calls)
    async with temporary_home(report) as folder:
        source = folder / "home"
        await prepare_home(report, source)
        session_id = await asyncio.to_thread(begin_session, source, models)
        places = asyncio.Semaphore(size.at_a_time)

        async def try_one(name: str, kills: Sequence[Kill]) -> tuple[Trial, Ending]:
            trial = Trial(name, folder / name, session_id, report.seed, size, sabotage)
            async with places:
                return trial, await conduct(source, trial, kills, report)

        (_, undisturbed), *others = await asyncio.gather(
            try_one("undisturbed", []),
            *(try_one(f"trial-{number}", kills) for number, kills in enumerate(trials, start=1)),
        )
    report.expect("contributions of the undisturbed run", len(undisturbed.contributions), calls)
    report.expect_none("faults of the undisturbed run", undisturbed.faults)
    report_trials(report, undisturbed, others)


def begin_session(home: Path, models: Sequence[str]) -> str:
    """Make the session that all trials carry out; return its id."""
    arguments = ["run", "--detach", "--models", ",".join(models), "--", PROMPT]
    done = subprocess.run(
        build_command(NONE, home / "calls.log", 0, *arguments),
        cwd=ROOT,
        env=build_environment(home),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Stuck(f"the session was not made: {done.stderr[-500:]}")
    return done.stdout.strip()


def report_trials(
    report: Report, undisturbed: Ending, others: Sequence[tuple[Trial, Ending]]
) -> None:
    """Compare what interrupted runs have left with what an undisturbed one has."""

    def collect(found: dict[str, list[str]]) -> list[str]:
        return [f"{name}: {thing}" for name, things in found.items() for thing in things]

    report.note("files of a run", len(undisturbed.files))
    report.note("deaths", sum(len(trial.deaths) for trial, _ in others))
    saved = [len(answers) for trial, _ in others for _, answers in trial.deaths]
    report.note("answers saved when it died", f"{min(saved, default=0)} to {max(saved, default=0)}")
    report.note("calls in all", sum(ending.calls for _, ending in others))
    report.expect_coverage(
        "trials that were interrupted", sum(bool(t.deaths) for t, _ in others), 1
    )
    endings = {trial.name: ending for trial, ending in others}
    report.expect_none(
        "files that differ from an undisturbed run",
        collect({n: differ(undisturbed.files, e.files) for n, e in endings.items()}),
    )
    report.expect_none(
        "contributions that differ from an undisturbed run",
        collect(
            {n: differ(undisturbed.contributions, e.contributions) for n, e in endings.items()}
        ),
    )
    report.expect_none(
        "saved calls that were repeated", collect({n: e.repeated for n, e in endings.items()})
    )
    report.expect_none(
        "calls that no lost attempt explains",
        collect({n: e.unexplained for n, e in endings.items()}),
    )
    report.expect_none("faults at the end", collect({n: e.faults for n, e in endings.items()}))


def differ(wanted: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """Name what is missing, what is too much, and what is not the same."""
    return [
        *(f"{key} is missing" for key in wanted.keys() - found.keys()),
        *(f"{key} is too much" for key in found.keys() - wanted.keys()),
        *(f"{key} is another" for key in wanted.keys() & found.keys() if wanted[key] != found[key]),
    ]
