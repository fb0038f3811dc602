"""Commands at a terminal: a real pseudo-terminal, keys that are pressed, and the screen's lines."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.waiting import PATIENCE_S

INTERRUPT = b"\x03"
_CONTROL = re.compile(r"\x1b\[([0-9;?]*)([A-Za-z])|\x1b\][^\x07]*\x07|(.)", re.DOTALL)


@dataclass(slots=True)
class Screen:
    """What a terminal of this width shows after a text; lines that scrolled away included."""

    columns: int
    lines: list[list[str]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0

    def write(self, text: str) -> None:
        for parameters, command, letter in _CONTROL.findall(text):
            if letter:
                self._put(letter)
            elif command == "A":
                self.row = max(0, self.row - int(parameters or 1))
            elif command == "K":
                line = self.lines[self.row]
                line[:] = [] if parameters == "2" else line[: self.column]

    def _put(self, letter: str) -> None:
        if letter == "\r":
            self.column = 0
        elif letter == "\n":
            self._feed()
        elif letter >= " ":
            if self.column == self.columns:
                self._feed()
                self.column = 0
            line = self.lines[self.row]
            line += [" "] * (self.column + 1 - len(line))
            line[self.column] = letter
            self.column += 1

    def _feed(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def read(self) -> list[str]:
        return ["".join(line).rstrip() for line in self.lines]


@dataclass(slots=True)
class TerminalCommand:
    """A command that a person watches, types into and interrupts."""

    process: subprocess.Popen[bytes]
    fd: int
    columns: int
    said: str = ""

    def press(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def read_until(self, is_there: Callable[[str], bool]) -> str:
        """Read until the text so far satisfies a condition."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_there(self.said):
            assert time.monotonic() < deadline_s, self.said
            assert self._read(0.1), f"it ended: {self.said}"
        return self.said

    def read_letters(self, count: int) -> None:
        """Read a number of letters, or to the end."""
        deadline_s = time.monotonic() + PATIENCE_S
        while len(self.said) < count and self._read(0.1):
            assert time.monotonic() < deadline_s, self.said

    def wait_for(self, text: str, count: int = 1) -> None:
        self.read_until(lambda said: said.count(text) >= count)

    def finish(self) -> int:
        """Read to the end; return the exit code."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self._read(0.1):
            assert time.monotonic() < deadline_s, self.said
        return self.process.wait(PATIENCE_S)

    def read_screen(self) -> list[str]:
        screen = Screen(self.columns)
        screen.write(self.said)
        return screen.read()

    def _read(self, timeout_s: float) -> bool:
        """Read what is there within this time; False at the end."""
        if not select.select([self.fd], [], [], timeout_s)[0]:
            return True
        try:
            data = os.read(self.fd, 65_536)
        except OSError:  # the command has closed the terminal
            return False
        self.said += data.decode("utf-8", "replace")
        return bool(data)


@contextmanager
def open_terminal_command(
    words: tuple[str, ...],
    environment: Mapping[str, str],
    *,
    columns: int = 80,
    rows: int = 24,
    stdout: int | None = None,
) -> Iterator[TerminalCommand]:
    """Start a command with a terminal of its own, as a shell does."""
    # A parallel run of tests sets the size of its own terminal there.
    inherited = {key: text for key, text in environment.items() if key not in ("COLUMNS", "LINES")}
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "dialectic", *words],
        stdin=theirs,
        stdout=theirs if stdout is None else stdout,
        stderr=theirs,
        env={**inherited, "TERM": "xterm-256color"},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )
    os.close(theirs)
    try:
        yield TerminalCommand(process, ours, columns)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
        os.close(ours)
