"""A browser with a window that shows nothing: it tells the addresses that it is given."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import PATIENCE_S


@dataclass(frozen=True, slots=True)
class FakeBrowser:
    """The browser of a command whose `BROWSER` it is."""

    command: str
    _reader: int

    def read_address(self) -> str:
        """The next address that a command opens; empty if none comes."""
        opened, _, _ = select.select([self._reader], [], [], PATIENCE_S)
        return os.read(self._reader, 1000).decode().strip() if opened else ""


@contextmanager
def open_fake_browser(folder: Path) -> Iterator[FakeBrowser]:
    """Make a program that writes its argument into a pipe."""
    told, program = folder / "told", folder / "browser"
    os.mkfifo(told)
    program.write_text(f'#!/bin/sh\necho "$1" > {told}\n')
    program.chmod(0o755)
    # Opened for writing too: a reader whose last writer has left would see an end.
    reader = os.open(told, os.O_RDWR | os.O_NONBLOCK)
    try:
        yield FakeBrowser(f"{program} %s &", reader)
    finally:
        os.close(reader)
