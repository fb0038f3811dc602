"""A failpoint kills or stops a real process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

REACH = """
import sys
from dialectic.engine import Failpoints
from tests.problems import refusing
failpoints = Failpoints.parse(sys.argv[1])
failpoints.reach("before_commit")
print("went on", flush=True)
"""


@contextmanager
def reaching(setting: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that comes to a point."""
    command = [sys.executable, "-c", REACH, setting]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_killed_process_is_gone_at_once() -> None:
    with reaching("before_commit=kill") as process:
        assert process.communicate()[0] == ""
        assert process.returncode == -signal.SIGKILL


def test_a_stopped_process_goes_on_when_it_is_told_to() -> None:
    with reaching("before_commit=stop") as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate()[0] == "went on\n"
        assert process.returncode == 0
