"""The system calls by which a program makes files durable, as the kernel saw them."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")

# The name of a call, and the paths in it; strace shows an open file's path between < and >.
_CALL = re.compile(r"\d+ +(fsync|rename|mkdir)\w*\((.*)")
_PATHS = re.compile(r'"([^"]*)"|<(/[^>]*)>')


def list_calls(program: str, folder: Path, *arguments: str) -> list[tuple[str, ...]]:
    """Run a program, and list its calls of fsync, rename and mkdir with their paths, in order."""
    log = folder / "calls.log"
    tracing = ("strace", "-f", "-y", "-s", "4096", "-o", str(log))
    wanted = "-etrace=fsync,rename,renameat,renameat2,mkdir,mkdirat"
    command = [*tracing, wanted, sys.executable, "-c", program, *arguments]
    subprocess.run(command, check=True, timeout=120)
    found = filter(None, map(_CALL.match, log.read_text().splitlines()))
    return [
        (call[1], *(quoted or opened for quoted, opened in _PATHS.findall(call[2])))
        for call in found
    ]
