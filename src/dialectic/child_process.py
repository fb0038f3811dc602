"""Run a module of ours in a child process: limited time and memory, none of our environment.

For work on hostile input, which may be slow or large, and for work that would hold up the event
loop. It blocks, so call it in a thread. However the child ends, the caller gets its exit code and
what it has written.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass

# The exit codes of a child that has used up its time.
TIMED_OUT = (-signal.SIGKILL, -signal.SIGXCPU)


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """The limits of a child."""

    # CPU time, and twice that in wall-clock time.
    cpu_s: float
    memory_bytes_max: int
    answer_bytes_max: int


def run_child(module: str, words: list[str], data: bytes, limits: ChildLimits) -> tuple[int, bytes]:
    """Run a module until it ends or times out; return its exit code and its output.

    It reads `data` from its standard input. An output above the limit is cut one byte after it.
    """
    with tempfile.TemporaryFile() as given:
        given.write(data)
        given.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-m", module, *words],
            stdin=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # The path of its modules, and no key.
            env={"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONUTF8": "1"},
        )
        # The child's own limit counts CPU time; this one also counts waiting.
        killing = threading.Timer(2 * limits.cpu_s, child.kill)
        killing.start()
        try:
            assert child.stdout is not None
            with child.stdout as pipe:
                out = pipe.read(limits.answer_bytes_max + 1)
            return child.wait(), out
        finally:
            killing.cancel()
            child.kill()
            child.wait()


def limit_resources(*, cpu_s: int, memory_bytes_max: int) -> None:
    """Limit the resources of this process, which is the child."""
    for what, most in (
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_AS, memory_bytes_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        # Not every system has every limit, and a limit cannot be raised.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))
