"""P10: how long a command takes to start, one that reads to answer, and a run to its first call."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from datetime import datetime
from pathlib import Path

import asyncpg

from bench.child import clean_environment
from bench.measure import Column, Contender, Figures, Measure, Samples, Verdict, judge_at_most
from bench.server import Server
from dialectic.engine import DATABASE, SUPERUSER
from dialectic.postgres.embedded import join_server, stop_server

VERSION_CPU_MAX_MS = 150.0
CALL_MAX_S = 2.0
ANSWER_MAX_MS = 400.0
REPEATS = 5
RUN_MAX_S = 120.0

INTERPRETER = "the interpreter alone"
VERSION = "dialectic --version"
RUN = "dialectic run, second time"
STATUS = "dialectic status, server running"
BALANCE = "dialectic wallet balance, server running"
CPU = Column("CPU ms", "cpu_ms", digits=0)
WALL = Column("wall ms", "wall_ms", digits=0)
CALL = Column("first call ms", "call_ms", digits=0)


def time_command(command: list[str], home: str = "") -> tuple[float, float]:
    """Run a command; return its CPU and wall time in milliseconds."""
    environment = clean_environment() | ({"DIALECTIC_HOME": home} if home else {})
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    bound = threading.Timer(RUN_MAX_S, process.kill)
    bound.start()
    _, status, usage = os.wait4(process.pid, 0)
    bound.cancel()
    wall_ms = (time.perf_counter() - started) * 1000
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise OSError(f"{command[0]} ended with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1000, wall_ms


def find_command() -> str:
    """Find the command that is installed beside this interpreter."""
    return str(Path(sys.executable).parent / "dialectic")


def _repeated(command: list[str]) -> Samples:
    both = [time_command(command) for _ in range(REPEATS)]
    return {"cpu_ms": [cpu for cpu, _ in both], "wall_ms": [wall for _, wall in both]}


def _second_run(server: Server) -> Samples:
    del server
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        command = [find_command(), "run", "--until", "thesis", "Plan a walk."]
        try:
            time_command(command, home)
            started_s = time.time()
            cpu_ms, wall_ms = time_command(command, home)
            call_ms = (asyncio.run(_find_last_first_call_s(home)) - started_s) * 1000
        finally:
            stop_server(Path(home))
    return {"cpu_ms": [cpu_ms], "wall_ms": [wall_ms], "call_ms": [call_ms]}


def _warm(*words: str) -> Samples:
    """Time a command on a home whose server runs."""
    with tempfile.TemporaryDirectory(prefix="bench-") as home:
        command = [find_command(), *words]
        try:
            time_command(command, home)
            both = [time_command(command, home) for _ in range(REPEATS)]
        finally:
            stop_server(Path(home))
    return {"cpu_ms": [cpu for cpu, _ in both], "wall_ms": [wall for _, wall in both]}


async def _find_last_first_call_s(home: str) -> float:
    """Find when the newest session of a home sent its first call, which the ledger notes."""
    with join_server(Path(home)) as server:
        connection = await asyncpg.connect(server.url(user=SUPERUSER, database=DATABASE))
        try:
            sent: datetime = await connection.fetchval(
                "select min(created_at) from dialectic.token_wallet_holds group by session_id"
                " order by min(created_at) desc limit 1"
            )
        finally:
            await connection.close()
    return sent.timestamp()


def judge(figures: Figures) -> list[Verdict]:
    call_ms = figures.value(RUN, CALL)
    return [
        judge_at_most(
            f"{VERSION} at most {VERSION_CPU_MAX_MS:g} ms CPU",
            figures.value(VERSION, CPU),
            VERSION_CPU_MAX_MS,
            " ms",
        ),
        judge_at_most(
            f"{RUN}, its first model call within {CALL_MAX_S:g} s",
            None if call_ms is None else call_ms / 1000,
            CALL_MAX_S,
            " s",
        ),
        *(
            judge_at_most(
                f"{name}, at most {ANSWER_MAX_MS:g} ms",
                figures.value(name, WALL),
                ANSWER_MAX_MS,
                " ms",
            )
            for name in (STATUS, BALANCE)
        ),
    ]


MEASURE = Measure(
    name="start",
    title="P10 Start",
    contenders=(
        Contender(INTERPRETER, lambda _: _repeated([sys.executable, "-c", "pass"])),
        Contender(VERSION, lambda _: _repeated([find_command(), "--version"])),
        Contender(STATUS, lambda _: _warm("status")),
        Contender(BALANCE, lambda _: _warm("wallet", "balance")),
        Contender(RUN, _second_run),
    ),
    columns=(CPU, WALL, CALL),
    judge=judge,
    ratios_to=(INTERPRETER,),
    notes=(
        "a run finds the embedded server that the first one left, asks three offline models for "
        "theses and writes them; the CPU time is that of the command, not of the server, "
        "and the first call is when the ledger notes that it leaves",
    ),
)
