"""A person at a terminal: types answers to the questions that a command asks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_S

ROWS = 40
READ_BYTES = 65_536
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Screen:
    """What a person saw, without colours, and how the command ended."""

    code: int
    text: str
    # The answers that were not asked for.
    unasked: tuple[str, ...]


def sit_at_terminal(
    words: Sequence[str],
    environment: Mapping[str, str],
    answers: Sequence[tuple[str, str]] = (),
    *,
    columns: int = 80,
    folder: Path | None = None,
    program: Sequence[str] = (sys.executable, "-m", "dialectic"),
) -> Screen:
    """Run a command at a terminal; answer each question as soon as its words are on the screen."""
    pid, terminal = pty.fork()
    if pid == 0:
        if folder is not None:
            os.chdir(folder)
        # A size in the environment would count more than that of the terminal.
        inherited = {k: v for k, v in environment.items() if k not in ("COLUMNS", "LINES")}
        os.execvpe(program[0], [*program, *words], inherited)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    waiting, seen, told = list(answers), b"", 0
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if not select.select([terminal], [], [], end - time.monotonic())[0]:
            break
        try:
            piece = os.read(terminal, READ_BYTES)
        except OSError:  # the command has left the terminal
            break
        if not piece:
            break
        seen += piece
        if waiting and waiting[0][0].encode() in seen[told:]:
            told = len(seen)
            os.write(terminal, waiting.pop(0)[1].encode())
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    text = _CONTROL.sub("", seen.decode(errors="replace")).replace("\r\n", "\n")
    unasked = tuple(question for question, _ in waiting)
    return Screen(os.waitstatus_to_exitcode(status), text, unasked)
