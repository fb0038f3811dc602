"""Tells a user who looks elsewhere that a command has ended: a bell, or a desktop notice."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Sequence

from dialectic.cli.options import FollowOptions
from dialectic.cli.terminal import printable

BELL = "\a"
NOTICE_S = 5.0
TITLE = "Dialectic"


def tell_end(options: FollowOptions, message: str) -> None:
    """Ring or show a notice, if the user asked for it; never fail because of it."""
    is_shown = options.notify and _show_notice(message)
    # Without a program for notices, the bell is better than nothing.
    if (options.bell or (options.notify and not is_shown)) and sys.stderr.isatty():
        with contextlib.suppress(OSError):
            sys.stderr.write(BELL)
            sys.stderr.flush()


def find_notifier(message: str) -> Sequence[str] | None:
    """Find the command that shows a notice on this desktop."""
    text = printable(message).replace("\n", " ")
    if (program := shutil.which("notify-send")) is not None:
        return (program, "--", TITLE, text)
    if (program := shutil.which("osascript")) is not None:
        script = "on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)"
        return (program, "-e", f"{script}\nend run", TITLE, text)
    return None


def _show_notice(message: str) -> bool:
    command = find_notifier(message)
    if command is None:
        return False
    try:
        done = subprocess.run(
            command,
            check=False,
            timeout=NOTICE_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
