"""Lets a person change a text in their editor (`VISUAL` or `EDITOR`). Knows no backend.

What they wrote is never lost: if it cannot be saved, it stays in a file that the command names.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from dialectic.cli.terminal import say
from dialectic.errors import DialecticError


def can_edit() -> bool:
    """Return whether a person can use an editor here."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def edit_text(text: str) -> str | None:
    """Open a text in the editor; None if it was closed without a change."""
    # ^C in the editor is meant for the editor.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        edited = click.edit(text, extension=".md", require_save=True)
    finally:
        signal.signal(signal.SIGINT, before)
    return None if edited is None or edited.strip() == text.strip() else edited


@contextlib.contextmanager
def keeping(text: str, command: str) -> Iterator[None]:
    """Keep a text in a file if it cannot be saved, and name the command that saves it later."""
    try:
        yield
    except (DialecticError, KeyboardInterrupt):
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", prefix="dialectic-", suffix=".md", delete=False
        ) as kept:
            kept.write(text)
        say(f"Your text was not saved. It is in {Path(kept.name)}; this saves it:")
        say(f"  {command} --file {kept.name}")
        raise
