"""Programs that are interrupted while they write more into a pipe than it holds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[1]
# By then it writes, and waits for a reader. A write of which a part was taken returns at a signal.
TICK_S = 0.2
TICKING = f"""
import os, signal
ticks = os.open(os.environ["TICKS"], os.O_WRONLY)
signal.signal(signal.SIGALRM, lambda *_: os.write(ticks, b"tick"))
signal.setitimer(signal.ITIMER_REAL, {TICK_S})
"""


def read_interrupted(before: str, writing: str, folder: Path) -> bytes:
    """Run a script without buffers, leave its output until it was interrupted, and read it all."""
    ticks = folder / "ticks"
    os.mkfifo(ticks)
    paths = os.pathsep.join([str(ROOT), *sys.path])
    program = subprocess.Popen(
        [sys.executable, "-c", f"{before}\n{TICKING}\n{writing}"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": paths, "TICKS": str(ticks)},
    )
    with ticks.open("rb") as told:
        assert told.read(4) == b"tick"
        out, _ = program.communicate(timeout=PATIENCE_S)
    assert program.returncode == 0
    return out
